// Full and measured runs on a GPU, each in a process of its own: after an illegal address CUDA's process is lost, and
// the one that asked must not be. The parent writes the problem as a session into a folder of its own, starts
// `flashscope gpu-run FOLDER`, and reads the report back from another session there; the comparison with float64 is the
// parent's. Whatever happens to the child is one message here, and the next run works. Built with or without CUDA.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "engine/attention/cpu_runner.h"
#include "engine/attention/device_bytes.h"
#include "kernels/host/errors.h"
#include "kernels/host/gpu_runner.h"

namespace flashscope {

// gpu::gpu_status(); in a build without the CUDA half, the line that says so.
gpu::GpuStatus gpu_status();
std::vector<std::string> missing_gpu_libraries();  // gpu::missing_libraries(); none in such a build
// Throws InputError, with the figures, where a run's bytes exceed the device's memory: before anything is allocated.
void check_fits(const DeviceBytes& bytes, const gpu::GpuDevice& device);

// Whether a stage of run_in_child is one in which the hardware's counters are read.
bool reads_counters(std::string_view stage);

struct ChildRun {
  int device = 0;  // of gpu_status().devices: its index
  gpu::KernelChoice kernel = gpu::KernelChoice::automatic;
  CheckRows check;
  int threads = 0;  // of the check
  bool measure = true, timeline = false;
  int repeats = 20;
  std::chrono::seconds limit{1800};  // a child that runs longer is ended
  // Started as `program gpu-run FOLDER`; empty: $FLASHSCOPE_GPU_CHILD, which tests set, else this program.
  std::filesystem::path program;
};
// Blocks; a stop request ends the child. `progress` is a share, called from this thread and those of the check;
// `on_stage` hears, on this thread, what is being done: "timed launch 3 of 20".
// Throws InputError (no kernel for this recipe, does not fit), gpu::Missing, gpu::GpuError, gpu::CompileError,
// Cancelled.
Report run_in_child(const Problem& problem, const Recipe& recipe, const ChildRun& options,
                    const std::stop_token& stop = {}, const Progress& progress = {},
                    const std::function<void(const std::string&)>& on_stage = {});

// The child's side: runs what stands in `folder` and leaves the report there. JSON lines on standard output say what it
// does and how it ended. Returns the exit code.
using GpuRunner = std::function<Report(const Problem&, const Recipe&, const gpu::GpuRunOptions&, const gpu::OnStage&)>;
int serve_gpu_run(const std::filesystem::path& folder, const GpuRunner& run);
int serve_gpu_run(const std::filesystem::path& folder);  // by gpu::run_on_gpu

}  // namespace flashscope
