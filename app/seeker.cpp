#include "app/seeker.h"

#include <algorithm>

#include "engine/error.h"

namespace flashscope {
namespace {

// Standard attention's traffic at the same share of the matrix products done.
std::int64_t standard_so_far(const Plan& plan, const TraceState& state) {
  const std::int64_t tiles = plan.schedule->tiles();
  if (!state.step || tiles == 0) return 0;
  std::int64_t done = tiles;
  for (std::int64_t k = state.K - 1; k < state.steps; ++k) {
    const Step step = plan.schedule->step(k);
    if (step.tile >= 0) {
      done = step.tile + (step.stage == Stage::accumulate || step.stage == Stage::store_rows);
      break;
    }
    if (step.stage == Stage::finish && plan.recipe.algorithm == Algorithm::flash1) break;
  }
  if (plan.recipe.algorithm == Algorithm::standard) return counted(*plan.schedule, state.K).elements.total().total();
  return static_cast<std::int64_t>(static_cast<double>(plan.standard_elements) * static_cast<double>(done) /
                                   static_cast<double>(tiles));
}

}  // namespace

Seeker::Seeker(std::function<void(Result)> deliver)
    : deliver_(std::move(deliver)), thread_([this](std::stop_token stop) { work(stop); }) {}

Seeker::~Seeker() {
  thread_.request_stop();
  const std::lock_guard lock(mutex_);
  current_.request_stop();
}

void Seeker::request(Request request) {
  const std::lock_guard lock(mutex_);
  const bool same_state =
      request.generation == working_.generation && request.K == working_.K && request.by == working_.by;
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
  std::int64_t K = request.K;
  if (!plan_ || plan_->generation != request.generation) {
    auto plan = std::make_shared<Plan>(*make_plan(request.generation, request.problem, request.recipe));
    Trace trace(plan->problem, plan->recipe);  // may refuse: the present plan stays
    const Place place = request.place.value_or(Place{});
    K = place.start ? 0 : plan->schedule->nearest(place.head, place.row, place.key, place.stage);
    K = std::clamp<std::int64_t>(K + request.by, 0, plan->schedule->steps());
    plan->scan = std::make_shared<Scan>(plan->problem, plan->recipe, K);
    trace_.emplace(std::move(trace));
    plan_ = std::move(plan);
    state_.reset();
  }
  Result result;
  result.number = request.number;
  result.plan = plan_;
  K = std::clamp<std::int64_t>(K, 0, plan_->schedule->steps());
  if (!state_ || state_->K != K) state_ = std::make_shared<const TraceState>(trace_->seek(K, stop));
  result.state = state_;
  if (state_->step) result.transfers = transfers(*plan_->schedule, *state_->step);
  result.traffic_so_far = counted(*plan_->schedule, K);
  result.standard_so_far = standard_so_far(*plan_, *state_);
  result.check_row = request.check_row;
  if (request.check_row >= state_->row0 && request.check_row < state_->row0 + state_->rows)
    result.check = check_row(*plan_->problem, *plan_->schedule, *state_, request.check_row, stop);
  return result;
}

}  // namespace flashscope
