#include "engine/attention/staircase.h"

#include <algorithm>
#include <utility>

namespace flashscope {
namespace {

// Smallest x >= 0 with x * step + offset >= bound, for step >= 1.
std::int64_t first_reaching(std::int64_t step, std::int64_t offset, std::int64_t bound) {
  return bound <= offset ? 0 : (bound - offset + step - 1) / step;
}

// Sum over 0 <= o < n of f(o step + offset), where f(x) = 0 for x <= 0, `top` for x >= inner_size, and
// floor((x + round) / block) between.
std::int64_t clamped_sum(const Staircase& s, std::int64_t n, std::int64_t offset, std::int64_t round,
                         std::int64_t top) {
  const std::int64_t rises = std::min(n, first_reaching(s.outer_block, offset, 1));
  const std::int64_t full = std::min(n, first_reaching(s.outer_block, offset, s.inner_size));
  if (full <= rises) return (n - full) * top;
  return floor_sum(full - rises, s.inner_block, s.outer_block, rises * s.outer_block + offset + round) +
         (n - full) * top;
}

}  // namespace

std::int64_t floor_sum(std::int64_t n, std::int64_t m, std::int64_t a, std::int64_t b) {
  // The Euclidean-like reduction; sums reach n * (a n + b) / m, so 128 bits inside.
  __int128 sum = 0, N = n, M = m, A = a, B = b;
  while (N > 0) {
    sum += (N - 1) * N / 2 * (A / M) + N * (B / M);
    A %= M, B %= M;
    const __int128 top = A * N + B;
    if (top < M) break;
    N = top / M, B = top % M;
    std::swap(A, M);
  }
  return static_cast<std::int64_t>(sum);
}

Staircase::Range Staircase::range(std::int64_t o) const {
  if (everything) return {0, inner_blocks()};
  if (hi <= lo) return {0, 0};
  const std::int64_t x0 = o * outer_block, x1 = std::min(x0 + outer_block, outer_size);
  const std::int64_t first = std::clamp<std::int64_t>(x0 + lo, 0, inner_size);
  const std::int64_t last = std::clamp<std::int64_t>(x1 - 1 + hi, 0, inner_size);
  if (first >= last) return {0, 0};
  return {first / inner_block, (last + inner_block - 1) / inner_block};
}

std::int64_t Staircase::tiles_before(std::int64_t o) const {
  if (everything) return o * inner_blocks();
  if (hi <= lo || o <= 0) return 0;
  // The last outer block may be clipped; it is added by itself. A range that would begin at or beyond
  // inner_size is empty: its end is inner_blocks() too, so its begin counts as inner_blocks().
  const std::int64_t whole = std::min(o, outer_size / outer_block);
  std::int64_t sum = clamped_sum(*this, whole, outer_block - 1 + hi, inner_block - 1, inner_blocks()) -
                     clamped_sum(*this, whole, lo, 0, inner_blocks());
  if (o > whole) sum += range(whole).count();
  return sum;
}

Staircase::Range Staircase::nonempty() const {
  const std::int64_t blocks = outer_blocks();
  if (everything) return {0, blocks};
  if (hi <= lo) return {0, 0};
  // Nonempty: the last index of the block reaches above 0, the first begins below inner_size.
  std::int64_t first = std::min(blocks, first_reaching(outer_block, outer_block - 1 + hi, 1));
  if (first == blocks - 1 && outer_size - 1 + hi < 1) first = blocks;
  const std::int64_t last = std::min(blocks, first_reaching(outer_block, lo, inner_size));
  return first < last ? Range{first, last} : Range{0, 0};
}

std::int64_t Staircase::nonempty_before(std::int64_t o) const {
  const Range all = nonempty();
  return std::clamp(o, all.first, all.last) - all.first;
}

}  // namespace flashscope
