// Run to: the nearest state, forward or back, at which something happens. One definition for stops, keys and
// commands: the states that a stop matches do not depend on the way they are looked for, nor on threads.
//
// Where a stop matches, as a state number K:
//   nan inf rescale max empty   the state in which such an event first shows (trace.h); rescale:X only where
//                               the old sums shrink by more than X, alpha < 1/X
//   masked                      a tile without a visible key: its `mask`, or, not visited, the step after it
//   partial                     `mask` of a tile of which some keys are visible to some rows
//   row:R                       the step that brings row R onto the chip, in every head
//   tile:I,J[,STAGE]            that stage (else the first) of that tile, in every head
//   condition                   where it begins to hold for a row: it did not in the row block's step before
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/insight/condition.h"
#include "engine/insight/row_block_search.h"

namespace flashscope {

struct Stop {
  enum class Kind : std::uint8_t { nan, inf, rescale, first_max, masked, partial, empty_row, row, tile, condition };
  Kind kind = Kind::nan;
  double factor = 1;                           // rescale
  std::int64_t row = -1, i = -1, j = -1;       // row; tile
  std::optional<Stage> stage;                  // tile
  std::shared_ptr<const Condition> condition;  // condition
};

// "nan", "rescale:10", "row:71", "tile:3,0,max", else a condition. Throws ConditionError; parse_stop(text_of(s))
// is the same stop.
Stop parse_stop(std::string_view text);
std::string text_of(const Stop& stop);
// What it is for, in words: "a rescale beyond 10", "row 71", "alpha < 0.1".
std::string describe(const Stop& stop);

// The match nearest to state from_K with K > from_K (forward) or K < from_K; of several at one K, of the first stop.
// Throws InputError where a row block exceeds `memory_limit` bytes, Cancelled.
std::optional<Found> search(std::shared_ptr<const Problem> problem, const Recipe& recipe, std::span<const Stop> stops,
                            std::int64_t from_K, bool forward, const SearchOptions& options = {},
                            std::int64_t memory_limit = std::int64_t{4} << 30);

}  // namespace flashscope
