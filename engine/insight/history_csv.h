// A row's history as comma-separated values, one line a column block in the order of folding.
#pragma once

#include <string>
#include <vector>

#include "engine/attention/trace.h"

namespace flashscope {

// With a heading. Numbers with all their digits; "nan", "inf", "-inf"; `step` and `alpha` are empty where the tile is
// not visited. `channel`: of O, that the history was asked for, or -1.
std::string history_csv(const std::vector<RowHistoryEntry>& history, std::int64_t channel);

}  // namespace flashscope
