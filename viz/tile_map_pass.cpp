#include "viz/tile_map_pass.h"

#include <algorithm>
#include <cmath>

namespace flashscope::viz {
namespace {

void set_colour(const Program& program, const char* name, Colour c) {
  glUniform4f(program.uniform(name), c.r / 255.f, c.g / 255.f, c.b / 255.f, c.a / 255.f);
}

}  // namespace

TileMapPass::TileMapPass() : program_("panel.vert", "tile_map.frag"), texels_("tile_texels.comp") {}

void TileMapPass::colour_from_buffer(const StageData& data, MapColour mode) {
  const SharedArray& cells = shared_->cells;
  const MapScale scale = map_scale(data.map.get(), mode);
  const TileWindow& window = grid_.window;
  coloured_.reserve(GL_RGBA8UI, grid_.width, grid_.height);
  texels_.use();
  glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 0, cells.buffer);
  looks_.bind(0);
  coloured_.bind_image(0, GL_RGBA8UI);
  glUniform1i(texels_.uniform("looks"), 0);
  glUniform4i(texels_.uniform("window"), static_cast<int>(window.i0), static_cast<int>(window.rows),
              static_cast<int>(window.j0), static_cast<int>(window.cols));
  glUniform2i(texels_.uniform("size"), grid_.width, grid_.height);
  glUniform2i(texels_.uniform("cells_size"), static_cast<int>(cells.rows), static_cast<int>(cells.cols));
  glUniform2i(texels_.uniform("scale"), static_cast<int>(std::max<std::int64_t>(data.map->scale_i, 1)),
              static_cast<int>(std::max<std::int64_t>(data.map->scale_j, 1)));
  glUniform1i(texels_.uniform("component"), static_cast<int>(mode));
  glUniform2f(texels_.uniform("range"), static_cast<float>(scale.low), static_cast<float>(scale.high));
  glDispatchCompute(static_cast<GLuint>(grid_.width + 7) / 8, static_cast<GLuint>(grid_.height + 7) / 8, 1);
  glMemoryBarrier(GL_TEXTURE_FETCH_BARRIER_BIT);
}

void TileMapPass::draw(const TileMap& map, const StageData& data, const StageOptions& options, const Theme& colours,
                       const Luts& luts, float viewport_width, float viewport_height) {
  if (!data.schedule || !data.state || map.rect.empty()) return;
  const int width = static_cast<int>(map.rect.w), height = static_cast<int>(map.rect.h);
  TileWindow window;
  window.i0 = static_cast<std::int64_t>(std::floor(map.i0)), window.j0 = static_cast<std::int64_t>(std::floor(map.j0));
  window.rows =
      std::min(data.schedule->Tr(), static_cast<std::int64_t>(std::ceil(map.i0 + map.rows - 1e-9))) - window.i0;
  window.cols =
      std::min(data.schedule->Tc(), static_cast<std::int64_t>(std::ceil(map.j0 + map.cols - 1e-9))) - window.j0;
  if (window.rows < 1 || window.cols < 1) return;
  const bool other_tiles = schedule_ != data.schedule || head_ != data.state->head || width_ != width ||
                           height_ != height || !(grid_.window == window);
  if (other_tiles) grid_ = tile_grid(*data.schedule, data.state->head, window, width, height);
  std::shared_ptr<const SharedMap> shared;
  if (data.shared_map && data.map && data.shared_map->of == data.map && data.shared_map->cells.rows > 0)
    shared = data.shared_map;
  if (other_tiles || map_ != data.map || shared_ != shared || mode_ != options.map_colour) {
    shared_ = std::move(shared);
    colour_tiles(grid_, shared_ ? nullptr : data.map.get(), options.map_colour);
    static_assert(sizeof(TileTexel) == 3);
    looks_.upload(GL_RGB8UI, grid_.width, grid_.height, GL_RGB_INTEGER, GL_UNSIGNED_BYTE, grid_.texels.data());
    if (shared_) colour_from_buffer(data, options.map_colour);
    schedule_ = data.schedule, head_ = data.state->head, width_ = width, height_ = height;
    map_ = data.map, mode_ = options.map_colour;
  }

  const WalkPlace place = walk_place(*data.schedule, *data.state);
  const Recipe& recipe = data.schedule->recipe();
  program_.use();
  (shared_ ? coloured_ : looks_).bind(0);
  luts.texture(palette_of(options.map_colour)).bind(1);
  glUniform1i(program_.uniform("tiles"), 0);
  glUniform1i(program_.uniform("lut"), 1);
  glUniform4f(program_.uniform("rect"), map.rect.x, map.rect.y, map.rect.w, map.rect.h);
  glUniform2f(program_.uniform("viewport"), viewport_width, viewport_height);
  glUniform4f(program_.uniform("grid"), static_cast<float>(map.j0), static_cast<float>(map.i0),
              static_cast<float>(map.cols), static_cast<float>(map.rows));
  glUniform4f(program_.uniform("textured"), static_cast<float>(window.j0), static_cast<float>(window.i0),
              static_cast<float>(window.cols), static_cast<float>(window.rows));
  glUniform2f(program_.uniform("all_tiles"), static_cast<float>(data.schedule->Tc()),
              static_cast<float>(data.schedule->Tr()));
  glUniform2f(program_.uniform("now"), static_cast<float>(place.now_j), static_cast<float>(place.now_i));
  glUniform2f(program_.uniform("place"), static_cast<float>(place.outer), static_cast<float>(place.inner));
  glUniform1i(program_.uniform("columns_outside"), recipe.algorithm == Algorithm::flash1);
  glUniform1i(program_.uniform("reverse"), recipe.order == Order::reverse && recipe.algorithm != Algorithm::standard);
  glUniform1i(program_.uniform("nan_is_marked"), options.map_colour != MapColour::nan_count);
  set_colour(program_, "panel_colour", colours.panel);
  set_colour(program_, "to_come_colour", colours.raised);
  set_colour(program_, "skipped_colour", colours.masked);
  set_colour(program_, "hatch_colour", colours.masked_hatch);
  set_colour(program_, "now_colour", colours.amber);
  set_colour(program_, "ink_colour", colours.ink);
  set_colour(program_, "nan_colour", colours.nan);
  corners_.bind();
  glDrawArrays(GL_TRIANGLE_STRIP, 0, 4);
}

}  // namespace flashscope::viz
