#include "kernels/host/device_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/error.h"
#include "kernels/host/mask_planes.h"
#include "kernels/host/standard.h"

namespace flashscope::gpu {
namespace {

constexpr int kWarmUp = 3;
constexpr int kBlocksOfInit = 4;                // an SM
constexpr std::int64_t kMostSets = 8;           // of Q, K, V, that take turns
constexpr int kStageLines = 20;                 // that are told of the launches, at most
constexpr std::uint64_t kSubmitting = 100'000;  // ns that the host may take to submit one timed run

int band_limit(std::int64_t value) {
  constexpr std::int64_t limit = std::int64_t{1} << 29;  // beyond every N that a kernel takes
  return static_cast<int>(std::clamp(value, -limit, limit));
}

DeviceMemory copy(const DeviceMemory& from, const Pool& pool, const Stream& stream) {
  DeviceMemory memory(from.bytes(), pool, stream);
  FLASHSCOPE_CUDA(cudaMemcpyAsync(memory.as<void>(), from.as<void>(), static_cast<std::size_t>(from.bytes()),
                                  cudaMemcpyDeviceToDevice, stream));
  return memory;
}

}  // namespace

int input_sets(const DeviceBytes& bytes, const GpuDevice& device, std::int64_t held) {
  std::size_t free_bytes = 0, total_bytes = 0;
  FLASHSCOPE_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  const std::int64_t free = static_cast<std::int64_t>(free_bytes) + held, once = bytes.total() - bytes.tensors;
  if (bytes.total() > free)
    throw InputError("run on the GPU", text(bytes), fmt::format("at most {} bytes, free on {}", free, device.name));
  // Twice the L2, where memory allows it and not too many are needed: a launch then finds its inputs in DRAM.
  const std::int64_t wanted = (2 * device.limits.l2_bytes + bytes.tensors - 1) / bytes.tensors;
  const std::int64_t room_for = (free / 2 - once) / bytes.tensors;
  return static_cast<int>(std::clamp<std::int64_t>(std::min(wanted, room_for), 1, kMostSets));
}

Inputs copy(const Inputs& from, const Pool& pool, const Stream& stream) {
  return {copy(from.Q, pool, stream), copy(from.K, pool, stream), copy(from.V, pool, stream)};
}

// ---- one kernel

Kernel::Kernel(LaunchPlan plan, Compiled compiled)
    : plan_(std::move(plan)), compiled_(std::move(compiled)), library_(compiled_.cubin.data()) {
  kernel_ = library_.kernel(plan_.entry.c_str());
  if (!plan_.init_entry.empty()) init_ = library_.kernel(plan_.init_entry.c_str());
  FLASHSCOPE_CUDA(
      cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(plan_.shared_bytes)));
}

void Kernel::init(const Arguments& arguments, int blocks, const Stream& stream) const {
  if (init_) launch_one(init_, arguments, static_cast<unsigned>(blocks), 0, stream);
}

void Kernel::launch(const Arguments& arguments, const Stream& stream) const {
  launch_one(kernel_, arguments, static_cast<unsigned>(plan_.blocks), static_cast<std::size_t>(plan_.shared_bytes),
             stream);
}

int Kernel::blocks_per_sm() const {
  int blocks = 0;
  FLASHSCOPE_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel_, plan_.threads,
                                                                static_cast<std::size_t>(plan_.shared_bytes)));
  return blocks;
}

void Kernel::launch_one(const void* kernel, const Arguments& arguments, unsigned blocks, std::size_t shared,
                        const Stream& stream) const {
  Arguments copy = arguments;
  void* parameters[] = {&copy};
  FLASHSCOPE_CUDA(
      cudaLaunchKernel(kernel, dim3(blocks), dim3(static_cast<unsigned>(plan_.threads)), parameters, shared, stream));
}

// ---- the run

DeviceRun::DeviceRun(const Problem& problem, const Recipe& recipe, Kernel kernel, const GpuDevice& device,
                     const std::vector<Inputs>& inputs, const Pool& mask_pool, const Pool& run_pool,
                     const Stream& stream)
    : shape_(problem.shape()),
      causal_(problem.mask.causal),
      standard_(recipe.algorithm == Algorithm::standard),
      kernel_(std::move(kernel)),
      device_(device),
      inputs_(inputs),
      stream_(stream) {
  const Shape& s = shape_;
  arguments_.Nq = static_cast<int>(s.Nq), arguments_.Nk = static_cast<int>(s.Nk);
  arguments_.heads = static_cast<int>(s.heads), arguments_.group = static_cast<int>(s.heads / s.kv_heads);
  arguments_.heads_together = kernel_.plan().heads_together;
  arguments_.scale = static_cast<float>(problem.scale);
  const Band mask_band = band(problem.mask, s.Nq, s.Nk);
  arguments_.band_lo = band_limit(mask_band.lo), arguments_.band_hi = band_limit(mask_band.hi);
  const Mask mask = lowered(problem.mask, s.heads, s.Nq, s.Nk);
  if (mask.keep) {
    const std::vector<unsigned char> bytes = keep_bytes(*mask.keep);
    keep_ = upload(bytes.data(), static_cast<std::int64_t>(bytes.size()), mask_pool, stream);
    arguments_.keep = plane_of(*mask.keep, keep_.as<void>());
  }
  if (mask.bias) {
    const std::vector<float> values = bias_values<float>(*mask.bias);
    bias_ = upload(values.data(), static_cast<std::int64_t>(values.size() * sizeof(float)), mask_pool, stream);
    arguments_.bias = plane_of(*mask.bias, bias_.as<void>());
  }
  inputs.front().put_into(arguments_);

  const auto output = [&](std::int64_t bytes) {
    DeviceMemory memory(bytes, run_pool, stream);
    FLASHSCOPE_CUDA(cudaMemsetAsync(memory.as<void>(), 0xff, static_cast<std::size_t>(bytes), stream));  // NaN
    return memory;
  };
  const std::int64_t rows = s.heads * s.Nq, element = size_of(s.type);
  const bool flash1 = recipe.algorithm == Algorithm::flash1;
  if (!flash1 || recipe.normalised() != Normalise::each) {
    O_ = output(rows * s.dv * element), LSE_ = output(rows * 4);
    arguments_.O = O_.as<void>(), arguments_.LSE = LSE_.as<float>();
  }
  if (flash1) {
    running_O_ = output(rows * s.dv * 4), m_ = output(rows * 4), l_ = output(rows * 4);
    arguments_.running_O = running_O_.as<float>(), arguments_.m = m_.as<float>(), arguments_.l = l_.as<float>();
  }
  if (standard_) {
    S_ = output(rows * s.Nk * element), P_ = output(rows * s.Nk * element);
    arguments_.S = S_.as<void>(), arguments_.P = P_.as<void>();
    products_ = std::make_unique<MatrixProducts>(stream, run_pool);
  }
}

DeviceRun::~DeviceRun() = default;

std::string DeviceRun::kernel_name() const { return standard_ ? "cuBLAS, softmax_rows, cuBLAS" : kernel_.plan().entry; }

void DeviceRun::prepare(const Kernel& kernel, const Arguments& arguments) const {
  kernel.init(arguments, kBlocksOfInit * device_.limits.sms, stream_);
}

void DeviceRun::launch(const Arguments& arguments) const {
  if (standard_) products_->scores(arguments, shape_);
  Arguments scaled = arguments;
  if (standard_) scaled.scale = 1;  // S has it already
  kernel_.launch(scaled, stream_);
  if (standard_) products_->output(arguments, shape_);
}

GpuFigures DeviceRun::time(const Timing& timing, const std::stop_token& stop,
                           const std::function<void(int n, int repeats)>& on_launch) {
  Arguments arguments = arguments_;
  const Event begin, end;
  const Compiled spinning = compile({"sweep.cu", {}}, device_.architecture);
  const Library library(spinning.cubin.data());
  const void* spin = library.kernel("spin");
  const auto once = [&](int n) {
    if (stop.stop_requested()) throw Cancelled();
    inputs_[static_cast<std::size_t>(n) % inputs_.size()].put_into(arguments);
    prepare(kernel_, arguments);
    // The device is kept busy meanwhile: no launch latency is in the time.
    std::uint64_t ns = kSubmitting;
    void* parameters[] = {&ns};
    FLASHSCOPE_CUDA(cudaLaunchKernel(spin, dim3(1), dim3(1), parameters, 0, stream_));
    FLASHSCOPE_CUDA(cudaEventRecord(begin, stream_));
    launch(arguments);
    FLASHSCOPE_CUDA(cudaEventRecord(end, stream_));
    FLASHSCOPE_CUDA(cudaEventSynchronize(end));
    float milliseconds = 0;
    FLASHSCOPE_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
    return static_cast<double>(milliseconds) * 1e-3;
  };
  double first = 0;
  for (int n = 0; n < kWarmUp && (n == 0 || first < timing.seconds); ++n) first = once(n);
  const int wanted = std::max(timing.repeats, 1);
  const int repeats = std::clamp(static_cast<int>(timing.seconds / std::max(first, 1e-6)), std::min(3, wanted), wanted);
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(repeats));
  const int between = (repeats + kStageLines - 1) / kStageLines;
  for (int n = 0; n < repeats; ++n) {
    if (on_launch && n % between == 0) on_launch(n, repeats);
    seconds.push_back(once(n));
  }
  std::sort(seconds.begin(), seconds.end());

  const LaunchPlan& plan = kernel_.plan();
  const EntryFigures& compiled = kernel_.figures();
  GpuFigures figures;
  figures.median = (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
  figures.fastest = seconds.front(), figures.slowest = seconds.back();
  figures.repeats = repeats, figures.input_sets = static_cast<int>(inputs_.size());
  figures.l2_bytes = device_.limits.l2_bytes;
  figures.flops = 2.0 * static_cast<double>(shape_.heads * shape_.Nq) * static_cast<double>(shape_.Nk) *
                  static_cast<double>(shape_.d + shape_.dv) * (causal_ == Causal::none ? 1 : 0.5);
  figures.architecture = device_.architecture;
  figures.registers = compiled.registers;
  figures.spill_stores = compiled.spill_stores, figures.spill_loads = compiled.spill_loads;
  figures.shared_bytes = plan.shared_bytes, figures.threads = plan.threads, figures.blocks = plan.blocks;
  figures.blocks_per_sm = kernel_.blocks_per_sm(), figures.sms = device_.limits.sms;
  return figures;
}

}  // namespace flashscope::gpu
