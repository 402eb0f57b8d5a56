// Stepping on a GPU for the seeker: its thread asks and waits, the GPU's own thread steps. A state comes back as
// numbers and as arrays that stay on the device, for OpenGL to draw.
//
// After an error that CUDA cannot recover from the GPU half of this process is over (GpuWorker): every later call says
// why.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "app/plan.h"
#include "engine/attention/trace.h"

namespace flashscope {

namespace gpu {
class DeviceState;
}

class GpuSteps {
 public:
  explicit GpuSteps(int device);
  ~GpuSteps();
  GpuSteps(const GpuSteps&) = delete;

  struct Found {
    std::shared_ptr<const TraceState> state;
    std::shared_ptr<const gpu::DeviceState> arrays;
    std::string device;  // its name
  };
  // The state after K steps of the plan. Throws Cancelled, or what the GPU could not do, as a std::exception.
  Found seek(const Plan& plan, std::int64_t K, const std::stop_token& stop);
  int device() const { return device_; }

 private:
  struct Impl;
  int device_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashscope
