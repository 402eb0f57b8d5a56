#include "viz/heat_image.h"

#include <algorithm>
#include <cmath>

namespace flashscope::viz {
namespace {

HeatSource of(const Matrix& matrix, const std::vector<std::uint8_t>* visible = nullptr) {
  if (matrix.empty()) return {};
  const bool usable = visible && visible->size() == matrix.values.size();
  return {matrix.values.data(), nullptr, matrix.rows, matrix.cols, matrix.cols, 1, usable ? visible->data() : nullptr};
}
HeatSource of(const std::vector<double>& column) {
  if (column.empty()) return {};
  return {column.data(), nullptr, static_cast<std::int64_t>(column.size()), 1, 1, 1, nullptr};
}

// Which of two texels of one pixel is shown.
int rank(Mark mark) {
  switch (mark) {
    case Mark::nan:
      return 5;
    case Mark::plus_inf:
      return 4;
    case Mark::value:
      return 3;
    case Mark::minus_inf:
      return 2;
    case Mark::masked:
      return 1;
    case Mark::absent:
      return 0;
  }
  return 0;
}

}  // namespace

HeatSource heat_source(const StageData& data, ChipBuffer buffer) {
  if (buffer == ChipBuffer::o_norm) {
    if (!data.o_row_norm || data.o_row_norm->empty()) return {};
    return {nullptr, data.o_row_norm->data(), static_cast<std::int64_t>(data.o_row_norm->size()), 1, 1, 1, nullptr};
  }
  if (!data.state) return {};
  const TraceState& s = *data.state;
  switch (buffer) {
    case ChipBuffer::Q:
      return of(s.Q);
    case ChipBuffer::K: {
      HeatSource t = of(s.K_tile);
      std::swap(t.rows, t.cols), std::swap(t.row_stride, t.col_stride);
      return t;
    }
    case ChipBuffer::V:
      return of(s.V);
    case ChipBuffer::S:
      return of(s.S, &s.visible);
    case ChipBuffer::P:
      return of(s.P, &s.visible);
    case ChipBuffer::m:
      return of(s.m);
    case ChipBuffer::alpha:
      return of(s.alpha);
    case ChipBuffer::l:
      return of(s.l);
    case ChipBuffer::O:
      return of(s.O);
    case ChipBuffer::LSE:
      return of(s.LSE);
    case ChipBuffer::o_norm:
      break;
  }
  return {};
}

Range finite_range(const HeatSource& source) {
  Range range;
  for (std::int64_t r = 0; r < source.rows; ++r)
    for (std::int64_t c = 0; c < source.cols; ++c) {
      const double value = source.at(r, c);
      if (!std::isfinite(value)) continue;
      range.low = range.any ? std::min(range.low, value) : value;
      range.high = range.any ? std::max(range.high, value) : value;
      range.any = true;
    }
  return range;
}

HeatTexel heat_texel(double value, bool visible, const Range& range) {
  if (std::isnan(value)) return {0, Mark::nan};
  if (!visible && (value == 0 || (std::isinf(value) && value < 0))) return {0, Mark::masked};
  if (std::isinf(value)) return {0, value > 0 ? Mark::plus_inf : Mark::minus_inf};
  const double span = range.high - range.low;
  const double share = span > 0 ? std::clamp((value - range.low) / span, 0.0, 1.0) : 0.5;
  return {static_cast<std::uint8_t>(std::lround(255 * share)), Mark::value};
}

HeatImage heat_image(const HeatSource& source, const CellWindow& window, int max_width, int max_height,
                     const Range& range) {
  HeatImage image;
  if (window.rows < 1 || window.cols < 1 || max_width < 1 || max_height < 1) return image;
  image.width = static_cast<int>(std::min<std::int64_t>(window.cols, max_width));
  image.height = static_cast<int>(std::min<std::int64_t>(window.rows, max_height));
  image.texels.resize(static_cast<std::size_t>(image.width) * image.height);
  const auto edge = [](std::int64_t n, std::int64_t cells, int texels) { return n * cells / texels; };
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) {
      HeatTexel best{0, Mark::absent};
      double largest = -1;
      for (std::int64_t r = edge(y, window.rows, image.height); r < edge(y + 1, window.rows, image.height); ++r)
        for (std::int64_t c = edge(x, window.cols, image.width); c < edge(x + 1, window.cols, image.width); ++c) {
          const std::int64_t row = window.row0 + r, col = window.col0 + c;
          const double value = source.at(row, col);
          const bool visible = !source.visible || source.visible[row * source.cols + col];
          const HeatTexel texel = heat_texel(value, visible, range);
          const double magnitude = texel.mark == Mark::value ? std::abs(value) : 0;
          if (rank(texel.mark) > rank(best.mark) || (texel.mark == best.mark && magnitude > largest))
            best = texel, largest = magnitude;
        }
      image.texels[static_cast<std::size_t>(y) * image.width + x] = best;
    }
  return image;
}

}  // namespace flashscope::viz
