// Stage data for tests, made by the plainest loop there is: whole arrays, one step after the other. It
// is only a source of pictures; the engine's own numbers are tested elsewhere.
#pragma once

#include <cstdint>
#include <memory>

#include "viz/scene.h"
#include "viz/stage.h"

namespace flashscope::viz::test {

struct Run {
  std::shared_ptr<const Problem> problem;
  std::shared_ptr<const Schedule> schedule;
};

// Random tensors; `scale` of the scores where it is above 0.
Run make_run(const Shape& shape, const Recipe& recipe, const Mask& mask = {}, double scale = 0);

// A map, a strip and norms with made-up but plausible numbers, complete up to `share` of the rows.
void fill_scan(StageData& data, double share = 1);
// All of the stage in state K: that state, what the ledger would list for its step, figures of the right size, a scan.
StageData naive_stage(const Run& run, std::int64_t K, std::uint64_t version = 1);
// What the stage draws of any data.
Scene scene_of(const StageData& data, float width = 1280, float height = 720);

}  // namespace flashscope::viz::test
