#include "engine/insight/nan_birth.h"

#include <array>
#include <cmath>

namespace flashscope {
namespace {

bool plus_inf(double x) { return std::isinf(x) && x > 0; }

std::int64_t first_nan(const std::vector<double>& values) {
  for (std::size_t c = 0; c < values.size(); ++c)
    if (std::isnan(values[c])) return static_cast<std::int64_t>(c);
  return -1;
}

bool has_nan(const std::vector<double>& O, std::int64_t column) {
  return column >= 0 ? std::isnan(O[column]) : first_nan(O) >= 0;
}

// The elements of Q and K behind a product that is not finite.
ScoreFault fault_of_product(const Problem& problem, const Recipe& recipe, std::int64_t head, std::int64_t row,
                            std::int64_t key) {
  const Tensor &Q = problem.Q(), &K = problem.K();
  const std::int64_t kv = kv_head(problem.shape(), recipe, head);
  const auto find = [&](auto is) {
    for (std::int64_t e = 0; e < Q.cols; ++e)
      if (is(Q.at(head, row, e), K.at(kv, key, e))) return e;
    return std::int64_t{-1};
  };
  if (const auto e = find([](double q, double) { return std::isnan(q); }); e >= 0)
    return {Cause::q_nan, Origin::q, head, row, e};
  if (const auto e = find([](double, double k) { return std::isnan(k); }); e >= 0)
    return {Cause::k_nan, Origin::k, kv, key, e};
  // Infinite products first; an infinite element times 0 only where there is nothing else.
  for (const bool any : {false, true}) {
    if (const auto e = find([any](double q, double k) { return std::isinf(q) && (any || k != 0); }); e >= 0)
      return {Cause::inf_minus_inf, Origin::q, head, row, e};
    if (const auto e = find([any](double q, double k) { return std::isinf(k) && (any || q != 0); }); e >= 0)
      return {Cause::inf_minus_inf, Origin::k, kv, key, e};
  }
  return {Cause::inf_minus_inf, Origin::score_overflow};
}

Birth at_accumulate(const Problem& problem, const Recipe& recipe, const TileRow& tile, std::int64_t column) {
  const Tensor& V = problem.V();
  const std::int64_t kv = kv_head(problem.shape(), recipe, tile.head);
  for (std::int64_t e = std::max<std::int64_t>(column, 0); e < (column < 0 ? V.cols : column + 1); ++e) {
    if (!std::isnan(tile.O[e])) continue;
    for (std::int64_t c = 0; c < tile.cols; ++c) {
      const double v = V.at(kv, tile.key(c), e);
      if (tile.P[c] == 0 && !std::isfinite(v)) return {Stage::accumulate, tile.key(c), Cause::zero_times_nan, e};
      if (std::isnan(v)) return {Stage::accumulate, tile.key(c), Cause::v_nan, e};
    }
    return {Stage::accumulate, -1, tile.l == 0 ? Cause::div_zero : Cause::inf_minus_inf, e};
  }
  return {Stage::accumulate, -1, tile.l == 0 ? Cause::div_zero : Cause::inf_minus_inf, -1};
}

}  // namespace

std::string_view name(Cause cause) {
  constexpr std::array<std::string_view, 10> kNames = {
      "q_nan",         "k_nan",         "v_nan",         "mask_nan",  "zero_times_nan",
      "inf_minus_inf", "fp16_overflow", "mask_overflow", "empty_row", "div_zero"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::string_view explanation(Cause cause) {
  constexpr std::array<std::string_view, 10> kTexts = {"Q holds a NaN",
                                                       "K holds a NaN",
                                                       "V holds a NaN",
                                                       "the mask holds a NaN",
                                                       "0 x NaN: a weight of 0 does not hide a NaN or an infinity in V",
                                                       "the difference of two equal infinities",
                                                       "a score is beyond float16's 65504",
                                                       "finite masks add up to an infinity",
                                                       "the row sees no key, and the policy for empty rows says so",
                                                       "0 / 0: l is 0 at the division"};
  return kTexts[static_cast<std::size_t>(cause)];
}

std::string_view name(Origin origin) {
  constexpr std::array<std::string_view, 16> kNames = {
      "q",         "k",          "v",           "bias",      "score_overflow", "mask_overflow",
      "defect",    "masked_key", "masked_tile", "empty_row", "not_visited",    "nothing_yet",
      "underflow", "division",   "overflow",    "values"};
  return kNames[static_cast<std::size_t>(origin)];
}

ScoreFault fault_of_score(const Problem& problem, const Recipe& recipe, std::int64_t head, std::int64_t row,
                          std::int64_t key, double raw) {
  const auto& bias = problem.mask.bias;
  const double added = bias ? bias->at(head, row, key) : 0;
  if (std::isnan(raw)) return fault_of_product(problem, recipe, head, row, key);
  if (bias && std::isnan(added)) return {Cause::mask_nan, Origin::bias, head, row, key};
  if (std::isinf(raw)) {
    // +inf + (-inf) is a NaN of the mask's making, but the infinite product is its source.
    ScoreFault fault = fault_of_product(problem, recipe, head, row, key);
    if (fault.origin == Origin::score_overflow && recipe.numerics.scores == DType::float16)
      fault.cause = Cause::fp16_overflow;
    return fault;
  }
  if (bias && plus_inf(added)) return {Cause::inf_minus_inf, Origin::bias, head, row, key};
  const bool adds = problem.mask.adds() || (recipe.defect == Defect::finite_sentinel && recipe.sentinel_added);
  if (adds) return {Cause::mask_overflow, Origin::mask_overflow, head, row, key};
  return {Cause::inf_minus_inf, Origin::defect, head, row, key};
}

std::int64_t made_infinite(const Problem& problem, const Recipe& recipe, const TileRow& tile, double infinity) {
  const Band limits = band(problem.mask, problem.shape().Nq, problem.shape().Nk);
  for (std::int64_t c = 0; c < tile.cols; ++c) {
    if (tile.S[c] != infinity || !std::isinf(infinity)) continue;
    // A sentinel is finite: where it is used, no mask makes a score -inf.
    if (infinity > 0 || recipe.defect == Defect::finite_sentinel ||
        visible(problem.mask, limits, tile.head, tile.row, tile.key(c)))
      return c;
  }
  return -1;
}

std::optional<Birth> birth_of_nan(const Problem& problem, const Recipe& recipe, const TileRow& tile,
                                  std::int64_t column) {
  // A NaN that a guard keeps out of l and O is none of theirs.
  if (!std::isnan(tile.l) && !has_nan(tile.O, column)) return {};
  const bool standard = recipe.algorithm == Algorithm::standard;
  const auto fault = [&](std::int64_t c) {
    return fault_of_score(problem, recipe, tile.head, tile.row, tile.key(c), tile.raw[c]);
  };
  std::int64_t raw = -1;
  for (std::int64_t c = 0; c < tile.cols && raw < 0; ++c)
    if (std::isnan(tile.raw[c]) && std::isnan(tile.S[c])) raw = c;
  if (raw >= 0) return Birth{Stage::scores, tile.key(raw), fault(raw).cause, -1};
  if (const std::int64_t c = first_nan(tile.S); c >= 0) {
    const Cause cause = std::isinf(tile.raw[c]) ? Cause::inf_minus_inf : fault(c).cause;
    return Birth{Stage::mask, tile.key(c), cause, -1};
  }

  if (std::int64_t c = first_nan(tile.P); c >= 0) {
    // Of sound scores only inf - inf makes a NaN in P. In the strip of standard attention the sum has spread it over
    // the row: the key is the one that is infinite as the maximum is.
    if (standard) {
      std::int64_t key = -1;
      for (std::int64_t x = 0; x < tile.cols && key < 0; ++x)
        if (std::isinf(tile.S[x]) && tile.S[x] == tile.m) key = x;
      if (key < 0) return Birth{Stage::softmax, tile.key(c), Cause::div_zero, -1};
      c = key;
    }
    Cause cause = Cause::inf_minus_inf;
    if (const std::int64_t x = made_infinite(problem, recipe, tile, tile.subtracted); x >= 0) cause = fault(x).cause;
    return Birth{standard ? Stage::softmax : Stage::exponentials, tile.key(c), cause, -1};
  }
  if (!standard && (std::isnan(tile.l_rescaled) || has_nan(tile.O_rescaled, column))) {
    if (std::isnan(tile.alpha)) return Birth{Stage::rescale, -1, Cause::inf_minus_inf, -1};
    // 1 / alpha of an alpha of 0; or 0 x inf
    const Cause cause = std::isinf(tile.o_factor) ? Cause::div_zero : Cause::zero_times_nan;
    return Birth{Stage::rescale, -1, cause, column};
  }
  return at_accumulate(problem, recipe, tile, column);
}

Cause cause_at_finish(const Problem& problem, const Recipe& recipe, std::int64_t head, std::int64_t row, double l) {
  if (policy_decides(problem, recipe, head, row))
    return recipe.empty_row == EmptyRow::nan ? Cause::empty_row : Cause::v_nan;
  return l == 0 ? Cause::div_zero : Cause::inf_minus_inf;
}

// Mirrors when Fold::finish applies the policy for empty rows.
bool policy_decides(const Problem& problem, const Recipe& recipe, std::int64_t head, std::int64_t row) {
  const bool may_see = recipe.defect == Defect::finite_sentinel || recipe.defect == Defect::unmasked_tail;
  if (recipe.guard == Guard::none || may_see) return false;
  const Shape shape = problem.shape();
  return !any_visible(problem.mask, band(problem.mask, shape.Nq, shape.Nk), head, row, 0, shape.Nk);
}

}  // namespace flashscope
