// Which Br and Bc for this shape and device: the least traffic (kernel units) under the device's limits, with the
// reason in a line each. What is fastest is another question, which a measurement answers (measurement.h).
//
// Candidates are multiples of 16, as tensor cores want them, up to 512. Ties go to fewer FLOPs (masked and ragged ones
// included), then to fewer tiles (fewer rescales of O), then to the smaller footprint. A flash2 tile whose scores and O
// would not stay in registers (why_spills) is left out, though no limit forbids it: a spill is traffic that no formula
// counts. Traffic alone would launch few, large blocks; the best that still fills every SM is named as well.
#pragma once

#include <string>
#include <vector>

#include "engine/insight/sweep.h"

namespace flashscope {

struct Advice {
  Recipe recipe;
  SweepPoint cost;
  BlockDemand demand;
  std::string why;  // one line
};

struct AdviceList {
  std::vector<Advice> best;  // ascending traffic, the least first; empty where nothing fits
  // Where that leaves SMs idle: the least traffic with a block for every SM, then what comes nearest to a block for
  // each with less traffic, where that is not the first of the above. Else empty.
  std::vector<Advice> fills;
  std::int64_t considered = 0, infeasible = 0, spilling = 0;  // spilling: fit, but flash2 would spill registers
  std::string note;                                           // how it was judged
};
// Precondition: recipe.algorithm is flash1 or flash2, has_closed_form.
AdviceList advise(const SweepProblem& problem, const Recipe& recipe, const HardwareSheet& device,
                  std::size_t runners_up = 4);

}  // namespace flashscope
