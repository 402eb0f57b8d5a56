// The right answer: plain attention in float64, O = softmax(scale Q K^T + mask) V, row by row with the
// whole row in hand. Shares no code with the fold. Empty rows follow `empty_row`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"
#include "engine/attention/trace.h"

namespace flashscope {

struct ReferenceRow {
  std::vector<double> O;  // [dv]
  double LSE = 0;         // natural log of the scaled scores; -inf for an empty row
};

struct ReferenceOptions {
  EmptyRow empty_row = EmptyRow::zero;
  MaskApply mask_apply = MaskApply::select;
};

ReferenceRow reference_row(const Problem& problem, std::int64_t head, std::int64_t row,
                           const ReferenceOptions& options = {});
// The same over the keys in [key0, key1) only; for "if stopped now" and for tests.
ReferenceRow reference_row(const Problem& problem, std::int64_t head, std::int64_t row,
                           std::span<const std::pair<std::int64_t, std::int64_t>> key_ranges,
                           const ReferenceOptions& options = {});

// Rows [row0, row0 + rows) of one head, vectorised. O: rows x dv, LSE: rows.
void reference_rows(const Problem& problem, std::int64_t head, std::int64_t row0, std::int64_t rows,
                    const ReferenceOptions& options, double* O, double* LSE);

// Plain attention in the precision of the problem: S, P in float32 (float64 for float64), P rounded to
// the element type before P V, output rounded. Its error is the yardstick of the tolerance.
void plain_rows(const Problem& problem, std::int64_t head, std::int64_t row0, std::int64_t rows,
                const ReferenceOptions& options, double* O);

// Rows that hold a NaN in what is looked at (here), in the right answer (there), or in both: no error of some size.
struct NanRows {
  std::int64_t here = 0, there = 0, both = 0;  // only, only
  void count(bool nan_here, bool nan_there) {
    if (nan_here || nan_there) ++(nan_here && nan_there ? both : nan_here ? here : there);
  }
  std::int64_t total() const { return here + there + both; }
};

// error_vs_float64: largest |O - reference| over the checked rows; NaN rows counted apart.
struct ErrorReport {
  double max = 0;        // over rows where neither side is NaN
  double tolerance = 0;  // 2 x plain attention's max error + 2 ulp of max |V|; 1e-12 for float64
  std::int64_t rows_checked = 0, rows = 0;
  std::int64_t nan_mismatch = 0;  // checked rows where exactly one side has a NaN
  std::optional<NanRows> nan;     // of the checked rows; none in a report that an older program saved
  std::int64_t worst_head = 0, worst_row = 0;
  bool within() const { return nan_mismatch == 0 && max <= tolerance; }
};
struct CheckRows {  // --check all|N|none; by default every row up to 4e10 FLOP, else 256 seeded rows a head
  enum class Kind { automatic, all, some, none } kind = Kind::automatic;
  std::int64_t count = 256;
};
// O: heads x Nq x dv as computed by a run (in double). Threaded. Throws Cancelled.
ErrorReport error_vs_float64(const Problem& problem, std::span<const double> O, const ReferenceOptions& options,
                             const CheckRows& rows, int threads, std::stop_token stop = {},
                             const Progress& progress = {});

}  // namespace flashscope
