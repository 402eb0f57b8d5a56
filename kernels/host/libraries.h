// The CUDA libraries that are opened on first use, so that the program starts and does everything else without
// them. Types come from the library's own header; one that is missing costs one line that says how to get it.
#pragma once

#include <nvrtc.h>

#include <stdexcept>
#include <string>

namespace flashscope::gpu {

// A library, driver or device that is not there. what() is one line: what is missing, and the remedy.
class Missing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// NVRTC, the run-time compiler. Needs neither a GPU nor a driver.
struct Nvrtc {
  decltype(&nvrtcGetErrorString) get_error_string;
  decltype(&nvrtcVersion) version;
  decltype(&nvrtcCreateProgram) create_program;
  decltype(&nvrtcDestroyProgram) destroy_program;
  decltype(&nvrtcCompileProgram) compile_program;
  decltype(&nvrtcGetProgramLogSize) get_program_log_size;
  decltype(&nvrtcGetProgramLog) get_program_log;
  decltype(&nvrtcGetCUBINSize) get_cubin_size;
  decltype(&nvrtcGetCUBIN) get_cubin;
  std::string version_text;  // "13.0"
};
const Nvrtc& nvrtc();  // throws Missing

}  // namespace flashscope::gpu
