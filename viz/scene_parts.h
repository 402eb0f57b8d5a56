// The parts of the scene, one room each. Internal to the scene.
#pragma once

#include "viz/painter.h"

namespace flashscope::viz {

struct SceneContext {
  const StageData& data;
  const StageOptions& options;
  const SceneInput& input;
  int side = 0;                              // 1: the second recipe
  const Differences* differences = nullptr;  // to be outlined on the chip; its rows lie `shift` further down here
  std::int64_t shift = 0;
  std::string heading = {};  // of the chip, in place of the usual one
  bool ready() const { return data.problem && data.schedule && data.state; }
  const TraceState& state() const { return *data.state; }
  const Recipe& recipe() const { return data.schedule->recipe(); }
};

// Rectangles on the sheet.
void draw_header(Painter& p, const SceneContext& c, const Rect& r);
void draw_formula(Painter& p, const SceneContext& c, const Rect& r);
void draw_memory(Painter& p, const SceneContext& c, const Rect& r);
void draw_chip(Painter& p, const SceneContext& c, const Rect& r);
// The two chips of data.beside, in the place of HBM and of one chip.
void draw_two_chips(Painter& p, const SceneContext& c, const Rect& r);
void draw_differences(Painter& p, const SceneContext& c, ChipBuffer buffer, const Rect& slot, std::int64_t shift);
void draw_tiles(Painter& p, const SceneContext& c, const Rect& r);
void draw_run(Painter& p, const SceneContext& c, const Rect& r);

// After everything that can be pointed at is known: rows and columns that are followed.
void draw_highlights(Painter& p, const SceneContext& c);
// Floating: what moves between HBM and chip. `crossing` is the space between the two.
void draw_transfers(Painter& p, const SceneContext& c, const Rect& crossing);

}  // namespace flashscope::viz
