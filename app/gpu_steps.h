// Stepping on a GPU for the seeker: its thread asks and waits, the GPU's own thread steps. A state comes back as
// numbers and as arrays that stay on the device, for OpenGL to draw. Between seeks the same thread makes the tile map
// of the head that was stepped to, a piece at a time: a seek waits for one piece at most.
//
// After an error that CUDA cannot recover from the GPU half of this process is over (GpuWorker): every later call says
// why.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "app/plan.h"
#include "engine/attention/trace.h"

namespace flashscope {

namespace gpu {
class DeviceState;
class DeviceMap;
}  // namespace gpu

class GpuSteps {
 public:
  // The tile map of a head under a plan, complete or its first rows; the same on the host and on the device.
  struct Map {
    std::uint64_t generation = 0;  // of the plan
    std::int64_t head = -1;
    std::shared_ptr<const ScanMap> map;
    std::shared_ptr<const std::vector<float>> o_row_norm;  // as Scan's
    std::shared_ptr<const gpu::DeviceMap> arrays;
    bool complete = false;
    std::string failed;  // why there will be none
  };

  // `on_map` is called on the GPU's thread; while `hold` is not 0 nothing is launched.
  GpuSteps(int device, std::function<void(Map)> on_map, std::shared_ptr<const std::atomic<int>> hold);
  ~GpuSteps();
  GpuSteps(const GpuSteps&) = delete;

  struct Found {
    std::shared_ptr<const TraceState> state;
    std::shared_ptr<const gpu::DeviceState> arrays;
    std::string device;  // its name
  };
  // The state after K steps of the plan. Throws Cancelled, or what the GPU could not do, as a std::exception.
  Found seek(const Plan& plan, std::int64_t K, const std::stop_token& stop);
  void drop_map();  // that is being made
  int device() const { return device_; }

 private:
  struct Impl;
  int device_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashscope
