// What might have made a wrong output: one run each, of the mistakes and conventions of the gallery that can show on a
// problem, at the block sizes given and at others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"

namespace flashscope {

struct Candidate {
  std::string name, detail;
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
  bool as_given = true;       // the block sizes and the order are the recipe's
  std::string sentence;       // what it is, where the gallery does not say it
  std::string if_not_finite;  // the same, where it reproduces NaN or Inf
  // Row (head * Nq + row) of this run that stands in that row of the output; unset: the same.
  std::function<std::int64_t(std::int64_t row)> row_of;
};

// `head_of`: the head whose right O stands in each head of the output, where that was found; else empty.
std::vector<Candidate> candidates(const std::shared_ptr<const Problem>& problem, const Recipe& recipe,
                                  bool other_blocks, std::span<const std::int64_t> head_of = {});
// Narrow types of the scores, of P and of the accumulators; the scale at the other time.
std::vector<Candidate> numerics_candidates(const std::shared_ptr<const Problem>& problem, const Recipe& recipe);

}  // namespace flashscope
