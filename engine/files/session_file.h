// A session in one file (.fscope): a problem, the recipe and the place it was looked at, and every report of a run with
// where and when it was made. Measured on a server, it opens where there is no GPU and shows all of it.
//
// A zip: the tensors and masks as .npy under the names of a problem file (q k v mask bias o lse; so NumPy reads it, and
// every reader of an .npz), O and LSE of each report (report0_o, report0_lse), and session.json with everything else.
// Every number comes back bit for bit, the payloads of float16 NaNs aside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/attention/cpu_runner.h"
#include "engine/attention/measured_sweep.h"
#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"
#include "engine/files/tensor_file.h"

namespace flashscope {

// A report, when it was made, and which problem it is of. Only reports of the very problem of their session (by
// fingerprint.h) are its own; those of a file that does not say, written by an older program, are not.
struct SavedReport {
  std::shared_ptr<const Report> report;
  std::string date;                        // when it was made, ISO 8601: "2026-11-30T09:15:00Z"
  std::string version;                     // of the program that made it
  std::string conventions;                 // in force when it was made, mask included: conventions(recipe, mask)
  std::shared_ptr<const Problem> problem;  // that it ran; null out of a file whose problem is another
  std::optional<std::string> fingerprint;  // of it; write_session fills it in where the problem is there
};
std::string date_now();
// Of a run that ended now.
SavedReport make_saved(std::shared_ptr<const Report> report, std::shared_ptr<const Problem> problem,
                       std::string version);

struct SessionFile {
  std::shared_ptr<const Problem> problem;  // null in a file that carries reports only
  Recipe recipe;
  std::int64_t head = 0, K = 0;  // the place
  std::string window;            // what the window keeps beside it, a JSON object as text; may be empty
  std::vector<SavedReport> reports;
  std::vector<MeasuredSweep> sweeps;
};

// By content: a zip with a session.json in it. False for what cannot be read.
bool is_session(const std::filesystem::path& path);
// Written beside its place and renamed when it is whole. Throws InputError (a place that cannot be written, `window`
// that is no JSON object), Cancelled; then what was there is there still.
void write_session(const std::filesystem::path& path, const SessionFile& session, const std::stop_token& stop = {},
                   const ReadProgress& progress = {});
// Throws InputError (no session, a newer format, a fault with its place "FILE: session.json: reports[0].gpu.median",
// more than `memory_limit` bytes of arrays), Cancelled.
SessionFile read_session(const std::filesystem::path& path, std::int64_t memory_limit = std::int64_t{8} << 30,
                         const std::stop_token& stop = {}, const ReadProgress& progress = {});
// What session.json alone says: for load_problem, which reads the tensors of a session as of any .npz.
struct SessionOutline {
  bool has_problem = false;
  std::size_t sweeps = 0;  // measured ones
  std::string name;        // of the problem
  double scale = 0;
  Mask mask;  // without keep and bias
  Recipe recipe;
  std::int64_t head = 0, K = 0;
};
SessionOutline read_session_outline(const std::filesystem::path& path);

}  // namespace flashscope
