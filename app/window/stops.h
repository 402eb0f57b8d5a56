// Where running stops (F5): a list that the person keeps, of events, places and conditions, each switched on or off.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/insight/search.h"

namespace flashscope::window {

struct StopEntry {
  Stop stop;
  bool enabled = true;
  std::int64_t hits = 0;  // how often running has stopped here since the program was started
};

struct Stops {
  std::vector<StopEntry> list;
  std::vector<std::vector<StopEntry>> before;  // as it was, last change last: for undo

  StopEntry* find(std::string_view text);
  const StopEntry* find(std::string_view text) const { return const_cast<Stops*>(this)->find(text); }
  std::vector<std::size_t> enabled() const;  // positions in the list
};

// Each is a change that undo takes back.
void add(Stops& stops, const Stop& stop);  // or switches on the one that is there
void remove(Stops& stops, std::size_t n);
void replace(Stops& stops, std::size_t n, const Stop& stop);
void enable(Stops& stops, std::size_t n, bool on);
void remove_places(Stops& stops);
bool undo(Stops& stops);  // whether there was something to take back

Stops first_stops();  // every kind of event, only NaN switched on
// A JSON list of {"stop": text, "enabled": bool}. Reading keeps what it understands.
std::string as_json(const Stops& stops);
Stops stops_from_json(std::string_view json);

}  // namespace flashscope::window
