// The two matrix products of one row block, S = Q K_j^T and O += S V_j, and nothing else: what the fold is
// measured against. The same source compiled for each instruction set.
#pragma once

#include <cstdint>

namespace flashscope {

struct RowBlockProducts {
  std::int64_t rows, d, dv, Nk, Bc;
  const float *Q, *K, *V;  // row-major
  float *S, *O;            // rows x Bc, rows x dv
};

void eigen_products_AVX3(const RowBlockProducts& block);
void eigen_products_AVX2(const RowBlockProducts& block);
void eigen_products_SSE4(const RowBlockProducts& block);

}  // namespace flashscope
