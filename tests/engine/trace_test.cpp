// Seeking against forward stepping, and the events against the states.
#include "engine/attention/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "engine/attention/cpu_runner.h"

namespace flashscope {
namespace {

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

void expect_same(const TraceState& a, const TraceState& b) {
  ASSERT_EQ(a.K, b.K);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.folded, b.folded);
  EXPECT_EQ(a.events, b.events) << "events at " << a.K;
  for (const auto& [x, y] :
       {std::pair(&a.Q, &b.Q), {&a.K_tile, &b.K_tile}, {&a.V, &b.V}, {&a.S, &b.S}, {&a.P, &b.P}, {&a.O, &b.O}})
    EXPECT_TRUE(same_bits(x->values, y->values)) << "at " << a.K;
  for (const auto& [x, y] : {std::pair(&a.m, &b.m),
                             {&a.m_old, &b.m_old},
                             {&a.l, &b.l},
                             {&a.l_old, &b.l_old},
                             {&a.alpha, &b.alpha},
                             {&a.o_factor, &b.o_factor},
                             {&a.row_sum, &b.row_sum},
                             {&a.LSE, &b.LSE}})
    EXPECT_TRUE(same_bits(*x, *y)) << "at " << a.K;
}

struct Case {
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  Mask causal;
  causal.causal = Causal::top_left;
  Mask window;
  window.window = Window{20, 3};
  for (const Mask& mask : {Mask{}, causal, window})
    for (Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2, Algorithm::standard})
      for (DType type : {DType::float32, DType::float64}) {
        Recipe recipe;
        recipe.algorithm = algorithm, recipe.Br = 16, recipe.Bc = 10;
        recipe.order = type == DType::float32 ? Order::reverse : Order::forward;
        recipe.guard = mask.window ? Guard::none : Guard::clamp;
        list.push_back({random_problem({2, 1, 45, 53, 8, 6, type}, 7, {}, mask), recipe});
      }
  return list;
}

TEST(Trace, seeking_anywhere_gives_the_bits_of_forward_stepping) {
  for (const Case& c : cases()) {
    Trace forward(c.problem, c.recipe);
    const std::int64_t steps = forward.schedule().steps();
    std::vector<TraceState> states;
    for (std::int64_t K = 0; K <= steps; ++K) states.push_back(forward.seek(K));
    Trace random_access(c.problem, c.recipe);
    std::mt19937 random(1);
    for (int n = 0; n < 200; ++n) {
      const std::int64_t K = std::uniform_int_distribution<std::int64_t>(0, steps)(random);
      expect_same(random_access.seek(K), states[K]);
      Trace fresh(c.problem, c.recipe);
      if (n % 10 == 0) expect_same(fresh.seek(K), states[K]);
    }
    for (std::int64_t K = steps; K > steps - 60 && K >= 0; --K) expect_same(random_access.seek(K), states[K]);
  }
}

TEST(Trace, the_last_states_hold_the_output_of_the_run) {
  for (const Case& c : cases()) {
    const Report report = run_on_cpu(*c.problem, c.recipe);
    Trace trace(c.problem, c.recipe);
    const Shape shape = c.problem->shape();
    const Stage last = c.recipe.algorithm == Algorithm::standard ? Stage::store_o : Stage::finish;
    for (std::int64_t h = 0; h < shape.heads; ++h)
      for (std::int64_t i = 0; i < trace.schedule().Tr(); ++i) {
        const TraceState state = trace.seek(*trace.schedule().find(h, i, -1, last) + 1);
        for (std::int64_t r = 0; r < state.rows; ++r)
          for (std::int64_t e = 0; e < shape.dv; ++e) {
            const double run = report.O[(h * shape.Nq + state.row0 + r) * shape.dv + e];
            EXPECT_EQ(std::memcmp(&run, &state.O.values[r * shape.dv + e], sizeof run), 0)
                << name(c.recipe.algorithm) << " row " << state.row0 + r << ": " << run << " " << state.O.at(r, e);
          }
      }
  }
}

TEST(Trace, events_found_forward_and_backward_are_those_of_the_states) {
  for (const Case& c : cases()) {
    Trace trace(c.problem, c.recipe);
    const std::int64_t steps = trace.schedule().steps();
    for (EventKind kind : {EventKind::rescale, EventKind::first_max, EventKind::nan, EventKind::inf,
                           EventKind::empty_row, EventKind::masked}) {
      std::vector<std::int64_t> at;  // states with such an event
      for (std::int64_t K = 0; K <= steps; ++K)
        for (const Event& event : trace.seek(K).events)
          if (event.kind == kind && (at.empty() || at.back() != K)) at.push_back(K);
      std::vector<std::int64_t> forward, backward;
      for (auto e = trace.find(kind, 0, true); e; e = trace.find(kind, e->step, true)) forward.push_back(e->step);
      for (auto e = trace.find(kind, steps + 1, false); e; e = trace.find(kind, e->step, false))
        backward.push_back(e->step);
      std::reverse(backward.begin(), backward.end());
      EXPECT_EQ(forward, at) << name(kind) << " forward " << name(c.recipe.algorithm);
      EXPECT_EQ(backward, at) << name(kind) << " backward " << name(c.recipe.algorithm);
    }
  }
}

TEST(Trace, a_row_s_history_is_that_of_its_states) {
  for (const Case& c : cases()) {
    if (c.recipe.algorithm == Algorithm::standard) continue;
    Trace trace(c.problem, c.recipe);
    const std::int64_t row = 37;
    std::int64_t visited = 0;
    for (const RowHistoryEntry& entry : trace.row_history(1, row)) {
      if (!entry.visited) continue;
      ++visited;
      const TraceState state = trace.seek(entry.step);
      const std::int64_t r = row - state.row0;
      EXPECT_EQ(state.j, entry.j);
      EXPECT_TRUE(state.m[r] == entry.m || (std::isnan(state.m[r]) && std::isnan(entry.m)));
      EXPECT_TRUE(state.l[r] == entry.l || (std::isnan(state.l[r]) && std::isnan(entry.l)));
      EXPECT_EQ(state.rescaled[r] != 0, entry.rescaled);
    }
    EXPECT_EQ(visited, trace.schedule().visits(1, row / c.recipe.Br));
  }
}

TEST(Trace, a_right_run_passes_the_checks_of_its_rows) {
  for (const Case& c : cases()) {
    if (c.recipe.guard == Guard::none || c.recipe.algorithm == Algorithm::standard) continue;
    Trace trace(c.problem, c.recipe);
    for (std::int64_t K = 1; K <= trace.schedule().steps(); K += 7) {
      const TraceState state = trace.seek(K);
      if (!state.step || state.step->stage != Stage::accumulate) continue;
      const RowCheck check = check_row(*c.problem, trace.schedule(), state, state.row0);
      EXPECT_EQ(check.masked_weight, 0);
      if (check.seen_keys == 0) continue;
      EXPECT_LE(std::abs(check.sum_p_over_l - 1), 1e-5);
      EXPECT_LE(check.max_error, 1e-5);
    }
  }
}

TEST(Trace, row_blocks_beyond_the_memory_setting_are_refused_with_the_figures) {
  const auto problem = random_problem({1, 1, 4096, 4096, 4, 4, DType::float32}, 1);
  Recipe recipe;
  recipe.Br = recipe.Bc = 4096;
  EXPECT_THROW(Trace(problem, recipe, 1 << 20), std::exception);
}

}  // namespace
}  // namespace flashscope
