// A chart as an SVG file. Plain elements only, so that every viewer and paper takes it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/insight/chart.h"

namespace flashscope {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

// Whole words in lines of about so many pixels; DejaVu Sans takes about 0.57 of its size a character.
std::vector<std::string> wrapped(const std::string& text, double pixels, int size) {
  const auto most = static_cast<std::size_t>(std::max(10.0, pixels / (0.57 * size)));
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.size() - at <= most ? text.size() : text.rfind(' ', at + most);
    if (end == text.npos || end <= at) end = std::min(at + most, text.size());  // one long word
    lines.push_back(text.substr(at, end - at));
    at = end + (end < text.size() && text[end] == ' ');
  }
  return lines;
}

constexpr double kLeft = 84, kRight = 220, kKey = 38, kKeyLine = 30;

// Where values are in the picture.
struct Scale {
  double low, high;    // values
  double first, last;  // pixels
  bool logarithmic;
  double operator()(double value) const {
    const auto place = [&](double v) { return logarithmic ? std::log(v) : v; };
    return first + (place(value) - place(low)) / (place(high) - place(low)) * (last - first);
  }
  bool shows(double value) const { return std::isfinite(value) && (!logarithmic || value > 0); }
};

class Picture {
 public:
  Picture(const Chart& chart, int width, int height, bool dark)
      : chart_(chart), width_(width), height_(height), dark_(dark) {
    for (const std::string& note : chart.notes)
      for (std::string& line : wrapped(note, width - kLeft - 16, 11)) notes_.push_back(std::move(line));
    titles_ = wrapped(chart.title, width - kLeft - 16, 15);
    const double below = 62 + 16 * static_cast<double>(notes_.size());
    const auto [x0, x1] = extent(chart, true);
    const auto [y0, y1] = extent(chart, false);
    x_ = {x0, x1, kLeft, width - kRight, chart.x.logarithmic};
    y_ = {y0, y1, height - below, 26.0 + 18.0 * static_cast<double>(titles_.size()), chart.y.logarithmic};
  }

  std::string draw() {
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" "
        "font-family=\"DejaVu Sans, sans-serif\" font-size=\"12\">\n",
        width_, height_, width_, height_);
    // Not 100 %, which some viewers take for 100 pixels.
    add("<rect width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", width_, height_, dark_ ? "#1e1e1e" : "#ffffff");
    for (std::size_t n = 0; n < titles_.size(); ++n)
      text(x_.first, 24 + 18 * static_cast<double>(n), titles_[n], "start", 15);
    axes();
    marks();
    int bars = 0, of = 0;
    for (const ChartSeries& one : chart_.series) of += one.style == SeriesStyle::bars;
    for (const ChartSeries& one : chart_.series) {
      one.style == SeriesStyle::bars ? bar(one, bars++, of) : series(one);
    }
    legend();
    for (std::size_t n = 0; n < notes_.size(); ++n)
      text(x_.first, y_.first + 58 + 16 * static_cast<double>(n), notes_[n], "start", 11);
    return out_ + "</svg>\n";
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...);
  }
  const char* ink() const { return dark_ ? "#dddddd" : "#222222"; }
  const char* faint() const { return dark_ ? "#444444" : "#dddddd"; }

  void text(double x, double y, std::string_view words, const char* anchor, int size = 12, const char* more = "") {
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\" fill=\"{}\" {}>{}</text>\n", x, y, anchor,
        size, ink(), more, escaped(words));
  }
  void line(double x1, double y1, double x2, double y2, std::string_view colour, const char* more = "") {
    add("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" {}/>\n", x1, y1, x2, y2, colour,
        more);
  }

  void axes() {
    for (const double value : ticks(x_.low, x_.high, chart_.x)) {
      if (chart_.x.categories.empty()) line(x_(value), y_.first, x_(value), y_.last, faint());
      text(x_(value), y_.first + 18, tick_text(value, chart_.x), "middle");
    }
    for (const double value : ticks(y_.low, y_.high, chart_.y)) {
      line(x_.first, y_(value), x_.last, y_(value), faint());
      text(x_.first - 6, y_(value) + 4, tick_text(value, chart_.y), "end");
    }
    line(x_.first, y_.first, x_.last, y_.first, ink());
    line(x_.first, y_.first, x_.first, y_.last, ink());
    text((x_.first + x_.last) / 2, y_.first + 38, chart_.x.label, "middle");
    const double middle = (y_.first + y_.last) / 2;
    text(18, middle, chart_.y.label, "middle", 12, fmt::format("transform=\"rotate(-90 18 {:.1f})\"", middle).c_str());
  }

  void marks() {
    double top = y_.last + 12;
    for (const ChartMark& mark : chart_.marks) {
      if (mark.vertical) {
        line(x_(mark.at), y_.first, x_(mark.at), y_.last, ink(), "stroke-dasharray=\"2 3\"");
        const bool right = x_(mark.at) > x_.first + 0.55 * (x_.last - x_.first);  // to the side that has room
        text(x_(mark.at) + (right ? -4 : 4), top, mark.label, right ? "end" : "start", 11);
        top += 14;
      } else {
        line(x_.first, y_(mark.at), x_.last, y_(mark.at), ink(), "stroke-dasharray=\"2 3\"");
        text(x_.last - 4, y_(mark.at) - 4, mark.label, "end", 11);
      }
    }
  }

  void series(const ChartSeries& one) {
    const std::string_view colour = chart_colour(one.colour, dark_);
    if (one.style != SeriesStyle::points) {
      std::string points;
      for (std::size_t n = 0; n < one.x.size(); ++n) {
        if (x_.shows(one.x[n]) && y_.shows(one.y[n]))
          points += fmt::format("{:.1f},{:.1f} ", x_(one.x[n]), y_(one.y[n]));
      }
      add("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" {}/>\n", points, colour,
          dash_array(one));
    }
    if (one.style == SeriesStyle::guide || (one.style == SeriesStyle::line && one.x.size() > 40)) return;
    for (std::size_t n = 0; n < one.x.size(); ++n) {
      if (!x_.shows(one.x[n]) || !y_.shows(one.y[n])) continue;
      if (one.style == SeriesStyle::points)
        marker(one, x_(one.x[n]), y_(one.y[n]));
      else
        add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x_(one.x[n]), y_(one.y[n]), colour);
    }
  }

  static std::string dash_array(const ChartSeries& one) {
    const std::span<const double> dashes = chart_dashes(one);
    return dashes.empty() ? std::string() : fmt::format("stroke-dasharray=\"{}\"", fmt::join(dashes, " "));
  }

  void marker(const ChartSeries& one, double x, double y) {
    const int number = marker_shape(one, static_cast<std::size_t>(&one - chart_.series.data()));
    const std::string_view colour = chart_colour(one.colour, dark_);
    const char* style = "fill=\"none\" stroke-width=\"2.5\"";
    if (number == 0) add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\" stroke=\"{}\" {}/>\n", x, y, colour, style);
    if (number == 1)
      add("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"11\" height=\"11\" stroke=\"{}\" {}/>\n", x - 5.5, y - 5.5, colour,
          style);
    if (number == 2) add("<path d=\"M{:.1f} {:.1f}l8 8l-8 8l-8 -8z\" stroke=\"{}\" {}/>\n", x, y - 8, colour, style);
  }

  void bar(const ChartSeries& one, int number, int of) {
    const double slot = 0.8 / of, base = y_(y_.low);
    for (std::size_t n = 0; n < one.x.size(); ++n) {
      if (!y_.shows(one.y[n])) continue;
      const double left = x_(one.x[n] - 0.4 + slot * number), right = x_(one.x[n] - 0.4 + slot * (number + 1));
      add("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", left, y_(one.y[n]),
          std::max(1.0, right - left - 2), base - y_(one.y[n]), chart_colour(one.colour, dark_));
      text((left + right) / 2, y_(one.y[n]) - 4, tick_text(one.y[n], chart_.y), "middle", 11);
    }
  }

  void legend() {
    double y = y_.last + 8;
    const double x = x_.last + 14;
    for (std::size_t n = 0; n < chart_.series.size(); ++n) {
      const ChartSeries& one = chart_.series[n];
      if (begins_origin(chart_, n)) {
        if (n > 0) y += 6;
        for (const std::string& part : wrapped(one.origin, kRight - 14, 11)) {
          text(x, y, part, "start", 11, "font-style=\"italic\"");
          y += 18;
        }
      }
      const std::string_view colour = chart_colour(one.colour, dark_);
      if (one.style == SeriesStyle::points)
        marker(one, x + kKeyLine / 2, y - 4);
      else if (one.style == SeriesStyle::bars)
        line(x + kKeyLine / 3, y - 4, x + kKeyLine, y - 4, colour, "stroke-width=\"10\"");
      else
        line(x, y - 4, x + kKeyLine, y - 4, colour, ("stroke-width=\"2\" " + dash_array(one)).c_str());
      for (const std::string& part : wrapped(one.name, kRight - 14 - kKey, 12)) {
        text(x + kKey, y, part, "start");
        y += 15;
      }
      y += 5;
    }
  }

  const Chart& chart_;
  int width_, height_;
  bool dark_;
  Scale x_{}, y_{};
  std::vector<std::string> titles_, notes_;  // in lines
  std::string out_;
};

}  // namespace

std::string svg(const Chart& chart, int width, int height, bool dark) {
  return Picture(chart, width, height, dark).draw();
}

}  // namespace flashscope
