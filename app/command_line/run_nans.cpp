#include "app/command_line/run_nans.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/command_line/interrupt.h"
#include "app/command_line/why_output.h"

namespace flashscope::command_line {

std::vector<TracedRun> trace_runs(const std::filesystem::path& file, std::int64_t memory, int threads,
                                  const std::stop_token& stop) {
  std::vector<TracedRun> runs;
  if (file.empty() || !is_session(file)) return runs;
  const SessionFile session = read_session(file, memory, stop);
  for (const SavedReport& saved : session.reports) {
    TracedRun run{saved, "", {}, {}};
    const Report& report = *saved.report;
    if (!saved.problem || saved.problem != session.problem) {
      run.reason = "a run of another problem than the session's";
      run.nans.rows = report.nan_rows;
    } else if (report.nan_row_count > 0) {
      ProgressLine line("tracing the run on " + report.device);
      run.nans = nans_of_run(session.problem, report, threads, stop, line.callback());
      const Schedule schedule(report.shape, session.problem->mask, report.recipe);
      if (run.nans.first) run.first = why(*session.problem, schedule, *run.nans.first, stop);
    } else {
      run.nans.rows = run.nans.run_only = run.nans.engine_only = report.nan_rows;
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

std::int64_t nan_rows(const std::vector<TracedRun>& runs) {
  std::int64_t sum = 0;
  for (const TracedRun& run : runs) sum += count_rows(run.nans.rows);
  return sum;
}

Json json_of(const std::vector<TracedRun>& runs) {
  Json list = Json::array();
  for (const TracedRun& run : runs) {
    const Report& report = *run.saved.report;
    Json one = {{"device", report.device},
                {"kernel", report.kernel},
                {"date", run.saved.date},
                {"recipe", json_of(report.recipe)},
                {"nan_rows", rows_json(run.nans.rows)}};
    if (!run.reason.empty()) {
      one["reason"] = run.reason;
    } else {
      one["same_as_computed"] = run.nans.same();
      one["only_in_run"] = rows_json(run.nans.run_only);
      one["only_computed"] = rows_json(run.nans.engine_only);
    }
    one["why"] = run.first ? json_of(*run.first, 0) : Json();
    list.push_back(std::move(one));
  }
  return list;
}

void print(const std::vector<TracedRun>& runs) {
  for (const TracedRun& run : runs) {
    const Report& report = *run.saved.report;
    fmt::print("\nrun on {}, {}, {}: {} of {} rows of O are NaN\n", report.device,
               recipe_text(report.shape, report.recipe), run.saved.date, grouped(report.nan_row_count),
               grouped(report.shape.heads * report.shape.Nq));
    for (std::size_t head = 0; head < run.nans.rows.size(); ++head)
      if (!run.nans.rows[head].empty()) fmt::print("  NaN rows of head {}: {}\n", head, rows_text(run.nans.rows[head]));
    if (!run.reason.empty()) fmt::print("  {}\n", run.reason);
    if (run.reason.empty() && report.nan_row_count > 0) fmt::print("  {}\n", text(run.nans));
    if (run.first) print_why(*run.first, run.saved.report->shape.heads, 0);
  }
}

}  // namespace flashscope::command_line
