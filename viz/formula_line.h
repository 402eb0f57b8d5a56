// The operation of the current step as one line with the numbers of one row, and the checks of a row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viz/stage.h"

namespace flashscope::viz {

struct FormulaLine {
  std::vector<std::string> texts;  // longest first: the one that fits is drawn
  bool nan = false;                // a NaN is in it
};

// The query row whose numbers are shown: the pointed one if it is on the chip, else the one that was
// searched for, else the first pinned one that is, else the first one rescaled or NaN in this tile, else the block's
// first; -1: no rows on the chip.
std::int64_t focus_row(const StageData& data, std::int64_t pointed_row);

// key: the pointed key (column), or -1.
FormulaLine formula_line(const StageData& data, std::int64_t row, std::int64_t key);

// "If stopped now" and the row's checks, longest first; empty where there is none.
std::vector<std::string> check_line(const StageData& data);

}  // namespace flashscope::viz
