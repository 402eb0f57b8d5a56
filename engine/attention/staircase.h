// The visited tiles of a band mask as a staircase: outer block o meets a contiguous range of inner
// blocks whose ends both grow with o. Everything about it has a closed form: sums of ends are floor sums.
//
// Index x of the outer axis meets the inner indices [x + lo, x + hi) clipped to [0, inner_size). Rows over
// keys: lo, hi of the band; keys over rows: 1 - hi, 1 - lo.
#pragma once

#include <cstdint>

namespace flashscope {

// Sum over 0 <= i < n of floor((a i + b) / m), for n >= 0, m >= 1, a, b >= 0. O(log m).
std::int64_t floor_sum(std::int64_t n, std::int64_t m, std::int64_t a, std::int64_t b);

struct Staircase {
  std::int64_t outer_size, inner_size, outer_block, inner_block;
  std::int64_t lo, hi;
  bool everything = false;  // every tile is visited, whatever the band

  struct Range {
    std::int64_t first, last;  // inner blocks [first, last)
    std::int64_t count() const { return last - first; }
  };
  std::int64_t outer_blocks() const { return (outer_size + outer_block - 1) / outer_block; }
  std::int64_t inner_blocks() const { return (inner_size + inner_block - 1) / inner_block; }
  Range range(std::int64_t o) const;
  // Visited tiles of the outer blocks [0, o).
  std::int64_t tiles_before(std::int64_t o) const;
  // Outer blocks with a visited tile are contiguous: [first, last).
  Range nonempty() const;
  // How many of them lie in [0, o).
  std::int64_t nonempty_before(std::int64_t o) const;
};

}  // namespace flashscope
