// How a problem is computed: the algorithm, its tiles, its order, its guards and, for debugging, one
// deliberate mistake. A recipe never changes what the right answer is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/attention/problem.h"

namespace flashscope {

enum class Algorithm { standard, flash1, flash2 };  // flash1: K, V outside; flash2: Q outside
enum class Order { forward, reverse };              // of the column blocks
enum class Skip { geometry, all, none };            // which tiles without a visible key are not visited
enum class Guard { clamp, skip, none };             // against (-inf) - (-inf)
enum class EmptyRow { zero, nan, mean };
enum class Normalise { end, each };
enum class Numerators { running, tile };
enum class MaskApply { select, add };
enum class Defect {
  none,
  no_rescale,
  no_rescale_l,
  no_rescale_o,
  inverse_rescale,
  tile_max,
  local_causal,
  unscaled,
  double_scale,
  no_final_divide,
  unmasked_tail,
  finite_sentinel,
  mask_twice,
  lse_base2,
  gqa_interleaved,
  k_untransposed,
  bf16_row_sum
};
enum class ScaleWhen { after, before };  // the scale is applied to the product, or to Q before it
enum class Exponential { exp, exp2 };

std::string_view name(Algorithm);
std::string_view name(Order);
std::string_view name(Skip);
std::string_view name(Guard);
std::string_view name(EmptyRow);
std::string_view name(Normalise);
std::string_view name(Numerators);
std::string_view name(MaskApply);
std::string_view name(Defect);  // "no-rescale-l"
std::string_view name(ScaleWhen);
std::string_view name(Exponential);

// Parse the command line's word; throw InputError that lists the choices.
template <class Enum>
Enum parse(std::string_view text);
// All words of an option, in the order of the enumeration.
template <class Enum>
std::vector<std::string_view> choices();

// In what precision the verbs work. float32 stands for the type that the fold computes in (float64 for float64
// problems) and rounds nothing; float16 and bfloat16 round, to nearest even, what that verb leaves.
struct Numerics {
  DType scores = DType::float32;        // the raw product, and again after the scale
  DType P = DType::float32;             // as it enters P V; l sums it unrounded
  DType accumulators = DType::float32;  // O, after every 16 keys (a tensor core's depth) and every rescale, and l
  ScaleWhen scale = ScaleWhen::after;   // before: scale Q, rounded to the element type
  Exponential exponential = Exponential::exp;  // exp2: 2^(S log2 e - m log2 e), the product and the sum in one FMA
  // m moves, and O and l are rescaled, only where a score exceeds m by more than this many powers of 2.
  double rescale_threshold = 0;
  bool operator==(const Numerics&) const = default;
};
// What flash2_mma does: P in the element type, exp2, m moves beyond 2^8 (there for a warp's rows together).
Numerics tensor_core_numerics(DType element);

struct Recipe {
  Algorithm algorithm = Algorithm::flash2;
  std::int64_t Br = 64, Bc = 64;  // any >= 1, also larger than N
  Order order = Order::forward;
  Skip skip = Skip::geometry;
  Guard guard = Guard::clamp;
  EmptyRow empty_row = EmptyRow::zero;
  std::optional<Normalise> normalise;  // unset: each for flash1, end for flash2
  Numerators numerators = Numerators::running;
  MaskApply mask_apply = MaskApply::select;
  Numerics numerics;
  Defect defect = Defect::none;
  double sentinel = -1e4;            // of finite_sentinel
  bool sentinel_added = false;       // added to the score instead of replacing it
  std::optional<std::int64_t> sram;  // the budget M in elements that Br and Bc came from, if any

  Normalise normalised() const {
    return normalise.value_or(algorithm == Algorithm::flash1 ? Normalise::each : Normalise::end);
  }
  bool operator==(const Recipe&) const = default;
};

// Throws InputError, e.g. for Br < 1, or no-final-divide with normalise each.
void check(const Recipe& recipe, const Shape& shape);

// The first paper's rule: Bc = ceil(M / (2 (d + dv))), Br = min(Bc, d). M in elements.
struct BlockSizes {
  std::int64_t Br, Bc;
};
BlockSizes block_sizes(std::int64_t M, std::int64_t d, std::int64_t dv);

// The key/value head that query head h reads: h / (H / Hkv), or h mod Hkv under gqa-interleaved.
std::int64_t kv_head(const Shape& shape, const Recipe& recipe, std::int64_t h);

// "no-rescale", "finite-sentinel=-10000,add" -> fields of the recipe. Throws InputError.
void set_defect(Recipe& recipe, std::string_view text);
std::string defect_text(const Recipe& recipe);  // the inverse; "" for none
// Why this defect cannot show on this problem under this recipe, or empty if it can as far as
// shapes and mask tell (whether a maximum grows needs the numbers).
std::string why_defect_cannot_show(const Recipe& recipe, const Problem& problem);

// "scores float16, P bfloat16, exp2"; "" where nothing differs from the default.
std::string numerics_text(const Numerics& numerics);

// One line that prints every convention in force, for use beside numbers that depend on them:
// "causal top-left, skip geometry, guard clamp, empty row 0, LSE natural".
std::string conventions(const Recipe& recipe, const Mask& mask);

}  // namespace flashscope
