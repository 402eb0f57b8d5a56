#include "app/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>

#include "app/seeker.h"
#include "engine/error.h"

namespace flashscope {
namespace {

constexpr int kStripBins = 1920;                              // one for each pixel of a wide screen
constexpr auto kScanPeriod = std::chrono::milliseconds(120);  // between snapshots of a running scan

struct Settings {
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
};

// What the scan has found so far, copied out by a worker.
struct ScanView {
  std::uint64_t generation = 0, version = 0;
  std::int64_t head = 0;
  ScanTotals totals;
  std::shared_ptr<const ScanMap> map;
  std::shared_ptr<const ScanStrip> strip;
  std::shared_ptr<const std::vector<float>> o_row_norm;
};

}  // namespace

struct Document::Impl {
  std::function<void()> notify;
  std::atomic<bool> closing = false;

  // ---- the window's thread
  Settings settings;
  std::vector<Settings> undone, done;  // redo and undo stacks
  bool joining = false, joined = false;
  struct {  // as they were with the settings of `plan`, to go back to when newer ones cannot be planned
    std::vector<Settings> undone, done;
    bool joined = false;
  } planned;
  std::uint64_t generation = 0;   // of the settings; a plan of another generation is stale
  std::uint64_t generations = 0;  // so many were begun
  std::uint64_t requests = 0;
  std::int64_t requested_K = 0;
  bool planning = false;  // the plan of the present settings is not here yet
  Place place;            // where to go in it
  std::int64_t place_by = 0;
  std::shared_ptr<const Plan> plan;
  viz::StageData stage;
  std::vector<std::string> found;
  std::string message;
  std::vector<std::int64_t> pinned;
  std::int64_t hovered = -1;
  std::shared_ptr<const Report> report;
  std::shared_ptr<const History> history;
  std::shared_ptr<const EventPage> events;

  // ---- shared with the workers
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> inbox;  // run by poll()
  std::uint64_t served = 0;                 // number of the last request that was answered
  JobStatus job;
  std::uint64_t jobs = 0;
  int tasks = 0;               // history and event pages under way
  std::shared_ptr<Scan> scan;  // watched
  std::uint64_t scan_generation = 0;
  std::int64_t scan_head = 0;

  std::jthread job_thread, history_thread, events_thread, watcher;
  std::unique_ptr<Seeker> seeker;

  void post(std::function<void()> change) {
    {
      const std::lock_guard lock(mutex);
      inbox.push_back(std::move(change));
    }
    changed.notify_all();
    notify_window();
  }
  void notify_window() {
    if (notify && !closing) notify();
  }

  // ---- seeking
  void request() {
    Seeker::Request request;
    request.number = ++requests;
    request.generation = generation;
    request.problem = settings.problem, request.recipe = settings.recipe;
    request.K = requested_K;
    if (planning)
      request.place = place, request.by = place_by;
    else
      request.plan = plan;
    request.check_row = hovered >= 0 ? hovered : pinned.empty() ? -1 : pinned.front();
    stage.busy = true;
    ++stage.version;
    seeker->request(std::move(request));
  }

  void take(Seeker::Result result) {
    // A newer request is on its way: of an older one only the picture counts, and only in the same plan.
    const bool newest = result.number == requests;
    if (!newest && (planning || !result.plan || result.plan != plan)) return;
    stage.busy = !newest;
    ++stage.version;
    if (!result.plan) {
      message = result.error;
      // The settings could not be planned: the last ones that could are in force again.
      if (planning && plan) {
        settings = {plan->problem, plan->recipe};
        generation = plan->generation;
        planning = false;
        undone = planned.undone, done = planned.done, joined = planned.joined;
        requested_K = stage.state ? stage.state->K : 0;
      }
      stage.message = message;
      return;
    }
    const bool replanned = plan != result.plan;
    if (replanned) {
      plan = result.plan;
      planning = false;
      planned = {undone, done, joined};
      report.reset(), history.reset(), events.reset();
      stage.totals = {};
      const std::lock_guard lock(mutex);
      scan = plan->scan, scan_generation = plan->generation;
    }
    // Those of another plan or head would be taken for this one's until the scan is looked at again.
    if (replanned || (stage.state && stage.state->head != result.state->head))
      stage.map.reset(), stage.strip.reset(), stage.o_row_norm.reset();
    if (newest) requested_K = result.state->K;
    {
      const std::lock_guard lock(mutex);
      scan_head = result.state->head;
    }
    changed.notify_all();
    stage.problem = plan->problem;
    stage.schedule = plan->schedule;
    stage.state = std::move(result.state);
    stage.transfers = std::move(result.transfers);
    stage.traffic_so_far = result.traffic_so_far, stage.traffic_total = plan->traffic;
    stage.formula = plan->formula;
    stage.standard_elements_total = plan->standard_elements;
    stage.standard_elements_so_far = result.standard_so_far;
    stage.minimum = plan->minimum, stage.saving = plan->saving;
    stage.on_chip = plan->on_chip, stage.footprint = plan->footprint;
    stage.check = std::move(result.check), stage.check_row = result.check_row;
    stage.pinned_rows = pinned;
    stage.title = plan->problem->name;
    stage.conventions = conventions(plan->recipe, plan->problem->mask);
  }

  // ---- settings
  Place present_place() const {
    if (planning) return place;
    Place here;
    if (!stage.state || requested_K == 0 || !plan) return here;
    const Step step = plan->schedule->step(std::min(requested_K, plan->schedule->steps()) - 1);
    here.start = false;
    here.head = step.head, here.stage = step.stage;
    here.row = std::max<std::int64_t>(0, step.i) * plan->recipe.Br;
    here.key = std::max<std::int64_t>(0, step.j) * plan->recipe.Bc;
    return here;
  }

  void apply(Settings next, bool keep_place) {
    place = keep_place ? present_place() : Place{};
    place_by = 0;
    settings = std::move(next);
    generation = ++generations;
    planning = true;
    message.clear(), stage.message.clear();
    const std::int64_t Nq = settings.problem->shape().Nq;
    std::erase_if(pinned, [Nq](std::int64_t row) { return row >= Nq; });
    if (hovered >= Nq) hovered = -1;
    stop_job();
    request();
  }

  void change(Settings next, bool keep_place = true) {
    if (settings.problem && !(joining && joined)) done.push_back(settings);
    joined = joining;
    undone.clear();
    apply(std::move(next), keep_place);
  }

  // ---- jobs: one at a time; a newer one replaces it
  void stop_job() {
    job_thread.request_stop();
    const std::lock_guard lock(mutex);
    ++jobs;  // what it still delivers is stale
    job = {};
  }

  // `work` runs on a worker and returns what poll() shall do with its result.
  void start_job(std::string what, std::function<std::function<void()>(std::stop_token, const Progress&)> work) {
    stop_job();
    std::uint64_t number;
    {
      const std::lock_guard lock(mutex);
      number = jobs;
      job = {std::move(what), 0};
    }
    std::jthread previous = std::move(job_thread);
    job_thread = std::jthread([this, number, work = std::move(work),
                               previous = std::make_shared<std::jthread>(std::move(previous))](std::stop_token stop) {
      if (previous->joinable()) previous->join();
      const Progress progress = [&](std::int64_t so_far, std::int64_t total) {
        {
          const std::lock_guard lock(mutex);
          if (number != jobs) return;
          job.fraction = total > 0 ? static_cast<double>(so_far) / static_cast<double>(total) : 0;
        }
        notify_window();
      };
      std::function<void()> finish;
      try {
        finish = work(stop, progress);
      } catch (const Cancelled&) {
        return;
      } catch (const std::exception& error) {
        finish = [this, text = std::string(error.what())] { message = stage.message = text; };
      }
      post([this, number, finish = std::move(finish)] {
        {
          const std::lock_guard lock(mutex);
          if (number != jobs) return;
          job = {};
        }
        finish();
        ++stage.version;
      });
    });
    notify_window();
  }

  // ---- small tasks (a row's history, a page of events): a newer one on the same thread replaces it
  void start_task(std::jthread& thread, std::function<std::function<void()>(std::stop_token)> work) {
    thread.request_stop();
    {
      const std::lock_guard lock(mutex);
      ++tasks;
    }
    std::jthread previous = std::move(thread);
    const std::uint64_t of = generation;
    thread = std::jthread([this, of, work = std::move(work),
                           previous = std::make_shared<std::jthread>(std::move(previous))](std::stop_token stop) {
      if (previous->joinable()) previous->join();
      std::function<void()> finish = [] {};
      try {
        if (!stop.stop_requested()) finish = work(stop);
      } catch (const Cancelled&) {
      } catch (const std::exception& error) {
        finish = [this, text = std::string(error.what())] { message = stage.message = text; };
      }
      post([this, of, finish = std::move(finish)] {
        if (of != generation) return;
        finish();
        ++stage.version;
      });
      const std::lock_guard lock(mutex);
      --tasks;  // not before its result is there to be polled
      changed.notify_all();
    });
  }

  // ---- the scan, looked at now and then
  void watch(std::stop_token stop) {
    std::uint64_t generation_seen = 0, version_seen = 0;
    std::int64_t head_seen = -1;
    while (!stop.stop_requested()) {
      ScanView view;
      std::shared_ptr<Scan> scan_now;
      {
        std::unique_lock lock(mutex);
        changed.wait_for(lock, kScanPeriod, [&] {
          return stop.stop_requested() || scan_generation != generation_seen || scan_head != head_seen;
        });
        if (stop.stop_requested()) return;
        scan_now = scan;
        view.generation = scan_generation, view.head = scan_head;
      }
      if (!scan_now) {
        generation_seen = view.generation, head_seen = view.head;
        continue;
      }
      view.version = scan_now->version();
      if (view.generation == generation_seen && view.version == version_seen && view.head == head_seen) continue;
      view.totals = scan_now->totals();
      view.map = scan_now->map(view.head);
      view.strip = std::make_shared<const ScanStrip>(scan_now->strip(view.head, kStripBins));
      view.o_row_norm = std::make_shared<const std::vector<float>>(scan_now->o_row_norm(view.head));
      generation_seen = view.generation, version_seen = view.version, head_seen = view.head;
      post([this, view] {
        if (!plan || view.generation != plan->generation || !stage.state || view.head != stage.state->head) return;
        stage.totals = view.totals, stage.map = view.map, stage.strip = view.strip, stage.o_row_norm = view.o_row_norm;
        ++stage.version;
      });
      // Enough for the eye; the rest of the period is the scan's.
      std::unique_lock lock(mutex);
      changed.wait_for(lock, kScanPeriod, [&] {
        return stop.stop_requested() || scan_generation != generation_seen || scan_head != head_seen;
      });
    }
  }

  std::int64_t steps() const { return plan ? plan->schedule->steps() : 0; }
};

Document::Document(std::function<void()> notify) : impl_(std::make_unique<Impl>()) {
  Impl& d = *impl_;
  d.notify = std::move(notify);
  d.seeker = std::make_unique<Seeker>([&d](Seeker::Result result) {
    const std::uint64_t number = result.number;
    d.post([&d, result = std::move(result)]() mutable { d.take(std::move(result)); });
    const std::lock_guard lock(d.mutex);
    d.served = std::max(d.served, number);
    d.changed.notify_all();
  });
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
  impl_->found = std::move(found);
  impl_->change({std::move(problem), impl_->settings.recipe}, false);
}

void Document::set_recipe_and_mask(const Recipe& recipe, const Mask& mask) {
  Impl& d = *impl_;
  if (!d.settings.problem) return;
  try {
    Settings next{d.settings.problem, recipe};
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
    d.change({with_scale(d.settings.problem, scale), d.settings.recipe});
  } catch (const InputError& error) {
    d.message = d.stage.message = error.what();
    ++d.stage.version;
  }
}

void Document::undo() {
  Impl& d = *impl_;
  if (d.done.empty()) return;
  Settings previous = std::move(d.done.back());
  d.done.pop_back();
  d.undone.push_back(d.settings);
  d.apply(std::move(previous), true);
}

void Document::redo() {
  Impl& d = *impl_;
  if (d.undone.empty()) return;
  Settings next = std::move(d.undone.back());
  d.undone.pop_back();
  d.done.push_back(d.settings);
  d.apply(std::move(next), true);
}

void Document::join_changes(bool on) { impl_->joining = on, impl_->joined = impl_->planned.joined = false; }
bool Document::can_undo() const { return !impl_->done.empty(); }
bool Document::can_redo() const { return !impl_->undone.empty(); }

void Document::seek(std::int64_t K) {
  Impl& d = *impl_;
  if (!d.plan || d.planning) return;
  d.requested_K = std::clamp<std::int64_t>(K, 0, d.steps());
  d.request();
}

void Document::step(std::int64_t by) {
  Impl& d = *impl_;
  if (d.planning) {
    d.place_by += by;
    d.request();
  } else {
    seek(d.requested_K + by);
  }
}

void Document::step_tile(int direction) {
  Impl& d = *impl_;
  if (!d.plan || d.planning) return;
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
  if (!d.plan || d.planning) return;
  const Place here = d.present_place();
  if (here.start) return seek(d.plan->schedule->nearest(head, 0, 0, Stage::load_q));
  seek(d.plan->schedule->nearest(head, here.row, here.key, here.stage));
}

void Document::seek_tile(std::int64_t i, std::int64_t j) {
  Impl& d = *impl_;
  if (!d.plan || d.planning) return;
  const Place here = d.present_place();
  const Stage stage =
      here.start || here.stage == Stage::finish || here.stage == Stage::store ? Stage::scores : here.stage;
  seek(d.plan->schedule->nearest(here.head, std::max<std::int64_t>(0, i) * d.plan->recipe.Br,
                                 std::max<std::int64_t>(0, j) * d.plan->recipe.Bc, stage));
}

void Document::seek_row(std::int64_t head, std::int64_t row) {
  Impl& d = *impl_;
  if (!d.plan || d.planning) return;
  const Place here = d.present_place();
  seek(d.plan->schedule->nearest(head, row, here.key, here.start ? Stage::scores : here.stage));
}

void Document::find(EventKind kind, bool forward) {
  Impl& d = *impl_;
  if (!d.plan || d.planning) return;
  const std::string what = fmt::format("Searching the {} {}", forward ? "next" : "previous", name(kind));
  const auto plan = d.plan;
  const std::int64_t from = d.requested_K;
  d.start_job(
      what, [this, plan, kind, from, forward](std::stop_token stop, const Progress& progress) -> std::function<void()> {
        Trace trace(plan->problem, plan->recipe);
        const auto event = trace.find(kind, from, forward, 1, stop, progress);
        return [this, plan, event, kind, forward] {
          if (impl_->plan != plan) return;
          if (event)
            seek(event->step);
          else
            impl_->message = impl_->stage.message =
                fmt::format("No {} {} this step", name(kind), forward ? "after" : "before");
        };
      });
}

void Document::run_full() {
  Impl& d = *impl_;
  if (!d.plan || d.planning) return;
  const auto plan = d.plan;
  d.start_job(fmt::format("Running {} on the CPU", name(plan->recipe.algorithm)),
              [this, plan](std::stop_token stop, const Progress& progress) -> std::function<void()> {
                auto report =
                    std::make_shared<const Report>(run_on_cpu(*plan->problem, plan->recipe, {}, stop, progress));
                return [this, plan, report] {
                  if (impl_->plan == plan) impl_->report = report;
                };
              });
}

void Document::cancel_job() {
  impl_->stop_job();
  ++impl_->stage.version;
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
  if (pinned) d.pinned.push_back(row);
  d.stage.pinned_rows = d.pinned;
  if (d.plan) d.request();
}

void Document::request_history(std::int64_t head, std::int64_t row) {
  Impl& d = *impl_;
  if (!d.plan || d.planning) return;
  const auto plan = d.plan;
  d.start_task(d.history_thread, [this, plan, head, row](std::stop_token stop) -> std::function<void()> {
    Trace trace(plan->problem, plan->recipe);
    auto history = std::make_shared<const History>(History{head, row, trace.row_history(head, row, stop)});
    return [this, history] { impl_->history = history; };
  });
}

void Document::request_events(unsigned kinds, std::int64_t first, std::int64_t count) {
  Impl& d = *impl_;
  if (!d.plan || d.planning || !d.plan->scan) return;
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
const std::vector<std::string>& Document::found() const { return impl_->found; }
JobStatus Document::job() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->job;
}
const std::string& Document::message() const { return impl_->message; }
void Document::clear_message() {
  impl_->message.clear(), impl_->stage.message.clear();
  ++impl_->stage.version;
}
std::shared_ptr<const Report> Document::report() const { return impl_->report; }
std::shared_ptr<const Scan> Document::scan() const { return impl_->plan ? impl_->plan->scan : nullptr; }
std::shared_ptr<const Document::History> Document::history() const { return impl_->history; }
std::shared_ptr<const Document::EventPage> Document::events() const { return impl_->events; }

}  // namespace flashscope
