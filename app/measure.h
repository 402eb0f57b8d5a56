// Measured sweeps: points of shape, mask and recipe, each compiled, timed and counted on a GPU in a process that serves
// many of them. Kernels are compiled in parallel there while others are measured, and points are told as they come.
//
// A point that fails (no kernel, does not fit, does not compile, a fault of the GPU, no answer) carries its reason, and
// the others go on: after a fault in a new process. What was measured is kept on disk under all that it depends on, so
// that asking again costs nothing. To pause is to stop: asking again goes on where it ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>

#include "engine/attention/measured_sweep.h"
#include "kernels/host/gpu_runner.h"
#include "kernels/host/launch_plan.h"

namespace flashscope {

// Device, driver, compiler and kernels of that GPU of those found. Throws gpu::Missing with the remedy, InputError (no
// such GPU).
MeasuredOn measured_on(const gpu::GpuStatus& status, int device);
MeasuredOn measured_on(int device);  // looks for it

struct MeasureOptions {
  int device = 0;
  gpu::KernelChoice kernel = gpu::KernelChoice::automatic;
  std::uint64_t seed = 1;  // of Q, K, V
  int repeats = 10;        // timed launches of a point
  bool counters = true;
  std::chrono::seconds silence{300};  // a point that takes longer is given up
  std::filesystem::path cache;        // folder of the points; empty: none is kept
  std::filesystem::path program;      // as of ChildProcess
};
std::filesystem::path measured_cache();  // where the program keeps them

// Why a point cannot be asked for; empty where it can. What no kernel does is found when it is measured.
std::string why_not_measurable(const MeasuredPoint& point);

// `number` of `asked`; `cached`: it was on disk. Called from the thread of measure_points.
using OnPoint = std::function<void(std::size_t number, const MeasuredPoint& point, bool cached)>;
// Every point that is not done yet, those on disk first. Blocks. Throws Cancelled; gpu::Missing, gpu::GpuError,
// InputError where nothing can be measured at all.
void measure_points(std::span<const MeasuredPoint> asked, const MeasuredOn& on, const MeasureOptions& options,
                    const std::stop_token& stop, const OnPoint& told);

// A whole sweep in place: its points that are not done, and for a plane of block sizes then those beside the best. The
// first of a plane says what is measured. `told` after every point. Throws as measure_points.
MeasuredSweep begin_sweep(const MeasuredOn& on, const MeasureOptions& options, std::vector<MeasuredPoint> points);
MeasuredSweep begin_plane(const MeasuredOn& on, const MeasureOptions& options, const MeasuredPoint& like);
void measure_sweep(MeasuredSweep& sweep, bool plane, const MeasureOptions& options, const std::stop_token& stop,
                   const std::function<void(bool cached)>& told);

// The child's side: measures the points that stand in `folder`. `prepare` is called on several threads (the compiling)
// and returns what is then called on one (the measuring); both may throw. Returns the exit code.
using PreparePoint = std::function<std::function<MeasuredPoint()>(const MeasuredPoint&)>;
using OpenPoints = std::function<PreparePoint(const MeasureOptions&)>;
int serve_gpu_sweep(const std::filesystem::path& folder, const OpenPoints& open);
int serve_gpu_sweep(const std::filesystem::path& folder);  // by gpu::PointRunner

}  // namespace flashscope
