#include "app/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "app/document_impl.h"
#include "engine/error.h"

namespace flashscope {

Document::Document(std::function<void()> notify) : impl_(std::make_unique<Impl>()) {
  Impl& d = *impl_;
  d.notify = std::move(notify);
  const auto deliver = [&d](Seeker::Result result) {
    const std::uint64_t number = result.number;
    d.post([&d, result = std::move(result)]() mutable { d.take(std::move(result)); });
    const std::lock_guard lock(d.mutex);
    d.served = std::max(d.served, number);
    d.changed.notify_all();
  };
  const auto deliver_map = [&d](GpuSteps::Map map) {
    d.post([&d, map = std::move(map)]() mutable { d.take_map(std::move(map)); });
  };
  d.seeker = std::make_unique<Seeker>(deliver, deliver_map);
  d.watcher = std::jthread([&d](std::stop_token stop) { d.watch(stop); });
}

Document::~Document() {
  impl_->closing = true;
  impl_->watcher.request_stop();
  impl_->changed.notify_all();
  impl_->job_thread.request_stop();
  impl_->history_thread.request_stop(), impl_->events_thread.request_stop();
  impl_->job_thread = {}, impl_->history_thread = {}, impl_->events_thread = {}, impl_->watcher = {};
  impl_->seeker.reset();
}

void Document::open(const ProblemFiles& files) {
  Impl& d = *impl_;
  const std::string file = (files.input.empty() ? files.q : files.input).filename().string();
  d.start_job("Opening " + file,
              [this, files](std::stop_token stop, const Progress& progress) -> std::function<void()> {
                LoadedProblem loaded = load_problem(files, stop, progress);
                return [this, loaded = std::move(loaded)] {
                  std::vector<std::string> found = loaded.found;
                  found.insert(found.end(), loaded.warnings.begin(), loaded.warnings.end());
                  set_problem(loaded.problem, std::move(found));
                  if (!loaded.warnings.empty()) impl_->message = impl_->stage.message = loaded.warnings.front();
                };
              });
}

void Document::set_problem(std::shared_ptr<const Problem> problem, std::vector<std::string> found) {
  impl_->change({std::move(problem), impl_->settings.recipe, std::move(found)}, false);
}

void Document::set_recipe_and_mask(const Recipe& recipe, const Mask& mask) {
  Impl& d = *impl_;
  if (!d.settings.problem) return;
  try {
    Impl::Settings next{d.settings.problem, recipe, d.settings.found};
    if (!(mask == next.problem->mask)) next.problem = with_mask(next.problem, mask);
    check(recipe, next.problem->shape());
    if (next.problem == d.settings.problem && recipe == d.settings.recipe) return;
    d.change(std::move(next));
  } catch (const InputError& error) {
    d.message = d.stage.message = error.what();
    ++d.stage.version;
  }
}

void Document::set_recipe(const Recipe& recipe) {
  if (impl_->settings.problem)
    set_recipe_and_mask(recipe, impl_->settings.problem->mask);
  else
    impl_->settings.recipe = recipe;
}

void Document::set_mask(const Mask& mask) { set_recipe_and_mask(impl_->settings.recipe, mask); }

void Document::set_scale(double scale) {
  Impl& d = *impl_;
  if (!d.settings.problem || d.settings.problem->scale == scale) return;
  try {
    d.change({with_scale(d.settings.problem, scale), d.settings.recipe, d.settings.found});
  } catch (const InputError& error) {
    d.message = d.stage.message = error.what();
    ++d.stage.version;
  }
}

void Document::undo() {
  Impl& d = *impl_;
  if (d.done.empty()) return;
  Impl::Undo last = std::move(d.done.back());
  d.done.pop_back();
  if (!last.deleted.empty()) {
    d.runs.bring_back(last.deleted);
    d.undone.push_back(std::move(last));
    return d.runs_changed();
  }
  d.undone.push_back(d.here());
  d.go_back(std::move(last));
}

void Document::redo() {
  Impl& d = *impl_;
  if (d.undone.empty()) return;
  Impl::Undo next = std::move(d.undone.back());
  d.undone.pop_back();
  if (!next.deleted.empty()) {
    d.runs.remove(next.deleted);
    d.done.push_back(std::move(next));
    return d.runs_changed();
  }
  d.done.push_back(d.here());
  d.go_back(std::move(next));
}

void Document::join_changes(bool on) { impl_->joining = on, impl_->joined = impl_->planned.joined = false; }
bool Document::can_undo() const { return !impl_->done.empty(); }
bool Document::can_redo() const { return !impl_->undone.empty(); }

void Document::seek(std::int64_t K) {
  Impl& d = *impl_;
  if (d.wait_for_plan(Impl::kPlace, [this, K] { seek(K); })) return;
  if (d.searching) d.stop_job();
  d.requested_K = std::clamp<std::int64_t>(K, 0, d.steps());
  d.request();
}

void Document::step(std::int64_t by) {
  Impl& d = *impl_;
  if (!d.planning) return seek(d.requested_K + by);
  if (auto& place = d.waiting[Impl::kPlace]) {
    place = [this, by, first = std::move(place)] { first(), step(by); };
  } else if (d.then_K) {
    *d.then_K += by;
  } else {
    d.place_by += by;
    d.request();
  }
}

void Document::step_tile(int direction) {
  Impl& d = *impl_;
  if (d.wait_for_plan(Impl::kPlace, [this, direction] { step_tile(direction); })) return;
  const Schedule& schedule = *d.plan->schedule;
  const std::int64_t tiles = schedule.tiles();
  // The neighbour of the present step's tile; between tiles, the nearest one in the way of going.
  const std::int64_t here = d.requested_K - 1;
  std::int64_t tile = schedule.next_tile(std::max<std::int64_t>(0, here));
  if (direction < 0)
    --tile;
  else if (here >= 0 && schedule.step(here).tile >= 0)
    ++tile;
  if (tile < 0 || tile >= tiles) return seek(direction > 0 ? schedule.steps() : 0);
  const Step to = schedule.tile_at(tile);
  // The same stage of the other tile, so that the eye compares like with like.
  const Step now = schedule.step(std::max<std::int64_t>(0, here));
  if (const auto k = schedule.find(to.head, to.i, to.j, now.tile >= 0 ? now.stage : to.stage)) seek(*k + 1);
}

void Document::step_head(std::int64_t head) {
  Impl& d = *impl_;
  if (d.wait_for_plan(Impl::kPlace, [this, head] { step_head(head); })) return;
  const Place here = d.present_place();
  if (here.start) return seek(d.plan->schedule->nearest(head, 0, 0, Stage::load_q));
  seek(d.plan->schedule->nearest(head, here.row, here.key, here.stage));
}

void Document::seek_tile(std::int64_t i, std::int64_t j) {
  Impl& d = *impl_;
  if (d.wait_for_plan(Impl::kPlace, [this, i, j] { seek_tile(i, j); })) return;
  const Place here = d.present_place();
  const Stage stage =
      here.start || here.stage == Stage::finish || here.stage == Stage::store ? Stage::scores : here.stage;
  seek(d.plan->schedule->nearest(here.head, std::max<std::int64_t>(0, i) * d.plan->recipe.Br,
                                 std::max<std::int64_t>(0, j) * d.plan->recipe.Bc, stage));
}

void Document::seek_row(std::int64_t head, std::int64_t row) {
  Impl& d = *impl_;
  if (d.wait_for_plan(Impl::kPlace, [this, head, row] { seek_row(head, row); })) return;
  const Place here = d.present_place();
  seek(d.plan->schedule->nearest(head, row, here.key, here.start ? Stage::scores : here.stage));
}

void Document::cancel_job() {
  impl_->stop_job();
  ++impl_->stage.version;
}

void Document::step_on(int gpu) {
  Impl& d = *impl_;
  d.gpu_failed.clear();
  if (std::exchange(d.stepping_gpu, gpu) != gpu && (d.plan || d.planning)) d.request();
}

void Document::set_lse(const LseConvention& convention) {
  Impl& d = *impl_;
  if (d.stage.lse == convention) return;
  d.stage.lse = convention;
  if (d.plan) d.stage.conventions = conventions(d.plan->recipe, d.plan->problem->mask, convention);
  ++d.stage.version;
  if (d.plan && d.beside) d.request();  // the second recipe's line is made with its state
}

void Document::hover_row(std::int64_t row) {
  Impl& d = *impl_;
  if (d.hovered == row) return;
  d.hovered = row;
  if (d.plan) d.request();
}

void Document::pin_row(std::int64_t row, bool pinned) {
  Impl& d = *impl_;
  std::erase(d.pinned, row);
  if (pinned) d.pinned.push_back(row), d.found_row = -1;
  d.stage.pinned_rows = d.pinned;
  if (d.plan) d.request();
}

void Document::request_history(std::int64_t head, std::int64_t row, std::int64_t channel) {
  Impl& d = *impl_;
  if (d.wait_for_plan(Impl::kHistory, [=, this] { request_history(head, row, channel); })) return;
  const auto plan = d.plan;
  d.start_task(d.history_thread, [this, plan, head, row, channel](std::stop_token stop) -> std::function<void()> {
    Trace trace(plan->problem, plan->recipe);
    auto history =
        std::make_shared<const History>(History{head, row, channel, trace.row_history(head, row, stop, channel)});
    return [this, history] { impl_->history = history; };
  });
}

void Document::request_events(unsigned kinds, std::int64_t first, std::int64_t count) {
  Impl& d = *impl_;
  if (d.wait_for_plan(Impl::kEvents, [=, this] { request_events(kinds, first, count); }) || !d.plan->scan) return;
  const auto plan = d.plan;
  d.start_task(d.events_thread, [this, plan, kinds, first, count](std::stop_token) -> std::function<void()> {
    auto page = std::make_shared<const EventPage>(EventPage{kinds, first, plan->scan->events(kinds, first, count)});
    return [this, page] { impl_->events = page; };
  });
}

bool Document::poll() {
  std::deque<std::function<void()>> changes;
  {
    const std::lock_guard lock(impl_->mutex);
    changes.swap(impl_->inbox);
  }
  for (const auto& change : changes) change();
  return !changes.empty();
}

void Document::wait_idle() {
  for (;;) {
    poll();
    std::unique_lock lock(impl_->mutex);
    const auto idle = [&] {
      return impl_->inbox.empty() && impl_->served >= impl_->requests && impl_->job.what.empty() && impl_->tasks == 0;
    };
    if (idle()) return;
    impl_->changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return !impl_->inbox.empty() || idle(); });
  }
}

const std::shared_ptr<const Problem>& Document::problem() const { return impl_->settings.problem; }
const Recipe& Document::recipe() const { return impl_->settings.recipe; }
std::int64_t Document::requested_K() const { return impl_->requested_K; }
const viz::StageData& Document::stage() const { return impl_->stage; }
std::int64_t Document::head() const {
  const viz::StageData& stage = impl_->stage;
  return stage.state && stage.problem == problem() ? stage.state->head : 0;
}
const std::string& Document::stepped_by() const { return impl_->stepped_by; }
const std::string& Document::gpu_failed() const { return impl_->gpu_failed; }
std::shared_ptr<const gpu::DeviceMap> Document::device_map() const {
  return impl_->map_is_devices() ? impl_->device_map.arrays : nullptr;
}
bool Document::map_pending() const {
  const GpuSteps::Map& map = impl_->device_map;
  return impl_->device_state && !(impl_->map_is_devices() && (map.complete || !map.failed.empty()));
}
int Document::stepping_device() const { return impl_->stepping_gpu; }
std::shared_ptr<const gpu::DeviceState> Document::device_state() const { return impl_->device_state; }
const std::vector<std::string>& Document::found() const { return impl_->settings.found; }
JobStatus Document::job() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->job;
}
const std::string& Document::message() const { return impl_->message; }
bool Document::message_passes() const { return impl_->message == impl_->passing; }

void Document::clear_message() {
  impl_->message.clear(), impl_->stage.message.clear();
  ++impl_->stage.version;
}
std::shared_ptr<const Scan> Document::scan() const { return impl_->plan ? impl_->plan->scan : nullptr; }
std::shared_ptr<const Document::History> Document::history() const { return impl_->history; }
std::shared_ptr<const Document::EventPage> Document::events() const { return impl_->events; }

}  // namespace flashscope
