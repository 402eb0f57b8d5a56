#include "app/seeker.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/error.h"

namespace flashscope {
namespace {

// Standard attention's traffic at the same share of the matrix products done.
std::int64_t standard_so_far(const Plan& plan, const TraceState& state) {
  const std::int64_t tiles = plan.schedule->tiles();
  if (!state.step || tiles == 0) return 0;
  if (plan.recipe.algorithm == Algorithm::standard) return counted(*plan.schedule, state.K).elements.total().total();
  const bool ends = state.step->stage == Stage::accumulate || state.step->stage == Stage::store_rows;
  const std::int64_t done = plan.schedule->next_tile(state.K - 1) + ends;
  return static_cast<std::int64_t>(static_cast<double>(plan.standard_elements) * static_cast<double>(done) /
                                   static_cast<double>(tiles));
}

}  // namespace

// Ending a scan waits for its workers, and whoever lets go of a plan last may be the window's thread: this
// one ends them.
class Seeker::ScanEnding {
 public:
  ScanEnding() : thread_([this](std::stop_token stop) { work(stop); }) {}
  void end(Scan* scan) {
    const std::lock_guard lock(mutex_);
    ended_.emplace_back(scan);
    wake_.notify_one();
  }

 private:
  void work(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, stop, [this] { return !ended_.empty(); })) {
      auto scans = std::exchange(ended_, {});
      lock.unlock();
      scans.clear();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<std::unique_ptr<Scan>> ended_;  // what is left goes with this object
  std::jthread thread_;
};

Seeker::Seeker(std::function<void(Result)> deliver, std::function<void(GpuSteps::Map)> deliver_map)
    : deliver_(std::move(deliver)),
      deliver_map_(std::move(deliver_map)),
      ending_(std::make_shared<ScanEnding>()),
      thread_([this](std::stop_token stop) { work(stop); }) {}

Seeker::~Seeker() {
  thread_.request_stop();
  const std::lock_guard lock(mutex_);
  current_.request_stop();
}

void Seeker::request(Request request) {
  const std::lock_guard lock(mutex_);
  const bool same_state = request.generation == working_.generation && request.K == working_.K &&
                          request.by == working_.by && request.gpu == working_.gpu;
  pending_ = std::move(request);
  if (!same_state) current_.request_stop();
  wake_.notify_one();
}

void Seeker::work(std::stop_token stop) {
  for (;;) {
    Request request;
    std::stop_token cancelled;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [this] { return pending_.has_value(); })) return;
      request = std::move(*pending_);
      pending_.reset();
      working_ = request;
      current_ = std::stop_source();
      if (stop.stop_requested()) return;
      cancelled = current_.get_token();
    }
    try {
      deliver_(serve(request, cancelled));
    } catch (const Cancelled&) {
      // A newer request is waiting.
    } catch (const std::exception& error) {
      Result result;
      result.number = request.number, result.error = error.what();
      deliver_(std::move(result));
    }
  }
}

Seeker::Result Seeker::serve(const Request& request, std::stop_token stop) {
  // The state that the request asks for in this schedule.
  const auto wanted = [&request](const Schedule& schedule) {
    std::int64_t K = request.K;
    if (const auto& place = request.place)
      K = request.by + (place->start ? 0 : schedule.nearest(place->head, place->row, place->key, place->stage));
    return std::clamp<std::int64_t>(K, 0, schedule.steps());
  };
  if (request.plan ? plan_ != request.plan : !plan_ || plan_->generation != request.generation) {
    std::shared_ptr<const Plan> plan = request.plan;
    if (!plan) plan = make_plan(request.generation, request.problem, request.recipe);
    Trace trace(plan->problem, plan->recipe);  // may refuse: the present plan stays
    if (!request.plan) {
      auto scanned = std::make_shared<Plan>(*plan);
      scanned->scan = {new Scan(plan->problem, plan->recipe, wanted(*plan->schedule)),
                       [ending = ending_](Scan* scan) { ending->end(scan); }};
      plan = std::move(scanned);
    }
    trace_.emplace(std::move(trace));
    plan_ = std::move(plan);
    state_.reset();
  }
  Result result;
  result.number = request.number;
  result.plan = plan_;
  const std::int64_t K = wanted(*plan_->schedule);
  if (!state_ || state_->K != K || stepped_by_ != request.gpu) {
    arrays_.reset();
    if (request.gpu >= 0) {
      try {
        if (!gpu_ || gpu_->device() != request.gpu) gpu_.emplace(request.gpu, deliver_map_, hold_);
        GpuSteps::Found found = gpu_->seek(*plan_, K, stop);
        state_ = std::move(found.state), arrays_ = std::move(found.arrays), gpu_name_ = std::move(found.device);
      } catch (const Cancelled&) {
        throw;
      } catch (const std::exception& error) {
        result.gpu_failed = error.what();
      }
    }
    if (request.gpu < 0 || !result.gpu_failed.empty())
      state_ = std::make_shared<const TraceState>(trace_->seek(K, stop));
    if (!arrays_ && gpu_ && stepped_by_ >= 0) gpu_->drop_map();
    stepped_by_ = arrays_ ? request.gpu : -1;
  }
  result.state = state_, result.arrays = arrays_, result.gpu_name = gpu_name_;
  if (state_->step) result.transfers = transfers(*plan_->schedule, *state_->step);
  result.traffic_so_far = counted(*plan_->schedule, K);
  result.standard_so_far = standard_so_far(*plan_, *state_);
  result.check_row = request.check_row;
  if (request.check_row >= state_->row0 && request.check_row < state_->row0 + state_->rows)
    result.check = check_row(*plan_->problem, *plan_->schedule, *state_, request.check_row, stop);
  if (request.beside) serve_beside(request, result, stop);
  return result;
}

void Seeker::serve_beside(const Request& request, Result& result, const std::stop_token& stop) {
  result.beside_asked = request.beside;
  try {
    const auto& problem = request.beside_problem ? request.beside_problem : plan_->problem;
    const bool same = beside_trace_ && beside_problem_ == problem && beside_schedule_->recipe() == *request.beside;
    check_beside(*plan_->problem, *problem);
    if (!same) {
      beside_trace_.reset();
      beside_trace_.emplace(problem, *request.beside);
      beside_problem_ = problem;
      beside_schedule_ = std::make_shared<const Schedule>(problem->shape(), problem->mask, *request.beside);
      beside_state_.reset();
    }
    const std::int64_t K = paired_state(*plan_->schedule, state_->K, *beside_schedule_, request.beside_row);
    if (!beside_state_ || beside_state_->K != K)
      beside_state_ = std::make_shared<const TraceState>(beside_trace_->seek(K, stop));
    result.beside = Beside{
        problem, beside_schedule_, beside_state_, on_chip(problem->shape(), *request.beside),
        differences(*plan_->schedule, *state_, *beside_schedule_, *beside_state_, tolerance_for(*plan_->problem))};
  } catch (const InputError& error) {
    result.beside_error = error.what();
  }
}

}  // namespace flashscope
