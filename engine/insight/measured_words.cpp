#include "engine/insight/measured_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "engine/attention/ledger.h"
#include "engine/digits.h"
#include "engine/insight/chart.h"

namespace flashscope {
namespace {

using Points = std::vector<const MeasuredPoint*>;

constexpr double kFlatDram = 1.1, kFlatFormula = 1.01;  // so many times what is expected still counts as flat

std::string bytes_text(double bytes) { return tick_text(bytes, {{}, ChartUnit::bytes, true, true, {}}); }
std::string times_text(double ratio) { return fmt::format("{:.3g}x", ratio); }
std::string range_text(double low, double high, const std::function<std::string(double)>& text) {
  return text(low) == text(high) ? text(low) : fmt::format("{} to {}", text(low), text(high));
}

std::int64_t spilled(const MeasuredPoint* point) { return point->gpu->spill_stores + point->gpu->spill_loads; }
std::int64_t spilling(const Points& points) {
  return std::count_if(points.begin(), points.end(), [](const MeasuredPoint* point) { return spilled(point) > 0; });
}

template <class Figure>
std::pair<double, double> range_of(const Points& points, Figure figure) {
  const auto [low, high] =
      std::minmax_element(points.begin(), points.end(), [&](const MeasuredPoint* a, const MeasuredPoint* b) {
        return static_cast<double>(figure(a)) < static_cast<double>(figure(b));
      });
  return {static_cast<double>(figure(*low)), static_cast<double>(figure(*high))};
}

// Points by how much of what is expected they move.
struct Split {
  Points flat, other;
  std::function<double(const MeasuredPoint*)> ratio;
  std::size_t all() const { return flat.size() + other.size(); }
  std::string flat_text() const {  // "all 91 points", "88 of 91 points"
    return other.empty() ? fmt::format("all {} points", all()) : fmt::format("{} of {} points", flat.size(), all());
  }
};

// Which block sizes the others have, and whether the size alone tells them from the flat ones.
std::string where(const Split& split) {
  const auto whole = [](double n) { return grouped(static_cast<std::int64_t>(n)); };
  const auto Br = [](const MeasuredPoint* point) { return point->recipe.Br; };
  const auto Bc = [](const MeasuredPoint* point) { return point->recipe.Bc; };
  const auto [least, most] = range_of(split.other, Br);
  if (!split.flat.empty()) {
    const auto [flat_least, flat_most] = range_of(split.flat, Br);
    if (most < flat_least) return "every Br up to " + whole(most);
    if (least > flat_most) return "every Br from " + whole(least) + " on";
  }
  const auto [narrow, wide] = range_of(split.other, Bc);
  return fmt::format("Br {}, Bc {}", range_text(least, most, whole), range_text(narrow, wide, whole));
}

// What spilled registers have to do with it; empty where nothing.
std::string spills_text(const Split& split) {
  const std::int64_t here = spilling(split.other), flat = spilling(split.flat);
  if (here == 0) return {};
  Points those;
  std::copy_if(split.other.begin(), split.other.end(), std::back_inserter(those),
               [](const MeasuredPoint* point) { return spilled(point) > 0; });
  const auto [least, most] = range_of(those, spilled);
  const std::string amount = range_text(least, most, [](double n) { return grouped(static_cast<std::int64_t>(n)); }) +
                             " bytes a thread [reported by the compiler]";
  if (here < static_cast<std::int64_t>(split.other.size()))
    return fmt::format("{} of them with spilled registers, {}", here, amount);
  if (flat > 0) return fmt::format("all of them with spilled registers, {}; {} of the others too", amount, flat);
  return "these and no others have spilled registers, " + amount;
}

}  // namespace

std::string dram_text(std::span<const MeasuredPoint> points, Gauge gauge, std::int64_t l2_bytes) {
  Split split;
  const auto least_of = [gauge](const MeasuredPoint* point) {
    const Moved least = minimum(point->shape).bytes;
    return static_cast<double>(gauge == Gauge::dram_read      ? least.read
                               : gauge == Gauge::dram_written ? least.written
                                                              : least.total());
  };
  split.ratio = [&](const MeasuredPoint* point) { return *value(*point, gauge) / least_of(point); };
  for (const MeasuredPoint& point : points)
    if (value(point, gauge)) (split.ratio(&point) <= kFlatDram ? split.flat : split.other).push_back(&point);
  if (split.all() == 0) return {};
  const MeasuredPoint* any = split.flat.empty() ? split.other.front() : split.flat.front();
  const Shape& shape = any->shape;
  const std::string once = fmt::format("{} once, {} [formula]",
                                       gauge == Gauge::dram_read      ? "Q, K, V"
                                       : gauge == Gauge::dram_written ? "O"
                                                                      : "Q, K, V, O",
                                       bytes_text(least_of(any)));
  const double KV = static_cast<double>(shape.kv_heads * shape.Nk * (shape.d + shape.dv) * size_of(shape.type));
  const bool fits = l2_bytes > 0 && KV <= static_cast<double>(l2_bytes);
  std::string text;
  if (!split.flat.empty()) {
    const double more = 100 * (range_of(split.flat, split.ratio).second - 1);
    text = fmt::format("Flat at {}, whatever Br and Bc: {}, and at most {:.2g} % more", split.flat_text(), once,
                       std::max(0.0, more));
    const auto L2 = [](const MeasuredPoint* point) { return *value(*point, Gauge::l2_sm); };
    const auto [low, high] = range_of(split.flat, L2);
    if (high > kFlatDram * low)
      text += fmt::format(", where L2-SM goes from {} to {} [measured]", bytes_text(low), bytes_text(high));
    text += ". ";
    // Reads that the SMs made again and DRAM did not.
    const bool again = std::all_of(split.flat.begin(), split.flat.end(), [](const MeasuredPoint* point) {
      return *value(*point, Gauge::l2_sm_read) > *value(*point, Gauge::dram_read);
    });
    if (fits && again)
      text += fmt::format("K and V are {} [formula], the L2 {}: what is read again is found there. ", bytes_text(KV),
                          bytes_text(static_cast<double>(l2_bytes)));
  }
  if (split.other.empty()) return text.substr(0, text.size() - 1);
  const auto [low, high] = range_of(split.other, split.ratio);
  text += split.flat.empty() ? fmt::format("Not flat: at each of {} points {} of {}", split.other.size(),
                                           range_text(low, high, times_text), once)
                             : fmt::format("Not flat at {}, which move {} of that ({})", split.other.size(),
                                           range_text(low, high, times_text), where(split));
  if (const std::string spills = spills_text(split); !spills.empty()) return text + ": " + spills + '.';
  // Without spills more reads than Q, K and V once are K and V again: flash2 reads each row of Q once.
  const double reads = static_cast<double>(minimum(shape).bytes.read);
  const bool again = std::all_of(split.other.begin(), split.other.end(), [&](const MeasuredPoint* point) {
    return point->recipe.algorithm == Algorithm::flash2 && *value(*point, Gauge::dram_read) > kFlatDram * reads;
  });
  if (again) {
    text += ": row blocks read K and V from DRAM again";
    if (l2_bytes > 0)
      text += fmt::format(", which are {} [formula] against an L2 of {}", bytes_text(KV),
                          bytes_text(static_cast<double>(l2_bytes)));
  }
  return text + '.';
}

std::string difference_text(std::span<const MeasuredPoint> points) {
  Split split;
  split.ratio = [](const MeasuredPoint* point) { return *value(*point, Gauge::l2_sm) / *formula_bytes(*point); };
  std::size_t exact = 0;
  for (const MeasuredPoint& point : points) {
    const auto less = value(point, Gauge::difference);
    if (!less) continue;
    exact += std::abs(*less) < 0.5;
    const double ratio = split.ratio(&point);
    (ratio <= kFlatFormula && ratio >= 2 - kFlatFormula ? split.flat : split.other).push_back(&point);
  }
  if (split.all() == 0) return {};
  std::string text;
  if (exact > 0 && exact == split.flat.size()) {
    text = fmt::format("L2-SM is the formula's to the byte at {}", split.flat_text());
  } else if (!split.flat.empty()) {
    const auto [low, high] = range_of(split.flat, split.ratio);
    text = fmt::format("L2-SM is within {:.2g} % of the formula at {}, to the byte at {}",
                       100 * std::max(high - 1, 1 - low), split.flat_text(), exact);
  } else {
    text = fmt::format("L2-SM is the formula's at none of {} points", split.all());
  }
  if (split.other.empty()) return text + '.';
  const auto [low, high] = range_of(split.other, split.ratio);
  text +=
      fmt::format(". At {} it is {} of it ({})", split.other.size(), range_text(low, high, times_text), where(split));
  const std::string spills = spills_text(split);
  return text + (spills.empty() ? "." : ": " + spills + '.');
}

}  // namespace flashscope
