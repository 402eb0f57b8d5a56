// `diagnose --input FILE.fscope`: the NaN rows of the runs that the session holds, each traced under its own recipe.
#pragma once

#include <filesystem>
#include <stop_token>
#include <vector>

#include "app/command_line/output.h"
#include "engine/files/session_file.h"
#include "engine/insight/nan_rows.h"

namespace flashscope::command_line {

struct TracedRun {
  SavedReport saved;
  std::string reason;  // why it could not be traced; empty: it was
  RunNans nans;
  std::optional<Provenance> first;  // of the first NaN
};
// Empty for a file that is no session. Throws InputError, Cancelled.
std::vector<TracedRun> trace_runs(const std::filesystem::path& file, std::int64_t memory, int threads,
                                  const std::stop_token& stop);
std::int64_t nan_rows(const std::vector<TracedRun>& runs);
Json json_of(const std::vector<TracedRun>& runs);
void print(const std::vector<TracedRun>& runs);

}  // namespace flashscope::command_line
