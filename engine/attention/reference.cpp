#include "engine/attention/reference.h"

#include <Eigen/Dense>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <random>
#include <unordered_set>

#include "engine/error.h"
#include "engine/threads.h"

namespace flashscope {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
constexpr double kInf = std::numeric_limits<double>::infinity();

RowMajor rows_of(const Tensor& tensor, std::int64_t head, std::int64_t first, std::int64_t count) {
  if (tensor.type == DType::float64)
    return Eigen::Map<const RowMajor>(tensor.head<double>(head) + first * tensor.cols, count, tensor.cols);
  using Single = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Single>(tensor.head<float>(head) + first * tensor.cols, count, tensor.cols).cast<double>();
}

// The masked, scaled score of one cell from the scaled product.
double masked_score(const Problem& problem, const Band& limits, const ReferenceOptions& options, std::int64_t head,
                    std::int64_t row, std::int64_t key, double score) {
  const bool seen = visible(problem.mask, limits, head, row, key);
  if (!seen && options.mask_apply == MaskApply::select) return -kInf;
  if (problem.mask.adds()) score += added(problem.mask, limits, head, row, key);
  const bool by_bias = problem.mask.bias && problem.mask.bias->at(head, row, key) == -kInf;
  return seen || by_bias ? score : score + -kInf;
}

// What the policy gives a row without a visible key.
void fill_empty(const Problem& problem, const ReferenceOptions& options, std::int64_t kv_head, double* O) {
  const std::int64_t dv = problem.V().cols;
  const double value = options.empty_row == EmptyRow::nan ? std::numeric_limits<double>::quiet_NaN() : 0.0;
  std::fill(O, O + dv, value);
  if (options.empty_row != EmptyRow::mean) return;
  const Eigen::RowVectorXd mean = rows_of(problem.V(), kv_head, 0, problem.V().rows).colwise().mean();
  std::copy(mean.data(), mean.data() + dv, O);
}

bool is_empty(const Problem& problem, const Band& limits, std::int64_t head, std::int64_t row) {
  return !any_visible(problem.mask, limits, head, row, 0, problem.K().rows);
}

// Rows at a time, so that their scores over all keys stay within a few MiB.
std::int64_t rows_at_once(std::int64_t Nk) { return std::clamp<std::int64_t>((std::int64_t{1} << 20) / Nk, 1, 64); }

constexpr std::int64_t kKeysAtOnce = 512;
constexpr std::int64_t kCheckedAtOnce = 64;  // rows of one piece of work of the check

}  // namespace

ReferenceRow reference_row(const Problem& problem, std::int64_t head, std::int64_t row,
                           std::span<const std::pair<std::int64_t, std::int64_t>> key_ranges,
                           const ReferenceOptions& options) {
  const Shape shape = problem.shape();
  const Band limits = band(problem.mask, shape.Nq, shape.Nk);
  const std::int64_t kv_head = shape.kv_head(head);
  const auto each_score = [&](auto use) {
    for (const auto& [first, last] : key_ranges)
      for (std::int64_t c = first; c < last; ++c) {
        double dot = 0;
        for (std::int64_t e = 0; e < shape.d; ++e) dot += problem.Q().at(head, row, e) * problem.K().at(kv_head, c, e);
        use(c, masked_score(problem, limits, options, head, row, c, capped(problem.mask, problem.scale * dot)));
      }
  };
  ReferenceRow result;
  result.O.assign(shape.dv, 0.0);
  bool any = false;
  for (const auto& [first, last] : key_ranges) any = any || any_visible(problem.mask, limits, head, row, first, last);
  if (!any) {
    fill_empty(problem, options, kv_head, result.O.data());
    result.LSE = -kInf;
    return result;
  }
  double top = -kInf, sum = 0;
  each_score([&](std::int64_t, double s) { top = std::fmax(top, s); });
  each_score([&](std::int64_t c, double s) {
    const double p = std::exp(s - top);
    sum += p;
    // A key that the mask hides has no weight; what it holds does not count, not even NaN.
    if (p == 0 && s == -kInf) return;
    for (std::int64_t e = 0; e < shape.dv; ++e) result.O[e] += p * problem.V().at(kv_head, c, e);
  });
  for (double& o : result.O) o /= sum;
  result.LSE = top + std::log(sum);
  return result;
}

ReferenceRow reference_row(const Problem& problem, std::int64_t head, std::int64_t row,
                           const ReferenceOptions& options) {
  const std::pair<std::int64_t, std::int64_t> all{0, problem.K().rows};
  return reference_row(problem, head, row, std::span(&all, 1), options);
}

// The whole strip of a few rows in hand.
void reference_rows(const Problem& problem, std::int64_t head, std::int64_t row0, std::int64_t rows,
                    const ReferenceOptions& options, double* O, double* LSE) {
  const Shape shape = problem.shape();
  const Band limits = band(problem.mask, shape.Nq, shape.Nk);
  const std::int64_t kv_head = shape.kv_head(head), dv = shape.dv;
  const std::int64_t at_once = rows_at_once(shape.Nk);
  for (std::int64_t done = 0; done < rows; done += at_once) {
    const std::int64_t first = row0 + done, count = std::min(at_once, rows - done);
    const RowMajor Q = rows_of(problem.Q(), head, first, count);
    // Keys that the band hides from all of these rows need no work.
    std::int64_t key0 = std::clamp<std::int64_t>(first + limits.lo, 0, shape.Nk);
    std::int64_t key1 = std::clamp<std::int64_t>(first + count - 1 + limits.hi, 0, shape.Nk);
    if (options.mask_apply == MaskApply::add) key0 = 0, key1 = shape.Nk;
    RowMajor S(count, std::max<std::int64_t>(0, key1 - key0));
    for (std::int64_t c = key0; c < key1; c += kKeysAtOnce) {
      const std::int64_t keys = std::min(kKeysAtOnce, key1 - c);
      S.middleCols(c - key0, keys).noalias() = Q * rows_of(problem.K(), kv_head, c, keys).transpose();
    }
    Eigen::VectorXd sums(count);
    std::vector<double> lse(count, -kInf);
    for (std::int64_t r = 0; r < count; ++r) {
      double top = -kInf, sum = 0;
      const auto [seen0, seen1] = band_keys(limits, shape.Nk, first + r);
      for (std::int64_t c = key0; c < key1; ++c) {
        double& s = S(r, c - key0);
        s = capped(problem.mask, s * problem.scale);
        if (problem.mask.adds() || !problem.mask.structural_only() || c < seen0 || c >= seen1)
          s = masked_score(problem, limits, options, head, first + r, c, s);
        if (s > top) top = s;
      }
      for (std::int64_t c = key0; c < key1; ++c) {
        double& s = S(r, c - key0);
        s = s == -kInf && top != -kInf ? 0.0 : std::exp(s - top);
        sum += s;
      }
      sums[r] = sum;
      lse[r] = top + std::log(sum);
    }
    RowMajor out = RowMajor::Zero(count, dv);
    for (std::int64_t c = key0; c < key1; c += kKeysAtOnce) {
      const std::int64_t keys = std::min(kKeysAtOnce, key1 - c);
      const RowMajor V = rows_of(problem.V(), kv_head, c, keys);
      if (V.allFinite()) {
        out.noalias() += S.middleCols(c - key0, keys) * V;
        continue;
      }
      // 0 x NaN: a key that the mask hides does not count, as in reference_row.
      for (std::int64_t r = 0; r < count; ++r)
        for (std::int64_t k = 0; k < keys; ++k)
          if (S(r, c - key0 + k) != 0 || visible(problem.mask, limits, head, first + r, c + k))
            out.row(r) += S(r, c - key0 + k) * V.row(k);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      double* o = O + (done + r) * dv;
      if (is_empty(problem, limits, head, first + r)) {
        fill_empty(problem, options, kv_head, o);
        lse[r] = -kInf;
      } else {
        for (std::int64_t e = 0; e < dv; ++e) o[e] = out(r, e) / sums[r];
      }
      if (LSE) LSE[done + r] = lse[r];
    }
  }
}

void plain_rows(const Problem& problem, std::int64_t head, std::int64_t row0, std::int64_t rows,
                const ReferenceOptions& options, double* O) {
  const DType type = problem.Q().type;
  if (type == DType::float64) {
    reference_rows(problem, head, row0, rows, options, O, nullptr);
    return;
  }
  // S is the product as float32 arithmetic leaves it, P is rounded to the element type before P V.
  const Shape shape = problem.shape();
  const Band limits = band(problem.mask, shape.Nq, shape.Nk);
  using Single = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const std::int64_t kv_head = shape.kv_head(head), dv = shape.dv;
  const Eigen::Map<const Single> K(problem.K().head<float>(kv_head), shape.Nk, shape.d);
  const Eigen::Map<const Single> V(problem.V().head<float>(kv_head), shape.Nk, dv);
  const auto scale = static_cast<float>(problem.scale);
  const std::int64_t at_once = rows_at_once(shape.Nk);
  for (std::int64_t done = 0; done < rows; done += at_once) {
    const std::int64_t first = row0 + done, count = std::min(at_once, rows - done);
    const Eigen::Map<const Single> Q(problem.Q().head<float>(head) + first * shape.d, count, shape.d);
    Single S = Q * K.transpose() * scale;
    std::vector<float> sums(count);
    for (std::int64_t r = 0; r < count; ++r) {
      float top = -std::numeric_limits<float>::infinity(), sum = 0;
      const auto [seen0, seen1] = band_keys(limits, shape.Nk, first + r);
      for (std::int64_t c = 0; c < shape.Nk; ++c) {
        float& s = S(r, c);
        if (problem.mask.rules.softcap != 0) s = static_cast<float>(capped(problem.mask, s));
        if (problem.mask.adds() || !problem.mask.structural_only() || c < seen0 || c >= seen1)
          s = static_cast<float>(masked_score(problem, limits, options, head, first + r, c, s));
        if (s > top) top = s;
      }
      for (std::int64_t c = 0; c < shape.Nk; ++c) {
        const float p = S(r, c) == -std::numeric_limits<float>::infinity() ? 0.0f : std::exp(S(r, c) - top);
        sum += p;
        S(r, c) = type == DType::float32 ? p : static_cast<float>(round_to(type, p));
      }
      sums[r] = sum;
    }
    const Single out = S * V;
    for (std::int64_t r = 0; r < count; ++r) {
      double* o = O + (done + r) * dv;
      if (is_empty(problem, limits, head, first + r))
        fill_empty(problem, options, kv_head, o);
      else
        for (std::int64_t e = 0; e < dv; ++e) o[e] = round_to(type, out(r, e) / sums[r]);
    }
  }
}

namespace {

// The rows of one head to check: all, or `count` seeded ones with the first, the last and NaN rows.
std::vector<std::int64_t> rows_to_check(std::int64_t Nq, std::int64_t count, std::int64_t head, const double* O,
                                        std::int64_t dv) {
  std::vector<std::int64_t> rows;
  if (count >= Nq) {
    for (std::int64_t r = 0; r < Nq; ++r) rows.push_back(r);
    return rows;
  }
  std::mt19937_64 random(static_cast<std::uint64_t>(head));
  std::unordered_set<std::int64_t> drawn{0, Nq - 1};
  while (static_cast<std::int64_t>(drawn.size()) < count) drawn.insert(static_cast<std::int64_t>(random() % Nq));
  rows.assign(drawn.begin(), drawn.end());
  std::int64_t nan_rows = 0;
  for (std::int64_t r = 0; r < Nq && nan_rows < count; ++r)
    if (std::any_of(O + r * dv, O + (r + 1) * dv, [](double o) { return std::isnan(o); }))
      rows.push_back(r), ++nan_rows;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

}  // namespace

ErrorReport error_vs_float64(const Problem& problem, std::span<const double> O, const ReferenceOptions& options,
                             const CheckRows& rows, int threads, std::stop_token stop, const Progress& progress) {
  const Shape shape = problem.shape();
  const std::int64_t dv = shape.dv;
  ErrorReport report;
  report.rows = shape.heads * shape.Nq;
  NanRows& nan = report.nan.emplace();
  const double flops = 2.0 * static_cast<double>(shape.heads) * static_cast<double>(shape.Nq) *
                       static_cast<double>(shape.Nk) * static_cast<double>(shape.d + dv);
  const bool all = rows.kind == CheckRows::Kind::all || (rows.kind == CheckRows::Kind::automatic && flops <= 4e10);
  const std::int64_t count = all ? shape.Nq : rows.count;

  struct Piece {
    std::int64_t head;
    std::vector<std::int64_t> rows;
  };
  std::vector<Piece> pieces;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    const auto list = rows_to_check(shape.Nq, count, h, O.data() + h * shape.Nq * dv, dv);
    for (std::size_t n = 0; n < list.size(); n += kCheckedAtOnce)
      pieces.push_back(
          {h,
           {list.begin() + static_cast<std::ptrdiff_t>(n),
            list.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(list.size(), n + kCheckedAtOnce))}});
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  double plain_error = 0;
  const auto work = [&] {
    std::vector<double> right(kCheckedAtOnce * dv), plain(kCheckedAtOnce * dv);
    for (std::size_t n; (n = next++) < pieces.size() && !stop.stop_requested();) {
      const Piece& piece = pieces[n];
      for (std::size_t at = 0; at < piece.rows.size();) {  // runs of neighbouring rows go together
        std::size_t end = at + 1;
        while (end < piece.rows.size() && piece.rows[end] == piece.rows[end - 1] + 1) ++end;
        const auto run = static_cast<std::int64_t>(end - at);
        reference_rows(problem, piece.head, piece.rows[at], run, options, right.data(), nullptr);
        plain_rows(problem, piece.head, piece.rows[at], run, options, plain.data());
        const std::lock_guard lock(mutex);
        for (std::int64_t r = 0; r < run; ++r) {
          const std::int64_t row = piece.rows[at] + r;
          const double* mine = O.data() + (piece.head * shape.Nq + row) * dv;
          bool nan_mine = false, nan_right = false;
          double error = 0;
          for (std::int64_t e = 0; e < dv; ++e) {
            const double value = right[r * dv + e];
            nan_mine = nan_mine || std::isnan(mine[e]), nan_right = nan_right || std::isnan(value);
            // Equal infinities are no error; a single one is an infinite error.
            if (mine[e] != value) error = std::fmax(error, std::abs(mine[e] - value));
            if (plain[r * dv + e] != value) plain_error = std::fmax(plain_error, std::abs(plain[r * dv + e] - value));
          }
          ++report.rows_checked;
          nan.count(nan_mine, nan_right);
          if (!nan_mine && !nan_right && error > report.max)
            report.max = error, report.worst_head = piece.head, report.worst_row = row;
        }
        at = end;
      }
      if (progress && n % 8 == 0) {
        const std::lock_guard lock(mutex);
        progress(static_cast<std::int64_t>(n), static_cast<std::int64_t>(pieces.size()));
      }
    }
  };
  on_threads(threads, work);
  if (stop.stop_requested()) throw Cancelled();
  report.nan_mismatch = nan.here + nan.there;
  double largest_V = 0;
  const auto note = [&](double v) {
    if (std::isfinite(v)) largest_V = std::max(largest_V, std::abs(v));
  };
  for (const float v : problem.V().f32) note(v);
  for (const double v : problem.V().f64) note(v);
  report.tolerance = shape.type == DType::float64 ? 1e-12 : 2 * plain_error + 2 * ulp(shape.type, largest_V);
  return report;
}

}  // namespace flashscope
