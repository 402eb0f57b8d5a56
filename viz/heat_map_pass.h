// Draws heat maps: one rectangle each, cells fetched from a small integer texture that is uploaded only
// when what it shows has changed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "viz/gl.h"
#include "viz/scene.h"

namespace flashscope::viz {

// The palettes as textures, for both passes.
class Luts {
 public:
  void update(bool dark);
  const Texture& texture(Palette palette) const { return textures_[static_cast<std::size_t>(palette)]; }

 private:
  std::array<Texture, kPalettes> textures_;
  int dark_ = -1;
};

class HeatMapPass {
 public:
  HeatMapPass();
  // slot: which of the frame's heat maps; its texture is kept from frame to frame.
  void draw(std::size_t slot, const HeatMap& map, const StageData& data, const Theme& colours, const Luts& luts,
            float viewport_width, float viewport_height);

 private:
  struct Cached {
    std::uint64_t version = 0;
    ChipBuffer buffer = ChipBuffer::Q;
    CellWindow window;
    int width = 0, height = 0;
    double low = 0, high = 0;
    Texture texture;
  };
  // From the buffers that a GPU's kernels filled. False where they hold nothing of this map.
  bool texels_from_buffers(const HeatMap& map, const StageData& data, const HeatSource& source,
                           const CellWindow& window, Texture& texture) const;

  Program program_;
  ComputeProgram texels_;
  VertexArray corners_;
  std::vector<Cached> cache_;
};

}  // namespace flashscope::viz
