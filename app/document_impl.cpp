#include "app/document_impl.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/error.h"

namespace flashscope {
namespace {

constexpr int kStripBins = 1920;                              // one for each pixel of a wide screen
constexpr auto kScanPeriod = std::chrono::milliseconds(120);  // between snapshots of a running scan

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

void Document::Impl::post(std::function<void()> change) {
  {
    const std::lock_guard lock(mutex);
    inbox.push_back(std::move(change));
  }
  changed.notify_all();
  notify_window();
}

void Document::Impl::notify_window() {
  if (notify && !closing) notify();
}

void Document::Impl::request() {
  Seeker::Request request;
  request.number = ++requests;
  request.generation = generation;
  request.problem = settings.problem, request.recipe = settings.recipe;
  request.K = requested_K;
  if (planning)
    request.place = place, request.by = place_by;
  else
    request.plan = plan;
  request.gpu = stepping_gpu;
  request.check_row = hovered >= 0 ? hovered : found_row >= 0 ? found_row : pinned.empty() ? -1 : pinned.front();
  request.beside = beside, request.beside_problem = beside_problem;
  request.beside_row = beside_row >= 0 ? beside_row : pinned.empty() ? -1 : pinned.front();
  stage.busy = true;
  ++stage.version;
  seeker->request(std::move(request));
}

void Document::Impl::take(Seeker::Result result) {
  // A newer request is on its way: of an older one only the picture counts, and only in the same plan.
  const bool newest = result.number == requests;
  if (!newest && (planning || !result.plan || result.plan != plan)) return;
  stage.busy = !newest;
  ++stage.version;
  if (!result.plan) return refuse_plan(result.error);
  const bool replanned = plan != result.plan;
  const std::function<void()> taken = replanned ? std::exchange(session_taken, {}) : nullptr;
  if (replanned) {
    plan = result.plan;
    planning = false;
    planned = {settings, undone, done, joined};
    runs.choose_none(), history.reset(), events.reset();
    stage.totals = {};
    const std::lock_guard lock(mutex);
    scan = plan->scan, scan_generation = plan->generation;
  }
  // Those of another plan or head would be taken for this one's until the scan is looked at again.
  if (replanned || (stage.state && stage.state->head != result.state->head)) scanned = {}, stage.strip.reset();
  if (newest) requested_K = result.state->K;
  {
    const std::lock_guard lock(mutex);
    scan_head = result.state->head;
  }
  changed.notify_all();
  device_state = std::move(result.arrays);
  stepped_by = device_state ? result.gpu_name : "CPU";
  if (!device_state) device_map = {};
  // It would fail again at every step: the CPU goes on until the person switches back.
  if (!result.gpu_failed.empty()) {
    stepping_gpu = -1, gpu_failed = result.gpu_failed;
    message = stage.message = "The CPU steps: the GPU could not. " + result.gpu_failed;
  }
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
  const TraceState& s = *stage.state;
  if (replanned || (newest && (found_row < s.row0 || found_row >= s.row0 + s.rows))) found_row = -1;
  stage.found_row = found_row;
  stage.title = plan->problem->name;
  stage.conventions = conventions(plan->recipe, plan->problem->mask, stage.lse);
  show_map();
  take_beside(std::move(result));
  if (newest && then_K) {
    const std::int64_t K = std::clamp<std::int64_t>(*std::exchange(then_K, {}), 0, plan->schedule->steps());
    if (std::exchange(requested_K, K) != K) request();
  }
  if (taken) taken();
  if (replanned) do_what_waits();
}

// The settings could not be planned: the last ones that could are in force again. The very first ones stay, without a
// plan, until they are changed.
void Document::Impl::refuse_plan(const std::string& why) {
  if (planning && plan) {
    settings = planned.settings;
    generation = plan->generation;
    undone = planned.undone, done = planned.done, joined = planned.joined;
    requested_K = stage.state ? stage.state->K : 0;
    then_K.reset(), session_taken = {};
  } else if (const auto taken = std::exchange(session_taken, {})) {
    taken();
  }
  planning = false;
  waiting = {};
  message = stage.message = why;
}

void Document::Impl::take_map(GpuSteps::Map map) {
  device_map = std::move(map);
  map_failure = device_map.failed;
  show_map();
  ++stage.version;
}

bool Document::Impl::map_is_devices() const {
  return device_state && plan && stage.state && device_map.generation == plan->generation &&
         device_map.head == stage.state->head;
}

void Document::Impl::show_map() {
  const bool of_gpu = map_is_devices() && device_map.map;
  stage.map = of_gpu ? device_map.map : scanned.map;
  stage.o_row_norm = of_gpu ? device_map.o_row_norm : scanned.o_row_norm;
  if (!map_failure.empty() && map_is_devices())
    message = stage.message = "The tile map is the CPU's: the GPU could not. " + std::exchange(map_failure, {});
}

bool Document::Impl::wait_for_plan(Sort sort, std::function<void()> action) {
  if (plan && !planning) return false;
  if (planning) waiting[sort] = std::move(action);
  return true;
}

void Document::Impl::do_what_waits() {
  for (const auto& action : std::exchange(waiting, {}))
    if (action) action();
}

Place Document::Impl::present_place() const {
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

Document::Impl::Undo Document::Impl::here() const {
  return {settings, {}, present_place(), planning ? then_K : std::optional(requested_K)};
}

void Document::Impl::apply(Settings next, const Place& to) {
  place = to;
  place_by = 0;
  then_K.reset();
  waiting = {};
  if (beside_problem && settings.problem) {
    if (next.problem->q != settings.problem->q)
      beside.reset(), beside_problem.reset();
    else if (beside_problem == settings.problem)  // one problem: its mask changes on both sides
      beside_problem = next.problem;
  }
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

void Document::Impl::change(Settings next, bool keep_place) {
  if (settings.problem && !(joining && joined)) done.push_back(here());
  joined = joining;
  undone.clear();
  if (!keep_place) session_taken = {};  // another problem; a change of a session's own goes with it
  apply(std::move(next), keep_place ? present_place() : Place{});
}

void Document::Impl::go_back(Undo to) {
  apply(std::move(to.settings), to.place);
  then_K = to.K;
}

void Document::Impl::runs_changed() {
  if (!planning) planned = {settings, undone, done, joined};
  ++stage.version;
}

void Document::Impl::stop_job() {
  searching = false;
  job_thread.request_stop();
  const std::lock_guard lock(mutex);
  ++jobs;  // what it still delivers is stale
  job = {};
}

void Document::Impl::start_job(std::string what,
                               std::function<std::function<void()>(std::stop_token, const Progress&)> work) {
  stop_job();
  std::uint64_t number;
  {
    const std::lock_guard lock(mutex);
    number = jobs;
    job = {std::move(what), 0, {}};
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

void Document::Impl::show_job_stage(const std::stop_token& stop, const std::string& stage) {
  {
    const std::lock_guard lock(mutex);
    if (stop.stop_requested()) return;  // another job's line, or none, is shown
    job.stage = stage;
  }
  notify_window();
}

void Document::Impl::start_task(std::jthread& thread, std::function<std::function<void()>(std::stop_token)> work) {
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

void Document::Impl::watch(std::stop_token stop) {
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
      stage.totals = view.totals, stage.strip = view.strip;
      scanned = {view.map, view.o_row_norm};
      show_map();
      ++stage.version;
    });
    // Enough for the eye; the rest of the period is the scan's.
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kScanPeriod, [&] {
      return stop.stop_requested() || scan_generation != generation_seen || scan_head != head_seen;
    });
  }
}

}  // namespace flashscope
