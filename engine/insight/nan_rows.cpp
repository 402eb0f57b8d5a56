#include "engine/insight/nan_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "engine/digits.h"
#include "engine/error.h"

namespace flashscope {

Question question_of(const FirstNan& first) { return {CellKind::O, first.head, first.row, first.column, {}}; }

Question nan_cell(const Report& report, std::int64_t head, std::int64_t row) {
  Question question{CellKind::O, head, row, 0, {}};
  const std::int64_t dv = report.shape.dv;
  const double* O = report.O.data() + (head * report.shape.Nq + row) * dv;
  const double* nan = std::find_if(O, O + dv, [](double o) { return std::isnan(o); });
  if (nan != O + dv) question.col = nan - O;
  return question;
}

std::int64_t count_rows(const RowLists& rows) {
  std::int64_t sum = 0;
  for (const auto& head : rows) sum += static_cast<std::int64_t>(head.size());
  return sum;
}

RunNans nans_of_run(std::shared_ptr<const Problem> problem, const Report& report, int threads,
                    const std::stop_token& stop, const Progress& progress) {
  const Shape shape = problem->shape();
  if (!(report.shape == shape))
    throw InputError("the run", "another shape than the problem's", "a run of this problem");
  RunNans nans;
  nans.rows = report.nan_rows;
  const Diagnosis own = diagnose(problem, report.recipe, threads, stop, progress);
  const auto less = [](const RowLists& a, const RowLists& b) {
    RowLists rest(a.size());
    for (std::size_t h = 0; h < a.size(); ++h)
      std::set_difference(a[h].begin(), a[h].end(), b[h].begin(), b[h].end(), std::back_inserter(rest[h]));
    return rest;
  };
  nans.run_only = less(nans.rows, own.nan_rows);
  nans.engine_only = less(own.nan_rows, nans.rows);
  const auto has = [&](std::int64_t head, std::int64_t row) {
    return std::binary_search(nans.rows[head].begin(), nans.rows[head].end(), row);
  };
  if (own.first_nan && has(own.first_nan->head, own.first_nan->row)) {
    nans.first = question_of(*own.first_nan);
  } else {
    // A row that both have, rather than one of which the engine can say nothing.
    for (const bool both : {true, false})
      for (std::int64_t h = 0; h < shape.heads; ++h)
        for (const std::int64_t row : nans.rows[h]) {
          const bool here = std::binary_search(own.nan_rows[h].begin(), own.nan_rows[h].end(), row);
          if (!nans.first && (here || !both)) nans.first = nan_cell(report, h, row);
        }
  }
  return nans;
}

std::string text(const RunNans& nans) {
  const std::int64_t rows = count_rows(nans.rows);
  if (nans.same())
    return rows == 0 ? "no row of O is NaN, and none by the engine"
                     : fmt::format("the engine has the same {} as NaN: its chain is this run's", counted(rows, "row"));
  std::string text = fmt::format("{} of O NaN; not the engine's rows:", counted(rows, "row"));
  if (const std::int64_t n = count_rows(nans.run_only); n > 0)
    text += fmt::format(" {} only in this run, which the engine's chain does not explain", grouped(n));
  if (const std::int64_t n = count_rows(nans.engine_only); n > 0)
    text += fmt::format("{} {} only by the engine", count_rows(nans.run_only) > 0 ? ";" : "", grouped(n));
  return text;
}

std::string text(const NanRows& nan) {
  std::string text;
  for (const auto& [rows, where] :
       {std::pair{nan.here, "here only"}, std::pair{nan.there, "in float64 only"}, std::pair{nan.both, "in both"}})
    if (rows > 0) text += fmt::format("{}{} NaN {}", text.empty() ? "" : ", ", counted(rows, "row"), where);
  return text;
}

}  // namespace flashscope
