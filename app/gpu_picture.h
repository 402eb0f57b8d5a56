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

  // Gives `data`, the document's, the arrays of its state and of its tile map, filled again only where they changed;
  // none where a CPU stepped. On an error of the device none, and `status` is the reason: the picture is drawn from
  // what was read back.
  void show(const Document& document, viz::StageData& data);
  const std::string& status() const;  // "shared with OpenGL on NVIDIA H200"; empty: nothing was shown yet

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashscope
