#include "tests/bench/eigen_products.h"

#include <Eigen/Core>
#include <algorithm>

namespace flashscope {

void EIGEN_PRODUCTS(const RowBlockProducts& block) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> Q(block.Q, block.rows, block.d);
  Eigen::Map<Matrix> O(block.O, block.rows, block.dv);
  O.setZero();
  for (std::int64_t c = 0; c < block.Nk; c += block.Bc) {
    const std::int64_t cols = std::min(block.Bc, block.Nk - c);
    const Eigen::Map<const Matrix> K(block.K + c * block.d, cols, block.d), V(block.V + c * block.dv, cols, block.dv);
    Eigen::Map<Matrix> S(block.S, block.rows, cols);
    S.noalias() = Q * K.transpose();
    O.noalias() += S * V;
  }
}

}  // namespace flashscope
