// Which Br and Bc for this shape and device: the least traffic (kernel units) under the device's limits, with the
// reason in a line each.
//
// Candidates are multiples of 16, as tensor cores want them, up to 512. Ties go to fewer FLOPs (masked and ragged ones
// included), then to fewer tiles (fewer rescales of O), then to the smaller footprint. A flash2 tile whose scores and O
// need more than the 255 registers a thread can have would spill, which is traffic that no formula counts: it is left
// out. Traffic alone would launch few, large blocks; the best that still fills every SM is named as well.
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
  std::vector<Advice> best;   // ascending traffic, the best first; empty where nothing fits
  std::vector<Advice> fills;  // the best with a block for every SM: one, or none
  std::int64_t considered = 0, infeasible = 0, spilling = 0;  // spilling: fit, but flash2 would spill registers
  std::string note;                                           // how it was judged
};
// Precondition: recipe.algorithm is flash1 or flash2, has_closed_form.
AdviceList advise(const SweepProblem& problem, const Recipe& recipe, const HardwareSheet& device,
                  std::size_t runners_up = 4);

}  // namespace flashscope
