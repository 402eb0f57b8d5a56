// What panels say of a full run, in the same words. Of its answer first: Rows that are NaN are no error of
// some size: they are counted apart, and the largest error is that of the other rows.
#pragma once

#include <QString>

#include "app/document.h"
#include "app/window/theme.h"
#include "engine/attention/cpu_runner.h"

namespace flashscope::window {

struct RunVerdict {
  enum class Kind { not_checked, right, nan, wrong } kind = Kind::not_checked;
  QString brief;  // "right", "2,048 NaN", "8 not NaN", "wrong", "not checked"
  QString full;   // "2,048 rows NaN here only, 4 rows NaN in both; of the other 2,044 the largest error ..."
};
RunVerdict verdict_of(const Report& report);

QString run_brief(const Report& report);  // "flash2 128 x 64", "standard"

// "NVIDIA H200, 2026-12-01T00:58:14Z", and that it is not on the stage where it is not; HTML.
QString whose(const Document& document, const Run& run, const Colours& colours);

constexpr const char* kColdAndWarm = "Caches cold: the L2 is swept before each pass; warm: right after the same run.";

}  // namespace flashscope::window
