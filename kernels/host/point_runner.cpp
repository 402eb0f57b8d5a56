#include "kernels/host/point_runner.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <vector>

#include "engine/error.h"
#include "kernels/host/device_run.h"
#include "kernels/host/libraries.h"
#include "kernels/host/meters.h"

namespace flashscope::gpu {
namespace {

constexpr double kTimingSeconds = 0.1;  // about as long all timed launches of a point may take

// A problem of which only shape, scale and mask are read.
Problem without_values(const Shape& shape, const Mask& mask) {
  const auto tensor = [&](std::int64_t heads, std::int64_t rows, std::int64_t cols) {
    return std::make_shared<const Tensor>(Tensor{shape.type, heads, rows, cols, {}, {}});
  };
  Problem problem;
  problem.q = tensor(shape.heads, shape.Nq, shape.d);
  problem.k = tensor(shape.kv_heads, shape.Nk, shape.d);
  problem.v = tensor(shape.kv_heads, shape.Nk, shape.dv);
  problem.scale = 1 / std::sqrt(static_cast<double>(shape.d));
  problem.mask = mask;
  return problem;
}

LaunchPlan plan_of(const MeasuredPoint& asked, KernelChoice kernel, const DeviceLimits& limits) {
  check(asked.recipe, asked.shape);
  return plan_launch(without_values(asked.shape, asked.mask), asked.recipe, kernel, false, limits);
}

Kernel make_kernel(PointRunner::Prepared prepared, const GpuDevice& device) {
  Kernel kernel(std::move(prepared.plan), std::move(prepared.compiled));
  if (kernel.blocks_per_sm() > 0) return kernel;
  const int registers = kernel.figures().registers, threads = kernel.plan().threads;
  cudaDeviceProp properties = {};
  FLASHSCOPE_CUDA(cudaGetDeviceProperties(&properties, device.index));
  throw InputError("run on the GPU",
                   fmt::format("{} registers a thread, {} threads and {} bytes of shared memory a block", registers,
                               threads, kernel.plan().shared_bytes),
                   fmt::format("a block that fits an SM: {} registers, {} threads, {} bytes", properties.regsPerBlock,
                               properties.maxThreadsPerBlock, device.limits.shared_bytes_per_block));
}

}  // namespace

std::string launch_text(const MeasuredPoint& asked, KernelChoice kernel, const DeviceLimits& limits) try {
  const LaunchPlan plan = plan_of(asked, kernel, limits);
  std::string text = fmt::format("{} {} threads {} blocks {} shared {} together {}", plan.code.file, plan.entry,
                                 plan.threads, plan.blocks, plan.shared_bytes, plan.heads_together);
  for (const auto& [name, value] : plan.code.constants) text += fmt::format(" {}={}", name, value);
  if (asked.recipe.algorithm == Algorithm::standard) text += " cuBLAS " + cublas().version_text;
  return text;
} catch (const InputError& error) {
  return error.what();
} catch (const Missing& missing) {
  return missing.what();
}

struct PointRunner::Impl {
  explicit Impl(const PointOptions& asked)
      : options(asked), device(select(asked.device)), tensor_pool(asked.device), counter_pool(asked.device) {}
  static GpuDevice select(int index) {
    GpuDevice device = usable_device(index);
    FLASHSCOPE_CUDA(cudaSetDevice(index));
    return device;
  }

  const PointOptions options;
  const GpuDevice device;
  const Stream stream;
  const Pool tensor_pool, counter_pool;
  std::optional<Meters> meters;
  std::string no_meters;  // why there are none
  Shape shape;            // of the inputs
  std::vector<Inputs> inputs;

  // Q, K and V of that shape, made on the device; kept for the next point.
  void make_inputs(const Shape& wanted, int sets) {
    if (inputs.empty() || shape != wanted) {
      inputs.clear();
      shape = wanted;
      const int type = shape.type == DType::float32 ? 0 : shape.type == DType::float16 ? 1 : 2;
      const Compiled compiled = compile({"random.cu", {{"TYPE", type}}}, device.architecture);
      const Library library(compiled.cubin.data());
      const void* kernel = library.kernel("random_normals");
      unsigned long long first = 0, seed = options.seed;
      const auto draw = [&](std::int64_t elements) {
        DeviceMemory memory(elements * size_of(shape.type), tensor_pool, stream);
        void* to = memory.as<void>();
        auto n = static_cast<unsigned long long>(elements);
        void* parameters[] = {static_cast<void*>(&to), &first, &n, &seed};
        FLASHSCOPE_CUDA(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(8 * device.limits.sms)), dim3(256),
                                         parameters, 0, stream));
        first += n;
        return memory;
      };
      DeviceMemory Q = draw(shape.heads * shape.Nq * shape.d), K = draw(shape.kv_heads * shape.Nk * shape.d);
      DeviceMemory V = draw(shape.kv_heads * shape.Nk * shape.dv);
      stream.wait();  // the library goes
      inputs.push_back({std::move(Q), std::move(K), std::move(V)});
    }
    inputs.resize(std::min(inputs.size(), static_cast<std::size_t>(sets)));
    while (inputs.size() < static_cast<std::size_t>(sets)) inputs.push_back(copy(inputs[0], tensor_pool, stream));
  }

  void read_counters(const DeviceRun& run, GpuFigures& figures) {
    figures.not_measured = options.counters ? no_meters : "not asked for";
    if (!figures.not_measured.empty()) return;
    try {
      if (!meters) meters.emplace(device.index, device.architecture, counter_pool, stream);
      figures.measured =
          meters->measure([&] { run.prepare(); }, [&] { run.launch(); }, {.warm = false, .repeats = 1}).cold;
    } catch (const Missing& missing) {
      meters.reset();
      figures.not_measured = no_meters = missing.what();
    }
  }
};

PointRunner::PointRunner(const PointOptions& options) : impl_(std::make_unique<Impl>(options)) {}
PointRunner::~PointRunner() = default;

PointRunner::Prepared PointRunner::prepare(const MeasuredPoint& asked) const {
  LaunchPlan plan = plan_of(asked, impl_->options.kernel, impl_->device.limits);
  Compiled compiled = compile(plan.code, impl_->device.architecture);
  return {std::move(plan), std::move(compiled)};
}

MeasuredPoint PointRunner::measure(const MeasuredPoint& asked, Prepared prepared) {
  Impl& own = *impl_;
  Kernel kernel = make_kernel(std::move(prepared), own.device);
  const Shape& shape = asked.shape;
  if (own.shape != shape) own.inputs.clear();
  own.stream.wait();  // what was dropped is free now
  const DeviceBytes bytes = device_bytes(shape, asked.mask, asked.recipe);
  const std::int64_t held = static_cast<std::int64_t>(own.inputs.size()) * bytes.tensors;
  own.make_inputs(shape, input_sets(bytes, own.device, held));
  const Pool run_pool(own.device.index);
  DeviceRun run(without_values(shape, asked.mask), asked.recipe, std::move(kernel), own.device, own.inputs,
                own.tensor_pool, run_pool, own.stream);
  MeasuredPoint point = asked;
  point.kernel = run.kernel_name();
  point.gpu = run.time({.repeats = own.options.repeats, .seconds = kTimingSeconds}, {});
  own.read_counters(run, *point.gpu);
  point.gpu->peak_run_bytes = run_pool.peak();
  return point;
}

}  // namespace flashscope::gpu
