// What a mask does to a problem, and what about it looks like a mistake: empty rows, stand-ins for -inf, a float
// mask that was meant as a keep mask, the wrong polarity or axis, rows whose maximum sits on a masked cell.
//
// mask_report reads the mask only. score_report computes every score that the recipe visits, once; it is needed
// only where a masked score can be anything but -inf.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/attention/lse_convention.h"
#include "engine/attention/schedule.h"
#include "engine/attention/trace.h"

namespace flashscope {

struct MaskCell {
  std::int64_t head = 0, row = 0, key = 0;
  bool operator==(const MaskCell&) const = default;
};
struct MaskRow {
  std::int64_t head = 0, row = 0;
  bool operator==(const MaskRow&) const = default;
};

// Visible keys of each row of one head.
struct VisibleKeys {
  std::vector<std::int64_t> per_row, empty_rows, one_key_rows;
  std::int64_t min = 0, max = 0;
  double median = 0;
};

// A finite, very negative value in place of -inf: it loses against nothing that lies below it.
struct StandIn {
  double value = 0;                            // the lowest finite value of the bias
  std::int64_t cells = 0;                      // at or near it
  std::vector<MaskRow> effectively_empty;      // rows without a cell above it: they attend to what is masked
  std::vector<MaskRow> mixed;                  // rows with both -inf and stand-ins: only some masked keys count
  bool every_row = false, every_head = false;  // the mask stores one row, or one head, for all of them
  std::int64_t shared_by = 1;                  // rows of the problem to each of the above
};

// A guess, and what to try.
struct MaskHint {
  std::string text, option;  // option of the command line that does it; may be empty
};

struct MaskReport {
  std::vector<VisibleKeys> heads;  // one entry where all heads see the same
  std::int64_t bias_cells = 0, nan_cells = 0, plus_inf_cells = 0, minus_inf_cells = 0;
  std::vector<MaskCell> first_nan, first_plus_inf;  // at most eight of each; head and row as stored (broadcast: 0)
  std::optional<StandIn> stand_in;
  std::vector<MaskHint> hints;
  struct Tiles {
    std::int64_t full = 0, partial = 0, empty = 0, visited = 0;  // over all heads
    std::int64_t total() const { return full + partial + empty; }
  };
  std::optional<Tiles> tiles;  // unset where there are more than kMostTiles
};
inline constexpr std::int64_t kMostTiles = 100'000'000;

// Throws Cancelled.
MaskReport mask_report(const Problem& problem, const Schedule& schedule, std::stop_token stop = {},
                       const Progress& progress = {});

struct ScoreReport {
  // Rows whose largest score is one that the mask hides, or that carries a stand-in.
  struct Row {
    std::int64_t head = 0, row = 0, key = 0;
    double score = 0, largest_real = 0;  // of a key that the row really sees; -inf where there is none
  };
  std::vector<Row> maximum_on_masked;  // at most kMostRows, in order
  std::int64_t maximum_on_masked_rows = 0;
  // Rows in which a visible score lies below a masked one: the stand-in is not low enough there.
  std::int64_t real_below_masked_rows = 0;
  std::optional<MaskCell> real_below_masked;  // the lowest such score
  double lowest_real = 0, stand_in_score = 0;
};
inline constexpr std::size_t kMostRows = 1000;

// Whether a masked score can be finite: a stand-in in the bias, or a defect.
bool masked_scores_matter(const MaskReport& report, const Recipe& recipe);
// Threaded. Throws Cancelled.
ScoreReport score_report(const Problem& problem, const Schedule& schedule, const MaskReport& report, int threads = 0,
                         std::stop_token stop = {}, const Progress& progress = {});

// One line each, the worst first. `first_head`: number of the problem's first query head in its file.
struct MaskLine {
  enum class Kind { fault, notice, fact } kind = Kind::fact;
  std::string text;
};
std::vector<MaskLine> mask_lines(const Problem& problem, const MaskReport& report,
                                 const std::optional<ScoreReport>& scores, std::int64_t first_head = 0);

// A convention in force and the other one, as a command.
struct Convention {
  std::string name;        // "alignment"
  std::string now, other;  // "top-left: key c visible to row r if c <= r"
  std::string option;      // of the command line, for the other one; empty: the window only
  bool matters = true;     // whether the other one can give another result here
  std::optional<Recipe> recipe;
  std::optional<Mask> mask;
  std::optional<LseConvention> lse;
};
// The other keep mask is made on demand (flipped): `mask` of "keep or drop" is unset.
std::vector<Convention> conventions_in_force(const Problem& problem, const Recipe& recipe);
// Base, sign, and what an empty row has.
std::vector<Convention> lse_conventions(const LseConvention& now);
KeepMask flipped(const KeepMask& mask);
std::int64_t kept_cells(const KeepMask& mask);  // as stored, before it broadcasts

}  // namespace flashscope
