// The inside of a Document: what belongs to the window's thread, what it shares with its workers, and how results come
// back. Only for document*.cpp.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/document.h"
#include "app/seeker.h"

namespace flashscope {

struct Document::Impl {
  struct Settings {
    std::shared_ptr<const Problem> problem;
    Recipe recipe;
    std::vector<std::string> found = {};  // in the problem's files
    bool operator==(const Settings& other) const { return problem == other.problem && recipe == other.recipe; }
  };

  // One step back: other settings and the place in them, or runs that were deleted.
  struct Undo {
    Settings settings;
    RunList::Deleted deleted = {};
    Place place = {};
    std::optional<std::int64_t> K = {};  // the place exactly; none: it was not planned yet
  };

  std::function<void()> notify;
  std::atomic<bool> closing = false;

  // ---- the window's thread
  Settings settings;
  std::vector<Undo> undone, done;  // redo and undo stacks
  bool joining = false, joined = false;
  struct {  // as they were with `plan`, to go back to when newer settings cannot be planned
    Settings settings;
    std::vector<Undo> undone, done;
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
  int stepping_gpu = -1;  // -1: the CPU steps
  std::shared_ptr<const gpu::DeviceState> device_state;
  std::string stepped_by = "CPU", gpu_failed;
  GpuSteps::Map device_map;  // the newest, perhaps of another plan or head than what is shown
  std::string map_failure;   // of it, not told yet
  struct {
    std::shared_ptr<const ScanMap> map;
    std::shared_ptr<const std::vector<float>> o_row_norm;
  } scanned;  // of the plan and the head that are shown
  viz::StageData stage;
  std::string message;
  std::vector<std::int64_t> pinned;
  std::int64_t hovered = -1;
  std::optional<Recipe> beside;                   // the second recipe
  std::shared_ptr<const Problem> beside_problem;  // its own; null: the first one's
  std::int64_t beside_row = -1;                   // of the last difference that was found
  std::int64_t found_row = -1;                    // of the last search, while it is on the chip
  std::string passing;                            // `message`, where it is a notice and no error
  RunList runs;
  std::vector<std::shared_ptr<const MeasuredSweep>> sweeps, saved_sweeps;  // saved: those that are in a file
  bool sweep_on_gpu = false;                                               // one is being measured
  std::uint64_t gpu_run = 0;            // the job that is a full run on a GPU, as `jobs` counts them
  Settings saved;                       // those that are in a file
  std::optional<std::int64_t> then_K;   // where to go once the present settings are planned
  std::function<void()> session_taken;  // what else of a session is taken over then
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

  void post(std::function<void()> change);
  void notify_window();

  // ---- what is asked for while a plan is made waits for it, the newest of each sort
  enum Sort { kPlace, kJob, kHistory, kEvents, kSorts };
  std::array<std::function<void()>, kSorts> waiting;
  // Whether `action` has to wait, or there is nothing that it could be done in.
  bool wait_for_plan(Sort sort, std::function<void()> action);
  void do_what_waits();

  // ---- seeking
  void request();
  void take(Seeker::Result result);
  void refuse_plan(const std::string& why);
  void take_beside(Seeker::Result result);  // what belongs to the second recipe
  void take_map(GpuSteps::Map map);
  bool map_is_devices() const;  // the newest map of a GPU, if it made any, is of what is shown
  void show_map();              // the GPU's where one steps and has some of it, else the scan's

  // ---- settings
  Place present_place() const;
  Undo here() const;  // to come back to
  void apply(Settings next, const Place& to);
  void change(Settings next, bool keep_place = true);  // a step that can be undone
  void go_back(Undo to);
  void runs_changed();

  // ---- jobs: one at a time; a newer one replaces it
  bool searching = false;  // the job looks for a place: a command to go elsewhere ends it
  void stop_job();

  // `work` runs on a worker and returns what poll() shall do with its result.
  void start_job(std::string what, std::function<std::function<void()>(std::stop_token, const Progress&)> work);

  void show_job_stage(const std::stop_token& stop, const std::string& stage);  // by the job that `stop` stops

  // ---- small tasks (a row's history, a page of events): a newer one on the same thread replaces it
  void start_task(std::jthread& thread, std::function<std::function<void()>(std::stop_token)> work);

  // ---- the scan, looked at now and then
  void watch(std::stop_token stop);

  std::int64_t steps() const { return plan ? plan->schedule->steps() : 0; }
};

}  // namespace flashscope
