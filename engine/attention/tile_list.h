// The visited tiles of a mask from a file under skip=all: no closed form, so a sorted list per row block
// and per column block (compressed rows and columns) with prefix sums. Query heads that share a mask
// share the list.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/attention/mask.h"

namespace flashscope {

class TileList {
 public:
  // Throws InputError with the figures where it would need more than memory_limit bytes.
  TileList(const Mask& mask, std::int64_t Nq, std::int64_t Nk, std::int64_t Br, std::int64_t Bc,
           std::int64_t memory_limit);

  std::int64_t mask_head(std::int64_t h) const { return mask_heads_ == 1 ? 0 : h; }
  // Ascending column blocks of a row block, and row blocks of a column block.
  std::span<const std::int32_t> of_row(std::int64_t h, std::int64_t i) const { return by_row_.list(mask_head(h), i); }
  std::span<const std::int32_t> of_col(std::int64_t h, std::int64_t j) const { return by_col_.list(mask_head(h), j); }
  // Tiles in the row blocks [0, i), or the column blocks [0, j), of a head.
  std::int64_t before_row(std::int64_t h, std::int64_t i) const { return by_row_.before(mask_head(h), i); }
  std::int64_t before_col(std::int64_t h, std::int64_t j) const { return by_col_.before(mask_head(h), j); }
  std::int64_t nonempty_cols_before(std::int64_t h, std::int64_t j) const {
    return nonempty_cols_[mask_head(h) * (by_col_.outer + 1) + j];
  }

 private:
  struct Axis {
    std::int64_t outer = 0;
    std::vector<std::int64_t> start;  // [heads][outer + 1], absolute positions in `inner`
    std::vector<std::int32_t> inner;
    std::span<const std::int32_t> list(std::int64_t h, std::int64_t o) const {
      const std::int64_t at = h * (outer + 1) + o;
      return {inner.data() + start[at], inner.data() + start[at + 1]};
    }
    std::int64_t before(std::int64_t h, std::int64_t o) const {
      return start[h * (outer + 1) + o] - start[h * (outer + 1)];
    }
  };
  std::int64_t mask_heads_ = 1;
  Axis by_row_, by_col_;
  std::vector<std::int64_t> nonempty_cols_;
};

}  // namespace flashscope
