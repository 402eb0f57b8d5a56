#include "app/window/docks/run_words.h"

#include "app/window/text.h"

namespace flashscope::window {
namespace {

QString rows_are(std::int64_t rows) { return rows == 1 ? "1 row is" : grouped(rows) + " rows are"; }

}  // namespace

RunVerdict verdict_of(const Report& report) {
  using enum RunVerdict::Kind;
  if (!report.error) return {not_checked, "not checked", "Not checked against float64."};
  const ErrorReport& error = *report.error;
  const bool small = error.max <= error.tolerance;  // false for NaN
  const std::int64_t others = error.rows_checked - error.nan_mismatch;
  const QString size = QString("largest error against float64 %1, %2 the tolerance %3")
                           .arg(number(error.max, 3), small ? "within" : "BEYOND", number(error.tolerance, 3));
  const QString worst =
      small ? QString() : QString(" (head %1, row %2)").arg(grouped(error.worst_head), grouped(error.worst_row));
  const QString checked = QString("%1 of %2 rows checked.").arg(grouped(error.rows_checked), grouped(error.rows));
  if (error.nan_mismatch == 0) {
    QString full = size + worst + "; " + checked;
    full[0] = full[0].toUpper();
    return small ? RunVerdict{right, "right", full} : RunVerdict{wrong, "wrong", full};
  }
  // Which side is counted by neither; every NaN row of the run is among the checked ones.
  const bool there = report.nan_row_count == 0;
  QString full = rows_are(error.nan_mismatch) + " NaN " +
                 (there ? "in float64 and not here" : "on one side only, here or in float64");
  full += others > 0 ? QString("; of the other %1 the ").arg(grouped(others)) + size + worst + "; " + checked
                     : "; " + checked;
  return {nan, grouped(error.nan_mismatch) + (there ? " not NaN" : " NaN"), full};
}

}  // namespace flashscope::window
