// Points of a measured sweep on a GPU, one after another in one process: what costs time once is done once (the
// counters are opened, Q, K and V made on the device from a seed), so that a point costs its compiling and some
// tenths of a second. O is not read back: a full run checks the same kernel.
//
// After a GpuError the process's CUDA context may be lost: sweeps belong into a process of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/attention/measured_sweep.h"
#include "kernels/host/compiler.h"
#include "kernels/host/launch_plan.h"

namespace flashscope::gpu {

struct PointOptions {
  int device = 0;
  KernelChoice kernel = KernelChoice::automatic;
  std::uint64_t seed = 1;
  int repeats = 10;      // timed launches of a point, fewer where one takes long
  bool counters = true;  // where they cannot be read, the point says why
};

// How a point is launched, as text for comparison: entry, constants, threads, blocks, shared memory, heads that take
// turns; with standard cuBLAS's version. Where no kernel does it, the reason. Needs no GPU.
std::string launch_text(const MeasuredPoint& asked, KernelChoice kernel, const DeviceLimits& limits);

class PointRunner {
 public:
  explicit PointRunner(const PointOptions& options);  // throws Missing, InputError (no such device)
  ~PointRunner();
  PointRunner(const PointRunner&) = delete;
  PointRunner& operator=(const PointRunner&) = delete;

  struct Prepared {
    LaunchPlan plan;
    Compiled compiled;
  };
  // Chooses the kernel and compiles it; touches no device, from any thread. Throws InputError (no kernel, does not
  // fit), CompileError.
  Prepared prepare(const MeasuredPoint& asked) const;
  // `asked` with its figures; on one thread. Throws InputError (does not fit the device), Missing
  // (cuBLAS), GpuError.
  MeasuredPoint measure(const MeasuredPoint& asked, Prepared prepared);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashscope::gpu
