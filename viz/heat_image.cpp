#include "viz/heat_image.h"

#include <algorithm>
#include <cmath>

namespace flashscope::viz {
namespace {

HeatSource of(const double* values, std::int64_t rows, std::int64_t cols) {
  HeatSource source;
  if (rows == 0 || cols == 0) return source;
  source.f64 = values;
  source.rows = rows, source.cols = cols, source.row_stride = cols, source.col_stride = 1;
  return source;
}
HeatSource of(const Matrix& matrix) { return of(matrix.values.data(), matrix.empty() ? 0 : matrix.rows, matrix.cols); }
HeatSource of(const std::vector<double>& column) {
  return of(column.data(), static_cast<std::int64_t>(column.size()), 1);
}

HeatSource of(const Tensor& tensor, std::int64_t head) {
  HeatSource source = of(nullptr, tensor.rows, tensor.cols);
  if (tensor.type == DType::float64)
    source.f64 = tensor.head<double>(head);
  else
    source.f32 = tensor.head<float>(head);
  return source;
}

HeatSource scores(const StageData& data, const Matrix& matrix) {
  HeatSource source = of(matrix);
  const TraceState& s = *data.state;
  if (s.visible.size() == matrix.values.size()) {
    source.visible = s.visible.data();
  } else if (data.schedule && data.schedule->recipe().algorithm == Algorithm::standard && data.problem &&
             !data.problem->mask.none()) {
    source.problem = data.problem.get();
    source.head = s.head, source.row0 = s.row0;
    source.limits = band(data.problem->mask, data.schedule->shape().Nq, data.schedule->shape().Nk);
  }
  return source;
}

// Standard attention keeps all of K, then all of V, on its idealised chip.
bool all_keys_on_chip(const StageData& data, ChipBuffer buffer) {
  if (!data.schedule || !data.problem || data.schedule->recipe().algorithm != Algorithm::standard || !data.state->step)
    return false;
  const TraceStage stage = data.state->step->stage;
  if (buffer == ChipBuffer::K)
    return stage == TraceStage::load_q || stage == TraceStage::scores || stage == TraceStage::mask;
  return stage == TraceStage::load_p || stage == TraceStage::accumulate;
}

HeatSource keys(const StageData& data, ChipBuffer buffer) {
  const bool K = buffer == ChipBuffer::K;
  const TraceState& s = *data.state;
  if (all_keys_on_chip(data, buffer))
    return of(K ? data.problem->K() : data.problem->V(),
              kv_head(data.problem->shape(), data.schedule->recipe(), s.head));
  return of(K ? s.K_tile : s.V);
}

// Which of two texels of one pixel is shown.
int rank(Mark mark) {
  switch (mark) {
    case Mark::nan:
      return 5;
    case Mark::plus_inf:
      return 4;
    case Mark::masked_value:
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
    HeatSource source;
    if (!data.o_row_norm || !data.schedule) return source;
    source.f32 = data.o_row_norm->data();
    source.rows = static_cast<std::int64_t>(data.o_row_norm->size()), source.cols = 1;
    source.row_stride = source.col_stride = 1;
    source.reached = data.map.get(), source.Br = data.schedule->recipe().Br;
    return source;
  }
  if (!data.state) return {};
  const TraceState& s = *data.state;
  switch (buffer) {
    case ChipBuffer::Q:
      return of(s.Q);
    case ChipBuffer::K: {
      HeatSource transposed = keys(data, buffer);
      std::swap(transposed.rows, transposed.cols), std::swap(transposed.row_stride, transposed.col_stride);
      return transposed;
    }
    case ChipBuffer::V:
      return keys(data, buffer);
    case ChipBuffer::S:
      return scores(data, s.S);
    case ChipBuffer::P:
      return scores(data, s.P);
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
  return {static_cast<std::uint8_t>(std::lround(255 * share)), visible ? Mark::value : Mark::masked_value};
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
          HeatTexel texel = heat_texel(value, source.is_visible(row, col), range);
          if (texel.mark == Mark::nan && !source.is_reached(row)) texel.mark = Mark::absent;
          const double magnitude = std::isfinite(value) ? std::abs(value) : 0;
          if (rank(texel.mark) > rank(best.mark) || (rank(texel.mark) == rank(best.mark) && magnitude > largest))
            best = texel, largest = magnitude;
        }
      image.texels[static_cast<std::size_t>(y) * image.width + x] = best;
    }
  return image;
}

}  // namespace flashscope::viz
