// Draws the tile map: one rectangle and one fragment shader, whatever the number of tiles. The cells' colours come from
// the host's map, or from the buffer that a GPU's kernel filled.
#pragma once

#include <memory>

#include "viz/heat_map_pass.h"
#include "viz/tile_grid.h"

namespace flashscope::viz {

class TileMapPass {
 public:
  TileMapPass();
  void draw(const TileMap& map, const StageData& data, const StageOptions& options, const Theme& colours,
            const Luts& luts, float viewport_width, float viewport_height);

 private:
  // Adds the cells of the buffer to the looks of the tiles.
  void colour_from_buffer(const StageData& data, MapColour mode);

  Program program_;
  ComputeProgram texels_;
  VertexArray corners_;
  Texture looks_;     // the grid as the host has it
  Texture coloured_;  // with colours from the buffer
  TileGrid grid_;
  std::shared_ptr<const Schedule> schedule_;  // what the grid and the colours are of
  std::shared_ptr<const ScanMap> map_;
  std::shared_ptr<const SharedMap> shared_;
  std::int64_t head_ = -1;
  int width_ = 0, height_ = 0;
  MapColour mode_ = MapColour::largest_score;
};

}  // namespace flashscope::viz
