// The one owner of what is open. Commands change it, everything else reads its snapshots.
//
// Seeking, searching, scanning and loading run on its workers; a newer request replaces an older one
// (generation numbers), and stale results are dropped. What is asked for while a plan is being made waits for
// that plan, the newest place, job, history and page of events each. No Qt. All methods are for one thread (the
// window's, or the command line's); `notify` is called from workers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/run_list.h"
#include "engine/attention/cpu_runner.h"
#include "engine/attention/ledger.h"
#include "engine/attention/scan.h"
#include "engine/attention/trace.h"
#include "engine/files/problem_file.h"
#include "engine/insight/search.h"
#include "viz/stage.h"

namespace flashscope {

namespace gpu {
class DeviceState;
class DeviceMap;
}  // namespace gpu

// Where a full run is made.
struct RunTarget {
  bool gpu = false;
  int device = 0;
};

// A long job that the person can see and cancel: a search, a full run, loading a file.
struct JobStatus {
  std::string what;     // "Searching the next NaN"; empty: none
  double fraction = 0;  // 0..1
  std::string stage;    // "timed launch 3 of 20"; empty: it has none
};

class Document {
 public:
  explicit Document(std::function<void()> notify = {});
  ~Document();
  Document(const Document&) = delete;

  // ---- commands. Those that change problem, mask or recipe can be undone, back to the step they were given at.
  void open(const ProblemFiles& files);  // in the background; on failure `message` and nothing lost
  void set_problem(std::shared_ptr<const Problem> problem, std::vector<std::string> found = {});
  // Re-plans at once and keeps the place: same (head, row, key, stage), or the nearest. An invalid recipe
  // sets `message` and changes nothing.
  void set_recipe(const Recipe& recipe);
  void set_mask(const Mask& mask);
  void set_recipe_and_mask(const Recipe& recipe, const Mask& mask);  // one undo step
  void set_scale(double scale);
  // Changes between join_changes(true) and (false) are one undo step: a slider that is dragged.
  void join_changes(bool on);
  void undo();
  void redo();
  bool can_undo() const;
  bool can_redo() const;

  void seek(std::int64_t K);      // returns at once
  void step(std::int64_t by);     // relative to the requested place
  void step_tile(int direction);  // next or previous tile
  void step_head(std::int64_t head);
  void seek_tile(std::int64_t i, std::int64_t j);
  void seek_row(std::int64_t head, std::int64_t row);
  // Jobs that seek to what they find; else `message` says that there is none. `then` hears of what was found.
  void find(EventKind kind, bool forward);
  void run_to(std::vector<Stop> stops, bool forward, std::function<void(const Found&)> then = {});
  // A job; when done the run is kept and shown. On a GPU it is a process of its own.
  void run_full(const RunTarget& target = {});
  void cancel_job();
  void step_on(int gpu);  // the GPU that steps from here on; -1: the CPU

  // A second recipe, kept in step with the first by place; none: only one is shown. `problem`: its own, of the same
  // shape (another mask, scale or layout); such a recipe goes when other tensors are opened. Null: the first one's. Not
  // an undo step. One that cannot be stepped is refused with `message`.
  void set_beside(const std::optional<Recipe>& recipe, std::shared_ptr<const Problem> problem = {});
  const std::optional<Recipe>& beside() const;
  const std::shared_ptr<const Problem>& beside_problem() const;  // null: the first one's
  void find_difference(bool forward);                            // a job: the next state in which a row first differs

  void set_lse(const LseConvention& convention);  // how LSE is written and read; computed is the same. Not an undo step
  void hover_row(std::int64_t row);               // -1: none
  void pin_row(std::int64_t row, bool pinned);
  void request_history(std::int64_t head, std::int64_t row, std::int64_t channel = -1);  // channel of O, or none
  void request_events(unsigned kinds, std::int64_t first, std::int64_t count);

  void show_run(std::size_t n);                             // beyond the last: again the last one of what is open
  void delete_runs(const std::vector<std::size_t>& which);  // can be undone
  void add_run(const std::shared_ptr<const Report>& report, std::shared_ptr<const Problem> problem);

  // A measured sweep; one of the same device and date is replaced by it. Not an undo step.
  void keep_sweep(std::shared_ptr<const MeasuredSweep> sweep);
  // While a sweep is measured: its counters see the whole device. Steps and maps on it wait, full runs are refused.
  void hold_gpu(bool on);

  // ---- sessions. One replaces what is open and the runs; it cannot be undone.
  // Once its problem and recipe are planned; `taken` hears of it. One that cannot be planned sets `message`, and what
  // was open stays as it was.
  void set_session(const SessionFile& session, std::function<void()> taken = {});
  SessionFile session() const;  // everything as it is now; `window` is left to the window
  void open_session(const std::filesystem::path& path, std::function<void(const SessionFile&)> opened);  // a job
  void mark_saved(const SessionFile& session);  // as it was made by session()
  bool modified() const;                        // since mark_saved or set_session
  bool would_lose_sweeps() const;               // measured ones that are in no file
  bool would_lose() const;                      // these, or runs on a GPU

  // ---- reading. poll() takes over finished results; call it after notify. Returns whether anything changed.
  bool poll();
  void wait_idle();  // until no seek or job is pending (tests, command line)

  const std::shared_ptr<const Problem>& problem() const;
  const Recipe& recipe() const;
  std::int64_t requested_K() const;       // where the person wants to be; state may lag behind
  const viz::StageData& stage() const;    // everything for the stage, kept current by poll()
  std::int64_t head() const;              // of the step that is shown; 0 until that is one of problem()
  const std::string& stepped_by() const;  // the state that is shown: "CPU", or the GPU's name
  const std::string& gpu_failed() const;  // why the CPU steps although a GPU was asked for; empty
  int stepping_device() const;            // as step_on was given; -1 again where that GPU failed
  std::shared_ptr<const gpu::DeviceState> device_state() const;  // the state's arrays on the GPU; null: the CPU stepped
  std::shared_ptr<const gpu::DeviceMap> device_map() const;      // where stage().map is a GPU's; else null
  bool map_pending() const;                                      // the GPU that steps is still making its map
  const std::vector<std::string>& found() const;                 // of the last opened file
  JobStatus job() const;
  bool runs_on_gpu() const;            // the job is a full run there
  bool gpu_held() const;               // counters are read, of a sweep or of a run: nothing is to be drawn on it
  const std::string& message() const;  // last error or notice; empty
  bool message_passes() const;         // it is a notice, nothing went wrong
  void clear_message();
  const RunList& runs() const;
  const std::vector<std::shared_ptr<const MeasuredSweep>>& sweeps() const;  // oldest first
  RunPointer shown_run() const;                  // the chosen one, else the last one of what is open; or null
  RunPointer last_run(bool gpu) const;           // of this problem and recipe, on a GPU or on the CPU
  std::shared_ptr<const Report> report() const;  // of the last full run under this problem and recipe
  std::shared_ptr<const Scan> scan() const;

  struct History {
    std::int64_t head = 0, row = 0, channel = -1;
    std::vector<RowHistoryEntry> entries;
  };
  std::shared_ptr<const History> history() const;
  struct EventPage {
    unsigned kinds = 0;
    std::int64_t first = 0;
    std::vector<Event> events;
  };
  std::shared_ptr<const EventPage> events() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The built-in demo: codelm layer 1, head 2 (its kv head 1), causal top-left. Throws InputError.
std::shared_ptr<const Problem> demo_problem();
Recipe demo_recipe();  // flash2, Br 128, Bc 64, forward, guard none

// "The first three minutes": five lines, each a recipe that a click sets, with its numbers *computed*.
struct FirstMinute {
  Recipe recipe;
  std::string title;  // what to do and what to look at
};
std::vector<FirstMinute> first_three_minutes();
struct FirstMinuteNumbers {
  std::int64_t nan_rows = 0, rescales = 0, tiles_visited = 0, bytes = 0;
  std::optional<std::string> first_nan;  // "tile (0, 1), row 0: (-inf) - (-inf)"
};
FirstMinuteNumbers compute(const Problem& problem, const FirstMinute& line);

}  // namespace flashscope
