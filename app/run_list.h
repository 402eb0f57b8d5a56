// The full runs that are kept: shown, compared, saved into a session, deleted and brought back.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "engine/files/session_file.h"

namespace flashscope {

struct Run {
  SavedReport saved;
  const Report& report() const { return *saved.report; }
  const std::shared_ptr<const Problem>& problem() const { return saved.problem; }  // that it ran, where it is known
  bool on_gpu() const { return saved.report->gpu.has_value(); }
};
using RunPointer = std::shared_ptr<const Run>;

// The same tensors under the same mask and scale.
bool same_problem(const Problem& a, const Problem& b);

class RunList {
 public:
  // Runs that were deleted, and where they were: enough to bring them back.
  using Deleted = std::vector<std::pair<std::size_t, RunPointer>>;

  const std::vector<RunPointer>& all() const { return runs_; }  // oldest first
  void add(RunPointer run) { runs_.push_back(std::move(run)); }
  Deleted remove(std::vector<std::size_t> which);
  void bring_back(const Deleted& deleted);
  void remove(const Deleted& deleted);

  void choose(std::size_t n);  // beyond the last: none
  void choose_none() { chosen_.reset(); }
  const RunPointer& chosen() const { return chosen_; }

  // The last run of that problem and recipe; on a GPU, or on the CPU; on either.
  RunPointer last(const Problem& problem, const Recipe& recipe, bool gpu) const;
  RunPointer last(const Problem& problem, const Recipe& recipe) const;

  void take(const std::vector<SavedReport>& saved);  // a session's, in place of all

  // What is in a file, to know what would be lost.
  void mark_saved(const SessionFile& session);
  bool modified() const { return saved_ != runs_; }
  bool would_lose() const;  // a run that was measured on a GPU and is in no file

 private:
  std::vector<RunPointer> runs_, saved_;
  RunPointer chosen_;
};

}  // namespace flashscope
