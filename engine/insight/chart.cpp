#include "engine/insight/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace flashscope {
namespace {

constexpr std::array<const char*, 5> kBinary{"", "Ki", "Mi", "Gi", "Ti"};

std::string plain(double value) { return fmt::format("{:.4g}", value); }

std::string binary_text(double value, std::string_view unit) {
  std::size_t power = 0;
  while (std::abs(value) >= 1024 && power + 1 < kBinary.size()) value /= 1024, ++power;
  const std::string suffix = std::string(kBinary[power]) + std::string(unit);
  return plain(value) + (suffix.empty() ? "" : " " + suffix);
}

std::string seconds_text(double value) {
  if (value >= 1 || value == 0) return plain(value) + " s";
  return value >= 1e-3 ? plain(value * 1e3) + " ms" : plain(value * 1e6) + " us";
}

// A step of 1, 2 or 5 times a power of ten, or a power of two, that is at least `step`.
double round_step(double step, bool binary) {
  if (binary) return std::exp2(std::ceil(std::log2(step)));
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::string quoted(std::string text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  for (std::size_t at = 0; (at = text.find('"', at)) != text.npos; at += 2) text.insert(at, 1, '"');
  return '"' + text + '"';
}

// What the words of an origin mean, for the head of a table.
std::string_view meaning(std::string_view origin) {
  if (origin == "formula") return "a closed form of the tiled loops";
  if (origin == "counted") return "added up over the tiles that are visited";
  if (origin == "measured") return "a GPU's timer or counter";
  if (origin == "sheet") return "figures of a data sheet";
  if (origin == "guide") return "a growth without a constant, scaled to meet a curve";
  return {};
}

}  // namespace

int marker_shape(const ChartSeries& series, std::size_t place) {
  return series.shape >= 0 ? series.shape : static_cast<int>(place % 3);
}

std::string common_origin(const Chart& chart) {
  if (chart.series.empty()) return {};
  const std::string& first = chart.series.front().origin;
  const bool all = std::all_of(chart.series.begin(), chart.series.end(),
                               [&](const ChartSeries& series) { return series.origin == first; });
  return all ? first : std::string();
}

std::string_view chart_colour(int n, bool dark) {
  // Yellow is too faint on white, and blue on black: each theme has seven of the eight.
  constexpr std::array<std::string_view, kChartColours> light{"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                              "#E69F00", "#56B4E9", "#000000", "#707070"};
  constexpr std::array<std::string_view, kChartColours> night{"#56B4E9", "#D55E00", "#009E73", "#CC79A7",
                                                              "#F0E442", "#E69F00", "#FFFFFF", "#767676"};
  return (dark ? night : light)[static_cast<std::size_t>(n) % kChartColours];
}

std::span<const double> chart_dashes(const ChartSeries& series) {
  static constexpr std::array<double, 2> guide{6, 4}, fine{2, 4}, wide{16, 4}, even{8, 4};
  static constexpr std::array<double, 4> dash_dot{10, 4, 2, 4};
  if (series.style == SeriesStyle::guide) return series.colour == kGuideColour ? std::span(fine) : std::span(guide);
  switch (series.colour) {
    case 0:
      return wide;
    case 2:
      return dash_dot;
    case 3:
      return even;
    default:
      return {};
  }
}

bool begins_origin(const Chart& chart, std::size_t series) {
  return series == 0 || chart.series[series - 1].origin != chart.series[series].origin;
}

std::string tick_text(double value, const ChartAxis& axis) {
  if (!axis.categories.empty()) {
    const auto n = static_cast<std::size_t>(std::llround(value));
    return value >= -0.5 && n < axis.categories.size() && std::abs(value - static_cast<double>(n)) < 0.01
               ? axis.categories[n]
               : "";
  }
  switch (axis.unit) {
    case ChartUnit::bytes:
      return binary_text(value, "B");
    case ChartUnit::seconds:
      return seconds_text(value);
    case ChartUnit::percent:
      return plain(value) + " %";
    case ChartUnit::number:
      break;
  }
  if (axis.binary) return binary_text(value, "");
  const double exponent = value > 0 ? std::log10(value) : 0;
  if (axis.logarithmic && (exponent >= 5 || exponent <= -4)) {
    const double whole = std::round(exponent);
    return std::abs(exponent - whole) < 1e-9 ? fmt::format("10^{:.0f}", whole) : fmt::format("{:.2g}", value);
  }
  return plain(value);
}

std::string value_text(double value, const ChartAxis& axis) {
  if (!std::isfinite(value)) return std::isnan(value) ? "none" : value > 0 ? "inf" : "-inf";
  const auto grouped = [](double whole) {
    std::string digits = fmt::format("{:.0f}", std::round(whole) + 0.0);  // never -0
    for (std::size_t at = digits.size(); at > (whole < 0 ? 4u : 3u);) digits.insert(at -= 3, 1, ',');
    return digits;
  };
  const bool whole = std::abs(value) < 9e15 && value == std::round(value);
  if (axis.unit == ChartUnit::bytes) {
    return std::abs(value) < 1024 ? grouped(value) + " B" : binary_text(value, "B") + " (" + grouped(value) + " B)";
  }
  if (axis.unit != ChartUnit::number) return tick_text(value, axis);
  return whole ? grouped(value) : fmt::format("{:.6g}", value);
}

std::vector<double> ticks(double low, double high, const ChartAxis& axis, int most) {
  std::vector<double> places;
  if (!(low < high) || !std::isfinite(low) || !std::isfinite(high)) return places;
  if (!axis.categories.empty()) {
    for (std::size_t n = 0; n < axis.categories.size(); ++n) places.push_back(static_cast<double>(n));
    return places;
  }
  const bool binary = axis.binary || axis.unit == ChartUnit::bytes;
  if (axis.logarithmic && low > 0) {
    const double base = binary ? 2 : 10;
    const double first = std::ceil(std::log(low) / std::log(base) - 1e-9);
    const double last = std::floor(std::log(high) / std::log(base) + 1e-9);
    if (last - first >= 1) {
      const double stride = std::max(1.0, std::ceil((last - first) / most));
      for (double power = std::ceil(first / stride) * stride; power <= last; power += stride)
        places.push_back(std::pow(base, power));
      return places;
    }
  }
  const double step = round_step((high - low) / most, binary);
  for (double n = std::ceil(low / step - 1e-9); n * step <= high * (1 + 1e-12); ++n)
    places.push_back(0.0 + n * step);  // never -0
  return places;
}

std::pair<double, double> extent(const Chart& chart, bool x_axis) {
  const ChartAxis& axis = x_axis ? chart.x : chart.y;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto include = [&](double value) {
    if (!std::isfinite(value) || (axis.logarithmic && value <= 0)) return;
    low = std::min(low, value), high = std::max(high, value);
  };
  bool bars = false;
  for (const ChartSeries& series : chart.series) {
    bars = bars || series.style == SeriesStyle::bars;
    for (const double value : x_axis ? series.x : series.y) include(value);
  }
  for (const ChartMark& mark : chart.marks) {
    if (mark.vertical == x_axis) include(mark.at);
  }
  if (low > high) return {axis.logarithmic ? 1 : 0, 10};
  if (bars && x_axis) return {low - 0.6, high + 0.6};
  if (bars || (!x_axis && !axis.logarithmic)) low = std::min(low, 0.0);
  if (axis.logarithmic) {
    if (low == high) low /= 2, high *= 2;
    const double room = std::pow(high / low, x_axis ? 0.02 : 0.06);
    return {low / room, high * room};
  }
  if (low == high) high = low + 1;
  const double room = (high - low) * (x_axis ? 0.02 : 0.06);
  return {low == 0 ? 0 : low - room, high + room};
}

std::string csv(const Chart& chart) {
  std::string text = fmt::format("# {}\n# x: {}\n# y: {}\n", chart.title, chart.x.label, chart.y.label);
  for (const ChartSeries& series : chart.series) {
    const std::string_view how = series.how.empty() ? meaning(series.origin) : std::string_view(series.how);
    text += fmt::format("# {}: {}{}{}\n", series.name, series.origin, how.empty() ? "" : ": ", how);
  }
  for (const std::string& note : chart.notes) text += fmt::format("# {}\n", note);
  for (const ChartMark& mark : chart.marks)
    text += fmt::format("# {} at {} = {:.17g}\n", mark.label, mark.vertical ? "x" : "y", mark.at);
  text += "series,origin,x,y\n";
  for (const ChartSeries& series : chart.series) {
    for (std::size_t n = 0; n < series.x.size(); ++n) {
      const std::string x =
          chart.x.categories.empty() ? fmt::format("{:.17g}", series.x[n]) : quoted(tick_text(series.x[n], chart.x));
      text += fmt::format("{},{},{},{:.17g}\n", quoted(series.name), quoted(series.origin), x, series.y[n]);
    }
  }
  return text;
}

}  // namespace flashscope
