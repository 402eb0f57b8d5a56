#include "app/window/stops.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace flashscope::window {
namespace {

constexpr std::size_t kUndoSteps = 100;

void remember(Stops& stops) {
  stops.before.push_back(stops.list);
  if (stops.before.size() > kUndoSteps) stops.before.erase(stops.before.begin());
}

}  // namespace

StopEntry* Stops::find(std::string_view text) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const StopEntry& e) { return text_of(e.stop) == text; });
  return found == list.end() ? nullptr : &*found;
}

std::vector<std::size_t> Stops::enabled() const {
  std::vector<std::size_t> on;
  for (std::size_t n = 0; n < list.size(); ++n)
    if (list[n].enabled) on.push_back(n);
  return on;
}

void add(Stops& stops, const Stop& stop) {
  remember(stops);
  if (StopEntry* there = stops.find(text_of(stop)))
    there->enabled = true;
  else
    stops.list.push_back({stop, true, 0});
}

void remove(Stops& stops, std::size_t n) {
  if (n >= stops.list.size()) return;
  remember(stops);
  stops.list.erase(stops.list.begin() + static_cast<std::ptrdiff_t>(n));
}

void replace(Stops& stops, std::size_t n, const Stop& stop) {
  if (n >= stops.list.size() || text_of(stops.list[n].stop) == text_of(stop)) return;
  remember(stops);
  stops.list[n] = {stop, stops.list[n].enabled, 0};
}

void enable(Stops& stops, std::size_t n, bool on) {
  if (n >= stops.list.size() || stops.list[n].enabled == on) return;
  remember(stops);
  stops.list[n].enabled = on;
}

void remove_places(Stops& stops) {
  remember(stops);
  std::erase_if(stops.list, [](const StopEntry& e) { return e.stop.kind == Stop::Kind::tile; });
}

bool undo(Stops& stops) {
  if (stops.before.empty()) return false;
  stops.list = std::move(stops.before.back());
  stops.before.pop_back();
  return true;
}

Stops first_stops() {
  Stops stops;
  for (const char* text : {"nan", "inf", "rescale", "max", "masked", "partial", "empty"})
    stops.list.push_back({parse_stop(text), text == std::string_view("nan"), 0});
  return stops;
}

std::string as_json(const Stops& stops) {
  nlohmann::json json = nlohmann::json::array();
  for (const StopEntry& entry : stops.list) json.push_back({{"stop", text_of(entry.stop)}, {"enabled", entry.enabled}});
  return json.dump();
}

Stops stops_from_json(std::string_view text) {
  Stops stops;
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array()) return first_stops();
  for (const auto& item : json) {
    if (!item.is_object() || !item.contains("stop") || !item["stop"].is_string()) continue;
    const bool on = item.value("enabled", nlohmann::json(true)) != nlohmann::json(false);
    try {
      stops.list.push_back({parse_stop(item["stop"].get<std::string>()), on, 0});
    } catch (const ConditionError&) {
      continue;  // of a version that knows more
    }
  }
  return stops;
}

}  // namespace flashscope::window
