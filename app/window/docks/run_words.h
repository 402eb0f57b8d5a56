// What the answer of a full run is worth, in the words of every panel that says it. Rows that are NaN are no error of
// some size: they are counted apart, and the largest error is that of the other rows.
#pragma once

#include <QString>

#include "engine/attention/cpu_runner.h"

namespace flashscope::window {

struct RunVerdict {
  enum class Kind { not_checked, right, nan, wrong } kind = Kind::not_checked;
  QString brief;  // "right", "2,048 NaN", "8 not NaN", "wrong", "not checked"
  QString full;   // "2,048 rows NaN here only, 4 rows NaN in both; of the other 2,044 the largest error ..."
};
RunVerdict verdict_of(const Report& report);

}  // namespace flashscope::window
