// The CUDA libraries that are opened on first use, so that the program starts and does everything else without
// them. Types come from the library's own header; one that is missing costs one line that says how to get it.
#pragma once

#include <cublas_v2.h>
#include <nvrtc.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/host/errors.h"

namespace flashscope::gpu {

// Opened by its name as the loader finds it, else from the toolkit that the program was built with, or from the usual
// place; with $FLASHSCOPE_CUDA_LIBRARIES set from that folder alone. Stays open. Throws Missing.
class SharedLibrary {
 public:
  SharedLibrary(const char* what, std::initializer_list<const char*> names, const char* remedy, bool global = false);
  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;
  void* handle_ = nullptr;
  const char* what_;
  const char* remedy_;
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
  decltype(&nvrtcGetNumSupportedArchs) get_num_supported_archs;
  decltype(&nvrtcGetSupportedArchs) get_supported_archs;
  std::string version_text;        // "13.0"
  std::vector<int> architectures;  // that it compiles for: 80, 86, ...
};
const Nvrtc& nvrtc();  // throws Missing, also where it is older than 12.8

// What to install where the driver is too old for the CUDA runtime that is built in (CUDART_VERSION): "driver 580 or
// newer".
std::string needed_driver(int runtime_version);

// cuBLAS, for the matrix products of standard attention.
struct Cublas {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  // The header overloads this one in C++.
  cublasStatus_t (*gemm_strided_batched)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                         const void* alpha, const void* A, cudaDataType, int lda, long long A_stride,
                                         const void* B, cudaDataType, int ldb, long long B_stride, const void* beta,
                                         void* C, cudaDataType, int ldc, long long C_stride, int batch,
                                         cublasComputeType_t, cublasGemmAlgo_t);
  decltype(&cublasGetStatusString) get_status_string;
  decltype(&cublasGetProperty) get_property;
  std::string version_text;  // "13.0.2"
};
const Cublas& cublas();  // throws Missing

}  // namespace flashscope::gpu
