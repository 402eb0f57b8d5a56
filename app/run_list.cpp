#include "app/run_list.h"

#include <algorithm>

namespace flashscope {
namespace {

bool of(const Run& run, const Problem& problem, const Recipe& recipe) {
  return run.problem() && run.report().recipe == recipe && same_problem(*run.problem(), problem);
}

}  // namespace

bool same_problem(const Problem& a, const Problem& b) {
  return a.q == b.q && a.k == b.k && a.v == b.v && a.scale == b.scale && a.mask == b.mask;
}

RunList::Deleted RunList::remove(std::vector<std::size_t> which) {
  std::sort(which.begin(), which.end());
  Deleted deleted;
  for (const std::size_t n : which)
    if (n < runs_.size()) deleted.emplace_back(n, runs_[n]);
  remove(deleted);
  return deleted;
}

void RunList::remove(const Deleted& deleted) {
  for (const auto& [at, run] : deleted) {
    std::erase(runs_, run);
    if (chosen_ == run) chosen_.reset();
  }
}

void RunList::bring_back(const Deleted& deleted) {
  for (const auto& [at, run] : deleted)
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(std::min(at, runs_.size())), run);
}

void RunList::choose(std::size_t n) { chosen_ = n < runs_.size() ? runs_[n] : RunPointer(); }

RunPointer RunList::last(const Problem& problem, const Recipe& recipe, bool gpu) const {
  for (auto run = runs_.rbegin(); run != runs_.rend(); ++run)
    if ((*run)->on_gpu() == gpu && of(**run, problem, recipe)) return *run;
  return {};
}

RunPointer RunList::last(const Problem& problem, const Recipe& recipe) const {
  for (auto run = runs_.rbegin(); run != runs_.rend(); ++run)
    if (of(**run, problem, recipe)) return *run;
  return {};
}

void RunList::take(const std::vector<SavedReport>& saved) {
  runs_.clear(), chosen_.reset();
  for (const SavedReport& one : saved) runs_.push_back(std::make_shared<const Run>(Run{one}));
  saved_ = runs_;
}

void RunList::mark_saved(const SessionFile& session) {
  saved_.clear();
  for (const RunPointer& run : runs_)
    if (std::any_of(session.reports.begin(), session.reports.end(),
                    [&](const SavedReport& saved) { return saved.report == run->saved.report; }))
      saved_.push_back(run);
}

bool RunList::would_lose() const {
  return std::any_of(runs_.begin(), runs_.end(), [&](const RunPointer& run) {
    return run->on_gpu() && std::find(saved_.begin(), saved_.end(), run) == saved_.end();
  });
}

}  // namespace flashscope
