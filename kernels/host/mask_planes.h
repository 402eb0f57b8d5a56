// Masks from a file as kernels read them: one byte a cell, one number a cell, a stride of 0 where they broadcast.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/attention/mask.h"
#include "kernels/arguments.h"

namespace flashscope::gpu {

inline std::vector<unsigned char> keep_bytes(const KeepMask& keep) {
  std::vector<unsigned char> bytes;
  bytes.reserve(static_cast<std::size_t>(keep.heads * keep.rows * keep.cols));
  for (std::int64_t h = 0; h < keep.heads; ++h)
    for (std::int64_t r = 0; r < keep.rows; ++r)
      for (std::int64_t c = 0; c < keep.cols; ++c) bytes.push_back(keep.keep(h, r, c) ? 1 : 0);
  return bytes;
}

template <class Real>
std::vector<Real> bias_values(const Bias& bias) {
  if (bias.f64.empty()) return {bias.f32.begin(), bias.f32.end()};
  std::vector<Real> values;
  values.reserve(bias.f64.size());
  // A finite stand-in for -inf stays finite: its key is visible.
  constexpr double most = std::numeric_limits<Real>::max();
  for (const double value : bias.f64)
    values.push_back(static_cast<Real>(std::isfinite(value) ? std::clamp(value, -most, most) : value));
  return values;
}

template <class Source>
Plane plane_of(const Source& source, const void* data) {
  Plane plane;
  plane.data = data;
  plane.col_stride = source.cols == 1 ? 0 : 1;
  plane.row_stride = source.rows == 1 ? 0 : source.cols;
  plane.head_stride = source.heads == 1 ? 0 : source.rows * source.cols;
  return plane;
}

}  // namespace flashscope::gpu
