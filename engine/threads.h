// A pool of threads that share one piece of work: each takes the next part until none is left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

namespace flashscope {

// `threads`, or as many as there are cores where it is 0.
inline int threads_or_cores(int threads) {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Calls `work` on that many threads at once, on no more than there are parts; this thread is one of them. Returns when
// all have. `work` takes its parts from a counter that it shares, and must not throw.
template <class Work>
void on_threads(int threads, const Work& work, std::int64_t parts = std::numeric_limits<std::int64_t>::max()) {
  std::vector<std::jthread> others;
  const std::int64_t count = std::min<std::int64_t>(threads_or_cores(threads), parts);
  for (std::int64_t t = 1; t < count; ++t) others.emplace_back([&work] { work(); });
  work();
}

}  // namespace flashscope
