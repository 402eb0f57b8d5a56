// A second recipe as words: what it has other than the first.
#pragma once

#include <string_view>

#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"

namespace flashscope::command_line {

// "guard=none,bc=128", "defect=finite-sentinel=-1e4,add", or "same". Throws InputError.
Recipe recipe_beside(std::string_view words, Recipe recipe, const Shape& shape);

}  // namespace flashscope::command_line
