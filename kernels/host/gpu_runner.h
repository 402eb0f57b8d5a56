// The full run on a GPU: the kernel that the recipe names, compiled for the device that is there, timed by events, its
// O and LSE and everything counted or measured as a Report.
//
// After a GpuError the process's CUDA context may be lost: full runs belong into a process of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/attention/cpu_runner.h"
#include "kernels/host/errors.h"
#include "kernels/host/launch_plan.h"

namespace flashscope::gpu {

struct GpuDevice {
  int index = 0;
  std::string name, architecture;  // "NVIDIA H200", "sm_90a"
  int major = 0, minor = 0;        // compute capability
  int driver_version = 0;          // 13000
  std::int64_t memory_bytes = 0;
  DeviceLimits limits;
};
// A GPU that is there and cannot be used.
struct UnusableGpu {
  int index = 0;
  std::string why;  // one line
};
struct GpuStatus {
  std::vector<GpuDevice> devices;     // usable ones
  std::vector<std::string> missing;   // what no GPU here can run without: one line a piece, with its remedy
  std::vector<UnusableGpu> unusable;  // beside them; where none is usable, `missing` says the same
  bool can_run() const { return missing.empty() && !devices.empty(); }
};
// Looks, never throws.
GpuStatus gpu_status();
// Those that are too old set apart.
GpuStatus sorted_by_use(std::vector<GpuDevice> found, std::vector<UnusableGpu> unusable = {});
// The device of that number. Throws Missing where it, or all, cannot be used; InputError where there is none such.
GpuDevice usable_device(int index);
GpuDevice usable_device(const GpuStatus& status, int index);
// The same lines for what only standard attention and the counters need. Opens the libraries, which takes a while.
std::vector<std::string> missing_libraries();

struct GpuRunOptions {
  int device = 0;
  KernelChoice kernel = KernelChoice::automatic;
  CheckRows check;
  int threads = 0;        // of the check against float64
  bool count = true;      // one more launch, of the kernel that counts its bytes; not with standard
  bool measure = false;   // read the hardware's counters; where they cannot be read, the report says why
  bool timeline = false;  // one more launch, of the kernel that writes down when each tile was worked on
  int repeats = 20;       // timed launches, fewer where one takes long
  Tuning tuning;
};

// How the stages begin in which the hardware's counters are read.
inline constexpr const char* kReadsCounters = "counters";
// What a run does now, for people, and the share of all of it that is done.
using OnStage = std::function<void(const std::string& stage, double done)>;

// Throws InputError (no kernel for this recipe, does not fit), Missing, CompileError, GpuError, Cancelled.
Report run_on_gpu(const Problem& problem, const Recipe& recipe, const GpuRunOptions& options = {},
                  const std::stop_token& stop = {}, const OnStage& on_stage = {});

}  // namespace flashscope::gpu
