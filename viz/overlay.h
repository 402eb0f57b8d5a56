// Text and vectors of a scene through ImGui's draw lists, and the order in which its passes run. One
// ImGui context belongs to one Overlay; ImGui's own input is not used.
#pragma once

#include <functional>
#include <memory>

#include "viz/scene.h"

namespace flashscope::viz {

class Overlay {
 public:
  Overlay();   // needs a current OpenGL context; throws std::runtime_error
  ~Overlay();  // needs the same one
  Overlay(const Overlay&) = delete;

  // Draws the items in order; calls `pass` for each HeatMap and TileMap where it comes.
  void draw(const Scene& scene, const ScanStrip* strip, bool dark, float width, float height,
            const std::function<void(const Item&)>& pass);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashscope::viz
