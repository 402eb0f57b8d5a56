// What goes wrong on the GPU's side, beside bad input. Needs no CUDA header.
#pragma once

#include <stdexcept>

namespace flashscope::gpu {

// A library, driver or device that is not there. what() is one line: what is missing, and the remedy.
class Missing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The device or its driver failed. what() names the call and CUDA's reason.
class GpuError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace flashscope::gpu
