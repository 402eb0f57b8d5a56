#include "engine/attention/online_softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <type_traits>

#include "engine/attention/fold_kernels.h"
#include "engine/attention/fold_mask.h"
#include "engine/error.h"

namespace flashscope {
namespace {

template <class T>
constexpr T kInf = std::numeric_limits<T>::infinity();

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// A bound on c - r by indices inside a tile, in the 32 bits that the kernels compare.
std::int64_t inside_tile(std::int64_t bound) {
  return std::clamp<std::int64_t>(bound, std::numeric_limits<std::int32_t>::min(),
                                  std::numeric_limits<std::int32_t>::max());
}

double scale_of(const Problem& problem, Defect defect) {
  if (defect == Defect::unscaled) return 1;
  return defect == Defect::double_scale ? problem.scale * problem.scale : problem.scale;
}

// The band without the causal mask, which local-causal applies by other indices; the window stays.
Band window_band(const Mask& mask, const Shape& shape) {
  Mask window;
  window.window = mask.window;
  Band limits = band(window, shape.Nq, shape.Nk);
  const std::int64_t shift = mask.causal == Causal::bottom_right ? shape.Nk - shape.Nq : 0;
  limits.lo += shift, limits.hi += shift;
  limits.shift = shift;
  return limits;
}

}  // namespace

template <class T>
Fold<T>::Fold(const Problem& problem, const Recipe& recipe, MemoryMeter& meter)
    : problem_(&problem),
      recipe_(recipe),
      kernels_(&fold_kernels<T>()),
      band_(band(problem.mask, problem.shape().Nq, problem.shape().Nk)),
      flash_(recipe.algorithm != Algorithm::standard),
      each_(flash_ && recipe.normalised() == Normalise::each),
      local_causal_(flash_ && recipe.defect == Defect::local_causal && problem.mask.causal != Causal::none),
      unmasked_tail_(flash_ && recipe.defect == Defect::unmasked_tail),
      k_untransposed_(recipe.defect == Defect::k_untransposed && why_defect_cannot_show(recipe, problem).empty()),
      scale_(static_cast<T>(scale_of(problem, recipe.defect))),
      memory_(make_buffer<T>(0, meter)),
      S_(make_buffer<T>(0, meter)),
      keep_(make_buffer<std::uint64_t>(0, meter)),
      bias_(make_buffer<T>(0, meter)),
      K_(make_buffer<T>(0, meter)) {
  const Shape shape = problem.shape();
  constexpr std::int64_t kLargestPadding = std::int64_t{1} << 24;
  if (unmasked_tail_ && recipe.Bc > kLargestPadding)
    throw InputError("defect unmasked-tail", "Bc " + std::to_string(recipe.Bc), "Bc up to 16777216");
  if (local_causal_) band_ = window_band(problem.mask, shape);

  const std::int64_t lanes = rounded_up(std::min(recipe.Br, shape.Nq), kLane);
  T** const rows[] = {&m_,     &m_old_, &l_,          &alpha_,   &o_factor_, &row_sum_, &LSE_,        &tile_max_,
                      &shift_, &beta_,  &reciprocal_, &visible_, &nan_,      &inf_,     &nan_before_, &inf_before_};
  memory_.resize((shape.d + shape.dv + static_cast<std::int64_t>(std::size(rows))) * lanes);
  T* next = memory_.data();
  Qt_ = next, next += shape.d * lanes;
  O_ = next, next += shape.dv * lanes;
  for (T** row : rows) *row = next, next += lanes;
}

template <class T>
void Fold<T>::start(std::int64_t head, std::int64_t row0, std::int64_t rows) {
  head_ = head, row0_ = row0, rows_ = rows, lanes_ = rounded_up(rows, kLane);
  kv_head_ = kv_head(problem_->shape(), recipe_, head);
  col0_ = cols_ = padded_cols_ = folded_ = 0;
  needs_mask_ = status_known_ = false;
  const std::int64_t d = problem_->Q().cols, dv = problem_->V().cols;
  const T* Q = problem_->Q().template head<T>(head) + row0 * d;
  for (std::int64_t e = 0; e < d; ++e) {
    for (std::int64_t r = 0; r < rows; ++r) Qt_[e * lanes_ + r] = Q[r * d + e];
    std::fill(Qt_ + e * lanes_ + rows, Qt_ + (e + 1) * lanes_, T{0});
  }
  if (recipe_.numerics.scale == ScaleWhen::before) {
    for (std::int64_t n = 0; n < d * lanes_; ++n) Qt_[n] *= scale_;
    round(Qt_, d * lanes_, problem_->Q().type);
  }
  std::fill(O_, O_ + dv * lanes_, T{0});
  std::fill(m_, m_ + lanes_, -kInf<T>);
  std::fill(m_old_, m_old_ + lanes_, -kInf<T>);
  for (T* zero : {l_, alpha_, o_factor_, row_sum_, LSE_}) std::fill(zero, zero + lanes_, T{0});
}

template <class T>
void Fold<T>::begin_tile(std::int64_t col0, std::int64_t cols, bool needs_mask) {
  col0_ = col0, cols_ = padded_cols_ = cols;
  needs_mask_ = needs_mask || local_causal_;
  status_known_ = false;
  if (unmasked_tail_ && col0 + cols == problem_->K().rows) {
    padded_cols_ = rounded_up(problem_->K().rows, recipe_.Bc) - col0;
    // A tile that is full as far as its real keys go need not be so beyond them.
    needs_mask_ = needs_mask_ || (padded_cols_ > cols && !problem_->mask.none());
  }
  const auto cells = static_cast<std::size_t>(padded_cols_ * lanes_);
  if (!strip_ && S_.size() < cells) S_.resize(cells);
}

// The row of K or V that key c has.
template <class T>
const T* Fold<T>::keys(const Tensor& tensor, std::int64_t c) const {
  return tensor.template head<T>(kv_head_) + c * tensor.cols;
}

// Of a tile as a square matrix; keys beyond its end count as 0.
template <class T>
void transpose_tile(const T* K, std::int64_t keys, std::int64_t d, Buffer<T>& transposed) {
  transposed.assign(keys * d, T{0});
  for (std::int64_t c = 0; c < keys; ++c)
    for (std::int64_t e = 0; e < keys; ++e) transposed[c * d + e] = K[e * d + c];
}

template <class T>
void Fold<T>::scores() {
  T* S = strip();
  const std::int64_t d = problem_->K().cols, cells = cols_ * lanes_;
  const Numerics& numerics = recipe_.numerics;
  const bool whole = numerics.scores == DType::float32 && numerics.scale == ScaleWhen::after;
  const T* K = keys(problem_->K(), col0_);
  if (k_untransposed_) {
    transpose_tile(K, cols_, d, K_);
    K = K_.data();
  }
  kernels_->scores(Qt_, lanes_, d, K, cols_, whole ? scale_ : T{1}, S,
                   {keys(problem_->V(), col0_), keys(problem_->V(), col0_ + cols_)});
  if (!whole) {
    round(S, cells, numerics.scores);
    if (numerics.scale == ScaleWhen::after) {
      for (std::int64_t n = 0; n < cells; ++n) S[n] *= scale_;
      round(S, cells, numerics.scores);
    }
  }
  if (problem_->mask.rules.softcap != 0) cap(S, cols_ * lanes_);
  std::fill(S + cols_ * lanes_, S + padded_cols_ * lanes_, T{0});
}

// S = cap tanh(S / cap), tanh x = (1 - e) / (1 + e) with e = exp(-2 |x|); a series where that cancels. float64 has
// std::tanh, for its last digits.
template <class T>
void Fold<T>::cap(T* S, std::int64_t n) const {
  const T most = static_cast<T>(problem_->mask.rules.softcap);
  if constexpr (std::is_same_v<T, double>) {
    for (std::int64_t k = 0; k < n; ++k) S[k] = most * std::tanh(S[k] / most);
  } else {
    constexpr std::int64_t kChunk = 256;
    alignas(64) T e[kChunk];
    for (std::int64_t first = 0; first < n; first += kChunk) {
      const std::int64_t count = std::min(kChunk, n - first);
      T* s = S + first;
      for (std::int64_t k = 0; k < count; ++k) s[k] /= most, e[k] = -2 * std::abs(s[k]);
      kernels_->exp(e, count, e);
      for (std::int64_t k = 0; k < count; ++k) {
        const T x = s[k], xx = x * x;
        const T series = x * (1 + xx * (T{-1} / 3 + xx * (T{2} / 15 - xx * T{17} / 315)));
        const T whole = std::copysign((1 - e[k]) / (1 + e[k]), x);
        s[k] = most * (std::abs(x) < T{0.25} ? series : whole);
      }
    }
  }
}

template <class T>
void Fold<T>::mask() {
  if (!needs_mask_) return;
  MaskCells<T> cells;
  cells.cols = padded_cols_, cells.lanes = lanes_;
  cells.lo = inside_tile(row0_ + band_.lo - col0_);
  cells.hi = inside_tile(row0_ + band_.hi - col0_);
  // Rows may be folded without those above them in their row block.
  if (local_causal_) cells.hi = std::min<std::int64_t>(cells.hi, 1 + row0_ % recipe_.Br);
  cells.add_fill = recipe_.mask_apply == MaskApply::add;
  if (recipe_.defect == Defect::finite_sentinel) {
    cells.fill = static_cast<T>(recipe_.sentinel);
    cells.add_fill = recipe_.sentinel_added;
  }
  const MaskTile tile{head_, row0_, rows_, col0_, cols_};
  if (problem_->mask.keep) {
    keep_.resize(padded_cols_ * ((lanes_ + 63) / 64));
    gather_keep(*problem_->mask.keep, tile, padded_cols_, lanes_, keep_.data());
    cells.keep = keep_.data();
  }
  const Mask& mask = problem_->mask;
  if (!mask.rules.lengths.empty() || mask.rules.documents || mask.lifted()) {
    if (!mask.keep) keep_.assign(padded_cols_ * ((lanes_ + 63) / 64), ~std::uint64_t{0});
    hide_by_rule(mask, band_, tile, lanes_, !local_causal_, keep_.data());
    cells.keep = keep_.data();
  }
  if (problem_->mask.bias) {
    bias_.resize(padded_cols_ * lanes_);
    gather_bias(*problem_->mask.bias, tile, padded_cols_, lanes_, bias_.data());
    if (recipe_.defect == Defect::mask_twice)
      for (T& bias : bias_) bias *= 2;
    cells.bias = bias_.data();
  }
  if (!mask.rules.alibi.empty()) {
    if (!mask.bias) bias_.assign(padded_cols_ * lanes_, T{0});
    add_alibi(mask.rules, band_, tile, lanes_, bias_.data());
    cells.bias = bias_.data();
  }
  kernels_->mask(cells, strip(), visible_);
}

// Which rows have a visible key in this tile, where that matters: guard skip, in a tile that is masked.
template <class T>
const T* Fold<T>::visible_or_null() const {
  return recipe_.guard == Guard::skip && needs_mask_ ? visible_ : nullptr;
}

template <class T>
LaneState<T> Fold<T>::lane_state() {
  const Defect defect = recipe_.defect;
  LaneState<T> state;
  state.lanes = lanes_;
  state.m = m_, state.m_old = m_old_, state.l = l_, state.alpha = alpha_, state.o_factor = o_factor_;
  state.row_sum = row_sum_, state.tile_max = tile_max_, state.shift = shift_, state.reciprocal = reciprocal_;
  state.visible = visible_or_null();
  state.clamp = recipe_.guard == Guard::clamp;
  state.tile_numerators = flash_ && (recipe_.numerators == Numerators::tile || defect == Defect::tile_max);
  state.beta = state.tile_numerators && defect != Defect::tile_max ? beta_ : nullptr;
  state.each = each_;
  state.rescale_l = defect != Defect::no_rescale && defect != Defect::no_rescale_l;
  state.rescale_o = defect != Defect::no_rescale && defect != Defect::no_rescale_o;
  state.inverse = defect == Defect::inverse_rescale;
  state.powers_of_2 = recipe_.numerics.exponential == Exponential::exp2;
  state.lazy = static_cast<T>(recipe_.numerics.rescale_threshold * std::numbers::ln2);
  return state;
}

template <class T>
void Fold<T>::max() {
  kernels_->row_max(S(), padded_cols_, lanes_, tile_max_);
  kernels_->update_max(lane_state());
}

template <class T>
void Fold<T>::exponentials() {
  const auto exp = recipe_.numerics.exponential == Exponential::exp2 ? kernels_->exponentials2 : kernels_->exponentials;
  exp(strip(), padded_cols_, lanes_, shift_, visible_or_null(), row_sum_);
  if (flash_) round(strip(), padded_cols_ * lanes_, recipe_.numerics.P);
}

template <class T>
void Fold<T>::rescale() {
  kernels_->update_alpha(lane_state());
  kernels_->multiply_rows(O_, problem_->V().cols, lanes_, o_factor_);
  round(l_, lanes_, recipe_.numerics.accumulators);
  round(O_, problem_->V().cols * lanes_, recipe_.numerics.accumulators);
}

template <class T>
void Fold<T>::accumulate() {
  add_output(nullptr);
}

// l and O take in the tile's P; O is multiplied by `factor` first (null: rescale did that already).
template <class T>
void Fold<T>::add_output(const T* factor) {
  LaneState<T> state = lane_state();
  const OutputUpdate<T> update{factor, state.beta, each_ ? reciprocal_ : nullptr, state.visible};
  if (recipe_.defect == Defect::bf16_row_sum) {
    sum_in_bfloat16(state.beta);
    state.beta = nullptr;
  }
  kernels_->update_sum(state);
  round(l_, lanes_, recipe_.numerics.accumulators);
  const Tensor& K = problem_->K();
  // The next tile, if it is the neighbour; a tile that is not visited costs no more than what it would have.
  const std::int64_t next = recipe_.order == Order::forward ? col0_ + cols_ : col0_ - cols_;
  Ahead<T> ahead;
  if (next >= 0 && next < K.rows) ahead = {keys(K, next), keys(K, std::min(K.rows, next + cols_))};
  add_product(update, ahead);
  ++folded_;
}

// O += P V; where accumulators are narrow, in parts of as many keys as a tensor core adds before it rounds.
template <class T>
void Fold<T>::add_product(const OutputUpdate<T>& update, const Ahead<T>& ahead) {
  constexpr std::int64_t kDepth = 16;
  const Tensor& V = problem_->V();
  const DType type = recipe_.numerics.accumulators;
  const std::int64_t part = type == DType::float32 ? cols_ : kDepth;
  for (std::int64_t c = 0; c < cols_; c += part) {
    OutputUpdate<T> of_part = update;
    if (c > 0) of_part.factor = nullptr;
    if (c + part < cols_) of_part.reciprocal = nullptr;
    kernels_->accumulate(S() + c * lanes_, std::min(part, cols_ - c), lanes_, keys(V, col0_ + c), V.cols, of_part, O_,
                         ahead);
    round(O_, V.cols * lanes_, type);
  }
}

template <class T>
void Fold<T>::round(T* x, std::int64_t n, DType type) {
  if (size_of(type) == 2) kernels_->round(x, n, type == DType::bfloat16);
}

// row_sum such that l + row_sum is l with the tile's P added key by key in bfloat16.
template <class T>
void Fold<T>::sum_in_bfloat16(const T* beta) {
  std::copy(l_, l_ + lanes_, row_sum_);
  round(row_sum_, lanes_, DType::bfloat16);
  for (std::int64_t c = 0; c < padded_cols_; ++c) {
    for (std::int64_t r = 0; r < lanes_; ++r) row_sum_[r] += S()[c * lanes_ + r] * (beta ? beta[r] : T{1});
    round(row_sum_, lanes_, DType::bfloat16);
  }
  for (std::int64_t r = 0; r < lanes_; ++r) row_sum_[r] -= l_[r];
}

template <class T>
void Fold<T>::fold_tile(std::int64_t col0, std::int64_t cols, bool needs_mask) {
  begin_tile(col0, cols, needs_mask);
  scores();
  mask();
  max();
  exponentials();
  if (recipe_.numerics.accumulators != DType::float32) {
    rescale();
    accumulate();
  } else {
    add_output(kernels_->update_alpha(lane_state()) ? o_factor_ : nullptr);
  }
}

template <class T>
void Fold<T>::find_row_status() {
  kernels_->row_status(m_, l_, O_, problem_->V().cols, lanes_, nan_, inf_);
  status_known_ = true;
}

template <class T>
TileCounts Fold<T>::fold_tile_counted(std::int64_t col0, std::int64_t cols, bool needs_mask) {
  if (!status_known_) find_row_status();
  std::swap(nan_, nan_before_);
  std::swap(inf_, inf_before_);
  fold_tile(col0, cols, needs_mask);
  find_row_status();
  TileCounts counts;
  counts.largest_score = -kInf<double>;
  T* const nan_cells = shift_;  // the exponents are done with it
  kernels_->count_nan(S(), padded_cols_, lanes_, nan_cells);
  for (std::int64_t r = 0; r < rows_; ++r) {
    counts.largest_score = std::max(counts.largest_score, static_cast<double>(tile_max_[r]));
    counts.rescaled += std::isfinite(m_old_[r]) && m_[r] > m_old_[r];
    counts.first_max += m_old_[r] == -kInf<T> && std::isfinite(m_[r]);
    counts.new_nan += nan_[r] > nan_before_[r];
    counts.new_inf += inf_[r] > inf_before_[r];
    counts.nan_cells += static_cast<std::int64_t>(nan_cells[r]);
  }
  return counts;
}

template <class T>
void Fold<T>::finish() {
  if (flash_ && !each_ && recipe_.defect != Defect::no_final_divide) {
    for (std::int64_t e = 0; e < problem_->V().cols; ++e) {
      for (std::int64_t r = 0; r < lanes_; ++r) O_[e * lanes_ + r] /= l_[r];
    }
  }
  for (std::int64_t r = 0; r < rows_; ++r) LSE_[r] = m_[r] + std::log(l_[r]);
  if (recipe_.defect == Defect::lse_base2)
    for (std::int64_t r = 0; r < rows_; ++r) LSE_[r] *= static_cast<T>(std::numbers::log2e);
  if (recipe_.guard != Guard::none) apply_empty_row_policy();
  status_known_ = false;
}

// A row without any visible key. One whose maximum is not -inf was given a key by a defect (a sentinel,
// the tail) that does not know the row to be empty: what it computed stands.
template <class T>
void Fold<T>::apply_empty_row_policy() {
  const Shape shape = problem_->shape();
  for (std::int64_t r = 0; r < rows_; ++r) {
    if (m_[r] != -kInf<T> || visible_keys(problem_->mask, shape.Nq, shape.Nk, head_, row0_ + r) != 0) continue;
    LSE_[r] = -kInf<T>;
    if (recipe_.empty_row == EmptyRow::mean) find_mean_V();
    for (std::int64_t e = 0; e < shape.dv; ++e) {
      T& o = O_[e * lanes_ + r];
      if (recipe_.empty_row == EmptyRow::zero) o = 0;
      if (recipe_.empty_row == EmptyRow::nan) o = std::numeric_limits<T>::quiet_NaN();
      if (recipe_.empty_row == EmptyRow::mean) o = static_cast<T>(mean_V_[e]);
    }
  }
}

// Once a head: the mean of all of V, in double.
template <class T>
void Fold<T>::find_mean_V() {
  if (mean_V_head_ == head_) return;
  const Tensor& V = problem_->V();
  const T* value = V.template head<T>(kv_head_);
  mean_V_.assign(V.cols, 0.0);
  for (std::int64_t c = 0; c < V.rows; ++c) {
    for (std::int64_t e = 0; e < V.cols; ++e) mean_V_[e] += value[c * V.cols + e];
  }
  for (double& mean : mean_V_) mean /= static_cast<double>(V.rows);
  mean_V_head_ = head_;
}

template <class T>
void Fold<T>::softmax() {
  max();
  exponentials();
  const T* visible = visible_or_null();
  if (recipe_.defect == Defect::bf16_row_sum) sum_in_bfloat16(nullptr);
  round(row_sum_, lanes_, recipe_.numerics.accumulators);
  for (std::int64_t r = 0; r < lanes_; ++r) {
    l_[r] = row_sum_[r];
    // A guarded row without a visible key has l = 0 and P = 0; only guard none divides 0 by 0.
    const bool empty = visible ? visible[r] == 0 : recipe_.guard == Guard::clamp && l_[r] == 0;
    alpha_[r] = o_factor_[r] = 1;
    reciprocal_[r] = empty ? T{1} : T{1} / l_[r];
  }
  kernels_->multiply_rows(strip(), padded_cols_, lanes_, reciprocal_);
  round(strip(), padded_cols_ * lanes_, recipe_.numerics.P);
}

template <class T>
void Fold<T>::multiply() {
  std::fill(O_, O_ + problem_->V().cols * lanes_, T{0});
  add_product({}, {});
  ++folded_;
}

template <class T>
void Fold<T>::save(RowBlockState<T>& state) const {
  state.m.assign(m_, m_ + lanes_);
  state.l.assign(l_, l_ + lanes_);
  state.O.assign(O_, O_ + problem_->V().cols * lanes_);
  state.folded = folded_;
}

template <class T>
void Fold<T>::restore(const RowBlockState<T>& state) {
  std::copy(state.m.begin(), state.m.end(), m_);
  std::copy(state.l.begin(), state.l.end(), l_);
  std::copy(state.O.begin(), state.O.end(), O_);
  folded_ = state.folded;
  status_known_ = false;
}

template <class T>
std::vector<std::uint8_t> Fold<T>::empty() const {
  const Shape shape = problem_->shape();
  std::vector<std::uint8_t> empty(rows_);
  for (std::int64_t r = 0; r < rows_; ++r)
    empty[r] = visible_keys(problem_->mask, shape.Nq, shape.Nk, head_, row0_ + r) == 0;
  return empty;
}

template class Fold<float>;
template class Fold<double>;

}  // namespace flashscope
