// What might have made a wrong output: one run each, of the mistakes and conventions of the gallery that can show on a
// problem, at the block sizes given and at others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"

namespace flashscope {

struct Candidate {
  std::string name, detail;
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
  bool as_given = true;  // the block sizes and the order are the recipe's
  // Row (head * Nq + row) of this run that stands in that row of the output; unset: the same.
  std::function<std::int64_t(std::int64_t row)> row_of;
};

std::vector<Candidate> candidates(const std::shared_ptr<const Problem>& problem, const Recipe& recipe,
                                  bool other_blocks);

}  // namespace flashscope
