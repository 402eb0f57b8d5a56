// A chart as data: axes, series, marks, and where every number comes from. The window draws it, `svg` writes it, `csv`
// tabulates it: the three show the same points.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flashscope {

enum class ChartUnit : std::uint8_t {
  number,
  bytes,
  seconds,
  percent
};  // bytes and counts of elements go by powers of 2

struct ChartAxis {
  std::string label;  // "HBM traffic, bytes"
  ChartUnit unit = ChartUnit::number;
  bool logarithmic = true;
  bool binary = false;                       // ticks at powers of two: 4 Ki, 64 MiB
  std::vector<std::string> categories = {};  // bars: the names of x = 0, 1, 2 ...
};

enum class SeriesStyle : std::uint8_t { line, guide, points, bars };

struct ChartSeries {
  std::string name;
  std::string origin;  // "formula", "counted", "measured", "sheet", "guide"
  SeriesStyle style = SeriesStyle::line;
  int colour = 0;  // of chart_colours
  std::vector<double> x = {}, y = {};
  std::string how = {};  // how it was obtained, where the origin alone does not say it: counters, caches
  int shape = -1;        // of points: circle, square, diamond; -1: by the place among the series
};
// 0 circle, 1 square, 2 diamond: points that fall together are told apart.
int marker_shape(const ChartSeries& series, std::size_t place);

// A line across the chart at one x or y.
struct ChartMark {
  bool vertical = true;
  double at = 0;
  std::string label;
};

struct Chart {
  std::string name;   // "traffic-against-n", for files
  std::string title;  // says what is held fixed
  ChartAxis x, y;
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks = {};
  std::vector<std::string> notes = {};  // sentences below the chart, with their numbers computed
};

// Okabe and Ito's colours, which people with any colour vision tell apart; "#0072B2". kOwnColour, the ink, is the
// explored recipe's; kGuideColour, a grey, that of what is no algorithm: floors and growths.
inline constexpr int kChartColours = 8, kOwnColour = 6, kGuideColour = 7;
std::string_view chart_colour(int n, bool dark);
// Lengths of strokes and gaps in pixels, so that curves are told apart without colour and where one lies on another;
// none: unbroken.
std::span<const double> chart_dashes(const ChartSeries& series);
// Whether a legend says the origin above that series: once for all that follow and share it.
bool begins_origin(const Chart& chart, std::size_t series);

// "4 Ki", "64 MiB", "1.5", "10^6"; the text of a value on an axis.
std::string tick_text(double value, const ChartAxis& axis);
// Full figures with their unit, for crosshairs and tooltips: "17,383,424", "33.16 MiB (34,766,848 B)".
std::string value_text(double value, const ChartAxis& axis);
// At most about `most` places for labels between two values.
std::vector<double> ticks(double low, double high, const ChartAxis& axis, int most = 8);
// The range of an axis that shows every point and mark, with a little room.
std::pair<double, double> extent(const Chart& chart, bool x_axis);

// Lines that begin with # say how each column was obtained; then a heading and a row a point.
std::string csv(const Chart& chart);
// "formula" where all series have that origin; else empty.
std::string common_origin(const Chart& chart);
std::string svg(const Chart& chart, int width = 960, int height = 600, bool dark = false);

}  // namespace flashscope
