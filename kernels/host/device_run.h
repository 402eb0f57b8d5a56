// One compiled kernel over tensors on the device: what a full run and a point of a measured sweep share. It holds the
// outputs and the running state, launches, and times single launches by events.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/attention/device_bytes.h"
#include "engine/attention/gpu_figures.h"
#include "kernels/arguments.h"
#include "kernels/host/compiler.h"
#include "kernels/host/cuda.h"
#include "kernels/host/gpu_runner.h"
#include "kernels/host/launch_plan.h"

namespace flashscope::gpu {

class MatrixProducts;

struct Inputs {
  DeviceMemory Q, K, V;
  void put_into(Arguments& arguments) const {
    arguments.Q = Q.as<void>(), arguments.K = K.as<void>(), arguments.V = V.as<void>();
  }
};
// How many copies of Q, K, V take turns, so that no launch finds the last one's inputs in the L2; `held`: bytes of them
// that are there already. Throws InputError, with the figures, where not even one fits.
int input_sets(const DeviceBytes& bytes, const GpuDevice& device, std::int64_t held = 0);
Inputs copy(const Inputs& from, const Pool& pool, const Stream& stream);

// One compiled kernel, loaded and ready to launch.
class Kernel {
 public:
  Kernel(LaunchPlan plan, Compiled compiled);
  void init(const Arguments& arguments, int blocks, const Stream& stream) const;  // flash1's O, m, l
  void launch(const Arguments& arguments, const Stream& stream) const;
  int blocks_per_sm() const;
  const LaunchPlan& plan() const { return plan_; }
  const EntryFigures& figures() const { return compiled_.entry(plan_.entry); }

 private:
  void launch_one(const void* kernel, const Arguments& arguments, unsigned blocks, std::size_t shared,
                  const Stream& stream) const;
  LaunchPlan plan_;
  Compiled compiled_;
  Library library_;
  const void* kernel_ = nullptr;
  const void* init_ = nullptr;
};

struct Timing {
  int repeats = 20;    // timed launches, fewer where one takes long
  double seconds = 1;  // about as long as they may take together
};

class DeviceRun {
 public:
  // Of the problem only shape, scale and mask are read. `inputs`, pools and stream outlive it.
  DeviceRun(const Problem& problem, const Recipe& recipe, Kernel kernel, const GpuDevice& device,
            const std::vector<Inputs>& inputs, const Pool& mask_pool, const Pool& run_pool, const Stream& stream);
  ~DeviceRun();
  DeviceRun(const DeviceRun&) = delete;
  DeviceRun& operator=(const DeviceRun&) = delete;

  // With the first set of inputs; `prepare` sets up O, m, l of flash1, outside what is timed or measured.
  const Arguments& arguments() const { return arguments_; }
  void prepare() const { prepare(kernel_, arguments_); }
  void launch() const { launch(arguments_); }
  void prepare(const Kernel& kernel, const Arguments& arguments) const;
  // Times, kernel and launch; what is measured by counters is left out.
  // `on_launch` hears of some launches.
  GpuFigures time(const Timing& timing, const std::stop_token& stop,
                  const std::function<void(int n, int repeats)>& on_launch = {});
  std::string kernel_name() const;

  const DeviceMemory& O() const { return O_; }
  const DeviceMemory& LSE() const { return LSE_; }
  const DeviceMemory& running_O() const { return running_O_; }
  const DeviceMemory& m() const { return m_; }
  const DeviceMemory& l() const { return l_; }

 private:
  void launch(const Arguments& arguments) const;
  const Shape shape_;
  const Causal causal_;
  const bool standard_;
  const Kernel kernel_;
  const GpuDevice& device_;
  const std::vector<Inputs>& inputs_;
  const Stream& stream_;
  Arguments arguments_;
  DeviceMemory keep_, bias_;  // the masks of a file as planes: a byte a cell, a float a cell
  DeviceMemory O_, LSE_, running_O_, m_, l_, S_, P_;
  std::unique_ptr<MatrixProducts> products_;
};

}  // namespace flashscope::gpu
