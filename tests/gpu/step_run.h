// The last states of all row blocks, stepped on the GPU, put together as a run's outputs.
#pragma once

#include <algorithm>

#include "engine/memory.h"
#include "kernels/host/gpu_stepper.h"

namespace flashscope::gpu {

struct Outputs {
  Buffer<double> O, LSE;  // as in Report
};

inline Outputs outputs_by_steps(GpuStepper& stepper) {
  const Schedule& schedule = stepper.schedule();
  const Shape& shape = schedule.shape();
  const Stage last = schedule.recipe().algorithm == Algorithm::standard ? Stage::store_o : Stage::finish;
  Outputs outputs;
  for (std::int64_t head = 0; head < shape.heads; ++head)
    for (std::int64_t i = 0; i < schedule.Tr(); ++i) {
      const TraceState state = stepper.read(stepper.seek(*schedule.find(head, i, -1, last) + 1));
      outputs.O.insert(outputs.O.end(), state.O.values.begin(), state.O.values.end());
      outputs.LSE.insert(outputs.LSE.end(), state.LSE.begin(), state.LSE.end());
    }
  return outputs;
}

}  // namespace flashscope::gpu
