// The worker that plans and seeks for the document: one thread, the newest request wins, an older one is
// cancelled on the way. It owns the trace; the document only ever sees finished states.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "app/gpu_steps.h"
#include "app/plan.h"
#include "engine/attention/trace.h"
#include "engine/insight/first_difference.h"

namespace flashscope {

// A place that outlives its schedule.
struct Place {
  std::int64_t head = 0, row = 0, key = 0;
  Stage stage = Stage::load_q;
  bool start = true;  // state 0
};

class Seeker {
 public:
  struct Request {
    std::uint64_t number = 0;          // grows with every request
    std::shared_ptr<const Plan> plan;  // to seek in; none: plan problem and recipe, and go to `place`
    std::uint64_t generation = 0;      // of the plan; never used twice
    std::shared_ptr<const Problem> problem;
    Recipe recipe;
    std::int64_t K = 0;          // in `plan`
    std::optional<Place> place;  // in a new plan
    std::int64_t by = 0;         // steps on from `place`
    std::int64_t check_row = -1;
    int gpu = -1;                                   // the GPU that steps; -1: the CPU
    std::optional<Recipe> beside;                   // the second recipe
    std::shared_ptr<const Problem> beside_problem;  // its own; null: the plan's
    std::int64_t beside_row = -1;                   // of a row block, the row that both recipes should have on the chip
  };
  // The second recipe at the same place.
  struct Beside {
    std::shared_ptr<const Problem> problem;
    std::shared_ptr<const Schedule> schedule;
    std::shared_ptr<const TraceState> state;
    OnChip on_chip;
    Differences differences;
  };
  struct Result {
    std::uint64_t number = 0;
    std::shared_ptr<const Plan> plan;
    std::shared_ptr<const TraceState> state;
    std::shared_ptr<const gpu::DeviceState> arrays;  // of the state, where a GPU stepped
    std::string gpu_name, gpu_failed;                // its name; why it could not, and the CPU did
    std::vector<Transfer> transfers;
    ElementsAndBytes traffic_so_far;
    std::int64_t standard_so_far = 0;
    std::optional<RowCheck> check;
    std::int64_t check_row = -1;
    std::string error;  // a plan that could not be made; plan is null then
    std::optional<Beside> beside;
    std::optional<Recipe> beside_asked;  // the second recipe of the request
    std::string beside_error;            // why it cannot be stepped
  };

  // `deliver` is called on the worker, `deliver_map` on the thread of the GPU that steps.
  explicit Seeker(std::function<void(Result)> deliver, std::function<void(GpuSteps::Map)> deliver_map);
  ~Seeker();

  void request(Request request);
  // While anybody holds nothing is launched on a GPU to step or to map: counters that are read see the whole device.
  void hold(bool on) { *hold_ += on ? 1 : -1; }
  bool held() const { return *hold_ > 0; }

 private:
  class ScanEnding;
  void work(std::stop_token stop);
  Result serve(const Request& request, std::stop_token stop);
  void serve_beside(const Request& request, Result& result, const std::stop_token& stop);

  std::function<void(Result)> deliver_;
  std::function<void(GpuSteps::Map)> deliver_map_;
  std::shared_ptr<ScanEnding> ending_;
  const std::shared_ptr<std::atomic<int>> hold_ = std::make_shared<std::atomic<int>>(0);  // so many hold
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::optional<Request> pending_;
  std::stop_source current_;  // of the request in work
  Request working_;           // it, so that one which asks for the same state does not cancel it
  // Only the worker touches these.
  std::shared_ptr<const Plan> plan_;
  std::optional<Trace> trace_;
  std::shared_ptr<const TraceState> state_;
  std::optional<GpuSteps> gpu_;
  std::shared_ptr<const gpu::DeviceState> arrays_;
  std::string gpu_name_;
  int stepped_by_ = -1;  // as in Request::gpu
  std::shared_ptr<const Problem> beside_problem_;
  std::shared_ptr<const Schedule> beside_schedule_;
  std::optional<Trace> beside_trace_;
  std::shared_ptr<const TraceState> beside_state_;
  std::jthread thread_;
};

}  // namespace flashscope
