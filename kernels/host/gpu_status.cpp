#include <fmt/format.h>

#include <utility>

#include "engine/error.h"
#include "kernels/host/cuda.h"
#include "kernels/host/gpu_runner.h"
#include "kernels/host/libraries.h"
#include "kernels/host/meters.h"

namespace flashscope::gpu {
namespace {

constexpr int kOldestMajor = 8;  // compute capability 8.0: cp.async, bfloat16 products

// The instructions of one chip only (wgmma, setmaxnreg) need the architecture with its letter.
std::string architecture_of(int major, int minor) {
  return fmt::format("sm_{}{}{}", major, minor, major == 9 ? "a" : "");
}

std::string no_device(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver:
      return "no usable NVIDIA driver: none is installed, or it is older than this CUDA; install " +
             needed_driver(CUDART_VERSION);
    case cudaErrorNoDevice:
      return "no NVIDIA GPU: the driver finds none; check nvidia-smi, CUDA_VISIBLE_DEVICES, and the container's "
             "devices";
    default:
      return fmt::format("CUDA does not start: {} ({}); check nvidia-smi", cudaGetErrorString(error),
                         cudaGetErrorName(error));
  }
}

template <class Open>
void look(std::vector<std::string>& lines, const Open& open) {
  try {
    open();
  } catch (const Missing& missing) {
    lines.emplace_back(missing.what());
  }
}

}  // namespace

std::vector<std::string> missing_libraries() {
  std::vector<std::string> lines;
  look(lines, [] { cublas(); });
  look(lines, [] { open_meters(); });
  return lines;
}

GpuStatus sorted_by_use(std::vector<GpuDevice> found, std::vector<UnusableGpu> unusable) {
  GpuStatus status;
  status.unusable = std::move(unusable);
  for (GpuDevice& device : found) {
    if (device.major >= kOldestMajor) {
      status.devices.push_back(std::move(device));
      continue;
    }
    status.unusable.push_back(
        {device.index, fmt::format("GPU {} ({}) is too old: compute capability {}.{}, at least {}.0 is needed",
                                   device.index, device.name, device.major, device.minor, kOldestMajor)});
  }
  if (status.devices.empty())
    for (const UnusableGpu& gpu : status.unusable) status.missing.push_back(gpu.why);
  return status;
}

GpuStatus gpu_status() {
  int count = 0, driver = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    GpuStatus none;
    none.missing.push_back(no_device(error == cudaSuccess ? cudaErrorNoDevice : error));
    look(none.missing, [] { nvrtc(); });
    return none;
  }
  cudaDriverGetVersion(&driver);  // a figure for people: 0 where it is not known
  std::vector<GpuDevice> found;
  std::vector<UnusableGpu> unusable;
  for (int n = 0; n < count; ++n) {
    cudaDeviceProp properties = {};
    if (const cudaError_t failed = cudaGetDeviceProperties(&properties, n); failed != cudaSuccess) {
      unusable.push_back({n, fmt::format("GPU {} does not answer. {}", n, no_device(failed))});
      continue;
    }
    GpuDevice device;
    device.index = n, device.name = properties.name, device.driver_version = driver;
    device.major = properties.major, device.minor = properties.minor;
    device.architecture = architecture_of(properties.major, properties.minor);
    device.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
    device.limits.sms = properties.multiProcessorCount;
    device.limits.shared_bytes_per_block = static_cast<int>(properties.sharedMemPerBlockOptin);
    device.limits.shared_bytes_per_sm = static_cast<int>(properties.sharedMemPerMultiprocessor);
    device.limits.l2_bytes = properties.l2CacheSize;
    found.push_back(std::move(device));
  }
  GpuStatus status = sorted_by_use(std::move(found), std::move(unusable));
  look(status.missing, [] { nvrtc(); });
  return status;
}

GpuDevice usable_device(const GpuStatus& status, int index) {
  if (!status.missing.empty()) throw Missing(status.missing.front());
  for (const GpuDevice& device : status.devices)
    if (device.index == index) return device;
  for (const UnusableGpu& gpu : status.unusable)
    if (gpu.index == index) throw Missing(gpu.why);
  std::string usable;
  for (const GpuDevice& device : status.devices)
    usable += fmt::format("{}{}", usable.empty() ? "" : ", ", device.index);
  throw InputError("GPU", fmt::format("number {}", index), "one of " + usable);
}
GpuDevice usable_device(int index) { return usable_device(gpu_status(), index); }

}  // namespace flashscope::gpu
