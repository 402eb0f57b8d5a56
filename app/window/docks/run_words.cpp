#include "app/window/docks/run_words.h"

#include <QStringList>

#include "app/window/text.h"
#include "engine/insight/nan_rows.h"

namespace flashscope::window {

RunVerdict verdict_of(const Report& report) {
  using enum RunVerdict::Kind;
  if (!report.error) return {not_checked, "not checked", "Not checked against float64."};
  const ErrorReport& error = *report.error;
  const bool small = error.max <= error.tolerance;  // false for NaN
  const std::int64_t both = error.nan ? error.nan->both : 0;
  const std::int64_t others = error.rows_checked - error.nan_mismatch - both;
  const QString size = QString("largest error against float64 %1, %2 the tolerance %3")
                           .arg(number(error.max, 3), small ? "within" : "BEYOND", number(error.tolerance, 3));
  const QString worst =
      small ? QString() : QString(" (head %1, row %2)").arg(grouped(error.worst_head), grouped(error.worst_row));
  const QString checked = QString("%1 of %2 rows checked.").arg(grouped(error.rows_checked), grouped(error.rows));
  const QString nans = error.nan ? text(flashscope::text(*error.nan))
                                 : counted(error.nan_mismatch, "row") + " NaN on one side only, here or in float64";
  QString full = size + worst + "; " + checked;
  full[0] = full[0].toUpper();
  if (error.nan_mismatch + both > 0) {
    const QString rest = others > 0 ? QString("; of the other %1 the ").arg(grouped(others)) + size + worst : QString();
    full = nans + rest + "; " + checked;
  }
  if (error.nan_mismatch == 0) return small ? RunVerdict{right, "right", full} : RunVerdict{wrong, "wrong", full};
  QStringList brief;
  if (!error.nan) brief << grouped(error.nan_mismatch) + " NaN";
  if (error.nan && error.nan->here > 0) brief << grouped(error.nan->here) + " NaN";
  if (error.nan && error.nan->there > 0) brief << grouped(error.nan->there) + " not NaN";
  return {nan, brief.join(", "), full};
}

QString run_brief(const Report& report) {
  const Recipe& recipe = report.recipe;
  QString words = text(name(recipe.algorithm));
  if (recipe.algorithm != Algorithm::standard) words += QString(" %1 x %2").arg(grouped(recipe.Br), grouped(recipe.Bc));
  return words;
}

QString whose(const Document& document, const Run& run, const Colours& c) {
  const Report& report = run.report();
  QString words = text(report.device).toHtmlEscaped() + ", " + text(run.saved.date);
  const viz::StageData& stage = document.stage();
  const bool here = run.problem() == document.problem() && stage.schedule && report.recipe == stage.schedule->recipe();
  if (here) return words;
  return words + QString("<br><span style='color:%1'>%2: not what is on the stage (Runs, Go there)</span>")
                     .arg(c.rescale.name(), run_brief(report));
}

}  // namespace flashscope::window
