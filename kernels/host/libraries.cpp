#include "kernels/host/libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace flashscope::gpu {
SharedLibrary::SharedLibrary(const char* what, std::initializer_list<const char*> names, const char* remedy,
                             bool global)
    : what_(what), remedy_(remedy) {
  for (const char* folder : {"", FLASHSCOPE_CUDA_LIBRARIES "/", "/usr/local/cuda/lib64/"}) {
    for (const char* name : names) {
      handle_ = dlopen((std::string(folder) + name).c_str(), RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
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

Nvrtc open_nvrtc() {
  const SharedLibrary library("NVRTC, CUDA's run-time compiler,", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                              "install CUDA 12.8 or newer (package cuda-nvrtc), or put its folder on LD_LIBRARY_PATH");
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
  return c;
}

}  // namespace

const Nvrtc& nvrtc() {
  static const Nvrtc library = open_nvrtc();
  return library;
}

const Cublas& cublas() {
  static const Cublas library = open_cublas();
  return library;
}

}  // namespace flashscope::gpu
