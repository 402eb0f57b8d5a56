// Brings what a GPU stepped to where OpenGL draws it: the stage's buffers, registered with CUDA, filled on the device
// and mapped once a frame. Where OpenGL is not on that GPU the arrays go through the host, and `status` says so.
//
// The OpenGL context must be current in every call, the destructor's included.
#pragma once

#include <memory>
#include <string>

#include "app/document.h"
#include "viz/shared_chip.h"

namespace flashscope {

class GpuPicture {
 public:
  GpuPicture();
  ~GpuPicture();
  GpuPicture(const GpuPicture&) = delete;

  // The arrays of the document's state; null where a CPU stepped. Filled again only for another state. On an error of
  // the device null, and `status` is the reason: the state is drawn as the CPU's would be.
  std::shared_ptr<const viz::SharedArrays> show(const Document& document);
  const std::string& status() const;  // "shared with OpenGL on NVIDIA H200"; empty: nothing was shown yet

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashscope
