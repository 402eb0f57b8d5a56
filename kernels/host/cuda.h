// CUDA's runtime with every call checked and every object released with its scope.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace flashscope::gpu {

// Throws GpuError "what: CUDA's reason".
void check_cuda(cudaError_t result, const char* what);
#define FLASHSCOPE_CUDA(call) ::flashscope::gpu::check_cuda((call), #call)

class Stream {
 public:
  Stream() { FLASHSCOPE_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void wait() const { FLASHSCOPE_CUDA(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { FLASHSCOPE_CUDA(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// A private memory pool of one device: what is used of it, and at most was, is known exactly. What is freed goes back
// to the device when the stream is next waited for, or, `kept`, stays in the pool for what is asked for next.
class Pool {
 public:
  explicit Pool(int device, bool kept = false);
  ~Pool() { cudaMemPoolDestroy(pool_); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  operator cudaMemPool_t() const { return pool_; }
  std::int64_t peak() const;  // bytes in use, the most so far
  std::int64_t idle() const;  // bytes kept and not in use

 private:
  cudaMemPool_t pool_ = nullptr;
};

// Memory of a pool, in the order of a stream.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(std::int64_t bytes, const Pool& pool, const Stream& stream);
  ~DeviceMemory() {
    if (data_) cudaFreeAsync(data_, stream_);
  }
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_), std::swap(bytes_, other.bytes_), std::swap(stream_, other.stream_);
    return *this;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
  cudaStream_t stream_ = nullptr;
};

// From and to the host, complete on return.
DeviceMemory upload(const void* data, std::int64_t bytes, const Pool& pool, const Stream& stream);
void download(const void* from, void* to, std::int64_t bytes, const Stream& stream);
template <class T>
std::vector<T> download(const DeviceMemory& from, const Stream& stream) {
  std::vector<T> values(static_cast<std::size_t>(from.bytes()) / sizeof(T));
  download(from.as<void>(), values.data(), from.bytes(), stream);
  return values;
}

// A loaded cubin.
class Library {
 public:
  explicit Library(const void* cubin) {
    FLASHSCOPE_CUDA(cudaLibraryLoadData(&library_, cubin, nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  ~Library() {
    if (library_) cudaLibraryUnload(library_);
  }
  Library(Library&& other) noexcept : library_(std::exchange(other.library_, nullptr)) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  const void* kernel(const char* entry) const {
    cudaKernel_t kernel = nullptr;
    FLASHSCOPE_CUDA(cudaLibraryGetKernel(&kernel, library_, entry));
    return kernel;
  }

 private:
  cudaLibrary_t library_ = nullptr;
};

}  // namespace flashscope::gpu
