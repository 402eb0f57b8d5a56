#include "kernels/host/cuda.h"

#include <fmt/format.h>

#include <limits>

#include "kernels/host/gpu_runner.h"

namespace flashscope::gpu {

void check_cuda(cudaError_t result, const char* what) {
  if (result != cudaSuccess)
    throw GpuError(fmt::format("{}: {} ({})", what, cudaGetErrorString(result), cudaGetErrorName(result)));
}

Pool::Pool(int device, bool kept) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  FLASHSCOPE_CUDA(cudaMemPoolCreate(&pool_, &properties));
  if (!kept) return;
  std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  const cudaError_t result = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &all);
  if (result != cudaSuccess) {
    cudaMemPoolDestroy(pool_);  // no destructor runs after a throw from here
    check_cuda(result, "cudaMemPoolSetAttribute");
  }
}

namespace {
std::int64_t bytes_of(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  std::uint64_t bytes = 0;
  FLASHSCOPE_CUDA(cudaMemPoolGetAttribute(pool, attribute, &bytes));
  return static_cast<std::int64_t>(bytes);
}
}  // namespace

std::int64_t Pool::peak() const { return bytes_of(pool_, cudaMemPoolAttrUsedMemHigh); }
std::int64_t Pool::idle() const {
  return bytes_of(pool_, cudaMemPoolAttrReservedMemCurrent) - bytes_of(pool_, cudaMemPoolAttrUsedMemCurrent);
}

DeviceMemory::DeviceMemory(std::int64_t bytes, const Pool& pool, const Stream& stream)
    : bytes_(bytes), stream_(stream) {
  if (bytes > 0) FLASHSCOPE_CUDA(cudaMallocFromPoolAsync(&data_, static_cast<std::size_t>(bytes), pool, stream));
}

DeviceMemory upload(const void* data, std::int64_t bytes, const Pool& pool, const Stream& stream) {
  DeviceMemory memory(bytes, pool, stream);
  FLASHSCOPE_CUDA(
      cudaMemcpyAsync(memory.as<void>(), data, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream));
  stream.wait();  // the host's copy may go
  return memory;
}

void download(const void* from, void* to, std::int64_t bytes, const Stream& stream) {
  FLASHSCOPE_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, stream));
  stream.wait();
}

}  // namespace flashscope::gpu
