#include "engine/insight/product_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "engine/attention/row_walk.h"
#include "engine/error.h"
#include "engine/threads.h"

namespace flashscope {
namespace {

constexpr double kOverflow = 65520;  // the least that float16, whose largest number is 65504, rounds to infinity

double longest_row(const Tensor& tensor) {
  double longest = 0;
  for (std::int64_t at = 0; at < tensor.size(); at += tensor.cols) {
    double squares = 0;
    for (std::int64_t e = 0; e < tensor.cols; ++e)
      squares += static_cast<double>(tensor.f32[at + e]) * tensor.f32[at + e];
    if (std::isfinite(squares)) longest = std::max(longest, squares);
  }
  return std::sqrt(longest);
}

class Scan {
 public:
  // The fold computes without a mask and without the scale; which keys are visible is looked up where it matters.
  Scan(const std::shared_ptr<const Problem>& problem, const Recipe& recipe)
      : problem_(*problem), bare_(with_scale(with_mask(problem, {}), 1)) {
    walk_.Br = recipe.Br, walk_.Bc = recipe.Bc, walk_.skip = recipe.skip;
    schedule_ = std::make_unique<Schedule>(problem_.shape(), problem_.mask, walk_);
    limits_ = band(problem_.mask, problem_.shape().Nq, problem_.shape().Nk);
  }

  ProductRange run(int threads, const std::stop_token& stop, const Progress& progress) {
    const std::int64_t blocks = problem_.shape().heads * schedule_->Tr();
    std::atomic<std::int64_t> next{0};
    std::int64_t done = 0;
    std::mutex mutex;
    ProductRange all;
    const auto work = [&] {
      Fold<float> fold(*bare_, walk_);
      for (std::int64_t block; (block = next++) < blocks && !stop.stop_requested();) {
        const ProductRange found = row_block(fold, block / schedule_->Tr(), block % schedule_->Tr());
        const std::lock_guard lock(mutex);
        const std::int64_t beyond = all.rows_beyond + found.rows_beyond;
        const auto place = [](const ProductRange& range) { return std::pair(range.head, range.row); };
        // The first of several that are as large, whichever thread finds it.
        if (found.largest > all.largest || (found.largest == all.largest && place(found) < place(all))) all = found;
        all.rows_beyond = beyond;
        if (progress) progress(++done, blocks);
      }
    };
    on_threads(threads, work, blocks);
    if (stop.stop_requested()) throw Cancelled();
    return all;
  }

 private:
  ProductRange row_block(Fold<float>& fold, std::int64_t head, std::int64_t i) const {
    ProductRange range;
    range.head = head, range.row = i * walk_.Br;
    std::vector<std::uint8_t> beyond(schedule_->rows(i));
    start_row_block(fold, *schedule_, head, i);
    for (std::int64_t n = 0; n < schedule_->visits(head, i); ++n) {
      const std::int64_t j = schedule_->visit_j(head, i, n);
      fold.begin_tile(j * walk_.Bc, schedule_->cols(j), false);
      fold.scores();
      for (std::int64_t c = 0; c < fold.cols(); ++c)
        for (std::int64_t r = 0; r < fold.rows(); ++r) {
          const double product = std::abs(static_cast<double>(fold.S()[c * fold.lanes() + r]));
          const bool overflows = product >= kOverflow && beyond[r] == 0;
          if (!(product > range.largest || overflows) || !std::isfinite(product)) continue;
          const std::int64_t row = fold.row0() + r, key = fold.col0() + c;
          if (!visible(problem_.mask, limits_, head, row, key)) continue;
          if (overflows) beyond[r] = 1;
          if (product > range.largest) range.largest = product, range.row = row, range.key = key;
        }
    }
    range.rows_beyond = std::count(beyond.begin(), beyond.end(), 1);
    return range;
  }

  const Problem& problem_;
  std::shared_ptr<const Problem> bare_;
  Recipe walk_;
  std::unique_ptr<Schedule> schedule_;
  Band limits_;
};

}  // namespace

std::optional<ProductRange> product_range(const std::shared_ptr<const Problem>& problem, const Recipe& recipe,
                                          int threads, const std::stop_token& stop, const Progress& progress) {
  if (problem->shape().type != DType::float16) return {};
  if (longest_row(problem->Q()) * longest_row(problem->K()) < kOverflow) return {};
  return Scan(problem, recipe).run(threads, stop, progress);
}

std::string text(const ProductRange& range, std::int64_t first_head) {
  if (range.rows_beyond == 0) return "";
  return fmt::format(
      "the largest |q.k| before the scale is {:.6g}, in head {}, row {}, key {}, and beyond float16's 65504 in {} "
      "row{}: "
      "would overflow if the product is held in float16",
      range.largest, first_head + range.head, range.row, range.key, range.rows_beyond,
      range.rows_beyond == 1 ? "" : "s");
}

}  // namespace flashscope
