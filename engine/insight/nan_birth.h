// Where a NaN appears first in a row, and how: the one place that names causes. A cause is the most exact name
// there is; where a non-finite score is behind (-inf) - (-inf), what made the score decides.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/insight/row_replay.h"

namespace flashscope {

// How a NaN came about.
enum class Cause {
  q_nan,
  k_nan,
  v_nan,
  mask_nan,
  zero_times_nan,  // a weight of 0 does not hide a NaN or an infinity in V
  inf_minus_inf,
  fp16_overflow,  // of a score that is kept in float16
  mask_overflow,  // two finite masks, or a score and a finite mask, add up to an infinity
  empty_row,      // by the policy for empty rows
  div_zero
};
std::string_view name(Cause cause);
std::string_view explanation(Cause cause);  // one sentence

// What is behind it. A cause says how, an origin says where from.
enum class Origin {
  q,
  k,
  v,               // an element of Q, K, V
  bias,            // a cell of the bias
  score_overflow,  // finite elements whose product is beyond the type of the scores
  mask_overflow,   // a finite bias that ends as an infinity
  defect,          // a deliberate mistake of the recipe
  masked_key,      // the mask hides this key
  masked_tile,     // the mask hides every key of a tile from the row, and nothing guards it
  empty_row,       // the mask hides every key from the row
  not_visited,     // the tile has no step
  nothing_yet,     // no tile has been folded in so far
  underflow,       // exp of something too small
  division,        // of a finite O by an l of 0
  overflow,        // of a sum of finite numbers
  values           // ordinary numbers
};
std::string_view name(Origin origin);

// What made a score NaN, +inf, or a visible one -inf.
struct ScoreFault {
  Cause cause = Cause::inf_minus_inf;
  Origin origin = Origin::score_overflow;
  std::int64_t head = -1, row = -1, col = -1;  // the element of Q, K or the bias, where it is one
};
ScoreFault fault_of_score(const Problem& problem, const Recipe& recipe, std::int64_t head, std::int64_t row,
                          std::int64_t key, double raw);

// The first key of the tile whose score is that infinity by something else than the mask that hides it; -1: none.
std::int64_t made_infinite(const Problem& problem, const Recipe& recipe, const TileRow& tile, double infinity);

// The first NaN of a row whose l and O (all columns of O, or one) had none before this tile; none if this tile
// brings none.
struct Birth {
  Stage stage = Stage::scores;
  std::int64_t key = -1;  // column of S or P, row of V, where there is one
  Cause cause = Cause::inf_minus_inf;
  std::int64_t column = -1;  // of O, where it is born there
};
std::optional<Birth> birth_of_nan(const Problem& problem, const Recipe& recipe, const TileRow& tile,
                                  std::int64_t column = -1);
// A NaN that appears in `finish` only: from the row's l before it.
Cause cause_at_finish(const Problem& problem, const Recipe& recipe, std::int64_t head, std::int64_t row, double l);

// Whether `finish` replaces what the row computed by what the policy for empty rows says.
bool policy_decides(const Problem& problem, const Recipe& recipe, std::int64_t head, std::int64_t row);

}  // namespace flashscope
