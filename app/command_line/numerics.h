// What a recipe's numerics cost against float64, for commands that were given any.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <vector>

#include "app/command_line/output.h"
#include "engine/insight/numerics.h"

namespace flashscope::command_line {

// Head 0 of the problem; empty where the recipe's numerics are the default.
std::vector<ErrorSource> numerics_cost(const Problem& problem, const Recipe& recipe, const std::stop_token& stop);
Json json_of(const std::vector<ErrorSource>& sources, std::int64_t head);  // null where there are none
void print(const std::vector<ErrorSource>& sources, std::int64_t head);

}  // namespace flashscope::command_line
