// The picture as data: what is drawn where, and what can be pointed at. A pure function of the stage's
// data, options, size, pointer and time; no OpenGL, no ImGui. Everything is in pixels of the framebuffer,
// origin top left, already scaled.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "viz/camera.h"
#include "viz/fonts.h"
#include "viz/heat_image.h"
#include "viz/stage.h"
#include "viz/theme.h"

namespace flashscope::viz {

struct Point {
  float x = 0, y = 0;
};
struct Rect {
  float x = 0, y = 0, w = 0, h = 0;
  float right() const { return x + w; }
  float bottom() const { return y + h; }
  Point centre() const { return {x + w / 2, y + h / 2}; }
  bool contains(float px, float py) const { return px >= x && px < right() && py >= y && py < bottom(); }
  bool empty() const { return w <= 0 || h <= 0; }
};

// ---- what is drawn, in order
struct Box {
  Rect rect;
  Colour fill{0, 0, 0, 0}, stroke{0, 0, 0, 0};
  float stroke_width = 1, rounding = 0;
  bool dashed = false;
};
struct Text {
  Rect box;  // of the ink: cap height and descender
  float x = 0, baseline = 0, size = 0;
  Face face = Face::sans;
  Colour colour;
  bool key_number = false;
  std::string text;
};
struct Path {
  std::vector<Point> points;
  Colour colour;
  float width = 2;
  bool arrow = false, dashed = false;
};
struct HeatMap {
  ChipBuffer buffer = ChipBuffer::S;
  int side = 0;  // 1: of the second recipe
  Rect rect;
  double row0 = 0, rows = 0, col0 = 0, cols = 0;  // the cells in view; may start inside a cell
  Range range;
  Palette palette = Palette::sequential;
  double done_rows = -1;  // o_norm: rows from here on are to come, drawn faintly; -1: all
  float opacity = 1;
};
struct TileMap {
  Rect rect;
  double i0 = 0, rows = 1, j0 = 0, cols = 1;  // tiles in view; may start inside a tile
};
struct Bars {  // the run strip: a share and marks in each bin of ScanStrip
  Rect rect;
};
struct PaletteBar {
  Rect rect;
  Palette palette = Palette::sequential;
};
using Item = std::variant<Box, Text, Path, HeatMap, TileMap, Bars, PaletteBar>;

// ---- what can be pointed at
enum class Target : std::uint8_t { none, chip_cell, hbm_tile, map_tile, strip, stage, map_colour, convention };
struct Hit {
  Rect rect;
  Target target = Target::none;
  int what = 0;                                   // ChipBuffer, Operand, MapColour, or index of the convention
  std::int64_t K = -1;                            // stage: where a click goes
  double row0 = 0, rows = 0, col0 = 0, cols = 0;  // of what lies under rect
  int side = 0;                                   // 1: on the second recipe's chip
};
struct Place {  // a resolved Hit
  Target target = Target::none;
  int what = 0;
  std::int64_t row = -1, col = -1;  // cell of a chip buffer or tile (i, j), in the coordinates of the target
  std::int64_t K = -1;
  int side = 0;
};

struct TensorPlace {
  Operand operand = Operand::Q;
  Rect rect;
  std::int64_t rows = 0, cols = 0;
};

struct Scene {
  std::vector<Item> items;
  std::size_t floating = 0;                      // items from here on float above the layout: packets, tooltip, message
  std::vector<Hit> hits;                         // later ones lie on top
  Place pointed;                                 // what is under the pointer
  std::string tooltip;                           // of it; plain text
  std::int64_t focus_row = -1;                   // query row whose numbers the formula shows; -1: none
  std::vector<TensorPlace> hbm;                  // tensors in HBM
  std::array<Rect, kChipBuffers> chip{};         // slots on the chip, also of buffers that do not exist now
  Rect score, map;                               // where the wheel zooms: the score tile and the tile map
  std::array<Rect, kChipBuffers> chip_beside{};  // the same of the second recipe, where there is one
  Rect score_beside;
};

struct SceneInput {
  float width = 1280, height = 720, scale = 1;
  bool pointer_inside = false;
  Point pointer;
  Camera camera, map_camera;
  double transfer = -1;                      // 0..1: how far the step's transfers have moved; -1: at rest
  double flash = 0;                          // 1..0: the rescaled rows' flash fades
  std::array<Range, kChipBuffers> ranges{};  // finite_range of each buffer
};
std::array<Range, kChipBuffers> finite_ranges(const StageData& data);  // of both recipes together

Scene make_scene(const StageData& data, const StageOptions& options, const SceneInput& input);
Place place_at(const Scene& scene, Point point);
// What the place is and holds, several lines of plain text.
std::string read_out(const StageData& data, const StageOptions& options, const Place& place);
// What differs at this step, in a sentence; and a recipe by its algorithm and what it has other than `other`.
std::string difference_line(const Differences& differences);
std::string recipe_beside(const Recipe& recipe, const Recipe& other);
std::string run_beside(const StageData& run, const StageData& other);  // and its mask and scale, where they are others
// The query row of a place on the chip; -1: none.
std::int64_t row_of(const StageData& data, const Place& place);

// Everything is laid out on a sheet of 1280 x 720 at scale 1; this is how much larger a window draws it.
float unit_of(float width, float height, float scale);

const char* convention_name(int index);  // "causal", ...: what a Hit of Target::convention is about

// Where a few lines may lie over the stage for a while and hide the least: over what is written at the foot of HBM and
// of the gap beside it, with two recipes at the foot of the chips. In pixels; they grow upwards from its lower edge.
Rect notice_place(float width, float height, float scale, bool two);

// The steps [first, last] of one head, as state numbers.
std::pair<std::int64_t, std::int64_t> head_steps(const Schedule& schedule, std::int64_t head);

}  // namespace flashscope::viz
