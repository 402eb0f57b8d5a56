// Row blocks looked through side by side for the match nearest to a state. They are independent, so each thread
// takes the next nearest one, and what one finds bounds the others: the result does not depend on threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>

#include "engine/attention/schedule.h"
#include "engine/attention/trace.h"

namespace flashscope {

struct Found {
  std::int64_t K = 0;
  std::size_t stop = 0;  // which of the stops that were looked for
  std::int64_t head = 0, i = 0, j = -1;
  std::int64_t row = -1;  // -1: it is about a tile
  double alpha = 1;       // of a rescale
};

struct SearchOptions {
  int threads = 0;  // 0: all cores
  std::stop_token stop;
  Progress progress;  // in tiles; called on the caller's thread
};

class RowBlockSearch {
 public:
  // `passes`: how often each tile is folded, for the progress. `thread_bytes`: what one thread allocates.
  RowBlockSearch(const Schedule& schedule, std::int64_t from_K, bool forward, const SearchOptions& options,
                 std::int64_t passes, double thread_bytes);

  // Looks through one row block and calls `note`; made once for each thread.
  using Look = std::function<void(std::int64_t head, std::int64_t i, const std::stop_token& stop)>;
  // The nearest of what was noted, and of `best`. Throws Cancelled, and what a Look throws.
  std::optional<Found> run(const std::function<Look()>& make_look, std::optional<Found> best = {});

  // ---- for a Look, from any thread
  // What is found must lie before (behind) this state to be of use.
  std::int64_t bound();
  void note(const Found& found);
  void folded() { ++done_; }

 private:
  struct Span {
    std::int64_t first, last;  // states
  };
  void work(const Look& look, std::stop_source& failed);
  bool done_with(std::int64_t unit);
  bool reaches(std::int64_t unit);
  std::int64_t place(std::int64_t unit) const { return forward_ ? first_ + unit : first_ - unit; }
  Span span_of(std::int64_t unit) const;
  Span head_span(std::int64_t unit) const;

  const Schedule& schedule_;
  std::int64_t from_K_;
  bool forward_;
  const SearchOptions& options_;
  bool by_row_block_;       // one row block after the other
  std::int64_t first_ = 0;  // head * Tr + i of unit 0
  std::int64_t units_ = 0, total_ = 1, threads_ = 1;
  std::atomic<std::int64_t> next_{0}, done_{0};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::int64_t running_ = 0;
  std::optional<Found> best_;
  std::exception_ptr failure_;
};

}  // namespace flashscope
