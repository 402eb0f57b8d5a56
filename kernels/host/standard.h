// Standard attention on the GPU, unfused: S = scale Q K^T by cuBLAS, the softmax kernel, O = P V by cuBLAS. S and P
// stand in HBM whole, for all heads.
#pragma once

#include <cstdint>

#include "engine/attention/problem.h"
#include "kernels/arguments.h"
#include "kernels/host/cuda.h"

namespace flashscope::gpu {

// A cuBLAS handle on a stream, its workspace from the caller's pool.
class MatrixProducts {
 public:
  MatrixProducts(const Stream& stream, const Pool& pool);
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  void scores(const Arguments& arguments, const Shape& shape) const;  // S = scale Q K^T
  void output(const Arguments& arguments, const Shape& shape) const;  // O = P V

 private:
  void multiply(const void* A, std::int64_t columns, bool transposed, const void* B, std::int64_t depth, void* C,
                float factor, const Shape& shape) const;
  DeviceMemory workspace_;
  void* handle_ = nullptr;  // cublasHandle_t
};

}  // namespace flashscope::gpu
