#include "engine/attention/fold_mask.h"

#include <algorithm>

namespace flashscope {
namespace {

constexpr std::uint64_t kAll = ~std::uint64_t{0};

// Bits [first, first + 64) of a packed row; bits beyond its end are 0.
std::uint64_t word_at(const std::uint64_t* words, std::int64_t count, std::int64_t first) {
  const std::int64_t w = first / 64, shift = first % 64;
  std::uint64_t word = w < count ? words[w] >> shift : 0;
  if (shift != 0 && w + 1 < count) word |= words[w + 1] << (64 - shift);
  return word;
}

// Transposes a 64 x 64 matrix of bits, bit c of word r <-> bit r of word c, by swapping ever smaller
// off-diagonal blocks (Warren, Hacker's Delight, section 7-3).
void transpose(std::uint64_t (&a)[64]) {
  std::uint64_t mask = 0x00000000ffffffff;
  for (int half = 32; half != 0; half /= 2, mask ^= mask << half) {
    for (int k = 0; k < 64; k = (k + half + 1) & ~half) {
      const std::uint64_t swap = ((a[k] >> half) ^ a[k + half]) & mask;
      a[k] ^= swap << half;
      a[k + half] ^= swap;
    }
  }
}

}  // namespace

void gather_keep(const KeepMask& mask, const MaskTile& tile, std::int64_t padded_cols, std::int64_t lanes,
                 std::uint64_t* bits) {
  const std::int64_t words = (lanes + 63) / 64;
  std::fill(bits, bits + padded_cols * words, kAll);
  const std::uint64_t* plane = mask.bits.data() + (mask.heads == 1 ? 0 : tile.head) * mask.rows * mask.words_per_row;
  const auto row_bits = [&](std::int64_t r, std::int64_t c) {
    const std::uint64_t* row = plane + (mask.rows == 1 ? 0 : tile.row0 + r) * mask.words_per_row;
    if (mask.cols == 1) return row[0] & 1 ? kAll : 0;
    return word_at(row, mask.words_per_row, tile.col0 + c);
  };
  for (std::int64_t r = 0; r < tile.rows; r += 64) {
    for (std::int64_t c = 0; c < tile.cols; c += 64) {
      const std::int64_t rows = std::min<std::int64_t>(64, tile.rows - r);
      std::uint64_t block[64];
      for (std::int64_t k = 0; k < 64; ++k) block[k] = k < rows ? row_bits(r + k, c) : kAll;
      transpose(block);
      for (std::int64_t k = 0; k < std::min<std::int64_t>(64, tile.cols - c); ++k)
        bits[(c + k) * words + r / 64] = block[k];
    }
  }
}

void hide_by_rule(const Mask& mask, const Band& band, const MaskTile& tile, std::int64_t lanes, bool causal,
                  std::uint64_t* bits) {
  const std::int64_t words = (lanes + 63) / 64;
  Mask rules;  // without the band
  rules.rules = mask.rules;
  if (causal) rules.causal = mask.causal;
  Band open;
  open.shift = band.shift;
  const auto& documents = mask.rules.documents;
  const bool scattered = documents && !documents->runs();
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const auto [first, last] = run_of_keys(rules, open, tile.head, tile.row0 + r);
    const std::uint64_t others = ~(std::uint64_t{1} << (r % 64));
    for (std::int64_t c = 0; c < tile.cols; ++c) {
      const std::int64_t key = tile.col0 + c;
      const bool hidden =
          key < first || key >= last || (scattered && documents->rows[tile.row0 + r] != documents->keys[key]);
      if (hidden) bits[c * words + r / 64] &= others;
    }
  }
}

template <class T>
void add_alibi(const MaskRules& rules, const Band& band, const MaskTile& tile, std::int64_t lanes, T* values) {
  const double slope = rules.slope(tile.head);
  for (std::int64_t c = 0; c < tile.cols; ++c)
    for (std::int64_t r = 0; r < tile.rows; ++r)
      values[c * lanes + r] -=
          static_cast<T>(slope * static_cast<double>(std::abs(tile.row0 + r + band.shift - tile.col0 - c)));
}
template void add_alibi(const MaskRules&, const Band&, const MaskTile&, std::int64_t, float*);
template void add_alibi(const MaskRules&, const Band&, const MaskTile&, std::int64_t, double*);

template <class T>
void gather_bias(const Bias& bias, const MaskTile& tile, std::int64_t padded_cols, std::int64_t lanes, T* values) {
  std::fill(values, values + padded_cols * lanes, T{0});
  const auto gather = [&](const auto* plane) {
    constexpr std::int64_t kBlock = 16;  // of columns: what is written stays in the L1 cache over the rows
    for (std::int64_t c0 = 0; c0 < tile.cols; c0 += kBlock) {
      for (std::int64_t r = 0; r < tile.rows; ++r) {
        const auto* row = plane + (bias.rows == 1 ? 0 : tile.row0 + r) * bias.cols;
        for (std::int64_t c = c0; c < std::min(tile.cols, c0 + kBlock); ++c)
          values[c * lanes + r] = static_cast<T>(row[bias.cols == 1 ? 0 : tile.col0 + c]);
      }
    }
  };
  const std::int64_t first = (bias.heads == 1 ? 0 : tile.head) * bias.rows * bias.cols;
  if (bias.f64.empty())
    gather(bias.f32.data() + first);
  else
    gather(bias.f64.data() + first);
}

template void gather_bias(const Bias&, const MaskTile&, std::int64_t, std::int64_t, float*);
template void gather_bias(const Bias&, const MaskTile&, std::int64_t, std::int64_t, double*);

}  // namespace flashscope
