// The arithmetic of the fold on whole buffers, compiled once for every instruction set that Highway
// knows and chosen at run time. One table of functions for each element type; the class Fold decides
// what to call, these loops decide nothing.
//
// Every buffer is [something][lanes] with lanes a multiple of kLane and 64-byte aligned. Sums run over
// keys in ascending order within chunks of kKeyChunk keys, chunk by chunk, in every kernel: the bits of
// a lane do not depend on how many lanes there are or how they are grouped into vectors.
#pragma once

#include <cstdint>
#include <limits>

namespace flashscope {

// Sums over more keys than this are split, for accuracy and so that a chunk of P stays in the L1 cache.
inline constexpr std::int64_t kKeyChunk = 64;

// Cell (c, r) of a tile is visible where lo <= c - r < hi, its keep bit is set and its bias is not -inf.
template <class T>
struct MaskCells {
  std::int64_t cols = 0, lanes = 0;
  std::int64_t lo = std::numeric_limits<std::int32_t>::min();  // by indices inside the tile
  std::int64_t hi = std::numeric_limits<std::int32_t>::max();
  const std::uint64_t* keep = nullptr;           // [cols][ceil(lanes / 64)], bit r of a column; null: all kept
  const T* bias = nullptr;                       // [cols][lanes]; null: none
  T fill = -std::numeric_limits<T>::infinity();  // what masked scores become,
  bool add_fill = false;                         // or what is added to them
};

// The per-row numbers of one tile, [lanes] each. `visible` (guard skip only, else null): 1 for rows with
// a visible key in this tile; the others keep their state.
template <class T>
struct LaneState {
  std::int64_t lanes = 0;
  T *m, *m_old, *l, *alpha, *o_factor, *row_sum;
  T *tile_max, *shift;  // maximum of the tile; what the exponents subtract
  T* beta;              // exp(tile_max - m) where numerators are the tile's own
  T* reciprocal;        // what O is multiplied by after the tile's P V: 1 / l for normalise each
  const T* visible = nullptr;
  bool clamp = false;  // guard clamp
  bool tile_numerators = false, each = false;
  bool rescale_l = true, rescale_o = true, inverse = false;  // false, or true, for defects
  bool powers_of_2 = false;                                  // numerics exp2
  T lazy = 0;                                                // m moves only beyond this, and for its first finite value
};

// O = (O factor + P V beta) reciprocal in the lanes of `visible`; null pointers stand for ones.
template <class T>
struct OutputUpdate {
  const T *factor = nullptr, *beta = nullptr, *reciprocal = nullptr, *visible = nullptr;
};

// What will be read next from the tensors: fetched into the cache bit by bit while a product runs.
template <class T>
struct Ahead {
  const T *first = nullptr, *last = nullptr;
};

template <class T>
struct FoldKernels {
  // S[c][r] = scale sum_e Qt[e][r] K[c][e]
  void (*scores)(const T* Qt, std::int64_t lanes, std::int64_t d, const T* K, std::int64_t cols, const T& scale, T* S,
                 const Ahead<T>& ahead);
  // Masks S in place; visible[r] = 1 where some cell of the lane is visible, else 0.
  void (*mask)(const MaskCells<T>& cells, T* S, T* visible);
  // row_max[r] = max over c of S[c][r], ignoring NaN; -inf where there is nothing else.
  void (*row_max)(const T* S, std::int64_t cols, std::int64_t lanes, T* row_max);
  // m_old, m and shift from tile_max.
  void (*update_max)(const LaneState<T>& state);
  // S = exp(S - shift) in place (0 in lanes that are not visible), row_sum = its sums over c.
  void (*exponentials)(T* S, std::int64_t cols, std::int64_t lanes, const T* shift, const T* visible, T* row_sum);
  // The same by powers of 2: S = 2^(S log2 e - shift log2 e).
  void (*exponentials2)(T* S, std::int64_t cols, std::int64_t lanes, const T* shift, const T* visible, T* row_sum);
  // alpha, o_factor, beta; l *= alpha. False if every o_factor is 1.
  bool (*update_alpha)(const LaneState<T>& state);
  // l += row_sum beta; reciprocal.
  void (*update_sum)(const LaneState<T>& state);
  // X[n][r] *= factor[r]
  void (*multiply_rows)(T* X, std::int64_t n, std::int64_t lanes, const T* factor);
  void (*accumulate)(const T* P, std::int64_t cols, std::int64_t lanes, const T* V, std::int64_t dv,
                     const OutputUpdate<T>& update, T* O, const Ahead<T>& ahead);
  // nan[r] = 1 where l or O of the row is NaN, inf[r] = 1 where m, l or O is +inf; else 0.
  void (*row_status)(const T* m, const T* l, const T* O, std::int64_t dv, std::int64_t lanes, T* nan, T* inf);
  // count[r] = NaN cells of the lane; exact below 2^24 columns.
  void (*count_nan)(const T* P, std::int64_t cols, std::int64_t lanes, T* count);
  // x rounded to bfloat16 or else float16, to nearest even; what is too large becomes infinite.
  void (*round)(T* x, std::int64_t n, bool to_bfloat16);
  // y = exp(x) for x <= 0, -inf or NaN: the exponential of all of the above.
  void (*exp)(const T* x, std::int64_t n, T* y);
};

// The table of the instruction set in force (use_isa).
template <class T>
const FoldKernels<T>& fold_kernels();

}  // namespace flashscope
