// Where running stops (F5): at events of the kinds that are ticked, and at places set by hand (F9).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "engine/attention/schedule.h"
#include "engine/attention/trace.h"

namespace flashscope::window {

// A place in every head: state after this stage of this tile.
struct StopPlace {
  std::int64_t i = 0, j = 0;
  Stage stage = Stage::scores;
  bool operator==(const StopPlace&) const = default;
};

struct Stops {
  unsigned kinds = 1u << static_cast<int>(EventKind::nan);  // bit set by EventKind
  std::vector<StopPlace> places;
  bool has(EventKind kind) const { return kinds >> static_cast<int>(kind) & 1; }
  void toggle(const StopPlace& place);
};

// The nearest state after (before) K at one of the places that this walk visits.
std::optional<std::int64_t> next_place(const Stops& stops, const Schedule& schedule, std::int64_t K, bool forward);
// The nearest stop of any sort. Folds forward (or back) from K until it is found. Throws Cancelled.
std::optional<std::int64_t> next_stop(const Stops& stops, std::shared_ptr<const Problem> problem, const Recipe& recipe,
                                      std::int64_t K, bool forward, const std::stop_token& stop,
                                      const std::function<void(double)>& progress);

}  // namespace flashscope::window
