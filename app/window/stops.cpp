#include "app/window/stops.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "engine/error.h"

namespace flashscope::window {

void Stops::toggle(const StopPlace& place) {
  const auto found = std::find(places.begin(), places.end(), place);
  if (found == places.end())
    places.push_back(place);
  else
    places.erase(found);
}

std::optional<std::int64_t> next_place(const Stops& stops, const Schedule& schedule, std::int64_t K, bool forward) {
  std::optional<std::int64_t> best;
  for (const StopPlace& place : stops.places) {
    if (place.i >= schedule.Tr() || place.j >= schedule.Tc()) continue;
    for (std::int64_t head = 0; head < schedule.shape().heads; ++head) {
      const std::optional<std::int64_t> step = schedule.find(head, place.i, place.j, place.stage);
      if (!step) continue;
      const std::int64_t at = *step + 1;
      if (forward ? at > K && (!best || at < *best) : at < K && (!best || at > *best)) best = at;
    }
  }
  return best;
}

std::optional<std::int64_t> next_stop(const Stops& stops, std::shared_ptr<const Problem> problem, const Recipe& recipe,
                                      std::int64_t K, bool forward, const std::stop_token& stop,
                                      const std::function<void(double)>& progress) {
  Trace trace(std::move(problem), recipe);
  const Schedule& schedule = trace.schedule();
  std::optional<std::int64_t> best = next_place(stops, schedule, K, forward);
  const auto tile_of = [&](std::int64_t state) {
    const std::int64_t k = std::clamp<std::int64_t>(state - 1, 0, schedule.steps() - 1);
    for (std::int64_t at = k; at >= 0; --at)
      if (const Step step = schedule.step(at); step.tile >= 0) return step.tile;
    return std::int64_t{0};
  };
  const std::int64_t from = tile_of(K);
  // The frequent kinds first: what they find bounds how far the rare ones are looked for.
  for (const EventKind kind : {EventKind::rescale, EventKind::first_max, EventKind::masked, EventKind::inf,
                               EventKind::nan, EventKind::empty_row}) {
    if (!stops.has(kind)) continue;
    const std::int64_t reach = best ? std::abs(tile_of(*best) - from) + 2 : std::numeric_limits<std::int64_t>::max();
    std::stop_source beyond;
    const std::stop_callback outer(stop, [&] { beyond.request_stop(); });
    try {
      const std::optional<Event> event =
          trace.find(kind, K, forward, 1, beyond.get_token(), [&](std::int64_t done, std::int64_t total) {
            if (done > reach) beyond.request_stop();
            if (total > 0) progress(static_cast<double>(done) / static_cast<double>(std::min(total, reach)));
          });
      if (event && (!best || (forward ? event->step < *best : event->step > *best))) best = event->step;
    } catch (const Cancelled&) {
      if (stop.stop_requested()) throw;
    }
  }
  return best;
}

}  // namespace flashscope::window
