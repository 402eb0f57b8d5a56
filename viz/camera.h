// What part of the score tile, or of the tile map, is looked at: a window in shares of its height and width.
// Rows zoom Q, S, m, alpha, l and O together, columns K^T and S, so that rows and columns still read across.
#pragma once

#include <algorithm>

namespace flashscope::viz {

struct Camera {
  double top = 0, bottom = 1, left = 0, right = 1;
  bool operator==(const Camera&) const = default;
  bool whole() const { return top <= 0 && bottom >= 1 && left <= 0 && right >= 1; }
};

// One axis: keeps the point at share `at` of the view in place while the view shrinks by `factor`;
// never smaller than `smallest`, never outside 0..1.
inline void zoom_axis(double& low, double& high, double at, double factor, double smallest) {
  const double size = std::clamp((high - low) * factor, std::min(smallest, 1.0), 1.0);
  low = std::clamp(low + at * (high - low - size), 0.0, 1 - size);
  high = low + size;
}

inline void pan_axis(double& low, double& high, double by) {
  const double size = high - low;
  low = std::clamp(low + by * size, 0.0, 1 - size);
  high = low + size;
}

// (u, v): the fixed point, shares of the view from left and top. At least 2 rows or columns stay visible.
inline void zoom(Camera& camera, double u, double v, double factor, double rows, double cols) {
  zoom_axis(camera.left, camera.right, u, factor, 2 / std::max(cols, 1.0));
  zoom_axis(camera.top, camera.bottom, v, factor, 2 / std::max(rows, 1.0));
}

inline void pan(Camera& camera, double du, double dv) {
  pan_axis(camera.left, camera.right, du);
  pan_axis(camera.top, camera.bottom, dv);
}

}  // namespace flashscope::viz
