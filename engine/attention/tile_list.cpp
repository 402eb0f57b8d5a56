#include "engine/attention/tile_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/error.h"

namespace flashscope {

TileList::TileList(const Mask& mask, std::int64_t Nq, std::int64_t Nk, std::int64_t Br, std::int64_t Bc,
                   std::int64_t memory_limit) {
  mask_heads_ = mask_heads(mask);
  const std::int64_t Tr = (Nq + Br - 1) / Br, Tc = (Nk + Bc - 1) / Bc;
  // Both lists hold at most every tile; the counts decide, not the guess, but they cost a pass over the mask.
  const auto refuse_beyond = [&](std::int64_t tiles) {
    const std::int64_t bytes =
        tiles * 2 * static_cast<std::int64_t>(sizeof(std::int32_t)) + mask_heads_ * (Tr + 2 * Tc) * 8;
    if (Tr > INT32_MAX || Tc > INT32_MAX || bytes > memory_limit)
      throw InputError("skip all",
                       fmt::format("{} x {} tiles under a mask from a file, {} bytes of tile lists", Tr, Tc, bytes),
                       fmt::format("at most {} bytes: use larger blocks, or skip geometry", memory_limit));
  };
  refuse_beyond(0);
  const Band limits = band(mask, Nq, Nk);
  by_row_.outer = Tr, by_col_.outer = Tc;
  for (std::int64_t h = 0; h < mask_heads_; ++h) {
    for (std::int64_t i = 0; i < Tr; ++i) {
      by_row_.start.push_back(static_cast<std::int64_t>(by_row_.inner.size()));
      const std::int64_t r0 = i * Br, r1 = std::min(r0 + Br, Nq);
      for (std::int64_t j = 0; j < Tc; ++j) {
        bool any = false;
        for (std::int64_t r = r0; r < r1 && !any; ++r)
          any = any_visible(mask, limits, h, r, j * Bc, std::min((j + 1) * Bc, Nk));
        if (any) by_row_.inner.push_back(static_cast<std::int32_t>(j));
      }
      refuse_beyond(static_cast<std::int64_t>(by_row_.inner.size()));
    }
    by_row_.start.push_back(static_cast<std::int64_t>(by_row_.inner.size()));
  }
  // Transpose: count per column, then place; rows come out ascending.
  by_col_.start.assign(mask_heads_ * (Tc + 1), 0);
  by_col_.inner.resize(by_row_.inner.size());
  std::int64_t position = 0;
  for (std::int64_t h = 0; h < mask_heads_; ++h) {
    std::vector<std::int64_t> count(Tc, 0);
    for (std::int64_t i = 0; i < Tr; ++i)
      for (const std::int32_t j : by_row_.list(h, i)) ++count[j];
    nonempty_cols_.push_back(0);
    for (std::int64_t j = 0; j < Tc; ++j) {
      by_col_.start[h * (Tc + 1) + j] = position;
      position += count[j];
      nonempty_cols_.push_back(nonempty_cols_.back() + (count[j] > 0));
    }
    by_col_.start[h * (Tc + 1) + Tc] = position;
    std::vector<std::int64_t> next(by_col_.start.begin() + h * (Tc + 1), by_col_.start.begin() + (h + 1) * (Tc + 1));
    for (std::int64_t i = 0; i < Tr; ++i)
      for (const std::int32_t j : by_row_.list(h, i)) by_col_.inner[next[j]++] = static_cast<std::int32_t>(i);
  }
}

}  // namespace flashscope
