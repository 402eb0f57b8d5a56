// What OpenGL draws straight from the GPU that computed it: OpenGL buffers, named by plain integers, registered with
// CUDA and filled from arrays on the device, all mapped in one call a frame. Where OpenGL is not on
// that GPU the same arrays go through the host, and `status` says so and why.
//
// The OpenGL context must be current in every call, the destructor's included.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "kernels/host/gpu_stepper.h"

namespace flashscope::gpu {

class SharedBuffers {
 public:
  // `device`: whose arrays will be shown. Never throws for what is missing: it copies through the host then.
  explicit SharedBuffers(int device);
  ~SharedBuffers();
  SharedBuffers(const SharedBuffers&) = delete;
  SharedBuffers& operator=(const SharedBuffers&) = delete;

  // An OpenGL buffer; the number that `update` takes. The storage must exist and stay as it is until `remove`.
  int add_buffer(unsigned name);
  void remove(int slot);

  struct Copy {
    int slot = 0;
    DeviceArray from;  // into the buffer without gaps
  };
  // Uploads one array that came through the host, with the caller's own OpenGL: data without gaps.
  using Upload = std::function<void(const Copy& copy, const void* data)>;
  // Throws GpuError.
  void update(std::span<const Copy> copies, const Upload& upload);

  bool shared() const;
  const std::string& status() const;  // "shared with OpenGL on NVIDIA H200", or "copied through the host: why"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashscope::gpu
