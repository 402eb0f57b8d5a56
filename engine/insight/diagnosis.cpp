#include "engine/insight/diagnosis.h"

#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "engine/attention/cpu_runner.h"
#include "engine/attention/online_softmax.h"
#include "engine/error.h"

namespace flashscope {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// A NaN of one row in the tile that is being folded.
struct Born {
  Stage stage = Stage::scores;
  std::int64_t key = -1;
  Cause cause = Cause::inf_minus_inf;
};

// Folds one row block again, verb by verb, and looks at its rows after each. A whole row block and not one
// row, because local-causal depends on a row's place in its tile.
template <class T>
class Replay {
 public:
  Replay(const Problem& problem, const Schedule& schedule)
      : problem_(problem), schedule_(schedule), fold_(problem, schedule.recipe()) {}

  // The first NaN, in step order, of these rows of row block (head, i) that reaches O; only up to state `limit`.
  std::optional<FirstNan> first_nan(std::int64_t head, std::int64_t i, std::span<const std::int64_t> rows,
                                    std::int64_t limit, const std::stop_token& stop) {
    const std::int64_t row0 = i * schedule_.recipe().Br;
    fold_.start(head, row0, schedule_.rows(i));
    suspects_.clear();
    for (const std::int64_t row : rows) suspects_.push_back({row - row0, policy_decides(head, row), {}});
    if (schedule_.recipe().algorithm == Algorithm::standard) return in_strip(head, i);

    for (std::int64_t n = 0; n < schedule_.visits(head, i); ++n) {
      if (stop.stop_requested()) throw Cancelled();
      const std::int64_t j = schedule_.visit_j(head, i, n);
      if (*schedule_.find(head, i, j, Stage::scores) > limit) return {};
      fold_tile(j * schedule_.recipe().Bc, schedule_.cols(j));
      if (const auto found = earliest(head, i, j)) return found;
    }
    fold_.finish();
    for (Suspect& suspect : suspects_) {
      suspect.born.reset();
      if (o_is_nan(suspect.r)) suspect.born = Born{Stage::finish, -1, at_finish(suspect)};
    }
    return earliest(head, i, -1);
  }

 private:
  struct Suspect {
    std::int64_t r = 0;           // row in the row block
    bool policy_decides = false;  // finish overwrites O: what was there before does not reach it
    std::optional<Born> born;
  };

  // Mirrors when finish applies the policy for empty rows.
  bool policy_decides(std::int64_t head, std::int64_t row) const {
    const Recipe& recipe = schedule_.recipe();
    const bool may_see = recipe.defect == Defect::finite_sentinel || recipe.defect == Defect::unmasked_tail;
    return recipe.guard != Guard::none && !may_see &&
           visible_keys(problem_.mask, schedule_.shape().Nq, schedule_.shape().Nk, head, row) == 0;
  }

  void fold_tile(std::int64_t col0, std::int64_t cols) {
    fold_.begin_tile(col0, cols, true);
    look_at_scores();
    fold_.max();
    fold_.exponentials();
    for_each_sound([&](Suspect& suspect) {
      // Of sound scores only inf - inf makes a NaN here: the maximum is the subtrahend.
      const std::int64_t c = first_nan_key(fold_.S(), suspect.r);
      if (c >= 0) suspect.born = Born{Stage::exponentials, col0 + c, Cause::inf_minus_inf};
    });
    fold_.rescale();
    for_each_sound([&](Suspect& suspect) {
      if (is_nan(suspect.r)) suspect.born = Born{Stage::rescale, -1, at_rescale(suspect.r)};
    });
    fold_.accumulate();
    for_each_sound([&](Suspect& suspect) {
      if (is_nan(suspect.r)) suspect.born = at_accumulate(suspect.r);
    });
    // A NaN that a guard kept out of l and O was none of theirs.
    for (Suspect& suspect : suspects_) {
      if (suspect.policy_decides || !is_nan(suspect.r)) suspect.born.reset();
    }
  }

  // The three passes of standard attention: a NaN in any row block's scores comes before every softmax.
  std::optional<FirstNan> in_strip(std::int64_t head, std::int64_t i) {
    fold_.begin_tile(0, schedule_.shape().Nk, true);
    look_at_scores();
    masked_.assign(fold_.S(), fold_.S() + fold_.cols() * fold_.lanes());
    fold_.softmax();
    for_each_sound([&](Suspect& suspect) {
      const std::int64_t c = first_nan_key(fold_.S(), suspect.r);
      if (c < 0) return;
      // The sum has spread the NaN over the row: the key is the one that is infinite as the maximum is.
      const std::int64_t key = first_key(
          suspect.r, [&](std::int64_t at) { return std::isinf(masked_[at]) && masked_[at] == fold_.m()[suspect.r]; });
      suspect.born = Born{Stage::softmax, key < 0 ? c : key, key < 0 ? Cause::div_zero : Cause::inf_minus_inf};
    });
    fold_.multiply();
    for_each_sound([&](Suspect& suspect) {
      if (o_is_nan(suspect.r)) suspect.born = at_accumulate(suspect.r);
    });
    fold_.finish();
    for (Suspect& suspect : suspects_) {
      if (!o_is_nan(suspect.r)) suspect.born.reset();
      if (suspect.policy_decides && o_is_nan(suspect.r)) suspect.born = Born{Stage::accumulate, -1, at_finish(suspect)};
    }
    return earliest(head, i, -1);
  }

  // scores and mask. A NaN score that the mask takes away does not reach O.
  void look_at_scores() {
    fold_.scores();
    raw_.assign(fold_.S(), fold_.S() + fold_.cols() * fold_.lanes());
    fold_.mask();
    for (Suspect& suspect : suspects_) {
      suspect.born.reset();
      const auto nan = [&](std::int64_t at) { return std::isnan(fold_.S()[at]); };
      const std::int64_t raw = first_key(suspect.r, [&](std::int64_t at) { return nan(at) && std::isnan(raw_[at]); });
      const std::int64_t masked = first_key(suspect.r, nan);
      if (raw >= 0) {
        const std::int64_t key = fold_.col0() + raw;
        suspect.born = Born{Stage::scores, key, at_scores(suspect.r, key)};
      } else if (masked >= 0) {
        const std::int64_t key = fold_.col0() + masked;
        suspect.born = Born{Stage::mask, key, at_mask(suspect.r, key)};
      }
    }
  }

  Cause at_scores(std::int64_t r, std::int64_t key) const {
    const Tensor &Q = problem_.Q(), &K = problem_.K();
    const std::int64_t kv_head = problem_.shape().kv_head(fold_.head());
    for (std::int64_t x = 0; x < Q.cols; ++x)
      if (std::isnan(Q.at(fold_.head(), fold_.row0() + r, x))) return Cause::q_nan;
    for (std::int64_t x = 0; x < K.cols; ++x)
      if (std::isnan(K.at(kv_head, key, x))) return Cause::k_nan;
    return Cause::inf_minus_inf;  // infinite or overflowing products of both signs
  }

  Cause at_mask(std::int64_t r, std::int64_t key) const {
    const auto& bias = problem_.mask.bias;
    const bool nan = bias && std::isnan(bias->at(fold_.head(), fold_.row0() + r, key));
    return nan ? Cause::mask_nan : Cause::inf_minus_inf;  // else +inf score + -inf
  }

  Cause at_rescale(std::int64_t r) const {
    if (std::isnan(fold_.alpha()[r])) return Cause::inf_minus_inf;
    return std::isinf(fold_.o_factor()[r]) ? Cause::div_zero : Cause::zero_times_nan;  // 1/alpha of 0; or 0 x inf
  }

  Born at_accumulate(std::int64_t r) const {
    const Tensor& V = problem_.V();
    const std::int64_t kv_head = problem_.shape().kv_head(fold_.head());
    for (std::int64_t x = 0; x < V.cols; ++x) {
      if (!std::isnan(fold_.O()[x * fold_.lanes() + r])) continue;
      for (std::int64_t c = 0; c < fold_.cols(); ++c) {
        const double v = V.at(kv_head, fold_.col0() + c, x);
        const bool zero = fold_.S()[c * fold_.lanes() + r] == 0;
        if (zero && !std::isfinite(v)) return {Stage::accumulate, fold_.col0() + c, Cause::zero_times_nan};
        if (std::isnan(v)) return {Stage::accumulate, fold_.col0() + c, Cause::v_nan};
      }
      break;
    }
    return {Stage::accumulate, -1, fold_.l()[r] == 0 ? Cause::div_zero : Cause::inf_minus_inf};
  }

  Cause at_finish(const Suspect& suspect) const {
    if (suspect.policy_decides) return schedule_.recipe().empty_row == EmptyRow::nan ? Cause::empty_row : Cause::v_nan;
    return fold_.l()[suspect.r] == 0 ? Cause::div_zero : Cause::inf_minus_inf;
  }

  std::optional<FirstNan> earliest(std::int64_t head, std::int64_t i, std::int64_t j) const {
    std::optional<FirstNan> first;
    for (const Suspect& suspect : suspects_) {
      if (!suspect.born) continue;
      const auto step = schedule_.find(head, i, j, suspect.born->stage);
      if (!step || (first && *step + 1 >= first->step)) continue;
      first = FirstNan{
          head, *step + 1, i, j, fold_.row0() + suspect.r, suspect.born->key, suspect.born->stage, suspect.born->cause};
    }
    return first;
  }

  template <class Look>
  void for_each_sound(Look look) {
    for (Suspect& suspect : suspects_)
      if (!suspect.born) look(suspect);
  }

  template <class Is>
  std::int64_t first_key(std::int64_t r, Is is) const {
    for (std::int64_t c = 0; c < fold_.cols(); ++c)
      if (is(c * fold_.lanes() + r)) return c;
    return -1;
  }
  std::int64_t first_nan_key(const T* cells, std::int64_t r) const {
    return first_key(r, [cells](std::int64_t at) { return std::isnan(cells[at]); });
  }

  bool o_is_nan(std::int64_t r) const {
    for (std::int64_t x = 0; x < problem_.V().cols; ++x)
      if (std::isnan(fold_.O()[x * fold_.lanes() + r])) return true;
    return false;
  }
  bool is_nan(std::int64_t r) const { return std::isnan(fold_.l()[r]) || o_is_nan(r); }

  const Problem& problem_;
  const Schedule& schedule_;
  Fold<T> fold_;
  std::vector<Suspect> suspects_;
  std::vector<T> raw_, masked_;  // scores before and after the mask
};

// Row blocks follow each other in flash2, and in standard's pass over the scores; flash1 interleaves them.
bool later_row_blocks_come_later(Algorithm algorithm, Stage stage) {
  if (algorithm == Algorithm::standard) return stage == Stage::scores || stage == Stage::mask;
  return algorithm == Algorithm::flash2;
}

// The first NaN, in step order, of these ascending rows of one head.
template <class T>
std::optional<FirstNan> first_nan_of_rows(const Problem& problem, const Schedule& schedule, std::int64_t head,
                                          std::span<const std::int64_t> rows, const std::stop_token& stop) {
  Replay<T> replay(problem, schedule);
  std::optional<FirstNan> first;
  const std::int64_t Br = schedule.recipe().Br;
  while (!rows.empty()) {
    if (stop.stop_requested()) throw Cancelled();
    const std::int64_t i = rows.front() / Br;
    std::size_t n = 1;
    while (n < rows.size() && rows[n] / Br == i) ++n;
    const auto found = replay.first_nan(head, i, rows.first(n), first ? first->step : kNoLimit, stop);
    if (found && (!first || found->step < first->step)) first = found;
    if (first && later_row_blocks_come_later(schedule.recipe().algorithm, first->stage)) break;
    rows = rows.subspan(n);
  }
  return first;
}

std::optional<FirstNan> first_nan_of_rows(const Problem& problem, const Schedule& schedule, std::int64_t head,
                                          std::span<const std::int64_t> rows, const std::stop_token& stop) {
  return problem.in_double() ? first_nan_of_rows<double>(problem, schedule, head, rows, stop)
                             : first_nan_of_rows<float>(problem, schedule, head, rows, stop);
}

}  // namespace

std::string_view name(Cause cause) {
  constexpr std::array<std::string_view, 10> kNames = {
      "q_nan",         "k_nan",         "v_nan",         "mask_nan",  "zero_times_nan",
      "inf_minus_inf", "fp16_overflow", "mask_overflow", "empty_row", "div_zero"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::optional<FirstNan> first_nan_of_row(Trace& trace, std::int64_t head, std::int64_t row, std::stop_token stop) {
  return first_nan_of_rows(trace.problem(), trace.schedule(), head, std::span(&row, 1), stop);
}

Diagnosis diagnose(std::shared_ptr<const Problem> problem, const Recipe& recipe, int threads, std::stop_token stop,
                   const Progress& progress) {
  Diagnosis diagnosis;
  const Shape shape = problem->shape();
  diagnosis.mask = summarise(problem->mask);
  for (std::int64_t h = 0; h < shape.heads; ++h)
    diagnosis.empty_rows.push_back(empty_rows(problem->mask, shape.Nq, shape.Nk, h));

  RunOptions options;
  options.threads = threads;
  options.check.kind = CheckRows::Kind::none;
  diagnosis.nan_rows = run_on_cpu(*problem, recipe, options, stop, progress).nan_rows;

  const Schedule schedule(shape, problem->mask, recipe);
  for (std::int64_t h = 0; h < shape.heads && !diagnosis.first_nan; ++h) {
    if (!diagnosis.nan_rows[h].empty())
      diagnosis.first_nan = first_nan_of_rows(*problem, schedule, h, diagnosis.nan_rows[h], stop);
  }
  return diagnosis;
}

}  // namespace flashscope
