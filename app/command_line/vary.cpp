#include "app/command_line/vary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <unordered_set>

#include "app/command_line/arguments.h"

namespace flashscope::command_line {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 40, kMostPoints = 1'000'000;

[[noreturn]] void refuse(std::string_view where, std::string_view found) {
  throw InputError(std::string(where), fmt::format("\"{}\"", found), "a, or a:b:step, or a:b:*factor");
}

// a:b:step or a:b:*factor, both ends included where they are met.
void add_range(std::string_view where, std::string_view item, std::vector<std::string>& values) {
  const std::size_t one = item.find(':'), two = item.find(':', one + 1);
  if (two == item.npos || item.find(':', two + 1) != item.npos) refuse(where, item);
  std::string_view step = item.substr(two + 1);
  const bool factor = step.starts_with('*');
  if (factor) step.remove_prefix(1);
  const std::int64_t first = parse_integer(where, item.substr(0, one), 1, kLargest);
  const std::int64_t last = parse_integer(where, item.substr(one + 1, two - one - 1), first, kLargest);
  const std::int64_t by = parse_integer(where, step, factor ? 2 : 1, kLargest);
  for (std::int64_t value = first; value <= last; value = factor ? value * by : value + by) {
    values.push_back(std::to_string(value));
    if (static_cast<std::int64_t>(values.size()) > kMostPoints || (factor && value > kLargest / by)) break;
  }
}

}  // namespace

Varied parse_varied(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    throw InputError("--vary", fmt::format("\"{}\"", text), "NAME=VALUES, as in sram=12500,25000 or n=1024:65536:*2");
  }
  Varied varied;
  varied.name = text.substr(0, equals);
  if (varied.name.starts_with("--")) varied.name.erase(0, 2);
  const std::string where = "--vary " + varied.name;
  std::string_view rest = text.substr(equals + 1);
  while (true) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    if (item.empty()) refuse(where, rest);
    if (item.find(':') != item.npos) {
      add_range(where, item, varied.values);
    } else {
      varied.values.emplace_back(item);
    }
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  std::unordered_set<std::string_view> known;
  for (const std::string& value : varied.values)
    if (!known.insert(value).second) throw InputError(where, value + " twice", "each value once");
  return varied;
}

std::vector<std::string> nth_words(const std::vector<Varied>& varied, std::int64_t n) {
  std::vector<std::string> words(varied.size());
  for (std::size_t v = varied.size(); v-- > 0;) {
    const auto size = static_cast<std::int64_t>(varied[v].values.size());
    words[v] = varied[v].values[static_cast<std::size_t>(n % size)];
    n /= size;
  }
  return words;
}

std::int64_t product_size(const std::vector<Varied>& varied) {
  std::int64_t points = 1;
  for (const Varied& one : varied) {
    points *= static_cast<std::int64_t>(one.values.size());
    if (points > kMostPoints)
      throw InputError("--vary", "more than a million points", fmt::format("at most {}: larger steps", kMostPoints));
  }
  return points;
}

}  // namespace flashscope::command_line
