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
// number of threads. Lanes beyond `rows` hold unspecified values and are never read out.
#pragma once

#include <algorithm>
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
  double largest_score = 0;    // after the mask, ignoring NaN; -inf where there is none
  std::int32_t rescaled = 0;   // maxima that grew from a finite value
  std::int32_t first_max = 0;  // first finite maxima
  std::int32_t new_nan = 0;    // rows whose (l, O) became NaN in this tile
  std::int32_t new_inf = 0;    // rows in which +inf first appeared in m, l or O in this tile
  std::int64_t nan_cells = 0;  // NaN cells of P
};

template <class T>
struct FoldKernels;
template <class T>
struct LaneState;
template <class T>
struct OutputUpdate;
template <class T>
struct Ahead;

template <class T>
class Fold {
 public:
  // Allocates for row blocks of up to Br rows and tiles of up to Bc keys (clipped to the problem).
  Fold(const Problem& problem, const Recipe& recipe, MemoryMeter& meter = process_memory());
  Fold(Fold&&) noexcept = default;

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
  // S and P live in the caller's memory, [Nk][lanes], instead of the fold's own; null: its own again.
  void use_strip(T* strip) { strip_ = strip; }
  // Per row 1 where mask() found a visible key, for guard skip: carried to a fold that takes over a masked strip.
  const T* visible() const { return visible_; }
  void set_visible(const T* visible) { std::copy(visible, visible + lanes_, visible_); }

  void save(RowBlockState<T>& state) const;
  void restore(const RowBlockState<T>& state);  // after start() of the same row block

  // ---- read-outs. Lane r is row row0 + r.
  std::int64_t head() const { return head_; }
  std::int64_t row0() const { return row0_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t lanes() const { return lanes_; }
  std::int64_t col0() const { return col0_; }
  std::int64_t cols() const { return cols_; }
  const T* S() const { return strip_ ? strip_ : S_.data(); }  // [cols][lanes]; P in place after exponentials
  const T* m() const { return m_; }
  const T* m_old() const { return m_old_; }  // before the tile's max
  const T* l() const { return l_; }
  const T* alpha() const { return alpha_; }        // exp(m_old - m_new), guards applied
  const T* o_factor() const { return o_factor_; }  // what O was multiplied by in rescale
  const T* row_sum() const { return row_sum_; }    // sum over the tile of P; set by accumulate
  const T* O() const { return O_; }                // [dv][lanes]
  const T* LSE() const { return LSE_; }            // set by finish
  std::vector<std::uint8_t> empty() const;         // per row: 1 = no visible key in the whole row

 private:
  LaneState<T> lane_state();
  const T* visible_or_null() const;
  const T* keys(const Tensor& tensor, std::int64_t c) const;
  T* strip() { return strip_ ? strip_ : S_.data(); }
  void cap(T* S, std::int64_t n) const;
  void add_output(const T* factor);
  void add_product(const OutputUpdate<T>& update, const Ahead<T>& ahead);
  void round(T* x, std::int64_t n, DType type);
  void sum_in_bfloat16(const T* beta);
  void apply_empty_row_policy();
  void find_mean_V();
  void find_row_status();

  const Problem* problem_;
  Recipe recipe_;
  const FoldKernels<T>* kernels_;
  Band band_;
  bool flash_, each_, local_causal_, unmasked_tail_, k_untransposed_;
  T scale_;
  std::int64_t head_ = 0, kv_head_ = 0, row0_ = 0, rows_ = 0, lanes_ = 0, col0_ = 0, cols_ = 0;
  std::int64_t padded_cols_ = 0;  // cols_, or Bc in the last tile under unmasked-tail
  bool needs_mask_ = false;
  std::int64_t folded_ = 0;
  Buffer<T> memory_, S_;  // memory_ holds everything that the pointers point to
  T *Qt_, *O_, *m_, *m_old_, *l_, *alpha_, *o_factor_, *row_sum_, *LSE_;
  T *tile_max_, *shift_, *beta_, *reciprocal_, *visible_;
  T *nan_, *inf_, *nan_before_, *inf_before_;  // row status, for counting
  bool status_known_ = false;                  // nan_, inf_ belong to the present state
  T* strip_ = nullptr;                         // the caller's memory in place of S_
  Buffer<std::uint64_t> keep_;                 // masks from a file, of this tile
  Buffer<T> bias_, K_;                         // K_: of k-untransposed
  std::vector<double> mean_V_;
  std::int64_t mean_V_head_ = -1;
};

// The instruction sets this binary can use on this machine, best first, e.g. {"AVX3", "AVX2", "SSE4"}.
std::vector<std::string_view> available_isas();
std::string_view current_isa();
// Fixes the set for the whole process (tests, --isa); "auto" chooses the best. Throws InputError.
void use_isa(std::string_view name);

}  // namespace flashscope
