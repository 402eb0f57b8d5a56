// The fold: the algebra of one tile, and the only place where attention is computed.
//
//   scores        S = scale Q_i K_j^T
//   mask          S = -inf where key not visible (or the bias is added)
//   max           m_new = max(m, rowmax S); the maximum ignores NaN
//   exponentials  P = exp(S - m_new)
//   rescale       alpha = exp(m - m_new);  l *= alpha,  O *= alpha
//   accumulate    l += rowsum P,  O += P V_j
//   finish        O /= l,  LSE = m + ln l, the policy for empty rows
//
// (Milakov and Gimelshein 2018; Dao et al. 2022, Algorithm 1; Dao 2023, Algorithm 1.) Every recipe,
// guard and defect is a variant of these verbs. The trace, the CPU run and the scan all call them, so
// the picture is the computation.
//
// Layout: one row of the row block is one SIMD lane. Qt [d][lanes], S and P [bc][lanes], O [dv][lanes],
// m, l, alpha [lanes], lanes = rows rounded up to kLane. K and V rows are read as they are stored, each
// element broadcast; nothing is packed, all row reductions are vertical. What a lane computes never
// depends on its place or on its neighbours, so a row gives the same bits in any row block and on any
// number of threads. Lanes beyond `rows` hold unspecified finite values and are never read out.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"

namespace flashscope {

inline constexpr std::int64_t kLane = 16;  // lanes are a multiple of this; one AVX-512 vector of float

// The state (m, l, O) of one row block after some folds: what a keyframe holds.
template <class T>
struct RowBlockState {
  Buffer<T> m, l, O;        // [lanes], [lanes], [dv][lanes]
  std::int64_t folded = 0;  // visited tiles folded in completely
};

// What one tile did, counted while it was folded (only by fold_tile_counted). Rows, not cells,
// except where said otherwise.
struct TileCounts {
  double largest_score = 0;    // of visible, non-NaN scores; -inf where there are none
  std::int32_t rescaled = 0;   // maxima that grew from a finite value
  std::int32_t first_max = 0;  // first finite maxima
  std::int32_t new_nan = 0;    // rows whose (l, O) became NaN in this tile
  std::int32_t new_inf = 0;    // rows in which +inf first appeared in m, l or O in this tile
  std::int64_t nan_cells = 0;  // NaN cells of P
};

template <class T>
class Fold {
 public:
  // Allocates for row blocks of up to Br rows and tiles of up to Bc keys (clipped to the problem).
  Fold(const Problem& problem, const Recipe& recipe, MemoryMeter& meter = process_memory());

  // ---- one row block
  void start(std::int64_t head, std::int64_t row0, std::int64_t rows);  // loads Q; m = -inf, l = 0, O = 0
  // ---- one tile [col0, col0 + cols); call the verbs in this order
  // needs_mask: false only where every cell of the tile is visible and there is no bias to add.
  void begin_tile(std::int64_t col0, std::int64_t cols, bool needs_mask);
  void scores();
  void mask();
  void max();
  void exponentials();
  void rescale();
  void accumulate();
  // All verbs of one tile at once, fused where that is faster; bit for bit the same (m, l, O).
  void fold_tile(std::int64_t col0, std::int64_t cols, bool needs_mask);
  TileCounts fold_tile_counted(std::int64_t col0, std::int64_t cols, bool needs_mask);
  void finish();

  // ---- standard attention on a row block: the strip of all keys at once, S (after scores, mask),
  // then P = softmax(S) whole, then O = P V; same variants where they apply.
  void softmax();   // in place of max, exponentials, rescale: P normalised; sets m, l
  void multiply();  // in place of accumulate: O = P V

  void save(RowBlockState<T>& state) const;
  void restore(const RowBlockState<T>& state);  // after start() of the same row block

  // ---- read-outs. Lane r is row row0 + r.
  std::int64_t head() const { return head_; }
  std::int64_t row0() const { return row0_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t lanes() const { return lanes_; }
  std::int64_t col0() const { return col0_; }
  std::int64_t cols() const { return cols_; }
  const T* S() const { return S_.data(); }  // [cols][lanes]; P in place after exponentials
  const T* m() const { return m_.data(); }
  const T* m_old() const { return m_old_.data(); }  // before the tile's max
  const T* l() const { return l_.data(); }
  const T* alpha() const { return alpha_.data(); }        // exp(m_old - m_new), guards applied
  const T* o_factor() const { return o_factor_.data(); }  // what O was multiplied by in rescale
  const T* row_sum() const { return row_sum_.data(); }    // sum over the tile of P; set by accumulate
  const T* O() const { return O_.data(); }                // [dv][lanes]
  const T* LSE() const { return LSE_.data(); }            // set by finish
  std::vector<std::uint8_t> empty() const;                // per row: 1 = no visible key in the whole row

 private:
  const Problem* problem_;
  Recipe recipe_;
  Band band_;
  std::int64_t head_ = 0, row0_ = 0, rows_ = 0, lanes_ = 0, col0_ = 0, cols_ = 0;
  bool needs_mask_ = false;
  Buffer<T> Qt_, S_, m_, m_old_, l_, alpha_, o_factor_, row_sum_, O_, LSE_;
  // (more private state as the implementation needs)
};

// The instruction sets this binary can use on this machine, best first, e.g. {"AVX3", "AVX2", "SSE4"}.
std::vector<std::string_view> available_isas();
std::string_view current_isa();
// Fixes the set for the whole process (tests, --isa); "auto" chooses the best. Throws InputError.
void use_isa(std::string_view name);

}  // namespace flashscope
