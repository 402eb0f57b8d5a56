// Why a cell is what it is: the chain from a cell of O, LSE, l, m, alpha, P or S back to its source, each link
// a place, a step to go to, and the formula with its numbers. Steps that only carry a value on are left out.
//
//   O[71, 0] <- l[71] <- P[71, :] <- S - m = (-inf) - (-inf) <- tile (1, 1) has no visible key for this row
//            <- causal top-left: k 100..199 > q 71
//
// Everything is recomputed by folding the row again. The diagnosis names its causes by the same code, nan_birth.h.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/insight/nan_birth.h"

namespace flashscope {

enum class CellKind { O, LSE, l, m, alpha, P, S, Q, K, V, bias, tile, keys };
std::string_view name(CellKind kind);

struct Link {
  CellKind of = CellKind::O;
  // Of K and V the key, of bias the query row. `col` of P and S is the key, -1: all keys of the tile; of `keys`
  // -1: the mask itself.
  std::int64_t head = 0, row = -1, col = -1;
  std::int64_t i = -1, j = -1;     // tile; -1 where there is none
  std::int64_t step = 0;           // state number to go to
  double value = 0;                // of the place; 0 for `tile` and `keys`
  std::string place;               // "l[71]"; a statement for `tile` and `keys`
  std::string formula;             // "l alpha + sum P = 0 x NaN + NaN"; may be empty
  std::string text;                // what happened there; may be empty
  std::vector<std::string> twins;  // what became so in the same way: "alpha[71] = NaN"
};

struct Provenance {
  std::vector<Link> links;     // from the cell to its source; never empty
  std::optional<Cause> cause;  // of a NaN
  std::optional<Stage> stage;  // of a NaN: in which it appears first
  Origin origin = Origin::values;
};
std::string one_line(const Provenance& provenance);  // "O[71, 0] <- l[71] <- ..."
// Of a NaN: the cause and what is behind it, in a sentence; else empty.
std::string conclusion(const Provenance& provenance);
// For people, of a problem of several heads: places with their head, as questions are written, "O[2, 71, 0]".
std::string place_text(const Link& link, std::int64_t heads);
std::string one_line(const Provenance& provenance, std::int64_t heads);

struct Question {
  CellKind of = CellKind::O;                 // O, LSE, l, m, alpha, P or S
  std::int64_t head = 0, row = 0, col = -1;  // of O a column; of P, S the key; of alpha the column block
  std::optional<std::int64_t> K;             // in that state; unset: at the end, or in the cell's own tile
  bool operator==(const Question&) const = default;
};
// "O[0,71,3]", "l[0,71]", "S[0,71,120]", "alpha[0,71,1]"; "@1234" behind it: in that state. Where only one head is
// open, `only_head` is its number: it may be left out ("O[71,3]"), and another is refused. Throws InputError.
Question parse_question(std::string_view text, std::optional<std::int64_t> only_head = {});
std::string text(const Question& question);  // the inverse

// Throws InputError for a cell that does not exist, or not yet in that state.
void check(const Question& question, const Schedule& schedule);
// Throws what check() throws, Cancelled.
Provenance why(const Problem& problem, const Schedule& schedule, const Question& question, std::stop_token stop = {});

// Which masks hide the keys [first, last) from a row that sees none of them: "causal top-left: k 100..199 > q 71".
std::string why_hidden(const Problem& problem, std::int64_t head, std::int64_t row, std::int64_t first,
                       std::int64_t last);

}  // namespace flashscope
