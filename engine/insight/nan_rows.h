// NaN rows as questions: the cell of O to ask about, of the engine's own first NaN and of a full run's O, on a GPU or
// out of a session. The engine folds the rows of such a run again under its recipe; where the same rows are NaN, its
// chain is the run's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "engine/attention/cpu_runner.h"
#include "engine/insight/diagnosis.h"
#include "engine/insight/provenance.h"

namespace flashscope {

// The cell of O, at the end of the run, in which that NaN can be seen.
Question question_of(const FirstNan& first);
// The first cell of O that is NaN in that row of the report; its first column where none is.
Question nan_cell(const Report& report, std::int64_t head, std::int64_t row);

using RowLists = std::vector<std::vector<std::int64_t>>;  // per head, ascending
std::int64_t count_rows(const RowLists& rows);

struct RunNans {
  RowLists rows;                  // NaN in the run's O
  RowLists run_only;              // of these, those without a NaN in the engine's O: its chains say nothing about them
  RowLists engine_only;           // NaN in the engine's O and not in the run's
  std::optional<Question> first;  // the first NaN in any state that reaches O; of the run's own, if the engine has none
  bool same() const { return count_rows(run_only) + count_rows(engine_only) == 0; }
};
// `problem`: the one that was run. Throws InputError (another shape), Cancelled.
RunNans nans_of_run(std::shared_ptr<const Problem> problem, const Report& report, int threads = 0,
                    const std::stop_token& stop = {}, const Progress& progress = {});
// "the engine has the same 4 rows as NaN: its chain is this run's", or what differs.
std::string text(const RunNans& nans);
// "36 rows NaN here only, 1 row NaN in float64 only, 4 rows NaN in both"; empty where there are none.
std::string text(const NanRows& nan);

}  // namespace flashscope
