// What a seek asks of tile_step, and the trace's state that its buffers then are. Plain arithmetic and memory: the same
// with the buffers on a device or on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/attention/problem.h"
#include "engine/attention/schedule.h"
#include "engine/attention/trace.h"
#include "kernels/step.h"

namespace flashscope::gpu {

// Everything but the pointers. Throws InputError: what of the recipe the verbs on the GPU do not know.
StepProblem step_problem(const Problem& problem, const Recipe& recipe);

struct StepPlan {
  std::int64_t K = 0;
  std::optional<Step> step;  // none for K = 0
  // Of the row block on the chip; rows 0: there is none (K = 0, load_kv), and nothing is launched.
  std::int64_t row0 = 0, rows = 0, col0 = 0, cols = 0;
  std::int64_t folds = 0, visits = 0;  // tiles folded in before the tile on the chip, and to fold in all
  Verb verb = Verb::loaded;
  bool brings_events = false;  // the step is the verb's own, not a load or a store after it
  std::int64_t pitch = 0;      // of S, P, visible: the widest tile
  TileClass tile_class = TileClass::full;
  bool finished = false;
  // What exists in this state.
  bool Q = false, K_tile = false, V = false, S = false, P = false, O = false, m_and_l = false, old = false;
  bool rescaled = false, alpha = false, row_sum = false, LSE = false, visible = false;
};
StepPlan plan_step(const Schedule& schedule, std::int64_t K);

// One piece of memory for all arrays of one row block: its size, and the arguments' pointers into it.
std::int64_t step_bytes(const StepPlan& plan, std::int64_t dv, bool in_double);
void place_arrays(StepArguments& arguments, const StepPlan& plan, bool in_double, void* memory);

// `arrays` point to memory of the host.
TraceState trace_state(const Problem& problem, const Schedule& schedule, const StepPlan& plan,
                       const StepArguments& arrays);

// tile_stats of one head, `scale_i` x `scale_j` tiles a cell, in one launch: everything but the problem and the
// pointers.
struct StatsPlan {
  StatsArguments arguments;
  std::vector<unsigned char> visited;  // [Tr][Tc], only where a mask from a file decides which tiles are visited
};
// Throws InputError where that table would be too large.
StatsPlan plan_stats(const Schedule& schedule, std::int64_t head, std::int64_t scale_i, std::int64_t scale_j);

}  // namespace flashscope::gpu
