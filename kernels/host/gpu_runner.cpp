#include "kernels/host/gpu_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <tuple>

#include "engine/error.h"
#include "kernels/arguments.h"
#include "kernels/host/cuda.h"
#include "kernels/host/libraries.h"
#include "kernels/host/mask_planes.h"
#include "kernels/host/meters.h"
#include "kernels/host/standard.h"

namespace flashscope::gpu {
namespace {

constexpr int kWarmUp = 3;
constexpr std::int64_t kMostSets = 8;  // of Q, K, V, that take turns
constexpr double kTimingSeconds = 1;   // about as long all timed launches may take

// A tensor's values as the problem's type stores them.
std::vector<char> packed(const Tensor& tensor) {
  const auto n = static_cast<std::size_t>(tensor.size());
  std::vector<char> bytes(static_cast<std::size_t>(tensor.bytes()));
  if (tensor.type == DType::float32) {
    std::memcpy(bytes.data(), tensor.f32.data(), bytes.size());
    return bytes;
  }
  auto* to = reinterpret_cast<std::uint16_t*>(bytes.data());
  const bool half = tensor.type == DType::float16;
  for (std::size_t at = 0; at < n; ++at)
    to[at] = half ? float_to_half(tensor.f32[at]) : float_to_bfloat16(tensor.f32[at]);
  return bytes;
}

DeviceMemory copy(const DeviceMemory& from, const Pool& pool, const Stream& stream) {
  DeviceMemory memory(from.bytes(), pool, stream);
  FLASHSCOPE_CUDA(cudaMemcpyAsync(memory.as<void>(), from.as<void>(), static_cast<std::size_t>(from.bytes()),
                                  cudaMemcpyDeviceToDevice, stream));
  return memory;
}

// The masks of a file as planes: a byte a cell, a float a cell.
struct MaskPlanes {
  DeviceMemory keep, bias;
};
MaskPlanes upload_masks(const Mask& mask, Arguments& arguments, const Pool& pool, const Stream& stream) {
  MaskPlanes planes;
  if (mask.keep) {
    const std::vector<unsigned char> bytes = keep_bytes(*mask.keep);
    planes.keep = upload(bytes.data(), static_cast<std::int64_t>(bytes.size()), pool, stream);
    arguments.keep = plane_of(*mask.keep, planes.keep.as<void>());
  }
  if (mask.bias) {
    const std::vector<float> values = bias_values<float>(*mask.bias);
    planes.bias = upload(values.data(), static_cast<std::int64_t>(values.size() * sizeof(float)), pool, stream);
    arguments.bias = plane_of(*mask.bias, planes.bias.as<void>());
  }
  return planes;
}

// One compiled kernel on the device, ready to launch.
class Kernel {
 public:
  Kernel(const LaunchPlan& plan, const GpuDevice& device)
      : plan_(plan), compiled_(compile(plan.code, device.architecture)), library_(compiled_.cubin.data()) {
    kernel_ = library_.kernel(plan.entry.c_str());
    if (!plan.init_entry.empty()) init_ = library_.kernel(plan.init_entry.c_str());
    FLASHSCOPE_CUDA(cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(plan.shared_bytes)));
  }
  void init(const Arguments& arguments, int blocks, const Stream& stream) const {
    if (init_) launch_one(init_, arguments, static_cast<unsigned>(blocks), 0, stream);
  }
  void launch(const Arguments& arguments, const Stream& stream) const {
    launch_one(kernel_, arguments, static_cast<unsigned>(plan_.blocks), static_cast<std::size_t>(plan_.shared_bytes),
               stream);
  }
  int blocks_per_sm() const {
    int blocks = 0;
    FLASHSCOPE_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel_, plan_.threads,
                                                                  static_cast<std::size_t>(plan_.shared_bytes)));
    return blocks;
  }
  const EntryFigures& figures() const { return compiled_.entry(plan_.entry); }

 private:
  void launch_one(const void* kernel, const Arguments& arguments, unsigned blocks, std::size_t shared,
                  const Stream& stream) const {
    Arguments copy = arguments;
    void* parameters[] = {&copy};
    FLASHSCOPE_CUDA(
        cudaLaunchKernel(kernel, dim3(blocks), dim3(static_cast<unsigned>(plan_.threads)), parameters, shared, stream));
  }
  const LaunchPlan& plan_;
  Compiled compiled_;
  Library library_;
  const void* kernel_ = nullptr;
  const void* init_ = nullptr;
};

struct Inputs {
  DeviceMemory Q, K, V;
  void put_into(Arguments& arguments) const {
    arguments.Q = Q.as<void>(), arguments.K = K.as<void>(), arguments.V = V.as<void>();
  }
};

std::int64_t median_index(std::size_t n) { return static_cast<std::int64_t>(n / 2); }

// Shares of a run's time, for its progress: where each stage begins.
constexpr double kCopying = 0.1, kTiming = 0.15, kReading = 0.4, kCounters = 0.45, kCounting = 0.85, kRecording = 0.9;
constexpr int kStageLines = 20;  // at most so many of one stage

// Times of single launches, in seconds, sorted. `on_launch` hears of some of them.
std::vector<double> time_launches(const Kernel& kernel, const std::function<void(const Arguments&)>& launch,
                                  Arguments arguments, const std::vector<Inputs>& inputs, int init_blocks, int repeats,
                                  const Stream& stream, const std::stop_token& stop,
                                  const std::function<void(int n, int repeats)>& on_launch) {
  std::vector<double> seconds;
  const Event begin, end;
  const auto once = [&](int n) {
    if (stop.stop_requested()) throw Cancelled();
    inputs[static_cast<std::size_t>(n) % inputs.size()].put_into(arguments);
    kernel.init(arguments, init_blocks, stream);
    FLASHSCOPE_CUDA(cudaEventRecord(begin, stream));
    launch(arguments);
    FLASHSCOPE_CUDA(cudaEventRecord(end, stream));
    FLASHSCOPE_CUDA(cudaEventSynchronize(end));
    float milliseconds = 0;
    FLASHSCOPE_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
    return static_cast<double>(milliseconds) * 1e-3;
  };
  double first = 0;
  for (int n = 0; n < kWarmUp && (n == 0 || first < kTimingSeconds); ++n) first = once(n);
  repeats = std::clamp(static_cast<int>(kTimingSeconds / std::max(first, 1e-6)), std::min(3, repeats), repeats);
  seconds.reserve(static_cast<std::size_t>(repeats));
  const int between = (repeats + kStageLines - 1) / kStageLines;
  for (int n = 0; n < repeats; ++n) {
    if (n % between == 0) on_launch(n, repeats);
    seconds.push_back(once(n));
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

Traffic read_counts(const DeviceMemory& counts, const Stream& stream) {
  static_assert(kCountedOperands == kOperands);
  const std::vector<std::uint64_t> values = download<std::uint64_t>(counts, stream);
  Traffic traffic;
  for (std::size_t n = 0; n < kOperands; ++n)
    traffic.by_operand[n] = {static_cast<std::int64_t>(values[2 * n]), static_cast<std::int64_t>(values[2 * n + 1])};
  return traffic;
}

constexpr std::int64_t kMostSpans = 1 << 20;  // of a timeline, 40 MiB

// Spans in the order of SMs and time, times from the first start.
Timeline read_timeline(const DeviceMemory& spans, const DeviceMemory& count, int sms, const Stream& stream) {
  const std::uint64_t recorded = download<std::uint64_t>(count, stream).front();
  std::vector<RecordedSpan> raw = download<RecordedSpan>(spans, stream);
  Timeline timeline;
  timeline.sms = sms;
  timeline.lost = static_cast<std::int64_t>(recorded - std::min<std::uint64_t>(recorded, raw.size()));
  raw.resize(static_cast<std::size_t>(std::min<std::uint64_t>(recorded, raw.size())));
  std::vector<std::uint64_t> times;
  for (const RecordedSpan& span : raw) times.push_back(span.start), times.push_back(span.end);
  std::sort(times.begin(), times.end());
  for (std::size_t n = 1; n < times.size(); ++n)
    if (const auto step = static_cast<std::int64_t>(times[n] - times[n - 1]); step > 0)
      timeline.tick_ns = timeline.tick_ns == 0 ? step : std::min(timeline.tick_ns, step);
  for (const RecordedSpan& span : raw)
    timeline.spans.push_back({span.sm, static_cast<std::int64_t>(span.block), span.head, span.i, span.j,
                              static_cast<std::int64_t>(span.start - times.front()),
                              static_cast<std::int64_t>(span.end - times.front())});
  std::sort(timeline.spans.begin(), timeline.spans.end(), [](const Timeline::Span& a, const Timeline::Span& b) {
    return std::tie(a.sm, a.start_ns, a.block) < std::tie(b.sm, b.start_ns, b.block);
  });
  return timeline;
}

int band_limit(std::int64_t value) {
  constexpr std::int64_t limit = std::int64_t{1} << 29;  // beyond every N that a kernel takes
  return static_cast<int>(std::clamp(value, -limit, limit));
}

}  // namespace

Report run_on_gpu(const Problem& problem, const Recipe& recipe, const GpuRunOptions& options,
                  const std::stop_token& stop, const OnStage& on_stage) {
  const auto stage = [&](const std::string& what, double done) {
    if (stop.stop_requested()) throw Cancelled();
    if (on_stage) on_stage(what, done);
  };
  const Shape shape = problem.shape();
  check(recipe, shape);
  const GpuDevice device = usable_device(options.device);
  const LaunchPlan plan = plan_launch(problem, recipe, options.kernel, false, device.limits, options.tuning);
  FLASHSCOPE_CUDA(cudaSetDevice(device.index));

  // Refused before anything is allocated, where it cannot fit.
  const bool standard = recipe.algorithm == Algorithm::standard;
  const bool flash1 = recipe.algorithm == Algorithm::flash1, each = recipe.normalised() == Normalise::each;
  const std::int64_t rows = shape.heads * shape.Nq, element = size_of(shape.type);
  const std::int64_t tensors = problem.Q().bytes() + problem.K().bytes() + problem.V().bytes();
  const std::int64_t outputs = rows * (shape.dv * element + 4) + (flash1 ? rows * (shape.dv + 2) * 4 : 0) +
                               (standard ? 2 * rows * shape.Nk * element : 0);
  std::size_t free_bytes = 0, total_bytes = 0;
  FLASHSCOPE_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (tensors + outputs > static_cast<std::int64_t>(free_bytes))
    throw InputError("run on the GPU",
                     fmt::format("{} bytes of Q, K, V and {} of {}", tensors, outputs,
                                 standard ? "O, S and P (Nq x Nk a head)" : "outputs and running state"),
                     fmt::format("at most {} bytes, free on {}", free_bytes, device.name));
  // Twice the L2, where memory allows it and not too many are needed: a launch then finds its inputs in DRAM.
  const std::int64_t wanted_sets = (2 * device.limits.l2_bytes + tensors - 1) / tensors;
  const std::int64_t room_for = (static_cast<std::int64_t>(free_bytes) / 2 - outputs) / tensors;
  const int sets = static_cast<int>(std::clamp<std::int64_t>(std::min(wanted_sets, room_for), 1, kMostSets));

  const Stream stream;
  const Pool tensor_pool(device.index), run_pool(device.index), statistics_pool(device.index);
  stage("compiling " + plan.code.file, 0);
  const Kernel kernel(plan, device);
  stage("copying Q, K, V to the GPU", kCopying);

  Arguments arguments;
  arguments.Nq = static_cast<int>(shape.Nq), arguments.Nk = static_cast<int>(shape.Nk);
  arguments.heads = static_cast<int>(shape.heads), arguments.group = static_cast<int>(shape.heads / shape.kv_heads);
  arguments.heads_together = plan.heads_together;
  arguments.scale = static_cast<float>(problem.scale);
  const Band mask_band = band(problem.mask, shape.Nq, shape.Nk);
  arguments.band_lo = band_limit(mask_band.lo), arguments.band_hi = band_limit(mask_band.hi);
  const MaskPlanes planes =
      upload_masks(lowered(problem.mask, shape.heads, shape.Nq, shape.Nk), arguments, tensor_pool, stream);
  const auto on_device = [&](const Tensor& tensor) {
    const std::vector<char> bytes = packed(tensor);
    return upload(bytes.data(), static_cast<std::int64_t>(bytes.size()), tensor_pool, stream);
  };
  std::vector<Inputs> inputs;
  inputs.push_back({on_device(problem.Q()), on_device(problem.K()), on_device(problem.V())});
  for (int n = 1; n < sets; ++n)
    inputs.push_back({copy(inputs[0].Q, tensor_pool, stream), copy(inputs[0].K, tensor_pool, stream),
                      copy(inputs[0].V, tensor_pool, stream)});

  DeviceMemory O, LSE, running_O, m, l, S, P;
  const auto output = [&](std::int64_t bytes) {
    DeviceMemory memory(bytes, run_pool, stream);
    FLASHSCOPE_CUDA(cudaMemsetAsync(memory.as<void>(), 0xff, static_cast<std::size_t>(bytes), stream));  // NaN
    return memory;
  };
  if (!flash1 || !each) {
    O = output(rows * shape.dv * element), LSE = output(rows * 4);
    arguments.O = O.as<void>(), arguments.LSE = LSE.as<float>();
  }
  if (flash1) {
    running_O = output(rows * shape.dv * 4), m = output(rows * 4), l = output(rows * 4);
    arguments.running_O = running_O.as<float>(), arguments.m = m.as<float>(), arguments.l = l.as<float>();
  }

  std::optional<MatrixProducts> products;
  if (standard) {
    S = output(rows * shape.Nk * element), P = output(rows * shape.Nk * element);
    arguments.S = S.as<void>(), arguments.P = P.as<void>();
    products.emplace(stream, run_pool);
  }
  const auto launch = [&](const Arguments& with) {
    if (standard) products->scores(with, shape);
    Arguments scaled = with;
    if (standard) scaled.scale = 1;  // S has it already
    kernel.launch(scaled, stream);
    if (standard) products->output(with, shape);
  };
  const int init_blocks = 4 * device.limits.sms;
  const std::vector<double> seconds = time_launches(
      kernel, launch, arguments, inputs, init_blocks, std::max(options.repeats, 1), stream, stop,
      [&](int n, int repeats) {
        stage(fmt::format("timed launch {} of {}", n + 1, repeats), kTiming + (kReading - kTiming) * n / repeats);
      });
  stage("reading O and LSE back", kReading);

  Report report;
  report.device = device.name, report.kernel = standard ? "cuBLAS, softmax_rows, cuBLAS" : plan.entry;
  report.shape = shape, report.recipe = recipe, report.tensor_bytes = tensors;
  const Schedule schedule(shape, problem.mask, recipe);
  report.traffic = counted(schedule);
  GpuFigures figures;
  figures.median = seconds[static_cast<std::size_t>(median_index(seconds.size()))];
  figures.fastest = seconds.front(), figures.slowest = seconds.back();
  figures.repeats = static_cast<int>(seconds.size()), figures.input_sets = sets;
  figures.l2_bytes = device.limits.l2_bytes;
  figures.flops = 2.0 * static_cast<double>(rows) * static_cast<double>(shape.Nk) *
                  static_cast<double>(shape.d + shape.dv) * (problem.mask.causal == Causal::none ? 1 : 0.5);
  figures.architecture = device.architecture;
  figures.registers = kernel.figures().registers;
  figures.spill_stores = kernel.figures().spill_stores, figures.spill_loads = kernel.figures().spill_loads;
  figures.shared_bytes = plan.shared_bytes, figures.threads = plan.threads, figures.blocks = plan.blocks;
  figures.blocks_per_sm = kernel.blocks_per_sm(), figures.sms = device.limits.sms;
  report.seconds = figures.median;

  // The answer: flash1 normalised in every tile leaves it in its running state, LSE = m + ln l.
  const auto widen = [](const auto& values, Buffer<double>& to) { to.assign(values.begin(), values.end()); };
  if (flash1 && each) {
    widen(download<float>(running_O, stream), report.O);
    const std::vector<float> max = download<float>(m, stream), sum = download<float>(l, stream);
    for (std::size_t n = 0; n < max.size(); ++n) report.LSE.push_back(max[n] + std::log(sum[n]));
  } else {
    widen(download<float>(LSE, stream), report.LSE);
    if (shape.type == DType::float32) {
      widen(download<float>(O, stream), report.O);
    } else {
      const auto to_float = shape.type == DType::float16 ? half_to_float : bfloat16_to_float;
      const std::vector<std::uint16_t> bits = download<std::uint16_t>(O, stream);
      report.O.reserve(bits.size());
      for (const std::uint16_t b : bits) report.O.push_back(to_float(b));
    }
  }

  if (options.measure) {
    inputs[0].put_into(arguments);
    int kinds = 0;  // of measurements, begun so far; there are four
    const auto on_pass = [&](const char* what, int done, int passes) {
      kinds += done == 1;
      stage(fmt::format("counters, {}, pass {} of {}", what, done, passes),
            kCounters + (kCounting - kCounters) * (kinds - 1 + static_cast<double>(done) / passes) / 4);
    };
    try {
      Measured found = measure(
          device.index, device.architecture, statistics_pool, stream,
          [&] { kernel.init(arguments, init_blocks, stream); }, [&] { launch(arguments); }, on_pass);
      figures.measured = found.cold, figures.measured_warm = found.warm;
    } catch (const Missing& missing) {
      figures.not_measured = missing.what();
    }
  } else {
    figures.not_measured = "not asked for";
  }

  if (options.count && !standard) {  // cuBLAS does not count
    stage("counting bytes in the kernel", kCounting);
    const LaunchPlan counting = plan_launch(problem, recipe, options.kernel, true, device.limits, options.tuning);
    const Kernel counter(counting, device);
    const DeviceMemory counts(2 * kOperands * 8, statistics_pool, stream);
    FLASHSCOPE_CUDA(cudaMemsetAsync(counts.as<void>(), 0, static_cast<std::size_t>(counts.bytes()), stream));
    arguments.counted = counts.as<unsigned long long>();
    inputs[0].put_into(arguments);
    counter.init(arguments, init_blocks, stream);
    counter.launch(arguments, stream);
    figures.counted = read_counts(counts, stream);
  }
  if (options.timeline) {
    stage("recording the timeline", kRecording);
    const LaunchPlan recording =
        plan_launch(problem, recipe, options.kernel, false, device.limits, options.tuning, true);
    const Kernel recorder(recording, device);
    const std::int64_t expected = standard ? rows : schedule.tiles() + shape.heads * schedule.Tr();
    const std::int64_t most = std::min(expected, kMostSpans);
    const DeviceMemory spans(most * static_cast<std::int64_t>(sizeof(RecordedSpan)), statistics_pool, stream);
    const DeviceMemory count(8, statistics_pool, stream);
    FLASHSCOPE_CUDA(cudaMemsetAsync(count.as<void>(), 0, 8, stream));
    Arguments with = arguments;
    with.spans = spans.as<RecordedSpan>(), with.span_count = count.as<unsigned long long>();
    with.most_spans = static_cast<unsigned long long>(most);
    if (standard) with.scale = 1;
    inputs[0].put_into(with);
    recorder.init(with, init_blocks, stream);
    recorder.launch(with, stream);
    figures.timeline = read_timeline(spans, count, device.limits.sms, stream);
  }
  figures.peak_run_bytes = run_pool.peak(), figures.peak_tensor_bytes = tensor_pool.peak();
  figures.peak_statistics_bytes = statistics_pool.peak();
  report.peak_bytes = figures.peak_run_bytes;
  report.gpu = std::move(figures);
  const int threads = options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  complete(report, problem, options.check, std::max(threads, 1), stop);
  return report;
}

}  // namespace flashscope::gpu
