// Which known mistake, convention or other block size reproduces another kernel's output.
//
// Every candidate that can show on the problem is run through the fold on a sample of the rows that are not right and
// of those that are (rows are independent, so a sample costs only its rows); what agrees is confirmed on all rows that
// are not right. A row counts as reproduced where the candidate is within the comparison's tolerance of it, or nearer
// by far than the right answer is. Candidates that reproduce equally well are reported as a tie; a right output gets
// none. Narrow numerics are tried where nothing else explains the output.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/insight/compare.h"

namespace flashscope {

struct Explanation {
  std::string name;    // of the gallery: "no-rescale-o", "window-bounds"
  std::string detail;  // which variant: "left bound 3, not 4", "Bc 32", "empty rows NaN"; often empty
  std::string sentence;
  // What reproduces the output, to be opened beside the right run.
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
  std::int64_t rows = 0, agree = 0;       // rows that are not right; of these, reproduced
  std::int64_t right_rows = 0, kept = 0;  // right rows that were looked at; of these, right under the candidate too
  double max_difference = 0;              // from the output, over the rows that are reproduced
  double rms_difference = 0;
  double right_differs = 0;       // how far the right answer is from the output in these rows; NaN, Inf left out
  bool of_lse = false;            // explains LSE; O is right
  bool lse_agrees = true;         // LSE, where the output has it, is the candidate's too
  bool tie = false;               // no worse than the first of the list, and of another name
  bool as_given = true;           // under the block sizes and the order of the recipe
  std::vector<std::string> also;  // other block sizes and orders of the same mistake that do as well
};

// Best first; empty where the output is right or nothing known reproduces it.
struct Causes {
  std::vector<Explanation> named;
  // Where nothing is: what reproduces nearly all rows that are not right, and would make right ones wrong. No name of
  // the mistake, only near it.
  std::optional<Explanation> near_miss;
};

struct ExplainOptions {
  int threads = 0;
  bool other_blocks = true;  // also half, twice and the usual block sizes, and the other order
};

// Throws Cancelled.
Causes find_causes(std::shared_ptr<const Problem> problem, const Recipe& recipe, const KernelOutput& theirs,
                   const Comparison& comparison, const ExplainOptions& options = {}, const std::stop_token& stop = {},
                   const Progress& progress = {});
// Those that are named.
std::vector<Explanation> explain(std::shared_ptr<const Problem> problem, const Recipe& recipe,
                                 const KernelOutput& theirs, const Comparison& comparison,
                                 const ExplainOptions& options = {}, const std::stop_token& stop = {},
                                 const Progress& progress = {});

// "`no-rescale-o` at Bc 64 reproduces the output to 3e-07 in 1,000 of 1,000 rows; the right answer differs by 0.4"
std::string text(const Explanation& explanation);
// "causal-diagonal (c < r) reproduces 382 of 382 wrong rows, but would make 2 right rows wrong"
std::string near_miss_text(const Explanation& explanation);

}  // namespace flashscope
