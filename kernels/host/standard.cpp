#include "kernels/host/standard.h"

#include <fmt/format.h>

#include "engine/attention/gpu_figures.h"
#include "kernels/host/gpu_runner.h"
#include "kernels/host/libraries.h"

namespace flashscope::gpu {
namespace {

void check_cublas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw GpuError(fmt::format("{}: {}", what, cublas().get_status_string(status)));
}

cudaDataType element_type(DType type) {
  return type == DType::float32 ? CUDA_R_32F : type == DType::float16 ? CUDA_R_16F : CUDA_R_16BF;
}

}  // namespace

MatrixProducts::MatrixProducts(const Stream& stream, const Pool& pool)
    : workspace_(kProductsWorkspaceBytes, pool, stream) {
  cublasHandle_t handle = nullptr;
  check_cublas(cublas().create(&handle), "cublasCreate");
  handle_ = handle;
  check_cublas(cublas().set_stream(handle, stream), "cublasSetStream");
  check_cublas(cublas().set_workspace(handle, workspace_.as<void>(), static_cast<std::size_t>(kProductsWorkspaceBytes)),
               "cublasSetWorkspace");
}

MatrixProducts::~MatrixProducts() {
  if (handle_) cublas().destroy(static_cast<cublasHandle_t>(handle_));
}

// Row-major C (Nq x columns) = factor B (Nq x depth) A, A (columns x depth) transposed or (depth x columns), for every
// query head; a key/value head's A serves its whole group. cuBLAS counts columns first: it is asked for C^T = A' B^T.
void MatrixProducts::multiply(const void* A, std::int64_t columns, bool transposed, const void* B, std::int64_t depth,
                              void* C, float factor, const Shape& shape) const {
  const cudaDataType type = element_type(shape.type);
  const std::int64_t element = size_of(shape.type), group = shape.heads / shape.kv_heads;
  const std::int64_t B_head = shape.Nq * depth, C_head = shape.Nq * columns;
  const float zero = 0;
  const std::int64_t calls = group == 1 ? 1 : shape.kv_heads, batch = group == 1 ? shape.heads : group;
  for (std::int64_t n = 0; n < calls; ++n) {
    const auto at = [&](const void* base, std::int64_t elements) {
      return static_cast<const char*>(base) + elements * element;
    };
    check_cublas(cublas().gemm_strided_batched(
                     static_cast<cublasHandle_t>(handle_), transposed ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N,
                     static_cast<int>(columns), static_cast<int>(shape.Nq), static_cast<int>(depth), &factor,
                     at(A, n * columns * depth), type, static_cast<int>(transposed ? depth : columns),
                     group == 1 ? columns * depth : 0, at(B, n * group * B_head), type, static_cast<int>(depth), B_head,
                     &zero, static_cast<char*>(C) + n * group * C_head * element, type, static_cast<int>(columns),
                     C_head, static_cast<int>(batch), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                 "cublasGemmStridedBatchedEx");
  }
}

void MatrixProducts::scores(const Arguments& a, const Shape& shape) const {
  multiply(a.K, shape.Nk, true, a.Q, shape.d, a.S, a.scale, shape);
}
void MatrixProducts::output(const Arguments& a, const Shape& shape) const {
  multiply(a.V, shape.dv, false, a.P, shape.Nk, a.O, 1, shape);
}

}  // namespace flashscope::gpu
