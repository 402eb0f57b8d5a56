#include "engine/attention/mask.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace flashscope {

std::string_view name(Causal causal) {
  switch (causal) {
    case Causal::none:
      return "none";
    case Causal::top_left:
      return "top-left";
    case Causal::bottom_right:
      return "bottom-right";
  }
  return {};
}

KeepMask make_keep_mask(std::int64_t heads, std::int64_t rows, std::int64_t cols) {
  KeepMask mask;
  mask.heads = heads, mask.rows = rows, mask.cols = cols;
  mask.words_per_row = (cols + 63) / 64;
  mask.bits = make_buffer<std::uint64_t>(heads * rows * mask.words_per_row);
  return mask;
}

Band band(const Mask& mask, std::int64_t Nq, std::int64_t Nk) {
  const std::int64_t shift = mask.causal == Causal::bottom_right ? Nk - Nq : 0;
  Band band;
  if (mask.causal != Causal::none) band.hi = shift + 1;
  if (mask.window) {
    // Beyond the sizes that a problem can have, a side of a window is open.
    if (mask.window->left < Band::kOpen / 2) band.lo = shift - mask.window->left;
    if (mask.window->right < Band::kOpen / 2) band.hi = std::min(band.hi, shift + mask.window->right + 1);
  }
  return band;
}

std::pair<std::int64_t, std::int64_t> band_keys(const Band& band, std::int64_t Nk, std::int64_t r) {
  return {std::clamp<std::int64_t>(r + band.lo, 0, Nk), std::clamp<std::int64_t>(r + band.hi, 0, Nk)};
}

bool visible(const Mask& mask, const Band& band, std::int64_t h, std::int64_t r, std::int64_t c) {
  if (c < r + band.lo || c >= r + band.hi) return false;
  if (mask.keep && !mask.keep->keep(h, r, c)) return false;
  return !mask.bias || mask.bias->at(h, r, c) != -std::numeric_limits<double>::infinity();
}

std::int64_t visible_keys(const Mask& mask, std::int64_t Nq, std::int64_t Nk, std::int64_t h, std::int64_t r) {
  const Band limits = band(mask, Nq, Nk);
  const auto [first, last] = band_keys(limits, Nk, r);
  if (mask.structural_only()) return std::max<std::int64_t>(0, last - first);
  std::int64_t count = 0;
  for (std::int64_t c = first; c < last; ++c) count += visible(mask, limits, h, r, c);
  return count;
}

MaskSummary summarise(const Mask& mask) {
  MaskSummary summary;
  if (!mask.bias) return summary;
  const Bias& bias = *mask.bias;
  const std::size_t cells = std::max(bias.f32.size(), bias.f64.size());
  std::int64_t zeros_and_ones = 0;
  for (std::size_t n = 0; n < cells; ++n) {
    const double value = bias.f64.empty() ? bias.f32[n] : bias.f64[n];
    summary.nan_cells += std::isnan(value);
    summary.plus_inf_cells += value == std::numeric_limits<double>::infinity();
    summary.minus_inf_cells += value == -std::numeric_limits<double>::infinity();
    zeros_and_ones += value == 0 || value == 1;
  }
  const auto all = static_cast<std::int64_t>(cells);
  summary.looks_like_zero_times_inf =
      summary.nan_cells > 0 && summary.minus_inf_cells > 0 && summary.nan_cells + summary.minus_inf_cells == all;
  summary.looks_like_keep = all > 0 && zeros_and_ones == all;
  return summary;
}

namespace {

// Whether any (or, for `wanted` false, any not) of the keys [first, last) is kept: a word at a time.
bool any_kept(const KeepMask& mask, std::int64_t h, std::int64_t r, std::int64_t first, std::int64_t last,
              bool wanted) {
  if (first >= last) return false;
  if (mask.cols == 1) return mask.keep(h, r, 0) == wanted;
  const std::int64_t row = ((mask.heads == 1 ? 0 : h) * mask.rows + (mask.rows == 1 ? 0 : r)) * mask.words_per_row;
  for (std::int64_t word = first / 64; word * 64 < last; ++word) {
    std::uint64_t bits = wanted ? mask.bits[row + word] : ~mask.bits[row + word];
    if (word * 64 < first) bits &= ~std::uint64_t{0} << (first - word * 64);
    if (word * 64 + 64 > last) bits &= ~std::uint64_t{0} >> (word * 64 + 64 - last);
    if (bits) return true;
  }
  return false;
}

}  // namespace

bool any_visible(const Mask& mask, const Band& limits, std::int64_t h, std::int64_t r, std::int64_t first,
                 std::int64_t last) {
  first = std::max(first, r + limits.lo), last = std::min(last, r + limits.hi);
  if (first >= last) return false;
  if (!mask.bias) return !mask.keep || any_kept(*mask.keep, h, r, first, last, true);
  for (std::int64_t c = first; c < last; ++c)
    if (visible(mask, limits, h, r, c)) return true;
  return false;
}

bool all_visible(const Mask& mask, const Band& limits, std::int64_t h, std::int64_t r, std::int64_t first,
                 std::int64_t last) {
  if (first >= last) return true;
  if (first < r + limits.lo || last > r + limits.hi) return false;
  if (mask.keep && any_kept(*mask.keep, h, r, first, last, false)) return false;
  if (mask.bias)
    for (std::int64_t c = first; c < last; ++c)
      if (!visible(mask, limits, h, r, c)) return false;
  return true;
}

std::vector<std::int64_t> empty_rows(const Mask& mask, std::int64_t Nq, std::int64_t Nk, std::int64_t h) {
  const Band limits = band(mask, Nq, Nk);
  std::vector<std::int64_t> rows;
  for (std::int64_t r = 0; r < Nq; ++r)
    if (!any_visible(mask, limits, h, r, 0, Nk)) rows.push_back(r);
  return rows;
}

}  // namespace flashscope
