#include "kernels/host/shared_buffers.h"

#include <fmt/format.h>
// must come before CUDA's header, which takes OpenGL's types from it
#include <GL/gl.h>
#include <cuda_gl_interop.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "kernels/host/cuda.h"
#include "kernels/host/gpu_runner.h"

namespace flashscope::gpu {
namespace {

// Why OpenGL's present context is not on the device; empty if it is.
std::string why_apart(int device) {
  unsigned count = 0;
  int devices[16] = {};
  const cudaError_t result = cudaGLGetDevices(&count, devices, 16, cudaGLDeviceListAll);
  cudaGetLastError();  // not sticky, but remembered
  if (result != cudaSuccess || count == 0)
    return fmt::format("OpenGL does not run on an NVIDIA GPU of this machine ({})",
                       result == cudaSuccess ? "no device" : cudaGetErrorString(result));
  if (std::find(devices, devices + count, device) == devices + count)
    return fmt::format("OpenGL runs on GPU {}, the kernels on GPU {}", devices[0], device);
  return {};
}

}  // namespace

struct SharedBuffers::Impl {
  struct Resource {
    unsigned name = 0;
    cudaGraphicsResource_t handle = nullptr;  // null: not shared
  };
  int device;
  std::string reason, status;  // reason: why not shared
  std::unique_ptr<Stream> stream;
  std::map<int, Resource> resources;
  int next = 0;
  std::vector<std::byte> bytes;

  explicit Impl(int of) : device(of) {
    if (cudaSetDevice(device) != cudaSuccess) {
      cudaGetLastError();
      apart("no GPU");
      return;
    }
    stream = std::make_unique<Stream>();
    if (const std::string why = why_apart(device); !why.empty()) {
      apart(why);
      return;
    }
    cudaDeviceProp properties = {};
    FLASHSCOPE_CUDA(cudaGetDeviceProperties(&properties, device));
    status = fmt::format("shared with OpenGL on {}", properties.name);
  }
  ~Impl() {
    for (auto& [slot, resource] : resources)
      if (resource.handle) cudaGraphicsUnregisterResource(resource.handle);
  }

  void apart(const std::string& why) {
    reason = why, status = "copied through the host: " + why;
    for (auto& [slot, resource] : resources) {
      if (resource.handle) cudaGraphicsUnregisterResource(resource.handle);
      resource.handle = nullptr;
    }
  }

  int add(unsigned name) {
    Resource resource{name, nullptr};
    if (reason.empty()) {
      const cudaError_t result =
          cudaGraphicsGLRegisterBuffer(&resource.handle, name, cudaGraphicsRegisterFlagsWriteDiscard);
      if (result != cudaSuccess) {
        cudaGetLastError();
        resource.handle = nullptr;
        apart(fmt::format("CUDA does not take OpenGL's buffer {} ({})", name, cudaGetErrorString(result)));
      }
    }
    resources[next] = resource;
    return next++;
  }

  void copy_mapped(const Copy& copy) const {
    const Resource& to = resources.at(copy.slot);
    const DeviceArray& from = copy.from;
    auto width = static_cast<std::size_t>(from.cols * from.element_bytes),
         pitch = static_cast<std::size_t>(from.pitch * from.element_bytes), rows = static_cast<std::size_t>(from.rows);
    if (width == pitch) width = pitch = width * std::exchange(rows, 1);  // one piece, not many rows
    void* pointer = nullptr;
    std::size_t size = 0;
    FLASHSCOPE_CUDA(cudaGraphicsResourceGetMappedPointer(&pointer, &size, to.handle));
    if (size < width * rows)
      throw GpuError(fmt::format("OpenGL's buffer {} has {} bytes, {} are needed", to.name, size, width * rows));
    FLASHSCOPE_CUDA(
        cudaMemcpy2DAsync(pointer, width, from.data, pitch, width, rows, cudaMemcpyDeviceToDevice, *stream));
  }

  void share(std::span<const Copy> copies) {
    std::vector<cudaGraphicsResource_t> handles;
    handles.reserve(copies.size());
    for (const Copy& copy : copies) handles.push_back(resources.at(copy.slot).handle);
    const auto count = static_cast<int>(handles.size());
    FLASHSCOPE_CUDA(cudaGraphicsMapResources(count, handles.data(), *stream));
    try {
      for (const Copy& copy : copies) copy_mapped(copy);
    } catch (...) {
      cudaGraphicsUnmapResources(count, handles.data(), *stream);  // what is mapped OpenGL must not draw
      throw;
    }
    FLASHSCOPE_CUDA(cudaGraphicsUnmapResources(count, handles.data(), *stream));
    stream->wait();  // the arrays may be freed from here on, in the order of another stream
  }

  void through_the_host(const Copy& copy, const Upload& upload) {
    const DeviceArray& from = copy.from;
    const auto width = static_cast<std::size_t>(from.cols * from.element_bytes),
               rows = static_cast<std::size_t>(from.rows);
    bytes.resize(width * rows);
    FLASHSCOPE_CUDA(cudaMemcpy2DAsync(bytes.data(), width, from.data,
                                      static_cast<std::size_t>(from.pitch * from.element_bytes), width, rows,
                                      cudaMemcpyDeviceToHost, *stream));
    stream->wait();
    upload(copy, bytes.data());
  }
};

SharedBuffers::SharedBuffers(int device) : impl_(std::make_unique<Impl>(device)) {}
SharedBuffers::~SharedBuffers() = default;

int SharedBuffers::add_buffer(unsigned name) { return impl_->add(name); }
void SharedBuffers::remove(int slot) {
  const auto found = impl_->resources.find(slot);
  if (found == impl_->resources.end()) return;
  if (found->second.handle) cudaGraphicsUnregisterResource(found->second.handle);
  impl_->resources.erase(found);
}

void SharedBuffers::update(std::span<const Copy> copies, const Upload& upload) {
  std::vector<Copy> there;
  for (const Copy& copy : copies)
    if (copy.from.rows > 0 && copy.from.cols > 0) there.push_back(copy);
  if (there.empty() || !impl_->stream) return;
  if (shared()) {
    impl_->share(there);
    return;
  }
  for (const Copy& copy : there) impl_->through_the_host(copy, upload);
}

bool SharedBuffers::shared() const { return impl_->reason.empty(); }
const std::string& SharedBuffers::status() const { return impl_->status; }

}  // namespace flashscope::gpu
