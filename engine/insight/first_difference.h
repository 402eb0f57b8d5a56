// Two recipes in step, of one problem or of two of one shape (another mask, scale or layout): which state of the other
// walk belongs beside a state of this one, what of the two can be compared, and where a row first differs.
//
// Cells are compared where both recipes mean the same by them: S in tiles of the same keys; P, alpha, m, l, O where
// the same keys were folded in before and the same stages are done; m, l, O also after tiles that end at the same
// key; everything at the end, LSE too. O is compared normalised where the recipes normalise at different times.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/attention/trace.h"
#include "engine/insight/row_block_search.h"

namespace flashscope {

// Relative to the larger of the two, or of 1 for S, m, alpha and P; O relative to the row's largest.
struct Tolerance {
  double relative = 1e-4;
};
Tolerance tolerance_for(const Problem& problem);  // 1e-4, float64: 1e-10

// The state of the other walk at the place (head, row, key, stage) of state K. `row`: one of the row block on the
// chip, for the case that the other one's row blocks are smaller; -1: its first.
std::int64_t paired_state(const Schedule& schedule, std::int64_t K, const Schedule& other, std::int64_t row = -1);

// What differs, as cells of the first state's row block: 1 where it does. Empty where it was not compared.
struct Differences {
  std::int64_t row0 = 0, rows = 0;                      // query rows that both hold
  std::vector<std::uint8_t> S, P, O, m, l, alpha, LSE;  // [rows x cols], [rows x dv], [rows]
  std::string inputs;                                   // of Q, K, V on the chip, those that are others: "K V"
  std::int64_t count = 0;                               // of cells
  std::int64_t nan = 0;                                 // of these, NaN on one side only
  double largest = 0;                                   // of the finite |a - b| among these
  std::string largest_at;                               // its cell, "O[71, 3]"; empty: none is finite
  double here = 0, beside = 0;                          // the two values there
  std::string compared;                                 // "S P m l O", or empty
  std::string reason;                                   // why something, or all, was not compared
};
Differences differences(const Schedule& schedule, const TraceState& state, const Schedule& other,
                        const TraceState& beside, Tolerance tolerance);

// The state of the first walk nearest to from_K in which a row differs that did not before: the same states
// whichever way they are looked for. `row` says which row. Throws InputError, Cancelled.
std::optional<Found> first_difference(std::shared_ptr<const Problem> problem, const Recipe& recipe,
                                      std::shared_ptr<const Problem> other_problem, const Recipe& other,
                                      std::int64_t from_K, bool forward, const SearchOptions& options = {});
std::optional<Found> first_difference(std::shared_ptr<const Problem> problem, const Recipe& recipe, const Recipe& other,
                                      std::int64_t from_K, bool forward, const SearchOptions& options = {});
// Throws InputError where the second problem is of another shape or type.
void check_beside(const Problem& problem, const Problem& other);

}  // namespace flashscope
