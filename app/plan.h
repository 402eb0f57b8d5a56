// A problem under a recipe, planned: the schedule and everything that the ledger says of it. Immutable and
// shared; made by a worker.
#pragma once

#include <memory>

#include "engine/attention/ledger.h"
#include "engine/attention/scan.h"
#include "engine/attention/schedule.h"

namespace flashscope {

struct Plan {
  std::uint64_t generation = 0;
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
  std::shared_ptr<const Schedule> schedule;
  std::shared_ptr<Scan> scan;
  ElementsAndBytes traffic;  // counted, the whole run
  Formula formula;
  std::int64_t standard_elements = 0;
  Minimum minimum;
  Saving saving;
  OnChip on_chip;
  Footprint footprint;
};

// Throws InputError. The scan is the caller's to start.
std::shared_ptr<const Plan> make_plan(std::uint64_t generation, std::shared_ptr<const Problem> problem,
                                      const Recipe& recipe);

}  // namespace flashscope
