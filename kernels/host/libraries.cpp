#include "kernels/host/libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

namespace flashscope::gpu {
SharedLibrary::SharedLibrary(const char* what, std::initializer_list<const char*> names, const char* remedy,
                             bool global)
    : what_(what), remedy_(remedy) {
  std::vector<std::string> folders{"", FLASHSCOPE_CUDA_LIBRARIES "/", "/usr/local/cuda/lib64/"};
  if (const char* only = std::getenv("FLASHSCOPE_CUDA_LIBRARIES")) folders = {std::string(only) + "/"};
  for (const std::string& folder : folders) {
    for (const char* name : names) {
      handle_ = dlopen((folder + name).c_str(), RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
      if (handle_) return;
    }
  }
  throw Missing(fmt::format("{} is missing ({} not found): {}", what, *names.begin(), remedy));
}

void* SharedLibrary::symbol(const char* name) const {
  void* found = dlsym(handle_, name);
  if (!found) throw Missing(fmt::format("{} is too old (no {}): {}", what_, name, remedy_));
  return found;
}

namespace {

constexpr int kOldestMajor = 12, kOldestMinor = 8;  // the first NVRTC that knows sm_100 and sm_120

Nvrtc open_nvrtc() {
  constexpr const char* what = "NVRTC, CUDA's run-time compiler,";
  constexpr const char* remedy =
      "install CUDA 12.8 or newer (package cuda-nvrtc), or put its folder on LD_LIBRARY_PATH";
  const SharedLibrary library(what, {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, remedy);
  Nvrtc n;
  library.find(n.get_error_string, "nvrtcGetErrorString");
  library.find(n.version, "nvrtcVersion");
  library.find(n.create_program, "nvrtcCreateProgram");
  library.find(n.destroy_program, "nvrtcDestroyProgram");
  library.find(n.compile_program, "nvrtcCompileProgram");
  library.find(n.get_program_log_size, "nvrtcGetProgramLogSize");
  library.find(n.get_program_log, "nvrtcGetProgramLog");
  library.find(n.get_cubin_size, "nvrtcGetCUBINSize");
  library.find(n.get_cubin, "nvrtcGetCUBIN");
  int major = 0, minor = 0;
  n.version(&major, &minor);
  n.version_text = fmt::format("{}.{}", major, minor);
  if (major < kOldestMajor || (major == kOldestMajor && minor < kOldestMinor))
    throw Missing(fmt::format("{} is too old ({}, at least {}.{} is needed): {}", what, n.version_text, kOldestMajor,
                              kOldestMinor, remedy));
  library.find(n.get_num_supported_archs, "nvrtcGetNumSupportedArchs");
  library.find(n.get_supported_archs, "nvrtcGetSupportedArchs");
  int count = 0;
  n.get_num_supported_archs(&count);
  n.architectures.resize(static_cast<std::size_t>(count));
  n.get_supported_archs(n.architectures.data());
  return n;
}

Cublas open_cublas() {
  const SharedLibrary library("cuBLAS, needed for standard attention on the GPU,",
                              {"libcublas.so.13", "libcublas.so.12", "libcublas.so"},
                              "install CUDA 12.8 or newer (package libcublas), or put its folder on LD_LIBRARY_PATH");
  Cublas c;
  library.find(c.create, "cublasCreate_v2");
  library.find(c.destroy, "cublasDestroy_v2");
  library.find(c.set_stream, "cublasSetStream_v2");
  library.find(c.set_workspace, "cublasSetWorkspace_v2");
  library.find(c.gemm_strided_batched, "cublasGemmStridedBatchedEx");
  library.find(c.get_status_string, "cublasGetStatusString");
  library.find(c.get_property, "cublasGetProperty");
  int major = 0, minor = 0, patch = 0;
  c.get_property(MAJOR_VERSION, &major), c.get_property(MINOR_VERSION, &minor), c.get_property(PATCH_LEVEL, &patch);
  c.version_text = fmt::format("{}.{}.{}", major, minor, patch);
  return c;
}

}  // namespace

std::string needed_driver(int runtime_version) {
  const int major = runtime_version / 1000, minor = runtime_version % 1000 / 10;
  if (major == 12 && minor == 8) return "driver 570 or newer";
  if (major == 12 && minor == 9) return "driver 575 or newer";
  if (major == 13) return "driver 580 or newer";  // which runs every 13.x
  return fmt::format("a driver for CUDA {}.{} or newer", major, minor);
}

const Nvrtc& nvrtc() {
  static const Nvrtc library = open_nvrtc();
  return library;
}

const Cublas& cublas() {
  static const Cublas library = open_cublas();
  return library;
}

}  // namespace flashscope::gpu
