// The document's full runs, and sessions.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "app/document_impl.h"
#include "app/gpu_child.h"
#include "engine/insight/measurement.h"

namespace flashscope {

void Document::run_full(const RunTarget& target) {
  Impl& d = *impl_;
  if (d.wait_for_plan(Impl::kJob, [this, target] { run_full(target); })) return;
  if (target.gpu && d.sweep_on_gpu) {
    d.message = d.stage.message =
        "a sweep is measured on the GPU, and its counters would see this run too: pause or cancel it in the explorer";
    ++d.stage.version;
    return;
  }
  const auto plan = d.plan;
  d.start_job(fmt::format("Running {} on the {}", name(plan->recipe.algorithm), target.gpu ? "GPU" : "CPU"),
              [this, plan, target](std::stop_token stop, const Progress& progress) -> std::function<void()> {
                ChildRun child;
                child.device = target.device, child.timeline = true;
                // What else runs on the GPU would be in the counters: steps wait, and the stage keeps its frame.
                struct Hold {
                  Seeker& seeker;
                  bool on = false;
                  void set(bool wanted) {
                    if (std::exchange(on, wanted) != wanted) seeker.hold(wanted);
                  }
                  ~Hold() { set(false); }
                } held{*impl_->seeker};
                const auto on_stage = [&](const std::string& stage) {
                  held.set(reads_counters(stage));
                  impl_->show_job_stage(stop, stage);
                };
                auto report = std::make_shared<const Report>(
                    target.gpu ? run_in_child(*plan->problem, plan->recipe, child, stop, progress, on_stage)
                               : run_on_cpu(*plan->problem, plan->recipe, {}, stop, progress));
                return [this, plan, report] { add_run(report, plan->problem); };
              });
  const std::lock_guard lock(d.mutex);
  if (target.gpu) d.gpu_run = d.jobs;
}

bool Document::runs_on_gpu() const {
  const std::lock_guard lock(impl_->mutex);
  return !impl_->job.what.empty() && impl_->gpu_run == impl_->jobs;
}

void Document::hold_gpu(bool on) {
  if (std::exchange(impl_->sweep_on_gpu, on) != on) impl_->seeker->hold(on);
}

bool Document::gpu_held() const { return impl_->seeker->held(); }

void Document::add_run(const std::shared_ptr<const Report>& report, std::shared_ptr<const Problem> problem) {
  impl_->runs.add(std::make_shared<const Run>(Run{make_saved(report, std::move(problem), FLASHSCOPE_VERSION)}));
  impl_->runs.choose_none();
  ++impl_->stage.version;
}

void Document::show_run(std::size_t n) {
  impl_->runs.choose(n);
  ++impl_->stage.version;
}

void Document::delete_runs(const std::vector<std::size_t>& which) {
  RunList::Deleted deleted = impl_->runs.remove(which);
  if (deleted.empty()) return;
  impl_->done.push_back({{}, std::move(deleted), {}, {}});
  impl_->undone.clear();
  impl_->joined = false;
  impl_->runs_changed();
}

void Document::set_session(const SessionFile& session, std::function<void()> taken) {
  Impl& d = *impl_;
  const Impl::Settings settings{session.problem, session.recipe};
  std::vector<std::shared_ptr<const MeasuredSweep>> sweeps;
  for (const MeasuredSweep& sweep : session.sweeps)
    if (!sweep.points.empty()) sweeps.push_back(std::make_shared<const MeasuredSweep>(sweep));
  auto take = [&d, settings, sweeps = std::move(sweeps), reports = session.reports, taken = std::move(taken)] {
    d.runs.take(reports);
    d.sweeps = d.saved_sweeps = sweeps;
    for (auto* steps : {&d.done, &d.undone})  // runs that were deleted from another list
      std::erase_if(*steps, [](const Impl::Undo& step) { return !step.deleted.empty(); });
    if (settings.problem) d.saved = settings;
    d.runs_changed();
    if (taken) taken();
  };
  if (!session.problem) return take();
  d.done.clear(), d.undone.clear();
  d.apply(settings, {});
  d.then_K = session.K;
  d.session_taken = std::move(take);
}

SessionFile Document::session() const {
  const Impl& d = *impl_;
  // Until another session is taken over, what was open before is open still.
  const Impl::Settings& open = d.session_taken && d.plan ? d.planned.settings : d.settings;
  SessionFile session;
  session.problem = open.problem, session.recipe = open.recipe, session.K = d.requested_K;
  if (d.stage.state) session.head = d.stage.state->head;
  for (const RunPointer& run : d.runs.all()) session.reports.push_back(run->saved);
  for (const auto& sweep : d.sweeps) session.sweeps.push_back(*sweep);
  return session;
}

void Document::open_session(const std::filesystem::path& path, std::function<void(const SessionFile&)> opened) {
  impl_->start_job(
      "Opening " + path.filename().string(),
      [path, opened = std::move(opened)](std::stop_token stop, const Progress& progress) -> std::function<void()> {
        auto session = std::make_shared<const SessionFile>(read_session(path, std::int64_t{8} << 30, stop, progress));
        return [session, opened] { opened(*session); };
      });
}

void Document::mark_saved(const SessionFile& session) {
  impl_->saved = {session.problem, session.recipe};
  impl_->runs.mark_saved(session);
  // Those that went on since then are not in the file.
  impl_->saved_sweeps.clear();
  for (const auto& sweep : impl_->sweeps)
    if (std::any_of(session.sweeps.begin(), session.sweeps.end(), [&](const MeasuredSweep& saved) {
          return same_sweep(saved, *sweep) && saved.points.size() == sweep->points.size();
        }))
      impl_->saved_sweeps.push_back(sweep);
}

bool Document::modified() const {
  return impl_->runs.modified() || impl_->saved != impl_->settings || impl_->sweeps != impl_->saved_sweeps;
}

bool Document::would_lose_sweeps() const { return impl_->sweeps != impl_->saved_sweeps; }
bool Document::would_lose() const { return impl_->runs.would_lose() || would_lose_sweeps(); }

void Document::keep_sweep(std::shared_ptr<const MeasuredSweep> sweep) {
  auto& sweeps = impl_->sweeps;
  const auto known =
      std::find_if(sweeps.begin(), sweeps.end(), [&](const auto& one) { return same_sweep(*one, *sweep); });
  if (known == sweeps.end()) return sweeps.push_back(std::move(sweep));
  // Points only come: one of as many is what is kept already, and what a file may hold.
  if ((*known)->points.size() != sweep->points.size()) *known = std::move(sweep);
}

const std::vector<std::shared_ptr<const MeasuredSweep>>& Document::sweeps() const { return impl_->sweeps; }

const RunList& Document::runs() const { return impl_->runs; }
RunPointer Document::last_run(bool gpu) const {
  return problem() ? impl_->runs.last(*problem(), recipe(), gpu) : RunPointer();
}
RunPointer Document::shown_run() const {
  if (impl_->runs.chosen()) return impl_->runs.chosen();
  return problem() ? impl_->runs.last(*problem(), recipe()) : RunPointer();
}
std::shared_ptr<const Report> Document::report() const {
  const RunPointer run = problem() ? impl_->runs.last(*problem(), recipe()) : RunPointer();
  return run ? run->saved.report : nullptr;
}

}  // namespace flashscope
