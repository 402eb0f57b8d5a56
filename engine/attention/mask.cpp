#include "engine/attention/mask.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/error.h"

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
  band.shift = shift;
  if (mask.causal != Causal::none && !mask.lifted()) band.hi = shift + 1;
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

std::int64_t mask_heads(const Mask& mask) {
  return std::max({mask.keep ? mask.keep->heads : 1, mask.bias ? mask.bias->heads : 1,
                   static_cast<std::int64_t>(mask.rules.lengths.size())});
}

std::pair<std::int64_t, std::int64_t> run_of_keys(const Mask& mask, const Band& band, std::int64_t h, std::int64_t r) {
  std::int64_t first = r + band.lo, last = r + band.hi;
  const MaskRules& rules = mask.rules;
  if (mask.lifted()) last = std::min(last, std::max(*rules.prefix, r + band.shift + 1));
  if (!rules.lengths.empty()) last = std::min(last, rules.length(h));
  if (rules.documents && rules.documents->runs())
    first = std::max(first, rules.documents->first[r]), last = std::min(last, rules.documents->last[r]);
  return {first, last};
}

namespace {

// What a run of keys does not say.
bool scattered_visible(const Mask& mask, std::int64_t h, std::int64_t r, std::int64_t c) {
  const auto& documents = mask.rules.documents;
  if (documents && !documents->runs() && documents->rows[r] != documents->keys[c]) return false;
  if (mask.keep && !mask.keep->keep(h, r, c)) return false;
  return !mask.bias || mask.bias->at(h, r, c) != -std::numeric_limits<double>::infinity();
}
// Whether only runs of keys and the keep mask decide: then words of bits are enough.
bool runs_and_bits(const Mask& mask) { return !mask.bias && (!mask.rules.documents || mask.rules.documents->runs()); }

}  // namespace

bool visible(const Mask& mask, const Band& band, std::int64_t h, std::int64_t r, std::int64_t c) {
  if (c < r + band.lo || c >= r + band.hi) return false;
  if (!mask.rules.none()) {
    const auto [first, last] = run_of_keys(mask, band, h, r);
    if (c < first || c >= last) return false;
  }
  return scattered_visible(mask, h, r, c);
}

double added(const Mask& mask, const Band& band, std::int64_t h, std::int64_t r, std::int64_t c) {
  double sum = mask.bias ? mask.bias->at(h, r, c) : 0;
  if (!mask.rules.alibi.empty()) sum -= mask.rules.slope(h) * static_cast<double>(std::abs(r + band.shift - c));
  return sum;
}

double capped(const Mask& mask, double score) {
  const double cap = mask.rules.softcap;
  return cap == 0 ? score : cap * std::tanh(score / cap);
}

Mask lowered(const Mask& mask, std::int64_t heads, std::int64_t Nq, std::int64_t Nk) {
  Mask plain = mask;
  plain.rules = {};
  plain.rules.softcap = mask.rules.softcap;
  const bool hides = !mask.rules.lengths.empty() || mask.rules.documents || mask.lifted();
  if (mask.lifted()) plain.causal = Causal::none, plain.window.reset();  // both are in the keep mask then
  const bool adds = !mask.rules.alibi.empty();
  const std::int64_t of_keep = mask_heads(mask),
                     of_bias = adds && mask.rules.alibi.size() > 1 ? heads : mask_heads(mask);
  const double cells = static_cast<double>(std::max(hides ? of_keep : 0, adds ? of_bias : 0)) *
                       static_cast<double>(Nq) * static_cast<double>(Nk);
  if (cells > 0x1p31)
    throw InputError("masks by rule", std::to_string(cells) + " cells as planes", "at most 2^31: they run on the CPU");
  const Band limits = band(mask, Nq, Nk);
  if (hides) {
    KeepMask keep = make_keep_mask(of_keep, Nq, Nk);
    Mask without_bias = mask;
    without_bias.bias = nullptr;
    for (std::int64_t h = 0; h < of_keep; ++h)
      for (std::int64_t r = 0; r < Nq; ++r)
        for (std::int64_t c = 0; c < Nk; ++c)
          if (visible(without_bias, limits, h, r, c)) set_keep(keep, h, r, c);
    plain.keep = std::make_shared<const KeepMask>(std::move(keep));
  }
  if (adds) {
    Bias bias;
    bias.heads = of_bias, bias.rows = Nq, bias.cols = Nk;
    bias.f64.reserve(static_cast<std::size_t>(of_bias * Nq * Nk));
    for (std::int64_t h = 0; h < of_bias; ++h)
      for (std::int64_t r = 0; r < Nq; ++r)
        for (std::int64_t c = 0; c < Nk; ++c) bias.f64.push_back(added(mask, limits, h, r, c));
    plain.bias = std::make_shared<const Bias>(std::move(bias));
  }
  return plain;
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

// The bits of a word of 64 keys that lie in [first, last).
std::uint64_t word_part(std::int64_t word, std::int64_t first, std::int64_t last) {
  std::uint64_t bits = ~std::uint64_t{0};
  if (word * 64 < first) bits &= ~std::uint64_t{0} << (first - word * 64);
  if (word * 64 + 64 > last) bits &= ~std::uint64_t{0} >> (word * 64 + 64 - last);
  return bits;
}

// Whether any (or, for `wanted` false, any not) of the keys [first, last) is kept: a word at a time.
bool any_kept(const KeepMask& mask, std::int64_t h, std::int64_t r, std::int64_t first, std::int64_t last,
              bool wanted) {
  if (first >= last) return false;
  if (mask.cols == 1) return mask.keep(h, r, 0) == wanted;
  const std::int64_t row = ((mask.heads == 1 ? 0 : h) * mask.rows + (mask.rows == 1 ? 0 : r)) * mask.words_per_row;
  for (std::int64_t word = first / 64; word * 64 < last; ++word) {
    const std::uint64_t bits = wanted ? mask.bits[row + word] : ~mask.bits[row + word];
    if (bits & word_part(word, first, last)) return true;
  }
  return false;
}

}  // namespace

bool any_visible(const Mask& mask, const Band& limits, std::int64_t h, std::int64_t r, std::int64_t first,
                 std::int64_t last) {
  const auto [run_first, run_last] = run_of_keys(mask, limits, h, r);
  first = std::max(first, run_first), last = std::min(last, run_last);
  if (first >= last) return false;
  if (runs_and_bits(mask)) return !mask.keep || any_kept(*mask.keep, h, r, first, last, true);
  for (std::int64_t c = first; c < last; ++c)
    if (scattered_visible(mask, h, r, c)) return true;
  return false;
}

bool all_visible(const Mask& mask, const Band& limits, std::int64_t h, std::int64_t r, std::int64_t first,
                 std::int64_t last) {
  if (first >= last) return true;
  const auto [run_first, run_last] = run_of_keys(mask, limits, h, r);
  if (first < run_first || last > run_last) return false;
  if (runs_and_bits(mask)) return !mask.keep || !any_kept(*mask.keep, h, r, first, last, false);
  for (std::int64_t c = first; c < last; ++c)
    if (!scattered_visible(mask, h, r, c)) return false;
  return true;
}

std::int64_t visible_keys(const Mask& mask, std::int64_t Nq, std::int64_t Nk, std::int64_t h, std::int64_t r) {
  const auto [run_first, run_last] = run_of_keys(mask, band(mask, Nq, Nk), h, r);
  const std::int64_t first = std::max<std::int64_t>(0, run_first), last = std::min(Nk, run_last);
  if (first >= last) return 0;
  if (runs_and_bits(mask) && (!mask.keep || mask.keep->cols == 1))
    return !mask.keep || mask.keep->keep(h, r, 0) ? last - first : 0;
  std::int64_t count = 0;
  if (runs_and_bits(mask)) {
    const KeepMask& keep = *mask.keep;
    const std::int64_t row = ((keep.heads == 1 ? 0 : h) * keep.rows + (keep.rows == 1 ? 0 : r)) * keep.words_per_row;
    for (std::int64_t word = first / 64; word * 64 < last; ++word)
      count += std::popcount(keep.bits[row + word] & word_part(word, first, last));
    return count;
  }
  for (std::int64_t c = first; c < last; ++c) count += scattered_visible(mask, h, r, c);
  return count;
}

std::vector<std::int64_t> empty_rows(const Mask& mask, std::int64_t Nq, std::int64_t Nk, std::int64_t h) {
  const Band limits = band(mask, Nq, Nk);
  std::vector<std::int64_t> rows;
  for (std::int64_t r = 0; r < Nq; ++r)
    if (!any_visible(mask, limits, h, r, 0, Nk)) rows.push_back(r);
  return rows;
}

}  // namespace flashscope
