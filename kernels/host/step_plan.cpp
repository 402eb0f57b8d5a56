#include "kernels/host/step_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/attention/skipped_tiles.h"
#include "engine/error.h"

namespace flashscope::gpu {
namespace {

// The causal mask is applied by other indices under local-causal; the window stays.
Band window_band(const Mask& mask, const Shape& shape) {
  Mask window;
  window.window = mask.window;
  Band limits = band(window, shape.Nq, shape.Nk);
  const std::int64_t shift = mask.causal == Causal::bottom_right ? shape.Nk - shape.Nq : 0;
  limits.lo += shift, limits.hi += shift;
  return limits;
}

Verb verb_of(Stage stage) {
  switch (stage) {
    case Stage::scores:
      return Verb::scores;
    case Stage::mask:
    case Stage::store_s:
    case Stage::load_s:
      return Verb::mask;
    case Stage::max:
      return Verb::max;
    case Stage::exponentials:
      return Verb::exponentials;
    case Stage::rescale:
    case Stage::load_v:
      return Verb::rescale;
    case Stage::accumulate:
    case Stage::store_rows:
      return Verb::accumulate;
    case Stage::finish:
    case Stage::store:
      return Verb::finish;
    case Stage::softmax:
    case Stage::store_p:
    case Stage::load_p:
      return Verb::softmax;
    case Stage::store_o:
      return Verb::multiply;
    default:
      return Verb::loaded;
  }
}
bool computes(Stage stage) {
  switch (stage) {
    case Stage::scores:
    case Stage::mask:
    case Stage::max:
    case Stage::exponentials:
    case Stage::rescale:
    case Stage::accumulate:
    case Stage::finish:
    case Stage::softmax:
      return true;
    default:
      return false;
  }
}

template <class Real>
Matrix matrix(const void* data, std::int64_t rows, std::int64_t cols, std::int64_t pitch) {
  Matrix matrix{rows, cols, std::vector<double>(static_cast<std::size_t>(rows * cols))};
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(static_cast<const Real*>(data) + r * pitch, cols, matrix.values.begin() + r * cols);
  return matrix;
}
template <class Real>
std::vector<double> column(const void* data, std::int64_t rows) {
  const Real* first = static_cast<const Real*>(data);
  return {first, first + rows};
}
template <class Real>
Matrix input(const Tensor& tensor, std::int64_t head, std::int64_t row0, std::int64_t rows) {
  return matrix<Real>(tensor.head<Real>(head) + row0 * tensor.cols, rows, tensor.cols, tensor.cols);
}

// The events of the last verb, in the order in which the trace lists them.
template <class Real>
std::vector<Event> events_of(const StepPlan& plan, const StepArguments& arrays) {
  std::vector<Event> events;
  const Real* alpha = static_cast<const Real*>(arrays.alpha);
  const Event plain{EventKind::nan, plan.K, plan.step->head, plan.step->i, plan.step->j, -1, 1};
  const auto each_row = [&](std::initializer_list<std::pair<int, EventKind>> kinds) {
    for (std::int64_t r = 0; r < plan.rows; ++r)
      for (const auto& [bit, kind] : kinds) {
        if ((arrays.events[r] & bit) == 0) continue;
        Event event = plain;
        event.kind = kind, event.row = plan.row0 + r;
        if (kind == EventKind::rescale) event.alpha = alpha[r];
        events.push_back(event);
      }
  };
  each_row({{kEmptyRow, EventKind::empty_row}});
  each_row({{kRescaled, EventKind::rescale}});
  each_row({{kNanCells, EventKind::nan}});
  each_row({{kNanRow, EventKind::nan}, {kInfRow, EventKind::inf}});
  each_row({{kFirstMax, EventKind::first_max}});
  if (plan.verb == Verb::mask && plan.step->j >= 0 && plan.tile_class == TileClass::empty) {
    Event masked = plain;
    masked.kind = EventKind::masked;
    events.push_back(masked);
  }
  return events;
}

template <class Real>
TraceState state_of(const Problem& problem, const Schedule& schedule, const StepPlan& plan,
                    const StepArguments& arrays) {
  TraceState state;
  state.K = plan.K, state.steps = schedule.steps();
  if (!plan.step) return state;
  const Step& step = *plan.step;
  state.step = step, state.head = step.head, state.i = step.i, state.j = step.j;
  state.row0 = plan.row0, state.rows = plan.rows, state.col0 = plan.col0, state.cols = plan.cols;
  state.tile_class = plan.tile_class, state.visits = plan.visits, state.finished = plan.finished;
  state.folded = plan.folds + (plan.verb == Verb::accumulate || plan.verb == Verb::multiply ? 1 : 0);
  const std::int64_t rows = plan.rows, dv = problem.V().cols, kv_head = problem.shape().kv_head(step.head);
  if (plan.Q) state.Q = input<Real>(problem.Q(), step.head, plan.row0, rows);
  if (plan.K_tile) state.K_tile = input<Real>(problem.K(), kv_head, plan.col0, plan.cols);
  if (plan.V) state.V = input<Real>(problem.V(), kv_head, plan.col0, plan.cols);
  if (plan.S) state.S = matrix<Real>(arrays.S, rows, plan.cols, plan.pitch);
  if (plan.P) state.P = matrix<Real>(arrays.P, rows, plan.cols, plan.pitch);
  if (plan.O) state.O = matrix<Real>(arrays.O, rows, dv, dv);
  if (plan.m_and_l) state.m = column<Real>(arrays.m, rows), state.l = column<Real>(arrays.l, rows);
  if (plan.old) state.m_old = column<Real>(arrays.start_m, rows), state.l_old = column<Real>(arrays.start_l, rows);
  if (plan.alpha) state.alpha = column<Real>(arrays.alpha, rows), state.o_factor = column<Real>(arrays.o_factor, rows);
  if (plan.row_sum) state.row_sum = column<Real>(arrays.row_sum, rows);
  if (plan.LSE) state.LSE = column<Real>(arrays.LSE, rows);
  if (plan.rescaled) {
    state.rescaled.resize(static_cast<std::size_t>(rows));
    for (std::size_t r = 0; r < state.rescaled.size(); ++r)
      state.rescaled[r] = std::isfinite(state.m_old[r]) && state.m[r] > state.m_old[r];
  }
  if (plan.visible) {
    for (std::int64_t r = 0; r < rows; ++r)
      state.visible.insert(state.visible.end(), arrays.visible + r * plan.pitch,
                           arrays.visible + r * plan.pitch + plan.cols);
  }
  state.events = skipped_before(schedule, step, plan.K, kMaskedListed);
  if (plan.brings_events)
    for (Event& event : events_of<Real>(plan, arrays)) state.events.push_back(event);
  return state;
}

}  // namespace

StepProblem step_problem(const Problem& problem, const Recipe& recipe) {
  const Shape shape = problem.shape();
  check(recipe, shape);
  const Defect defect = recipe.defect;
  if (problem.mask.rules.softcap != 0)
    throw InputError("step on the GPU", "softcap", "no cap of the scores: step on the CPU");
  if (recipe.numerics != Numerics{})
    throw InputError("step on the GPU", numerics_text(recipe.numerics),
                     "the default numerics: step the others on the CPU");
  StepProblem p;
  p.Nq = shape.Nq, p.Nk = shape.Nk, p.Br = recipe.Br, p.Bc = recipe.Bc;
  p.d = static_cast<int>(shape.d), p.dv = static_cast<int>(shape.dv);
  p.group = static_cast<int>(shape.heads / shape.kv_heads);
  p.scale = problem.scale;
  const Band limits = band(problem.mask, shape.Nq, shape.Nk);
  p.band_lo = limits.lo, p.band_hi = limits.hi, p.fold_lo = limits.lo, p.fold_hi = limits.hi;
  p.fill = -std::numeric_limits<double>::infinity();
  p.any_mask = !problem.mask.none();
  p.mask_add = recipe.mask_apply == MaskApply::add;
  p.clamp = recipe.guard == Guard::clamp, p.skip = recipe.guard == Guard::skip, p.guarded = recipe.guard != Guard::none;
  p.empty_row = recipe.empty_row == EmptyRow::zero ? 0 : recipe.empty_row == EmptyRow::nan ? 1 : 2;
  p.standard = recipe.algorithm == Algorithm::standard;
  const bool flash = !p.standard;
  p.each = flash && recipe.normalised() == Normalise::each;
  p.own_maximum = p.corrected = flash && recipe.numerators == Numerators::tile;
  switch (defect) {
    case Defect::none:
      break;
    case Defect::no_rescale:
      p.rescale_l = p.rescale_o = false;
      break;
    case Defect::no_rescale_l:
      p.rescale_l = false;
      break;
    case Defect::no_rescale_o:
      p.rescale_o = false;
      break;
    case Defect::inverse_rescale:
      p.inverse = true;
      break;
    case Defect::tile_max:
      p.own_maximum = flash, p.corrected = false;
      break;
    case Defect::local_causal: {
      p.scores_decide = p.standard;
      p.local_causal = flash && problem.mask.causal != Causal::none;
      if (!p.local_causal) break;
      const Band window = window_band(problem.mask, shape);
      p.fold_lo = window.lo, p.fold_hi = window.hi;
      break;
    }
    case Defect::unscaled:
      p.scale = 1;
      break;
    case Defect::double_scale:
      p.scale = problem.scale * problem.scale;
      break;
    case Defect::no_final_divide:
      p.final_divide = false;
      break;
    case Defect::unmasked_tail:
      p.pad_tail = flash;
      break;
    case Defect::finite_sentinel:
      p.fill = recipe.sentinel, p.mask_add = recipe.sentinel_added;
      break;
    default:
      throw InputError("step on the GPU", "defect " + defect_text(recipe), "one that its verbs know: step on the CPU");
  }
  return p;
}

StepPlan plan_step(const Schedule& schedule, std::int64_t K) {
  StepPlan plan;
  plan.K = std::clamp<std::int64_t>(K, 0, schedule.steps());
  if (plan.K == 0) return plan;
  const Step step = schedule.step(plan.K - 1);
  const Recipe& recipe = schedule.recipe();
  const Shape& shape = schedule.shape();
  plan.step = step;
  if (step.i >= 0) plan.row0 = step.i * recipe.Br, plan.rows = schedule.rows(step.i);
  if (step.j >= 0) plan.col0 = step.j * recipe.Bc, plan.cols = schedule.cols(step.j);
  const Stage s = step.stage;
  plan.verb = verb_of(s), plan.brings_events = computes(s);

  if (recipe.algorithm == Algorithm::standard) {
    if (s == Stage::accumulate) plan.verb = Verb::multiply;
    plan.cols = plan.pitch = shape.Nk, plan.visits = 1;
    plan.Q = s == Stage::load_q || s == Stage::scores || s == Stage::mask;
    plan.P = plan.verb == Verb::softmax || s == Stage::accumulate;
    plan.S = plan.verb == Verb::scores || plan.verb == Verb::mask;
    plan.finished = plan.O = plan.LSE = plan.verb == Verb::multiply;
    plan.m_and_l = plan.finished || s == Stage::softmax || s == Stage::store_p;
    return plan;
  }
  plan.pitch = recipe.defect == Defect::unmasked_tail ? recipe.Bc : std::min(recipe.Bc, shape.Nk);
  if (s == Stage::load_kv) {
    plan.K_tile = plan.V = true;
    return plan;
  }
  const bool flash1 = recipe.algorithm == Algorithm::flash1, tile = step.j >= 0;
  plan.visits = schedule.visits(step.head, step.i);
  plan.folds = tile ? schedule.visit_index(step.head, step.i, step.j) : s == Stage::load_q ? 0 : plan.visits;
  plan.finished = plan.LSE = plan.verb == Verb::finish;
  // flash1's finish works on O, l, m alone; flash2 keeps Q until it has stored O.
  plan.Q = !flash1 || tile;
  plan.O = plan.m_and_l = true;
  if (!tile) return plan;
  const std::vector<Stage>& stages = schedule.tile_stages();
  const auto reached = [&](Stage stage) {
    return std::find(stages.begin(), stages.end(), stage) <= std::find(stages.begin(), stages.end(), s);
  };
  plan.tile_class = schedule.tile_class(step.head, step.i, step.j);
  plan.K_tile = plan.old = true;
  plan.V = flash1 || reached(Stage::load_v);
  plan.S = plan.verb >= Verb::scores, plan.P = plan.verb >= Verb::exponentials;
  plan.rescaled = plan.verb >= Verb::max, plan.alpha = plan.verb >= Verb::rescale,
  plan.row_sum = plan.verb >= Verb::accumulate;
  plan.visible = plan.tile_class != TileClass::full;
  return plan;
}

namespace {
// Calls each(pointer, elements) for every array of Real, in their order in memory.
template <class Each>
void each_array(StepArguments& a, const StepPlan& plan, std::int64_t dv, Each each) {
  for (void** row : {&a.start_m, &a.start_l, &a.m, &a.l, &a.alpha, &a.o_factor, &a.row_sum, &a.LSE})
    each(row, plan.rows);
  for (void** out : {&a.start_O, &a.O}) each(out, plan.rows * dv);
  for (void** tile : {&a.S, &a.P}) each(tile, plan.rows * plan.pitch);
}
}  // namespace

std::int64_t step_bytes(const StepPlan& plan, std::int64_t dv, bool in_double) {
  StepArguments none;
  std::int64_t reals = 0;
  each_array(none, plan, dv, [&](void**, std::int64_t n) { reals += n; });
  return reals * (in_double ? 8 : 4) + plan.rows * (plan.pitch + 1);
}

void place_arrays(StepArguments& arguments, const StepPlan& plan, bool in_double, void* memory) {
  auto* next = static_cast<unsigned char*>(memory);
  each_array(arguments, plan, arguments.problem.dv, [&](void** array, std::int64_t n) {
    *array = next;
    next += n * (in_double ? 8 : 4);
  });
  arguments.visible = plan.visible ? next : nullptr;
  arguments.events = next + plan.rows * plan.pitch;
}

TraceState trace_state(const Problem& problem, const Schedule& schedule, const StepPlan& plan,
                       const StepArguments& arrays) {
  return problem.in_double() ? state_of<double>(problem, schedule, plan, arrays)
                             : state_of<float>(problem, schedule, plan, arrays);
}

StatsPlan plan_stats(const Schedule& schedule, std::int64_t head, std::int64_t scale_i, std::int64_t scale_j) {
  const Recipe& recipe = schedule.recipe();
  const Shape& shape = schedule.shape();
  StatsPlan plan;
  StatsArguments& a = plan.arguments;
  a.head0 = head, a.Tr = schedule.Tr(), a.Tc = schedule.Tc();
  a.scale_i = scale_i, a.scale_j = scale_j;
  a.map_rows = (a.Tr + scale_i - 1) / scale_i, a.map_cols = (a.Tc + scale_j - 1) / scale_j;
  a.last = a.map_rows, a.end = 2 * a.Tc;
  a.visit_all = recipe.skip == Skip::none, a.reverse = recipe.order == Order::reverse;
  a.pitch = recipe.algorithm == Algorithm::standard  ? shape.Nk
            : recipe.defect == Defect::unmasked_tail ? recipe.Bc
                                                     : std::min(recipe.Bc, shape.Nk);
  if (recipe.skip != Skip::all || schedule.mask().structural_only() || recipe.algorithm == Algorithm::standard)
    return plan;
  constexpr std::int64_t most = std::int64_t{1} << 30;
  if (a.Tr > most / a.Tc)
    throw InputError("tile map on the GPU", fmt::format("{} x {} tiles under --skip all", a.Tr, a.Tc),
                     fmt::format("at most {} with a mask from a file", most));
  for (std::int64_t i = 0; i < a.Tr; ++i)
    for (std::int64_t j = 0; j < a.Tc; ++j) plan.visited.push_back(schedule.visited(head, i, j) ? 1 : 0);
  return plan;
}

}  // namespace flashscope::gpu
