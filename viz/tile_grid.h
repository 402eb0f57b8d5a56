// The texels of the tile map, computed without OpenGL: what class each tile is and which colour its
// counts give. A texel may cover many tiles; then it shows the largest of them. What is done, now and
// to come is not in here: the shader compares tile numbers with the current one.
#pragma once

#include <cstdint>
#include <vector>

#include "viz/stage.h"
#include "viz/theme.h"

namespace flashscope::viz {

enum class TileLook : std::uint8_t { full, partial, skipped, no_key };  // no_key: visited without a visible key
struct TileTexel {
  std::uint8_t index = 0;  // 1..255 into the palette; 0: not reached by the scan, or nothing to show
  TileLook look = TileLook::full;
  bool nan = false;  // NaN cells of P, or rows NaN
};
struct TileWindow {
  std::int64_t i0 = 0, rows = 0, j0 = 0, cols = 0;  // tiles
  bool operator==(const TileWindow&) const = default;
};
struct TileGrid {
  TileWindow window;
  int width = 0, height = 0;
  std::vector<TileTexel> texels;  // row-major, row block by row block
};

// Classes of one head's tiles in a window, on at most max_width x max_height texels.
TileGrid tile_grid(const Schedule& schedule, std::int64_t head, const TileWindow& window, int max_width,
                   int max_height);
// Fills in the colour indices.
void colour_tiles(TileGrid& grid, const ScanMap* map, MapColour mode);

// What it takes to tell done, now and to come apart.
struct WalkPlace {
  double outer = 0, inner = 0;  // of the first tile that is not done, in the order of the walk
  double now_i = -1, now_j = -1;
};
WalkPlace walk_place(const Schedule& schedule, const TraceState& state);

struct MapScale {
  double low = 0, high = 0;  // what the palette's ends mean
  bool any = false;
};
MapScale map_scale(const ScanMap* map, MapColour mode);
double map_value(const MapCell& cell, MapColour mode);
Palette palette_of(MapColour mode);
// The map's cell that holds tile (i, j), or null.
const MapCell* map_cell(const ScanMap* map, std::int64_t i, std::int64_t j);

}  // namespace flashscope::viz
