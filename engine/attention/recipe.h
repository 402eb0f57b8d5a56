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
  finite_sentinel
};

std::string_view name(Algorithm);
std::string_view name(Order);
std::string_view name(Skip);
std::string_view name(Guard);
std::string_view name(EmptyRow);
std::string_view name(Normalise);
std::string_view name(Numerators);
std::string_view name(MaskApply);
std::string_view name(Defect);  // "no-rescale-l"

// Parse the command line's word; throw InputError that lists the choices.
template <class Enum>
Enum parse(std::string_view text);
// All words of an option, in the order of the enumeration.
template <class Enum>
std::vector<std::string_view> choices();

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

// "no-rescale", "finite-sentinel=-10000,add" -> fields of the recipe. Throws InputError.
void set_defect(Recipe& recipe, std::string_view text);
std::string defect_text(const Recipe& recipe);  // the inverse; "" for none
// Why this defect cannot show on this problem under this recipe, or empty if it can as far as
// shapes and mask tell (whether a maximum grows needs the numbers).
std::string why_defect_cannot_show(const Recipe& recipe, const Problem& problem);

// One line that prints every convention in force, for use beside numbers that depend on them:
// "causal top-left, skip geometry, guard clamp, empty row 0, LSE natural".
std::string conventions(const Recipe& recipe, const Mask& mask);

}  // namespace flashscope
