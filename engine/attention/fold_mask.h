// Masks from a file, turned for the fold: a tile of the keep mask or the bias as [key][lane], the order
// in which the fold holds scores. Columns and lanes beyond the problem are kept, with bias 0.
#pragma once

#include <cstdint>

#include "engine/attention/mask.h"

namespace flashscope {

// Rows [row0, row0 + rows) and columns [col0, col0 + cols) of one head.
struct MaskTile {
  std::int64_t head = 0, row0 = 0, rows = 0, col0 = 0, cols = 0;
};

// bits: [padded_cols][ceil(lanes / 64)] words; bit r % 64 of word r / 64 is row r. padded_cols >= cols.
void gather_keep(const KeepMask& mask, const MaskTile& tile, std::int64_t padded_cols, std::int64_t lanes,
                 std::uint64_t* bits);
// Clears the bits of cells that masks by rule hide (lengths, documents and, where `causal`, a causal mask that a prefix
// lifts); the band is not looked at.
void hide_by_rule(const Mask& mask, const Band& band, const MaskTile& tile, std::int64_t lanes, bool causal,
                  std::uint64_t* bits);
// Adds ALiBi to the tile's bias.
template <class T>
void add_alibi(const MaskRules& rules, const Band& band, const MaskTile& tile, std::int64_t lanes, T* values);
// values: [padded_cols][lanes].
template <class T>
void gather_bias(const Bias& bias, const MaskTile& tile, std::int64_t padded_cols, std::int64_t lanes, T* values);

}  // namespace flashscope
