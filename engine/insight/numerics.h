// The numerics lens: the error of a recipe's narrow types against float64, row by row, and where it enters.
//
// Each choice is run alone: the narrow types in float64 arithmetic, where nothing else rounds; exp2, the threshold and
// the scale in the fold's own arithmetic. What the choices do alone need not add up to what they do together.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/attention/recipe.h"
#include "engine/attention/reference.h"
#include "engine/attention/trace.h"

namespace flashscope {

struct ErrorSource {
  std::string name;               // "together", "float32 arithmetic", "scores float16", "P bfloat16", ...
  std::vector<double> row_error;  // [rows of the head] largest |O - float64|; NaN or +inf where O is not finite
  double max = 0;                 // of the finite ones
  std::int64_t worst_row = 0, not_finite = 0;
  NanRows nan;  // here: in this run
};
// All rows of one head: "together" first, then every source that the recipe has. Throws Cancelled.
std::vector<ErrorSource> error_sources(const Problem& problem, const Recipe& recipe, std::int64_t head,
                                       const std::stop_token& stop = {}, const Progress& progress = {});

// One row after each tile it folded in: how far O / l and the scores are from those of the same recipe in float64.
struct TileError {
  std::int64_t j = 0;
  double score = 0;       // largest |S - S64| of the tile's visible keys
  double output = 0;      // largest |O/l - O64/l64|
  double sum = 0;         // |l - l64| / l64, both relative to the same maximum
  bool overflow = false;  // a score became infinite, which in float64 is not
};
std::vector<TileError> row_errors(const Problem& problem, const Recipe& recipe, std::int64_t head, std::int64_t row);

// The same numbers in float64, for comparisons in wider arithmetic.
std::shared_ptr<const Problem> in_float64(const Problem& problem);

}  // namespace flashscope
