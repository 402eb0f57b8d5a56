#include "kernels/host/meters.h"

#include <cuda.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_result.h>
#include <cupti_target.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/host/compiler.h"
#include "kernels/host/gpu_runner.h"
#include "kernels/host/libraries.h"

namespace flashscope::gpu {
namespace {

constexpr double kShortSeconds = 1;  // a measurement that takes no longer is repeated

struct Cupti {
  decltype(&cuptiGetResultString) get_result_string;
  decltype(&cuptiProfilerInitialize) initialize;
  decltype(&cuptiProfilerDeviceSupported) device_supported;
  decltype(&cuptiDeviceGetChipName) get_chip_name;
  decltype(&cuptiProfilerGetCounterAvailability) get_counter_availability;
  decltype(&cuptiProfilerHostInitialize) host_initialize;
  decltype(&cuptiProfilerHostDeinitialize) host_deinitialize;
  decltype(&cuptiProfilerHostConfigAddMetrics) add_metrics;
  decltype(&cuptiProfilerHostGetConfigImageSize) get_config_image_size;
  decltype(&cuptiProfilerHostGetConfigImage) get_config_image;
  decltype(&cuptiProfilerHostGetNumOfPasses) get_num_of_passes;
  decltype(&cuptiProfilerHostEvaluateToGpuValues) evaluate;
  decltype(&cuptiRangeProfilerEnable) enable;
  decltype(&cuptiRangeProfilerDisable) disable;
  decltype(&cuptiRangeProfilerGetCounterDataSize) get_counter_data_size;
  decltype(&cuptiRangeProfilerCounterDataImageInitialize) initialize_counter_data;
  decltype(&cuptiRangeProfilerSetConfig) set_config;
  decltype(&cuptiRangeProfilerStart) start;
  decltype(&cuptiRangeProfilerStop) stop;
  decltype(&cuptiRangeProfilerPushRange) push_range;
  decltype(&cuptiRangeProfilerPopRange) pop_range;
  decltype(&cuptiRangeProfilerDecodeData) decode;
};

Cupti open_cupti() {
  constexpr const char* remedy =
      "install CUDA 12.8 or newer (package cuda-cupti), or put its folder on LD_LIBRARY_PATH";
  // CUPTI opens this one by its bare name; where it is open already, its folder need not be on the loader's path.
  const SharedLibrary host("CUPTI's counter library", {"libnvperf_host.so"}, remedy, true);
  const SharedLibrary library("CUPTI, which reads the hardware's counters,",
                              {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}, remedy);
  Cupti c;
  library.find(c.get_result_string, "cuptiGetResultString");
  library.find(c.initialize, "cuptiProfilerInitialize");
  library.find(c.device_supported, "cuptiProfilerDeviceSupported");
  library.find(c.get_chip_name, "cuptiDeviceGetChipName");
  library.find(c.get_counter_availability, "cuptiProfilerGetCounterAvailability");
  library.find(c.host_initialize, "cuptiProfilerHostInitialize");
  library.find(c.host_deinitialize, "cuptiProfilerHostDeinitialize");
  library.find(c.add_metrics, "cuptiProfilerHostConfigAddMetrics");
  library.find(c.get_config_image_size, "cuptiProfilerHostGetConfigImageSize");
  library.find(c.get_config_image, "cuptiProfilerHostGetConfigImage");
  library.find(c.get_num_of_passes, "cuptiProfilerHostGetNumOfPasses");
  library.find(c.evaluate, "cuptiProfilerHostEvaluateToGpuValues");
  library.find(c.enable, "cuptiRangeProfilerEnable");
  library.find(c.disable, "cuptiRangeProfilerDisable");
  library.find(c.get_counter_data_size, "cuptiRangeProfilerGetCounterDataSize");
  library.find(c.initialize_counter_data, "cuptiRangeProfilerCounterDataImageInitialize");
  library.find(c.set_config, "cuptiRangeProfilerSetConfig");
  library.find(c.start, "cuptiRangeProfilerStart");
  library.find(c.stop, "cuptiRangeProfilerStop");
  library.find(c.push_range, "cuptiRangeProfilerPushRange");
  library.find(c.pop_range, "cuptiRangeProfilerPopRange");
  library.find(c.decode, "cuptiRangeProfilerDecodeData");
  return c;
}
const Cupti& cupti() {
  static const Cupti library = open_cupti();
  return library;
}

void check_cupti(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return;
  if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES || result == CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES)
    throw Missing(
        "no permission to read the hardware's counters: run as root, or load the driver with "
        "NVreg_RestrictProfilingToAdminUsers=0");
  const char* name = "unknown";
  cupti().get_result_string(result, &name);
  throw Missing(fmt::format("the hardware's counters cannot be read: {} answers {}", what, name));
}
#define FLASHSCOPE_CUPTI(call) check_cupti((call), #call)

// Every parameter block starts with its own size, the rest zero.
template <class Parameters>
Parameters sized(std::size_t size) {
  Parameters p = {};
  p.structSize = size;
  return p;
}
#define FLASHSCOPE_SIZED(Type) sized<Type>(Type##_STRUCT_SIZE)

// What CUPTI knows of a chip's counters, without the chip.
class Host {
 public:
  Host(const std::string& chip, const std::uint8_t* availability) {
    auto p = FLASHSCOPE_SIZED(CUpti_Profiler_Host_Initialize_Params);
    p.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    p.pChipName = chip.c_str();
    p.pCounterAvailabilityImage = availability;
    if (cupti().host_initialize(&p) != CUPTI_SUCCESS)
      throw Missing(fmt::format("CUPTI does not know the counters of the chip {}: a newer CUDA Toolkit may", chip));
    host_ = p.pHostObject;
  }
  ~Host() {
    auto p = FLASHSCOPE_SIZED(CUpti_Profiler_Host_Deinitialize_Params);
    p.pHostObject = host_;
    cupti().host_deinitialize(&p);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // All in one call: counters added by separate calls never share a pass. A refused name spoils the object.
  bool add(std::vector<const char*> names) {
    auto p = FLASHSCOPE_SIZED(CUpti_Profiler_Host_ConfigAddMetrics_Params);
    p.pHostObject = host_;
    p.ppMetricNames = names.data();
    p.numMetrics = names.size();
    return cupti().add_metrics(&p) == CUPTI_SUCCESS;
  }
  std::vector<std::uint8_t> config() {
    auto size = FLASHSCOPE_SIZED(CUpti_Profiler_Host_GetConfigImageSize_Params);
    size.pHostObject = host_;
    FLASHSCOPE_CUPTI(cupti().get_config_image_size(&size));
    std::vector<std::uint8_t> image(size.configImageSize);
    auto p = FLASHSCOPE_SIZED(CUpti_Profiler_Host_GetConfigImage_Params);
    p.pHostObject = host_;
    p.configImageSize = image.size();
    p.pConfigImage = image.data();
    FLASHSCOPE_CUPTI(cupti().get_config_image(&p));
    return image;
  }
  std::vector<double> values(const std::vector<std::uint8_t>& data, std::vector<const char*> names) {
    std::vector<double> values(names.size());
    auto p = FLASHSCOPE_SIZED(CUpti_Profiler_Host_EvaluateToGpuValues_Params);
    p.pHostObject = host_;
    p.pCounterDataImage = data.data();
    p.counterDataImageSize = data.size();
    p.ppMetricNames = names.data();
    p.numMetrics = names.size();
    p.pMetricValues = values.data();
    FLASHSCOPE_CUPTI(cupti().evaluate(&p));
    return values;
  }

 private:
  CUpti_Profiler_Host_Object* host_ = nullptr;
};

std::vector<const char*> pointers(const std::vector<std::string>& names) {
  std::vector<const char*> all;
  all.reserve(names.size());
  for (const std::string& name : names) all.push_back(name.c_str());
  return all;
}

// Where chips differ, the first name that a chip knows.
const std::vector<std::vector<std::string>>& wanted() {
  static const std::vector<std::vector<std::string>> names{
      {"l1tex__m_xbar2l1tex_read_bytes.sum"},
      {"l1tex__m_l1tex2xbar_write_bytes.sum"},
      {"dram__bytes_read.sum", "dram__bytes_op_read.sum"},
      {"dram__bytes_write.sum", "dram__bytes_op_write.sum"},
      {"lts__t_sector_hit_rate.pct"},
      {"sm__warps_active.avg.pct_of_peak_sustained_active"},
      {"sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
       "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active"},
      {"l1tex__data_bank_conflicts_pipe_lsu.sum"},
      {"gpu__time_duration.sum"},
  };
  return names;
}

int passes_of(const std::vector<std::uint8_t>& config) {
  auto p = FLASHSCOPE_SIZED(CUpti_Profiler_Host_GetNumOfPasses_Params);
  p.configImageSize = config.size();
  p.pConfigImage = const_cast<std::uint8_t*>(config.data());
  FLASHSCOPE_CUPTI(cupti().get_num_of_passes(&p));
  return static_cast<int>(p.numOfPasses);
}

void initialize() {
  auto p = FLASHSCOPE_SIZED(CUpti_Profiler_Initialize_Params);
  FLASHSCOPE_CUPTI(cupti().initialize(&p));
}

Counters find_counters(const std::string& chip, const std::uint8_t* availability) {
  Counters found;
  for (const std::vector<std::string>& choices : wanted()) {
    const std::size_t before = found.names.size();
    for (const std::string& name : choices) {
      if (found.names.size() == before && Host(chip, availability).add({name.c_str()})) found.names.push_back(name);
    }
    if (found.names.size() == before)
      throw Missing(fmt::format("the chip {} has no counter {}: a newer CUPTI may know it", chip, choices.front()));
  }
  Host all(chip, availability);
  if (!all.add(pointers(found.names)))
    throw Missing(fmt::format("the counters of {} cannot be read together: a newer CUDA Toolkit may", chip));
  found.passes = passes_of(all.config());
  return found;
}

// The driver's entry point comes through the runtime: the program does not link against the driver.
CUcontext current_context() {
  using GetCurrent = CUresult(CUDAAPI*)(CUcontext*);
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  FLASHSCOPE_CUDA(cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &entry, 12000, cudaEnableDefault, &found));
  CUcontext context = nullptr;
  if (!entry || reinterpret_cast<GetCurrent>(entry)(&context) != CUDA_SUCCESS || !context)
    throw GpuError("no current CUDA context");
  return context;
}

// The range profiler with one set of counters, ranges by push and pop, passes repeated by the caller.
class RangeProfiler {
 public:
  explicit RangeProfiler(int device) {
    initialize();
    const CUcontext context = current_context();
    auto support = FLASHSCOPE_SIZED(CUpti_Profiler_DeviceSupported_Params);
    support.cuDevice = device;
    support.api = CUPTI_PROFILER_RANGE_PROFILING;
    FLASHSCOPE_CUPTI(cupti().device_supported(&support));
    if (support.isSupported != CUPTI_PROFILER_CONFIGURATION_SUPPORTED)
      throw Missing(
          "the hardware's counters cannot be read: this GPU or its configuration does not support it; use a whole "
          "one (no virtual GPU, no MIG)");
    auto chip = FLASHSCOPE_SIZED(CUpti_Device_GetChipName_Params);
    chip.deviceIndex = static_cast<std::size_t>(device);
    FLASHSCOPE_CUPTI(cupti().get_chip_name(&chip));
    auto available = FLASHSCOPE_SIZED(CUpti_Profiler_GetCounterAvailability_Params);
    available.ctx = context;
    FLASHSCOPE_CUPTI(cupti().get_counter_availability(&available));
    availability_.resize(available.counterAvailabilityImageSize);
    available.pCounterAvailabilityImage = availability_.data();
    FLASHSCOPE_CUPTI(cupti().get_counter_availability(&available));

    counters_ = find_counters(chip.pChipName, availability_.data());
    names_ = pointers(counters_.names);
    host_ = std::make_unique<Host>(chip.pChipName, availability_.data());
    if (!host_->add(names_)) throw Missing("the hardware's counters cannot be read together");
    config_ = host_->config();
    auto enable = FLASHSCOPE_SIZED(CUpti_RangeProfiler_Enable_Params);
    enable.ctx = context;
    FLASHSCOPE_CUPTI(cupti().enable(&enable));
    profiler_ = enable.pRangeProfilerObject;
    auto size = FLASHSCOPE_SIZED(CUpti_RangeProfiler_GetCounterDataSize_Params);
    size.pRangeProfilerObject = profiler_;
    size.pMetricNames = names_.data();
    size.numMetrics = names_.size();
    size.maxNumOfRanges = 1;
    size.maxNumRangeTreeNodes = 1;
    FLASHSCOPE_CUPTI(cupti().get_counter_data_size(&size));
    data_.resize(size.counterDataSize);
  }
  ~RangeProfiler() {
    if (!profiler_) return;
    auto p = FLASHSCOPE_SIZED(CUpti_RangeProfiler_Disable_Params);
    p.pRangeProfilerObject = profiler_;
    cupti().disable(&p);
  }
  RangeProfiler(const RangeProfiler&) = delete;
  RangeProfiler& operator=(const RangeProfiler&) = delete;

  int passes() const { return counters_.passes; }

  std::vector<double> collect(const std::function<void()>& prepare, const std::function<void()>& work,
                              const std::function<void()>& on_pass) {
    data_.assign(data_.size(), 0);  // or this range would be appended to the last
    auto image = FLASHSCOPE_SIZED(CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
    image.pRangeProfilerObject = profiler_;
    image.counterDataSize = data_.size();
    image.pCounterData = data_.data();
    FLASHSCOPE_CUPTI(cupti().initialize_counter_data(&image));
    auto set = FLASHSCOPE_SIZED(CUpti_RangeProfiler_SetConfig_Params);
    set.pRangeProfilerObject = profiler_;
    set.configSize = config_.size();
    set.pConfig = config_.data();
    set.counterDataImageSize = data_.size();
    set.pCounterDataImage = data_.data();
    set.range = CUPTI_UserRange;
    set.replayMode = CUPTI_UserReplay;
    set.maxRangesPerPass = 1;
    set.numNestingLevels = 1;
    set.minNestingLevel = 1;
    set.targetNestingLevel = 1;
    FLASHSCOPE_CUPTI(cupti().set_config(&set));
    for (int n = 0, done = 0; done == 0; ++n) {
      if (n > 100) throw Missing("the hardware's counters cannot be read: their passes do not come to an end");
      prepare();
      FLASHSCOPE_CUDA(cudaDeviceSynchronize());
      auto start = FLASHSCOPE_SIZED(CUpti_RangeProfiler_Start_Params);
      start.pRangeProfilerObject = profiler_;
      FLASHSCOPE_CUPTI(cupti().start(&start));
      auto push = FLASHSCOPE_SIZED(CUpti_RangeProfiler_PushRange_Params);
      push.pRangeProfilerObject = profiler_;
      push.pRangeName = "run";
      FLASHSCOPE_CUPTI(cupti().push_range(&push));
      work();
      auto pop = FLASHSCOPE_SIZED(CUpti_RangeProfiler_PopRange_Params);
      pop.pRangeProfilerObject = profiler_;
      FLASHSCOPE_CUPTI(cupti().pop_range(&pop));
      FLASHSCOPE_CUDA(cudaDeviceSynchronize());
      auto stop = FLASHSCOPE_SIZED(CUpti_RangeProfiler_Stop_Params);
      stop.pRangeProfilerObject = profiler_;
      FLASHSCOPE_CUPTI(cupti().stop(&stop));
      done = stop.isAllPassSubmitted;
      on_pass();
    }
    auto decode = FLASHSCOPE_SIZED(CUpti_RangeProfiler_DecodeData_Params);
    decode.pRangeProfilerObject = profiler_;
    FLASHSCOPE_CUPTI(cupti().decode(&decode));
    return host_->values(data_, names_);
  }

 private:
  std::vector<std::uint8_t> availability_, config_, data_;
  Counters counters_;
  std::vector<const char*> names_;
  std::unique_ptr<Host> host_;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
};

}  // namespace

void open_meters() { cupti(); }

// Without the profiler's own start, which needs a driver.
Counters counters_of(const std::string& chip) { return find_counters(chip, nullptr); }

namespace {

// Two open profilers would read each other's passes.
std::atomic<bool> meters_open = false;
struct OnlyOne {
  OnlyOne() {
    if (meters_open.exchange(true)) throw Missing("the hardware's counters are being read already, by this process");
  }
  ~OnlyOne() { meters_open = false; }
  OnlyOne(const OnlyOne&) = delete;
};

}  // namespace

struct Meters::Impl {
  Impl(int device, const std::string& architecture, const Pool& pool, const Stream& on)
      : stream(on),
        properties(properties_of(device)),
        swept(4 * static_cast<std::int64_t>(properties.l2CacheSize) / 16 * 16),
        clean(swept + 16, pool, on),
        compiled(compile({"sweep.cu", {}}, architecture)),
        library(compiled.cubin.data()),
        kernel(library.kernel("sweep")) {
    FLASHSCOPE_CUDA(cudaMemsetAsync(clean.as<void>(), 0, static_cast<std::size_t>(clean.bytes()), stream));
    profiler = std::make_unique<RangeProfiler>(device);
    // The first collection of a new profiler is thrown away: its start writes to memory.
    profiler->collect([&] { sweep(); }, [&] { sweep(); }, [] {});
  }
  static cudaDeviceProp properties_of(int device) {
    cudaDeviceProp properties = {};
    FLASHSCOPE_CUDA(cudaGetDeviceProperties(&properties, device));
    return properties;
  }
  void sweep() const {
    const void* from = clean.as<void>();
    unsigned long long n = static_cast<unsigned long long>(swept / 16);
    void* sink = clean.as<char>() + swept;
    void* parameters[] = {static_cast<void*>(&from), &n, static_cast<void*>(&sink)};
    FLASHSCOPE_CUDA(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(properties.multiProcessorCount * 8)), dim3(256),
                                     parameters, 0, stream));
  }

  const OnlyOne only_one;
  const Stream& stream;
  const cudaDeviceProp properties;
  const std::int64_t swept;
  const DeviceMemory clean;
  const Compiled compiled;
  const Library library;
  const void* kernel;
  std::unique_ptr<RangeProfiler> profiler;
};

Meters::Meters(int device, const std::string& architecture, const Pool& pool, const Stream& stream)
    : impl_(std::make_unique<Impl>(device, architecture, pool, stream)) {}
Meters::~Meters() = default;

Measured Meters::measure(const std::function<void()>& prepare, const std::function<void()>& launch,
                         const Options& options, const OnPass& on_pass) {
  RangeProfiler& profiler = *impl_->profiler;
  const auto sweep = [&] { impl_->sweep(); };
  const auto cold = [&] {
    prepare();
    sweep();
  };
  const auto warm = [&] {
    prepare();
    launch();
    prepare();
  };
  // DRAM's counters see the whole device: other processes and the display only add to them, so the least of some
  // measurements is nearest to the run's own, as long as they are short.
  const auto collect = [&](const char* what, const std::function<void()>& before, const std::function<void()>& work) {
    const int passes = profiler.passes();
    int done = 0, all = passes;
    const auto told = [&] {
      if (on_pass) on_pass(what, ++done, all);
    };
    const auto started = std::chrono::steady_clock::now();
    std::vector<double> values = profiler.collect(before, work, told);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
    if (taken.count() > kShortSeconds) return values;
    all = options.repeats * passes;
    for (int n = 1; n < options.repeats; ++n) {
      const std::vector<double> again = profiler.collect(before, work, told);
      for (const std::size_t dram : {std::size_t{2}, std::size_t{3}})
        values[dram] = std::min(values[dram], again[dram]);
    }
    return values;
  };
  const auto figures = [&](const std::vector<double>& values, double dram_written, std::optional<double> idle) {
    HardwareFigures found;
    found.l2_read = values[0], found.l2_written = values[1], found.dram_read = values[2];
    found.dram_written = dram_written;
    found.l2_hit_percent = values[4], found.occupancy_percent = values[5], found.tensor_percent = values[6];
    found.bank_conflicts = values[7], found.passes = profiler.passes(), found.dram_written_idle = idle;
    found.seconds = values[8] * 1e-9;
    return found;
  };
  std::optional<double> idle;
  if (options.warm) idle = collect("without the kernel", cold, sweep)[3];
  const std::vector<double> alone = collect("caches cold", cold, launch);
  const double written = collect("DRAM writes", cold, [&] {
    launch();
    sweep();
  })[3];
  Measured measured{figures(alone, written, idle), {}};
  if (!options.warm) return measured;
  const std::vector<double> after = collect("caches warm", warm, launch);
  measured.warm = figures(after, after[3], idle);
  return measured;
}

}  // namespace flashscope::gpu
