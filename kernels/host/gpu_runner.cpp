#include "kernels/host/gpu_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <thread>
#include <tuple>

#include "engine/error.h"
#include "kernels/host/device_run.h"
#include "kernels/host/meters.h"

namespace flashscope::gpu {
namespace {

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

// Shares of a run's time, for its progress: where each stage begins.
constexpr double kCopying = 0.1, kTiming = 0.15, kReading = 0.4, kCounters = 0.45, kCounting = 0.85, kRecording = 0.9;

Traffic read_counts(const DeviceMemory& counts, const Stream& stream) {
  static_assert(kCountedOperands == kOperands);
  const std::vector<std::uint64_t> values = download<std::uint64_t>(counts, stream);
  Traffic traffic;
  for (std::size_t n = 0; n < kOperands; ++n)
    traffic.by_operand[n] = {static_cast<std::int64_t>(values[2 * n]), static_cast<std::int64_t>(values[2 * n + 1])};
  return traffic;
}

constexpr std::int64_t kMostSpans = 1 << 20;  // of a timeline, 40 MiB

// Empty rows become zeros where no kernel sees to it: flash1 normalised in every tile has no finish, and standard's
// second product makes NaN of P = 0 and a NaN of V. `suspects`: m or LSE of each row, -inf in those that are empty.
template <class Value>
void clear_empty_rows(Report& report, const Problem& problem, const std::vector<Value>& suspects) {
  const Shape shape = problem.shape();
  for (std::int64_t n = 0; n < shape.heads * shape.Nq; ++n) {
    if (suspects[n] != -std::numeric_limits<Value>::infinity() ||
        visible_keys(problem.mask, shape.Nq, shape.Nk, n / shape.Nq, n % shape.Nq) > 0)
      continue;
    std::fill_n(report.O.begin() + n * shape.dv, shape.dv, 0.0);
    report.LSE[n] = -std::numeric_limits<double>::infinity();
  }
}

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
  LaunchPlan plan = plan_launch(problem, recipe, options.kernel, false, device.limits, options.tuning);
  FLASHSCOPE_CUDA(cudaSetDevice(device.index));
  const DeviceBytes bytes = device_bytes(shape, problem.mask, recipe);
  const int sets = input_sets(bytes, device);  // refused before anything is allocated, where it cannot fit

  const Stream stream;
  const Pool tensor_pool(device.index), run_pool(device.index), statistics_pool(device.index);
  const bool standard = recipe.algorithm == Algorithm::standard;
  // The same kernel three times: as it is timed, counting its bytes, writing down its timeline.
  std::optional<LaunchPlan> counting, recording;
  std::vector<CompileJob> jobs{{plan.code, device.architecture}};
  if (options.count && !standard) {  // cuBLAS does not count
    counting = plan_launch(problem, recipe, options.kernel, true, device.limits, options.tuning);
    jobs.push_back({counting->code, device.architecture});
  }
  if (options.timeline) {
    recording = plan_launch(problem, recipe, options.kernel, false, device.limits, options.tuning, true);
    jobs.push_back({recording->code, device.architecture});
  }
  const auto compiling = [&](std::int64_t done, std::int64_t total) {
    if (on_stage)
      on_stage(fmt::format("compiling {}, {} of {}", jobs[0].code.file, done, total),
               kCopying * static_cast<double>(done) / static_cast<double>(total));
  };
  stage(fmt::format("compiling {}", jobs[0].code.file), 0);
  std::vector<Compiled> compiled = compile_all(jobs, 0, stop, compiling);
  Kernel kernel(std::move(plan), std::move(compiled[0]));
  stage("copying Q, K, V to the GPU", kCopying);
  const auto on_device = [&](const Tensor& tensor) {
    const std::vector<char> bytes = packed(tensor);
    return upload(bytes.data(), static_cast<std::int64_t>(bytes.size()), tensor_pool, stream);
  };
  std::vector<Inputs> inputs;
  inputs.push_back({on_device(problem.Q()), on_device(problem.K()), on_device(problem.V())});
  for (int n = 1; n < sets; ++n) inputs.push_back(copy(inputs[0], tensor_pool, stream));
  DeviceRun run(problem, recipe, std::move(kernel), device, inputs, tensor_pool, run_pool, stream);
  GpuFigures figures = run.time({.repeats = options.repeats}, stop, [&](int n, int repeats) {
    stage(fmt::format("timed launch {} of {}", n + 1, repeats), kTiming + (kReading - kTiming) * n / repeats);
  });
  stage("reading O and LSE back", kReading);

  const bool each = recipe.algorithm == Algorithm::flash1 && recipe.normalised() == Normalise::each;
  Report report;
  report.device = device.name, report.kernel = run.kernel_name();
  report.shape = shape, report.recipe = recipe, report.tensor_bytes = bytes.tensors;
  const Schedule schedule(shape, problem.mask, recipe);
  report.traffic = counted(schedule);
  report.seconds = figures.median;

  // The answer: flash1 normalised in every tile leaves it in its running state, LSE = m + ln l.
  const auto widen = [](const auto& values, Buffer<double>& to) { to.assign(values.begin(), values.end()); };
  if (each) {
    widen(download<float>(run.running_O(), stream), report.O);
    const std::vector<float> max = download<float>(run.m(), stream), sum = download<float>(run.l(), stream);
    for (std::size_t n = 0; n < max.size(); ++n) report.LSE.push_back(max[n] + std::log(sum[n]));
    if (recipe.guard != Guard::none) clear_empty_rows(report, problem, max);
  } else {
    widen(download<float>(run.LSE(), stream), report.LSE);
    if (shape.type == DType::float32) {
      widen(download<float>(run.O(), stream), report.O);
    } else {
      const auto to_float = shape.type == DType::float16 ? half_to_float : bfloat16_to_float;
      const std::vector<std::uint16_t> bits = download<std::uint16_t>(run.O(), stream);
      report.O.reserve(bits.size());
      for (const std::uint16_t b : bits) report.O.push_back(to_float(b));
    }
    if (recipe.algorithm == Algorithm::standard && recipe.guard != Guard::none && recipe.empty_row == EmptyRow::zero)
      clear_empty_rows(report, problem, std::vector<double>(report.LSE.begin(), report.LSE.end()));
  }

  if (options.measure) {
    stage(kReadsCounters, kCounters);
    int kinds = 0;  // of measurements, begun so far; there are four
    const auto on_pass = [&](const char* what, int done, int passes) {
      kinds += done == 1;
      stage(fmt::format("{}, {}, pass {} of {}", kReadsCounters, what, done, passes),
            kCounters + (kCounting - kCounters) * (kinds - 1 + static_cast<double>(done) / passes) / 4);
    };
    try {
      Meters meters(device.index, device.architecture, statistics_pool, stream);
      Measured found = meters.measure([&] { run.prepare(); }, [&] { run.launch(); }, {}, on_pass);
      figures.measured = found.cold, figures.measured_warm = found.warm;
    } catch (const Missing& missing) {
      figures.not_measured = missing.what();
    } catch (const GpuError& error) {  // no memory for what empties the L2, say: what was timed stands
      if (cudaDeviceSynchronize() != cudaSuccess) throw;
      figures.not_measured = error.what();
    }
  } else {
    figures.not_measured = "not asked for";
  }

  if (counting) {
    stage("counting bytes in the kernel", kCounting);
    const Kernel counter(*counting, std::move(compiled[1]));
    const DeviceMemory counts(2 * kOperands * 8, statistics_pool, stream);
    FLASHSCOPE_CUDA(cudaMemsetAsync(counts.as<void>(), 0, static_cast<std::size_t>(counts.bytes()), stream));
    Arguments with = run.arguments();
    with.counted = counts.as<unsigned long long>();
    run.prepare(counter, with);
    counter.launch(with, stream);
    figures.counted = read_counts(counts, stream);
  }
  if (recording) {
    stage("recording the timeline", kRecording);
    const Kernel recorder(*recording, std::move(compiled.back()));
    const std::int64_t expected = standard ? shape.heads * shape.Nq : schedule.tiles() + shape.heads * schedule.Tr();
    const std::int64_t most = std::min(expected, kMostSpans);
    const DeviceMemory spans(most * static_cast<std::int64_t>(sizeof(RecordedSpan)), statistics_pool, stream);
    const DeviceMemory count(8, statistics_pool, stream);
    FLASHSCOPE_CUDA(cudaMemsetAsync(count.as<void>(), 0, 8, stream));
    Arguments with = run.arguments();
    with.spans = spans.as<RecordedSpan>(), with.span_count = count.as<unsigned long long>();
    with.most_spans = static_cast<unsigned long long>(most);
    if (standard) with.scale = 1;
    run.prepare(recorder, with);
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
