// What the document's tests open.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"

namespace flashscope {

inline std::shared_ptr<const Problem> small_problem() {
  Mask causal;
  causal.causal = Causal::top_left;
  return random_problem({2, 1, 200, 200, 16, 16, DType::float32}, 3, {}, causal);
}

inline Recipe small_recipe(std::int64_t Br, std::int64_t Bc) {
  Recipe recipe;
  recipe.Br = Br, recipe.Bc = Bc;
  return recipe;
}

}  // namespace flashscope
