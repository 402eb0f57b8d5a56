#include "engine/insight/row_block_search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "engine/error.h"
#include "engine/threads.h"

namespace flashscope {
namespace {

constexpr double kBytes = 4e9;  // of all threads together
constexpr auto kReports = std::chrono::milliseconds(50);

}  // namespace

RowBlockSearch::RowBlockSearch(const Schedule& schedule, std::int64_t from_K, bool forward,
                               const SearchOptions& options, std::int64_t passes, double thread_bytes)
    : schedule_(schedule),
      from_K_(from_K),
      forward_(forward),
      options_(options),
      by_row_block_(schedule.recipe().algorithm == Algorithm::flash2) {
  const std::int64_t Tr = schedule.Tr();
  const std::int64_t from =
      std::clamp<std::int64_t>(forward ? from_K : from_K - 2, 0, std::max<std::int64_t>(0, schedule.steps() - 1));
  const Step start = schedule.step(from);
  first_ = start.head * Tr + (by_row_block_ ? start.i : forward ? 0 : Tr - 1);
  units_ = forward ? schedule.shape().heads * Tr - first_ : first_ + 1;
  const std::int64_t next = schedule.next_tile(from);
  total_ = std::max<std::int64_t>(1, (forward ? schedule.tiles() - next : next + 1) * passes);
  const std::int64_t cores = threads_or_cores(options.threads);
  threads_ = static_cast<std::int64_t>(
      std::clamp(kBytes / std::max(thread_bytes, 1.0), 1.0, static_cast<double>(std::min(cores, units_))));
}

std::optional<Found> RowBlockSearch::run(const std::function<Look()>& make_look, std::optional<Found> best) {
  best_ = best;
  if (forward_ ? from_K_ >= schedule_.steps() : from_K_ <= 0) return best_;
  const Look first_look = make_look();
  const std::int64_t first = place(next_++);  // alone: what is near is found at once
  first_look(first / schedule_.Tr(), first % schedule_.Tr(), options_.stop);
  if (done_with(next_)) return best_;

  std::stop_source failed;
  std::vector<std::jthread> threads;
  running_ = threads_;
  for (std::int64_t n = 0; n < threads_; ++n)
    threads.emplace_back([this, &failed, look = n == 0 ? first_look : make_look()] { work(look, failed); });
  {
    std::unique_lock lock(mutex_);
    while (running_ > 0) {
      ended_.wait_for(lock, kReports);
      if (!options_.progress) continue;
      lock.unlock();
      options_.progress(std::min<std::int64_t>(done_, total_), total_);
      lock.lock();
    }
  }
  threads.clear();
  if (failure_) std::rethrow_exception(failure_);
  if (options_.progress) options_.progress(std::min<std::int64_t>(done_, total_), total_);
  return best_;
}

void RowBlockSearch::work(const Look& look, std::stop_source& failed) {
  try {
    std::stop_source stop;
    const std::stop_callback outer(options_.stop, [&] { stop.request_stop(); });
    const std::stop_callback other(failed.get_token(), [&] { stop.request_stop(); });
    for (std::int64_t unit = next_++; !done_with(unit); unit = next_++) {
      if (stop.stop_requested()) throw Cancelled();
      if (reaches(unit)) look(place(unit) / schedule_.Tr(), place(unit) % schedule_.Tr(), stop.get_token());
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    failed.request_stop();
  }
  const std::lock_guard lock(mutex_);
  --running_;
  ended_.notify_all();
}

// No unit from here on can hold a nearer match.
bool RowBlockSearch::done_with(std::int64_t unit) {
  if (unit >= units_) return true;
  const Span span = by_row_block_ ? span_of(unit) : head_span(unit);
  const std::lock_guard lock(mutex_);
  return best_ && (forward_ ? span.first > best_->K : span.last < best_->K);
}

bool RowBlockSearch::reaches(std::int64_t unit) {
  const Span span = span_of(unit);
  const std::lock_guard lock(mutex_);
  if (forward_) return span.last > from_K_ && (!best_ || span.first <= best_->K);
  return span.first < from_K_ && (!best_ || span.last >= best_->K);
}

RowBlockSearch::Span RowBlockSearch::span_of(std::int64_t unit) const {
  const std::int64_t head = place(unit) / schedule_.Tr(), i = place(unit) % schedule_.Tr();
  const auto at = [&](std::int64_t j, Stage stage) { return *schedule_.find(head, i, j, stage) + 1; };
  switch (schedule_.recipe().algorithm) {
    case Algorithm::standard:
      return {at(-1, Stage::load_q), at(-1, Stage::store_o)};
    case Algorithm::flash2:
      return {at(-1, Stage::load_q), at(-1, Stage::store)};
    case Algorithm::flash1:
      break;
  }
  const std::int64_t finish = at(-1, Stage::finish);
  return {schedule_.visits(head, i) > 0 ? at(schedule_.visit_j(head, i, 0), Stage::load_rows) : finish, finish};
}

RowBlockSearch::Span RowBlockSearch::head_span(std::int64_t unit) const {
  const std::int64_t head = place(unit) / schedule_.Tr();
  return {schedule_.head_start(head) + 1, schedule_.head_start(head + 1)};
}

std::int64_t RowBlockSearch::bound() {
  const std::lock_guard lock(mutex_);
  if (!best_) return forward_ ? std::numeric_limits<std::int64_t>::max() : -1;
  return forward_ ? best_->K + 1 : best_->K - 1;  // a match at that state may be of an earlier stop
}

void RowBlockSearch::note(const Found& found) {
  const std::lock_guard lock(mutex_);
  const bool nearer = !best_ || (forward_ ? found.K < best_->K : found.K > best_->K) ||
                      (found.K == best_->K && found.stop < best_->stop);
  if (nearer) best_ = found;
}

}  // namespace flashscope
