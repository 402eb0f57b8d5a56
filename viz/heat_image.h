// The pixels of a heat map, computed without OpenGL: each cell becomes a colour index and a mark. Where
// a pixel covers several cells it shows a NaN if any is NaN, then +inf, then the finite value of
// largest magnitude: nothing alarming is ever lost to scaling. Ranges come from finite values only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "viz/shared_chip.h"
#include "viz/stage.h"

namespace flashscope::viz {

struct HeatSource {
  const double* f64 = nullptr;  // one of the two
  const float* f32 = nullptr;
  std::int64_t rows = 0, cols = 0, row_stride = 0, col_stride = 0;
  const std::uint8_t* visible = nullptr;  // [rows x cols], or null
  const Problem* problem = nullptr;  // its mask decides where `visible` is null; cell (0, 0) is (row0, 0) of `head`
  std::int64_t head = 0, row0 = 0;
  Band limits;
  const ScanMap* reached = nullptr;  // of o_norm: a NaN in a row block that is not scanned is only "not reached"
  std::int64_t Br = 1;
  bool empty() const { return rows == 0 || cols == 0; }
  double at(std::int64_t r, std::int64_t c) const {
    const std::int64_t n = r * row_stride + c * col_stride;
    return f64 ? f64[n] : f32[n];
  }
  bool is_visible(std::int64_t r, std::int64_t c) const {
    if (visible) return visible[r * cols + c];
    return !problem || flashscope::visible(problem->mask, limits, head, row0 + r, c);
  }
  bool is_reached(std::int64_t r) const {
    if (!reached) return true;
    const auto cell = static_cast<std::size_t>(r / Br / std::max<std::int64_t>(reached->scale_i, 1));
    return cell < reached->row_block_done.size() && reached->row_block_done[cell];
  }
};
// Empty where the buffer does not exist in this state.
HeatSource heat_source(const StageData& data, ChipBuffer buffer);

struct Range {
  double low = 0, high = 0;
  bool any = false;  // some finite value
};
Range finite_range(const HeatSource& source);

enum class Mark : std::uint8_t { value, nan, plus_inf, masked, minus_inf, absent, masked_value };
struct HeatTexel {
  std::uint8_t index = 0;  // into the palette's 256 colours
  Mark mark = Mark::value;
};
// A masked cell that holds what a mask leaves there (-inf, or weight 0) is `masked`; any other value of
// a masked cell is shown under the hatch, because it will be used.
HeatTexel heat_texel(double value, bool visible, const Range& range);

struct CellWindow {
  std::int64_t row0 = 0, rows = 0, col0 = 0, cols = 0;
  bool operator==(const CellWindow&) const = default;
};
struct HeatImage {
  int width = 0, height = 0;      // at most the limits given
  std::vector<HeatTexel> texels;  // row-major
};
HeatImage heat_image(const HeatSource& source, const CellWindow& window, int max_width, int max_height,
                     const Range& range);

}  // namespace flashscope::viz
