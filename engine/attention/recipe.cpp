#include "engine/attention/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "engine/error.h"

namespace flashscope {
namespace {

// The words of every option, in the order of its enumeration.
constexpr std::array kAlgorithm = {"standard", "flash1", "flash2"};
constexpr std::array kOrder = {"forward", "reverse"};
constexpr std::array kSkip = {"geometry", "all", "none"};
constexpr std::array kGuard = {"clamp", "skip", "none"};
constexpr std::array kEmptyRow = {"zero", "nan", "mean"};
constexpr std::array kNormalise = {"end", "each"};
constexpr std::array kNumerators = {"running", "tile"};
constexpr std::array kMaskApply = {"select", "add"};
constexpr std::array kDefect = {"none",           "no-rescale",      "no-rescale-l", "no-rescale-o", "inverse-rescale",
                                "tile-max",       "local-causal",    "unscaled",     "double-scale", "no-final-divide",
                                "unmasked-tail",  "finite-sentinel", "mask-twice",   "lse-base2",    "gqa-interleaved",
                                "k-untransposed", "bf16-row-sum"};
constexpr std::array kScaleWhen = {"after", "before"};
constexpr std::array kExponential = {"exp", "exp2"};

template <class Enum>
struct Words;
#define FLASHSCOPE_WORDS(ENUM, OPTION)            \
  template <>                                     \
  struct Words<ENUM> {                            \
    static constexpr const auto& list = k##ENUM;  \
    static constexpr const char* option = OPTION; \
  };                                              \
  std::string_view word(ENUM value) { return k##ENUM[static_cast<std::size_t>(value)]; }
FLASHSCOPE_WORDS(Algorithm, "algorithm")
FLASHSCOPE_WORDS(Order, "order")
FLASHSCOPE_WORDS(Skip, "skip")
FLASHSCOPE_WORDS(Guard, "guard")
FLASHSCOPE_WORDS(EmptyRow, "empty-row")
FLASHSCOPE_WORDS(Normalise, "normalise")
FLASHSCOPE_WORDS(Numerators, "numerators")
FLASHSCOPE_WORDS(MaskApply, "mask-apply")
FLASHSCOPE_WORDS(Defect, "defect")
FLASHSCOPE_WORDS(ScaleWhen, "scale-when")
FLASHSCOPE_WORDS(Exponential, "exponential")
#undef FLASHSCOPE_WORDS

}  // namespace

std::string_view name(Algorithm value) { return word(value); }
std::string_view name(Order value) { return word(value); }
std::string_view name(Skip value) { return word(value); }
std::string_view name(Guard value) { return word(value); }
std::string_view name(EmptyRow value) { return word(value); }
std::string_view name(Normalise value) { return word(value); }
std::string_view name(Numerators value) { return word(value); }
std::string_view name(MaskApply value) { return word(value); }
std::string_view name(Defect value) { return word(value); }
std::string_view name(ScaleWhen value) { return word(value); }
std::string_view name(Exponential value) { return word(value); }

template <class Enum>
Enum parse(std::string_view text) {
  const auto& list = Words<Enum>::list;
  const auto found = std::find(list.begin(), list.end(), text);
  if (found == list.end())
    throw InputError(Words<Enum>::option, '"' + std::string(text) + '"',
                     fmt::format("one of {}", fmt::join(list, ", ")));
  return static_cast<Enum>(found - list.begin());
}

template <class Enum>
std::vector<std::string_view> choices() {
  return {Words<Enum>::list.begin(), Words<Enum>::list.end()};
}

#define FLASHSCOPE_OPTION(ENUM)                \
  template ENUM parse<ENUM>(std::string_view); \
  template std::vector<std::string_view> choices<ENUM>();
FLASHSCOPE_OPTION(Algorithm)
FLASHSCOPE_OPTION(Order)
FLASHSCOPE_OPTION(Skip)
FLASHSCOPE_OPTION(Guard)
FLASHSCOPE_OPTION(EmptyRow)
FLASHSCOPE_OPTION(Normalise)
FLASHSCOPE_OPTION(Numerators)
FLASHSCOPE_OPTION(MaskApply)
FLASHSCOPE_OPTION(Defect)
FLASHSCOPE_OPTION(ScaleWhen)
FLASHSCOPE_OPTION(Exponential)
#undef FLASHSCOPE_OPTION

void check(const Recipe& recipe, const Shape& shape) {
  check(shape);
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  const auto check_block = [&](const char* what, std::int64_t value) {
    if (value < 1 || value > kLargest)
      throw InputError(what, std::to_string(value), fmt::format("a number from 1 to {}", kLargest));
  };
  check_block("Br", recipe.Br);
  check_block("Bc", recipe.Bc);
  if (recipe.defect == Defect::no_final_divide && recipe.normalised() == Normalise::each)
    throw InputError("defect no-final-divide", "normalise each, which has no final division", "normalise end");
  if (std::isnan(recipe.sentinel)) throw InputError("defect finite-sentinel", "nan", "a finite number");
  const Numerics& numerics = recipe.numerics;
  for (const DType type : {numerics.scores, numerics.P, numerics.accumulators})
    if (type == DType::float64)
      throw InputError("numerics", "float64", "float32, float16 or bfloat16: float64 problems are computed in float64");
  constexpr double kLargestThreshold = 64;  // 2^64 squared still is a float
  if (!(numerics.rescale_threshold >= 0 && numerics.rescale_threshold <= kLargestThreshold))
    throw InputError("rescale threshold", fmt::format("{}", numerics.rescale_threshold),
                     fmt::format("0 to {} powers of 2", kLargestThreshold));
}

Numerics tensor_core_numerics(DType element) {
  Numerics numerics;
  if (size_of(element) == 2) numerics.P = element;
  numerics.exponential = Exponential::exp2;
  numerics.rescale_threshold = 8;
  return numerics;
}

std::string numerics_text(const Numerics& numerics) {
  std::vector<std::string> parts;
  const auto type = [&](const char* what, DType of) {
    if (of != DType::float32) parts.push_back(fmt::format("{} {}", what, name(of)));
  };
  type("scores", numerics.scores);
  type("P", numerics.P);
  type("accumulators", numerics.accumulators);
  if (numerics.scale == ScaleWhen::before) parts.emplace_back("Q scaled before the product");
  if (numerics.exponential == Exponential::exp2) parts.emplace_back("exp2");
  if (numerics.rescale_threshold > 0) parts.push_back(fmt::format("rescaled beyond 2^{}", numerics.rescale_threshold));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::int64_t kv_head(const Shape& shape, const Recipe& recipe, std::int64_t h) {
  return recipe.defect == Defect::gqa_interleaved ? h % shape.kv_heads : shape.kv_head(h);
}

BlockSizes block_sizes(std::int64_t M, std::int64_t d, std::int64_t dv) {
  if (M < 1) throw InputError("sram", std::to_string(M), "a number of elements >= 1");
  const std::int64_t Bc = (M + 2 * (d + dv) - 1) / (2 * (d + dv));
  return {std::min(Bc, d), Bc};
}

void set_defect(Recipe& recipe, std::string_view text) {
  const std::size_t equals = text.find('=');
  const Defect defect = parse<Defect>(text.substr(0, equals));
  if (equals != text.npos) {
    if (defect != Defect::finite_sentinel)
      throw InputError("defect " + std::string(text.substr(0, equals)), "a value",
                       "none: only finite-sentinel has one");
    std::string_view value = text.substr(equals + 1);
    const std::size_t comma = value.find(',');
    const bool added = comma != value.npos && value.substr(comma + 1) == "add";
    if (comma != value.npos && !added)
      throw InputError("defect finite-sentinel", '"' + std::string(value.substr(comma + 1)) + '"', "add, or nothing");
    value = value.substr(0, comma);
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size() || !std::isfinite(number))
      throw InputError("defect finite-sentinel", '"' + std::string(value) + '"', "a finite number, as in -10000");
    recipe.sentinel = number, recipe.sentinel_added = added;
  } else if (defect == Defect::finite_sentinel) {
    throw InputError("defect finite-sentinel", "no value", "finite-sentinel=VALUE or finite-sentinel=VALUE,add");
  }
  recipe.defect = defect;
}

std::string defect_text(const Recipe& recipe) {
  if (recipe.defect == Defect::none) return {};
  std::string text(name(recipe.defect));
  if (recipe.defect == Defect::finite_sentinel)
    text += fmt::format("={}{}", recipe.sentinel, recipe.sentinel_added ? ",add" : "");
  return text;
}

namespace {

// Whether adding the bias a second time changes any score: a value that is neither 0 nor -inf.
bool has_finite_bias(const Mask& mask) {
  if (!mask.bias) return false;
  const auto counts = [](const auto& values) {
    return std::any_of(values.begin(), values.end(), [](auto x) { return x != 0 && std::isfinite(x); });
  };
  return counts(mask.bias->f32) || counts(mask.bias->f64);
}

}  // namespace

std::string why_defect_cannot_show(const Recipe& recipe, const Problem& problem) {
  const Shape shape = problem.shape();
  const bool flash = recipe.algorithm != Algorithm::standard;
  const bool several_tiles = shape.Nk > recipe.Bc;
  switch (recipe.defect) {
    case Defect::none:
      return {};
    case Defect::no_rescale:
    case Defect::no_rescale_l:
    case Defect::no_rescale_o:
    case Defect::inverse_rescale:
      if (!flash) return "standard attention never rescales";
      if (!several_tiles) return "all keys are in one tile, so no maximum can grow after the first";
      return {};
    case Defect::tile_max:
      if (!flash) return "standard attention has the whole row's maximum";
      if (!several_tiles) return "all keys are in one tile, whose maximum is the row's";
      return {};
    case Defect::local_causal:
      if (problem.mask.causal == Causal::none) return "the mask is not causal";
      if (!flash) return "standard attention has no tiles";
      if (shape.Nq <= recipe.Br && shape.Nk <= recipe.Bc && problem.mask.causal == Causal::top_left)
        return "there is one tile, in which the indices are the same";
      return {};
    case Defect::unscaled:
    case Defect::double_scale:
      return problem.scale == 1 ? "the scale is 1" : "";
    case Defect::no_final_divide:
      return flash ? "" : "standard attention divides in its softmax";
    case Defect::unmasked_tail:
      if (!flash) return "standard attention has no tiles";
      if (shape.Nk % recipe.Bc == 0) return fmt::format("Nk = {} is a multiple of Bc = {}", shape.Nk, recipe.Bc);
      if (const Band limits = band(problem.mask, shape.Nq, shape.Nk); shape.Nq - 1 + limits.hi <= shape.Nk)
        return "the causal mask or window hides every key beyond Nk from every row";
      return {};
    case Defect::finite_sentinel:
      return problem.mask.none() ? "nothing is masked" : "";
    case Defect::mask_twice:
      return has_finite_bias(problem.mask) ? "" : "no finite bias is added, and a masked key stays masked";
    case Defect::lse_base2:
      return {};
    case Defect::gqa_interleaved:
      if (shape.kv_heads == 1) return "one key/value head serves every query head";
      return shape.kv_heads == shape.heads ? "every query head has a key/value head of its own" : "";
    case Defect::k_untransposed: {
      const std::int64_t keys = flash ? recipe.Bc : shape.Nk;
      if (keys == shape.d && shape.d > 1) return {};
      return fmt::format("a tile of K is {} x {}: only a square one can be taken for its transpose", keys, shape.d);
    }
    case Defect::bf16_row_sum:
      if (shape.Nk == 1) return "a row sum of one key is 1, exactly";
      if (size_of(shape.type) == 2 && shape.Nk < 256)
        return fmt::format("a row of {} keys sums in bfloat16 about as well as a 16-bit output is rounded", shape.Nk);
      return {};
  }
  return {};
}

std::string conventions(const Recipe& recipe, const Mask& mask) {
  std::string text;
  const auto add = [&text](std::string_view words) {
    if (!text.empty()) text += ", ";
    text += words;
  };
  if (mask.causal != Causal::none) add(fmt::format("causal {}", name(mask.causal)));
  if (mask.window) add(fmt::format("window {},{}", mask.window->left, mask.window->right));
  if (mask.keep) add("keep mask");
  if (mask.bias) add("bias added");
  if (const std::string rules = flashscope::text(mask.rules); !rules.empty()) add(rules);
  if (mask.none()) add("no mask");
  if (recipe.algorithm != Algorithm::standard) add(fmt::format("skip {}", name(recipe.skip)));
  add(fmt::format("guard {}", name(recipe.guard)));
  add(recipe.guard == Guard::none ? std::string("empty row as computed")
                                  : fmt::format("empty row {}", name(recipe.empty_row)));
  if (recipe.mask_apply == MaskApply::add) add("mask added");
  if (recipe.numerators == Numerators::tile) add("numerators of the tile");
  if (const std::string numerics = numerics_text(recipe.numerics); !numerics.empty()) add(numerics);
  add("LSE natural log");
  if (recipe.defect != Defect::none) add(fmt::format("DEFECT {}", defect_text(recipe)));
  return text;
}

}  // namespace flashscope
