// tile_step's and tile_stats' own text, run on the host by teams of one: every state and every map against the
// engine's.
#include <gtest/gtest.h>

#include "kernels/host/mask_planes.h"
#include "kernels/host/step_plan.h"
#include "kernels/tile_stats.cu"
#include "kernels/tile_step.cu"
#include "tests/gpu/map_samples.h"
#include "tests/gpu/step_samples.h"

namespace flashscope::gpu {
namespace {

// A problem as the kernels see it, in memory of the host.
template <class Real>
struct OnHost {
  explicit OnHost(const Problem& problem, const Recipe& recipe) : p(step_problem(problem, recipe)) {
    p.Q = problem.Q().head<Real>(0), p.K = problem.K().head<Real>(0), p.V = problem.V().head<Real>(0);
    if (problem.mask.keep) keep = keep_bytes(*problem.mask.keep), p.keep = plane_of(*problem.mask.keep, keep.data());
    if (problem.mask.bias)
      bias = bias_values<Real>(*problem.mask.bias), p.bias = plane_of(*problem.mask.bias, bias.data());
  }
  OnHost(const OnHost&) = delete;
  OnHost& operator=(const OnHost&) = delete;
  StepProblem p;
  std::vector<unsigned char> keep;
  std::vector<Real> bias;
};

// How many launches bring a row block to its state, and whether the second one goes on in the first one's memory.
enum class Launches { one, two, two_in_place };

template <class Real>
TraceState step_on_host(const Problem& problem, const Schedule& schedule, std::int64_t K, Launches launches) {
  const bool in_two = launches != Launches::one;
  const OnHost<Real> on_host(problem, schedule.recipe());
  const StepPlan plan = plan_step(schedule, K);
  StepArguments a;
  a.problem = on_host.p;
  std::vector<double> memory, before;
  if (plan.rows > 0) {
    const auto size = static_cast<std::size_t>(step_bytes(plan, problem.V().cols, problem.in_double()) / 8 + 1);
    memory.assign(size, std::nan("")), before.assign(size, std::nan(""));
    a.head = plan.step->head, a.row0 = plan.row0, a.rows = static_cast<int>(plan.rows), a.pitch = plan.pitch;
    std::vector<int> visits;
    for (std::int64_t n = 0; n < plan.folds; ++n)
      visits.push_back(static_cast<int>(schedule.visit_j(plan.step->head, plan.step->i, n)));
    const int first = in_two ? static_cast<int>(plan.folds) / 2 : 0;
    a.visits = visits.data(), a.folds = first;
    if (in_two) {
      place_arrays(a, plan, problem.in_double(), launches == Launches::two_in_place ? memory.data() : before.data());
      for (int r = 0; r < a.rows; ++r) step_row<Real>(a, r);
      a.from_m = a.start_m, a.from_l = a.start_l, a.from_O = a.start_O;
    }
    a.visits += first, a.folds = static_cast<int>(plan.folds) - first;
    a.j = plan.step->j, a.verb = plan.verb;
    place_arrays(a, plan, problem.in_double(), memory.data());
    for (int r = 0; r < a.rows; ++r) step_row<Real>(a, r);
  }
  return trace_state(problem, schedule, plan, a);
}

TEST(TileStep, every_state_is_the_engines) {
  const double tolerance = engine_fuses() ? 0 : 1e-4;
  for (int number = 0; number < 400 && !HasFailure(); ++number) {
    const StepSample sample = draw_step_sample(number);
    SCOPED_TRACE(sample.text);
    Trace trace(sample.problem, sample.recipe);
    std::mt19937 random(static_cast<std::uint32_t>(number));
    const std::int64_t steps = trace.schedule().steps();
    for (int n = 0; n < 40 && !HasFailure(); ++n) {
      const std::int64_t K = n == 0 ? 0 : n == 1 ? steps : static_cast<std::int64_t>(random() % (steps + 1));
      const auto launches = static_cast<Launches>(n % 3);
      const TraceState found = sample.problem->in_double()
                                   ? step_on_host<double>(*sample.problem, trace.schedule(), K, launches)
                                   : step_on_host<float>(*sample.problem, trace.schedule(), K, launches);
      expect_state(found, trace.seek(K), tolerance, tolerance);
    }
  }
}

struct HostMap {
  std::vector<TileCell> cells;
  std::vector<float> o_norm;
};
// In launches of `columns` column blocks of the two passes each.
template <class Real>
HostMap map_on_host(const Problem& problem, const Schedule& schedule, std::int64_t head, std::int64_t scale_i,
                    std::int64_t scale_j, std::int64_t columns) {
  const OnHost<Real> on_host(problem, schedule.recipe());
  const StatsPlan plan = plan_stats(schedule, head, scale_i, scale_j);
  StatsArguments a = plan.arguments;
  a.problem = on_host.p;
  if (!plan.visited.empty()) a.visited = plan.visited.data();
  HostMap map;
  map.cells.resize(static_cast<std::size_t>(a.map_rows * a.map_cols));
  map.o_norm.resize(static_cast<std::size_t>(a.problem.Nq));
  const auto rows = static_cast<std::size_t>(a.problem.Nq), strip = static_cast<std::size_t>(a.pitch);
  std::vector<Real> m(rows), l(rows), LSE(rows), O(rows * static_cast<std::size_t>(a.problem.dv)), S(strip), P(strip);
  a.cells = map.cells.data(), a.o_norm = map.o_norm.data();
  a.m = m.data(), a.l = l.data(), a.LSE = LSE.data(), a.O = O.data();
  a.S = S.data(), a.P = P.data();
  Partial parts[Block::warps];
  const std::int64_t whole = a.end;
  for (; a.begin < whole; a.begin = a.end) {
    a.end = std::min<std::int64_t>(a.problem.standard ? whole : a.begin + columns, whole);
    tile_map<Real>(a, {parts}, 0, 1);
  }
  return map;
}

TEST(TileStats, every_map_is_the_scans) {
  for (int number = 0; number < 300 && !HasFailure(); ++number) {
    const StepSample sample = draw_step_sample(number);
    SCOPED_TRACE(sample.text);
    const Schedule schedule(sample.problem->shape(), sample.problem->mask, sample.recipe);
    Scan scan(sample.problem, sample.recipe, 0, 1);
    scan.wait();
    const std::int64_t scale_i = number % 3 + 1, scale_j = number % 2 + 1;
    const std::int64_t columns = number % 4 == 0 ? number % 7 + 1 : 2 * schedule.Tc();
    for (std::int64_t head = 0; head < schedule.shape().heads; ++head) {
      SCOPED_TRACE(fmt::format("head {} {} x {} tiles a cell", head, scale_i, scale_j));
      const auto found = sample.problem->in_double()
                             ? map_on_host<double>(*sample.problem, schedule, head, scale_i, scale_j, columns)
                             : map_on_host<float>(*sample.problem, schedule, head, scale_i, scale_j, columns);
      expect_norms(found.o_norm, scan.o_row_norm(head), engine_fuses() ? 1e-6 : 1e-4);
      expect_cells(found.cells, coarse_map(*scan.map(head), scale_i, scale_j), engine_fuses() ? 1e-5 : 1e-4);
    }
  }
}

}  // namespace
}  // namespace flashscope::gpu
