#include "engine/attention/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <variant>

#include "engine/attention/reference.h"
#include "engine/attention/skipped_tiles.h"
#include "engine/attention/stepper.h"
#include "engine/error.h"

namespace flashscope {
namespace {

// Bytes of one row block's buffers: the score tile twice (as computed, and as it is shown in double).
double row_block_bytes(const Problem& problem, const Recipe& recipe) {
  const Shape shape = problem.shape();
  const auto rows = static_cast<double>(std::min(recipe.Br, shape.Nq) + kLane);
  const auto cols =
      static_cast<double>(recipe.algorithm == Algorithm::standard ? shape.Nk : std::min(recipe.Bc, shape.Nk));
  const double element = problem.in_double() ? 8 : 4;
  return rows * cols * (element + 2 * sizeof(double)) + rows * static_cast<double>(shape.d + shape.dv) * (element + 8);
}

}  // namespace

std::string_view name(EventKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"first_max", "rescale", "masked", "empty_row", "nan", "inf"};
  return kNames[static_cast<std::size_t>(kind)];
}

struct Trace::Impl {
  std::shared_ptr<const Problem> problem;
  Schedule schedule;
  std::variant<std::monostate, Stepper<float>, Stepper<double>> stepper;

  Impl(std::shared_ptr<const Problem> of, const Recipe& recipe)
      : problem(std::move(of)), schedule(problem->shape(), problem->mask, recipe) {
    if (problem->in_double())
      stepper.emplace<Stepper<double>>(problem, schedule);
    else
      stepper.emplace<Stepper<float>>(problem, schedule);
  }

  template <class Call>
  auto with(Call call) {
    return problem->in_double() ? call(std::get<Stepper<double>>(stepper)) : call(std::get<Stepper<float>>(stepper));
  }

  // The masked events of a state: tiles skipped before its step, or the visited tile without a visible key.
  std::vector<Event> masked_at(std::int64_t K, std::int64_t limit) const {
    if (K == 0) return {};
    const Step step = schedule.step(K - 1);
    if (step.stage == Stage::mask && step.tile >= 0 && schedule.recipe().algorithm != Algorithm::standard &&
        schedule.tile_class(step.head, step.i, step.j) == TileClass::empty)
      return {{EventKind::masked, K, step.head, step.i, step.j, -1, 1}};
    return skipped_before(schedule, step, K, limit);
  }

  // Masked events can only belong to these steps: the first of a tile, its mask, load_kv, finish. Walking all
  // steps is arithmetic only; a structural mask meets one within a row block or two.
  std::optional<Event> find_masked(std::int64_t from_K, bool forward, std::stop_token stop, const Progress& progress) {
    const std::int64_t steps = schedule.steps();
    const bool none = schedule.mask().none() || schedule.recipe().algorithm == Algorithm::standard;
    if (none) return {};
    for (std::int64_t K = from_K + (forward ? 1 : -1), n = 0; K > 0 && K <= steps; K += forward ? 1 : -1, ++n) {
      if (n % 65536 == 0) {
        if (stop.stop_requested()) throw Cancelled();
        if (progress) progress(n, forward ? steps - from_K : from_K);
      }
      const std::vector<Event> found = masked_at(K, 1);
      if (!found.empty()) return found.front();
    }
    return {};
  }
};

Trace::Trace(std::shared_ptr<const Problem> problem, const Recipe& recipe, std::int64_t memory_limit) {
  check(recipe, problem->shape());
  if (const double bytes = row_block_bytes(*problem, recipe); bytes > static_cast<double>(memory_limit))
    throw InputError(
        "stepping",
        fmt::format("{:.1f} GiB for the buffers of one row block (Br {}, {} {})", bytes / (1 << 30), recipe.Br,
                    recipe.algorithm == Algorithm::standard ? "strip of Nk" : "Bc",
                    recipe.algorithm == Algorithm::standard ? problem->shape().Nk : recipe.Bc),
        fmt::format("at most {:.1f} GiB: use smaller blocks", static_cast<double>(memory_limit) / (1 << 30)));
  impl_ = std::make_unique<Impl>(std::move(problem), recipe);
}
Trace::~Trace() = default;
Trace::Trace(Trace&&) noexcept = default;

const Problem& Trace::problem() const { return *impl_->problem; }
const Schedule& Trace::schedule() const { return impl_->schedule; }

TraceState Trace::seek(std::int64_t K, std::stop_token stop) {
  K = std::clamp<std::int64_t>(K, 0, impl_->schedule.steps());
  TraceState state = impl_->with([&](auto& stepper) { return stepper.state(K, stop); });
  if (K > 0) {
    // A visited tile without a visible key has noted itself already.
    const auto skipped = skipped_before(impl_->schedule, *state.step, K, kMaskedListed);
    state.events.insert(state.events.begin(), skipped.begin(), skipped.end());
  }
  return state;
}

std::optional<Event> Trace::find(EventKind kind, std::int64_t from_K, bool forward, double max_alpha,
                                 std::stop_token stop, const Progress& progress) {
  Impl& impl = *impl_;
  const Schedule& schedule = impl.schedule;
  if (kind == EventKind::masked) return impl.find_masked(from_K, forward, stop, progress);
  const std::int64_t steps = schedule.steps(), heads = schedule.shape().heads, Tr = schedule.Tr();
  std::int64_t done = 0;
  const std::int64_t total = schedule.tiles();
  const auto folded = [&] {
    if (++done % 64 == 0 && progress) progress(std::min(done, total), total);
  };
  const auto search = [&](std::int64_t head, std::int64_t i, std::int64_t bound) {
    return impl.with(
        [&](auto& stepper) { return stepper.search(kind, head, i, from_K, bound, forward, max_alpha, stop, folded); });
  };
  const std::int64_t from = std::clamp<std::int64_t>(forward ? from_K : from_K - 1, 0, steps - 1);
  const Step start = schedule.step(from);
  const std::int64_t direction = forward ? 1 : -1;
  const bool row_major = schedule.recipe().algorithm == Algorithm::flash2;
  for (std::int64_t head = start.head; head >= 0 && head < heads; head += direction) {
    std::optional<Event> best;
    std::int64_t bound = forward ? steps + 1 : -1;
    // In flash2 the first row block with an event has the first event; in flash1 and standard every row block
    // is under way at once, and the best so far bounds the rest.
    const std::int64_t first = row_major && head == start.head ? start.i : forward ? 0 : Tr - 1;
    for (std::int64_t i = first; i >= 0 && i < Tr; i += direction) {
      const auto found = search(head, i, bound);
      if (!found) continue;
      best = found, bound = found->step;
      if (row_major) break;
    }
    if (best) return best;
  }
  return {};
}

std::vector<Event> Trace::tile_events(std::int64_t head, std::int64_t i, std::int64_t j) {
  const std::int64_t n = impl_->schedule.visit_index(head, i, j);
  if (n < 0) return {};
  return impl_->with([&](auto& stepper) { return stepper.tile_events(head, i, n, {}); });
}

std::vector<Event> Trace::finish_events(std::int64_t head, std::int64_t i) {
  return impl_->with([&](auto& stepper) { return stepper.finish_events(head, i, {}); });
}

std::vector<Event> Trace::skipped_tiles(std::int64_t head, std::int64_t i) {
  std::vector<Event> events;
  const auto append = [&](std::int64_t k) {
    const auto more = skipped_before(impl_->schedule, impl_->schedule.step(k), k + 1, impl_->schedule.Tc());
    events.insert(events.end(), more.begin(), more.end());
  };
  for (std::int64_t n = 0; n < impl_->schedule.visits(head, i); ++n)
    append(*impl_->schedule.find(head, i, impl_->schedule.visit_j(head, i, n), Stage::load_k));
  append(*impl_->schedule.find(head, i, -1, Stage::finish));
  return events;
}

std::vector<RowHistoryEntry> Trace::row_history(std::int64_t head, std::int64_t row, std::stop_token stop,
                                                std::int64_t channel) {
  return impl_->with([&](auto& stepper) { return stepper.row_history(head, row, channel, stop); });
}

namespace {

// The share of l that the run itself put on keys which the mask hides, after `folded` tiles of the row:
// exactly 0 in a right run.
template <class T>
double masked_weight(const Problem& problem, const Schedule& schedule, std::int64_t head, std::int64_t row,
                     std::int64_t folded) {
  const std::int64_t i = row / schedule.recipe().Br;
  const Band limits = band(problem.mask, problem.shape().Nq, problem.shape().Nk);
  Fold<T> one(problem, schedule.recipe());
  one.start(head, row, 1);
  double masked = 0;  // in the units of l
  for (std::int64_t n = 0; n < folded; ++n) {
    begin_visit(one, schedule, head, i, n);
    one.scores();
    one.mask();
    one.max();
    one.exponentials();
    double all = 0, hidden = 0;
    for (std::int64_t c = 0; c < one.cols(); ++c) {
      const double p = one.S()[c * one.lanes()];
      all += p;
      if (!visible(problem.mask, limits, head, row, one.col0() + c)) hidden += p;
    }
    const double before = one.l()[0];
    one.rescale();
    const double kept = one.l()[0];
    if (before != 0) masked *= kept / before;
    one.accumulate();
    if (hidden != 0) masked += (one.l()[0] - kept) * (hidden / all);
  }
  return masked == 0 ? 0 : masked / one.l()[0];
}

}  // namespace

RowCheck check_row(const Problem& problem, const Schedule& schedule, const TraceState& state, std::int64_t row,
                   std::stop_token stop) {
  RowCheck check;
  const Shape shape = problem.shape();
  const Recipe& recipe = schedule.recipe();
  check.visible_keys = visible_keys(problem.mask, shape.Nq, shape.Nk, state.head, row);
  if (state.i < 0 || row < state.row0 || row >= state.row0 + state.rows || state.O.empty() || state.l.empty())
    return check;
  const std::int64_t r = row - state.row0;
  const Band limits = band(problem.mask, shape.Nq, shape.Nk);

  // The keys of the tiles folded so far, as ranges; a tile counts once its accumulate is done.
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  const std::int64_t folded = recipe.algorithm == Algorithm::standard ? 0 : std::min(state.folded, state.visits);
  if (recipe.algorithm == Algorithm::standard) ranges.emplace_back(0, shape.Nk);
  for (std::int64_t n = 0; n < folded; ++n) {
    const std::int64_t j = schedule.visit_j(state.head, state.i, n);
    ranges.emplace_back(j * recipe.Bc, j * recipe.Bc + schedule.cols(j));
  }
  // Softmax weights as this run would have them if it stopped now: exp(S - m) / l from its own m and l.
  // In the middle of a tile l still belongs to the old m until `rescale`.
  const auto at = [&state](Stage stage) { return state.step && state.step->stage == stage; };
  const bool before_rescale = (at(Stage::max) || at(Stage::exponentials)) && !state.m_old.empty();
  const double m = before_rescale ? state.m_old[r] : state.m[r], l = state.l[r];
  const double shift = std::isinf(m) && m < 0 ? 0 : m;
  const std::int64_t kv_head = shape.kv_head(state.head);
  double sum = 0;
  for (const auto& [first, last] : ranges) {
    if (stop.stop_requested()) throw Cancelled();
    for (std::int64_t c = first; c < last; ++c) {
      if (!visible(problem.mask, limits, state.head, row, c)) continue;
      ++check.seen_keys;
      double score = 0;
      for (std::int64_t e = 0; e < shape.d; ++e)
        score += problem.Q().at(state.head, row, e) * problem.K().at(kv_head, c, e);
      score = capped(problem.mask, score * problem.scale);
      if (problem.mask.adds()) score += added(problem.mask, limits, state.head, row, c);
      sum += std::exp(score - shift);
    }
  }
  check.sum_p_over_l = l == 0 && sum == 0 ? 0 : sum / l;
  check.masked_weight = problem.in_double() ? masked_weight<double>(problem, schedule, state.head, row, folded)
                                            : masked_weight<float>(problem, schedule, state.head, row, folded);

  // `each` divides at the end of a tile's accumulate; from `rescale` on O waits for it.
  const bool waiting = at(Stage::rescale) || at(Stage::load_v);
  const bool normalised =
      state.finished || (recipe.normalised() == Normalise::each && !waiting) || recipe.algorithm == Algorithm::standard;
  const ReferenceRow right = reference_row(problem, state.head, row, ranges, {recipe.empty_row, recipe.mask_apply});
  check.o_reference = right.O;
  check.max_error = 0;
  for (std::int64_t e = 0; e < shape.dv; ++e) {
    const double o = state.O.at(r, e), mine = normalised ? o : l == 0 && recipe.guard != Guard::none ? 0 : o / l;
    check.o_if_stopped.push_back(mine);
    const double error = std::abs(mine - right.O[e]);
    // A NaN on either side stays visible: max() would drop it.
    if (std::isnan(error) || std::isnan(check.max_error))
      check.max_error = std::numeric_limits<double>::quiet_NaN();
    else
      check.max_error = std::max(check.max_error, error);
  }
  return check;
}

}  // namespace flashscope
