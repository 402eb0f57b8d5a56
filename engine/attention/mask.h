// Which keys a query row may see: causal and window masks as one band, a keep mask packed to bits,
// an additive bias, masks by rule (mask_rules.h). Visibility is decided here and nowhere else, never by m or l.
//
// Structural masks: row r sees the keys [r + band.lo, r + band.hi) clipped to [0, Nk). Causal
// top-left: hi = 1; bottom-right: hi = Nk - Nq + 1; window L,R: lo = -L, hi = R + 1 (both shifted by
// Nk - Nq with bottom-right). A boolean keep mask and a bias come from files and broadcast to
// (heads, Nq, Nk). A bias of -inf counts as masked.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/attention/mask_rules.h"
#include "engine/memory.h"

namespace flashscope {

enum class Causal { none, top_left, bottom_right };
std::string_view name(Causal causal);

struct Window {
  std::int64_t left = 0, right = 0;  // r - left <= c <= r + right
  bool operator==(const Window&) const = default;
};

// A (heads, Nq, Nk) plane of bits that may be 1 in any dimension (broadcast). Bit 1 = keep.
struct KeepMask {
  std::int64_t heads = 1, rows = 1, cols = 1;
  std::int64_t words_per_row = 0;  // 64-bit words; a row starts on a word
  Buffer<std::uint64_t> bits;
  bool keep(std::int64_t h, std::int64_t r, std::int64_t c) const {
    h = heads == 1 ? 0 : h, r = rows == 1 ? 0 : r, c = cols == 1 ? 0 : c;
    return bits[(h * rows + r) * words_per_row + c / 64] >> (c % 64) & 1;
  }
};
KeepMask make_keep_mask(std::int64_t heads, std::int64_t rows, std::int64_t cols);  // all drop
inline void set_keep(KeepMask& mask, std::int64_t h, std::int64_t r, std::int64_t c) {
  mask.bits[(h * mask.rows + r) * mask.words_per_row + c / 64] |= std::uint64_t{1} << (c % 64);
}

// An additive bias (heads, Nq, Nk), added to the scaled scores; may be 1 in any dimension.
struct Bias {
  std::int64_t heads = 1, rows = 1, cols = 1;
  Buffer<float> f32;  // used unless the file held float64
  Buffer<double> f64;
  int element_bytes = 4;  // size of the file's element type, for the traffic
  double at(std::int64_t h, std::int64_t r, std::int64_t c) const {
    h = heads == 1 ? 0 : h, r = rows == 1 ? 0 : r, c = cols == 1 ? 0 : c;
    const std::int64_t at = (h * rows + r) * cols + c;
    return f64.empty() ? f32[at] : f64[at];
  }
};

struct Band {
  static constexpr std::int64_t kOpen = std::int64_t{1} << 60;  // no bound on that side
  std::int64_t lo = -kOpen, hi = kOpen;                         // row r sees [r + lo, r + hi)
  std::int64_t shift = 0;                                       // Nk - Nq with bottom-right, else 0
};

struct Mask {
  Causal causal = Causal::none;
  std::optional<Window> window;
  std::shared_ptr<const KeepMask> keep;
  std::shared_ptr<const Bias> bias;
  MaskRules rules;

  // Whether a prefix lifts the causal mask: then it is no band.
  bool lifted() const { return causal != Causal::none && rules.prefix.has_value(); }
  // Whether the band alone decides what is visible.
  bool structural_only() const { return !keep && !bias && rules.lengths.empty() && !rules.documents && !lifted(); }
  bool none() const { return causal == Causal::none && !window && !keep && !bias && rules.none(); }
  bool adds() const { return bias || !rules.alibi.empty(); }  // something to every score
  bool operator==(const Mask&) const = default;
};

Band band(const Mask& mask, std::int64_t Nq, std::int64_t Nk);
// How many heads the masks tell apart: 1, or all.
std::int64_t mask_heads(const Mask& mask);
// The keys that the band leaves to row r: [first, second), empty when first >= second.
std::pair<std::int64_t, std::int64_t> band_keys(const Band& band, std::int64_t Nk, std::int64_t r);
bool visible(const Mask& mask, const Band& band, std::int64_t h, std::int64_t r, std::int64_t c);
// The keys that band and rules together leave to row r: [first, second); not clipped to [0, Nk). What is not a run
// of keys (keep mask, bias, scattered documents) does not count here.
std::pair<std::int64_t, std::int64_t> run_of_keys(const Mask& mask, const Band& band, std::int64_t h, std::int64_t r);
// What is added to the scaled (and capped) score of a cell: bias and ALiBi.
double added(const Mask& mask, const Band& band, std::int64_t h, std::int64_t r, std::int64_t c);
// The score after the cap, if there is one.
double capped(const Mask& mask, double score);
// The same visibility and additions as a keep mask and a bias: for kernels that know only those. The band and the cap
// stay, but for a causal mask that a prefix lifts and the window with it. Throws InputError beyond 2^31 cells.
Mask lowered(const Mask& mask, std::int64_t heads, std::int64_t Nq, std::int64_t Nk);
// Whether row r sees any key of [first, last), which lies in [0, Nk).
bool any_visible(const Mask& mask, const Band& band, std::int64_t h, std::int64_t r, std::int64_t first,
                 std::int64_t last);
// Whether it sees all of them.
bool all_visible(const Mask& mask, const Band& band, std::int64_t h, std::int64_t r, std::int64_t first,
                 std::int64_t last);
std::int64_t visible_keys(const Mask& mask, std::int64_t Nq, std::int64_t Nk, std::int64_t h, std::int64_t r);

// What the mask does, counted over all heads it tells apart. Cells beyond Nq x Nk are not counted.
struct MaskSummary {
  std::int64_t nan_cells = 0, plus_inf_cells = 0, minus_inf_cells = 0;  // of the bias
  // The NaN cells are exactly the cells that are not -inf: built as (1 - keep) * -inf.
  bool looks_like_zero_times_inf = false;
  bool looks_like_keep = false;  // a float bias that holds only 0 and 1
};
MaskSummary summarise(const Mask& mask);
// Rows without any visible key, ascending, of head h.
std::vector<std::int64_t> empty_rows(const Mask& mask, std::int64_t Nq, std::int64_t Nk, std::int64_t h);

}  // namespace flashscope
