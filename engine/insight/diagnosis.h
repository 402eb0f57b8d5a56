// Where a NaN is born: which rows are NaN, the first NaN in any state that reaches O, and its cause.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/attention/trace.h"
#include "engine/insight/nan_birth.h"

namespace flashscope {

struct FirstNan {
  std::int64_t head = 0, step = 0;  // state number K in which it is first seen
  std::int64_t i = 0, j = 0;        // j is -1 at finish
  std::int64_t row = 0, key = -1;   // key: the column of S or P, or row of V, where there is one
  std::int64_t column = 0;          // of O: the first that is NaN
  Stage stage = Stage::scores;
  Cause cause = Cause::inf_minus_inf;
};

struct Diagnosis {
  std::vector<std::vector<std::int64_t>> nan_rows;    // per head, ascending
  std::vector<std::vector<std::int64_t>> empty_rows;  // per head
  std::optional<FirstNan> first_nan;
  MaskSummary mask;
};

// Runs the problem under the recipe and traces the first NaN. Throws InputError, Cancelled.
Diagnosis diagnose(std::shared_ptr<const Problem> problem, const Recipe& recipe, int threads = 0,
                   std::stop_token stop = {}, const Progress& progress = {});
// The first NaN, in step order, of these ascending rows of one head. Throws Cancelled.
std::optional<FirstNan> first_nan_of_rows(const Problem& problem, const Schedule& schedule, std::int64_t head,
                                          std::span<const std::int64_t> rows, const std::stop_token& stop = {});

}  // namespace flashscope
