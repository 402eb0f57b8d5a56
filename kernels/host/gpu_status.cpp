#include <fmt/format.h>

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
      return "no usable NVIDIA driver: none is installed, or it is older than this CUDA; install driver 570 or newer";
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

GpuStatus gpu_status() {
  GpuStatus status;
  int count = 0, driver = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    status.missing.push_back(no_device(error == cudaSuccess ? cudaErrorNoDevice : error));
    count = 0;
  }
  cudaDriverGetVersion(&driver);
  for (int n = 0; n < count; ++n) {
    cudaDeviceProp properties = {};
    if (const cudaError_t failed = cudaGetDeviceProperties(&properties, n); failed != cudaSuccess) {
      status.missing.push_back(no_device(failed));
      continue;
    }
    if (properties.major < kOldestMajor) {
      status.missing.push_back(fmt::format("GPU {} ({}) is too old: compute capability {}.{}, at least 8.0 is needed",
                                           n, properties.name, properties.major, properties.minor));
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
    status.devices.push_back(std::move(device));
  }
  look(status.missing, [] { nvrtc(); });
  return status;
}

}  // namespace flashscope::gpu
