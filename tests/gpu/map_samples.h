// The engine's scan as the tile map that tile_stats must give, at any number of tiles a cell.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/attention/scan.h"
#include "kernels/step.h"

namespace flashscope::gpu {

// `fine`: a map whose cells are tiles.
inline std::vector<TileCell> coarse_map(const ScanMap& fine, std::int64_t scale_i, std::int64_t scale_j) {
  const std::int64_t rows = (fine.rows + scale_i - 1) / scale_i, cols = (fine.cols + scale_j - 1) / scale_j;
  std::vector<TileCell> cells(static_cast<std::size_t>(rows * cols), TileCell{std::nanf(""), 0, 0, 0});
  for (std::int64_t i = 0; i < fine.rows; ++i)
    for (std::int64_t j = 0; j < fine.cols; ++j) {
      const MapCell& tile = fine.cells[static_cast<std::size_t>(i * fine.cols + j)];
      if (std::isnan(tile.largest_score)) continue;  // not visited
      TileCell& cell = cells[static_cast<std::size_t>(i / scale_i * cols + j / scale_j)];
      const auto blocks = static_cast<float>(std::min(scale_i, fine.rows - i / scale_i * scale_i));
      cell.largest_score =
          std::isnan(cell.largest_score) ? tile.largest_score : std::max(cell.largest_score, tile.largest_score);
      cell.rescaled_rows += tile.rescaled_rows, cell.nan_cells += tile.nan_cells;
      cell.softmax_mass += tile.softmax_mass / blocks;
    }
  return cells;
}

inline bool near_or_equal(double a, double b, double tolerance) {
  return (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

inline void expect_norms(const std::vector<float>& found, const std::vector<float>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t n = 0; n < found.size(); ++n)
    ASSERT_TRUE(near_or_equal(found[n], expected[n], tolerance))
        << "|O| of row " << n << ": " << found[n] << " for " << expected[n];
}

inline void expect_cells(const std::vector<TileCell>& found, const std::vector<TileCell>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  const auto near = [&](float a, float b) { return near_or_equal(a, b, tolerance); };
  for (std::size_t n = 0; n < found.size(); ++n) {
    const TileCell &a = found[n], &b = expected[n];
    EXPECT_TRUE(near(a.largest_score, b.largest_score))
        << "cell " << n << ": " << a.largest_score << " for " << b.largest_score;
    EXPECT_EQ(a.rescaled_rows, b.rescaled_rows) << "cell " << n;
    EXPECT_EQ(a.nan_cells, b.nan_cells) << "cell " << n;
    EXPECT_TRUE(near(a.softmax_mass, b.softmax_mass))
        << "cell " << n << ": mass " << a.softmax_mass << " for " << b.softmax_mass;
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace flashscope::gpu
