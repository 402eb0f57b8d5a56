#include "viz/heat_map_pass.h"

#include <algorithm>
#include <cmath>

namespace flashscope::viz {
namespace {

void set_colour(const Program& program, const char* name, Colour c) {
  glUniform4f(program.uniform(name), c.r / 255.f, c.g / 255.f, c.b / 255.f, c.a / 255.f);
}

}  // namespace

void Luts::update(bool dark) {
  if (dark_ == (dark ? 1 : 0)) return;
  dark_ = dark ? 1 : 0;
  for (int n = 0; n < kPalettes; ++n)
    textures_[n].upload(GL_RGBA8, 256, 1, GL_RGBA, GL_UNSIGNED_BYTE, lut(static_cast<Palette>(n), dark).data());
}

HeatMapPass::HeatMapPass() : program_("panel.vert", "heat_map.frag"), texels_("heat_texels.comp") {}

bool HeatMapPass::texels_from_buffers(const HeatMap& map, const StageData& data, const HeatSource& source,
                                      const CellWindow& window, Texture& texture) const {
  SharedArray values, visible;
  if (map.buffer == ChipBuffer::o_norm) {
    if (data.shared_map && data.shared_map->of == data.map) values = data.shared_map->o_norm;
  } else if (data.shared && data.state && data.shared->K == data.state->K) {
    values = data.shared->chip[static_cast<std::size_t>(map.buffer)], visible = data.shared->visible;
  }
  const bool transposed = map.buffer == ChipBuffer::K;
  if ((transposed ? values.cols : values.rows) != source.rows ||
      (transposed ? values.rows : values.cols) != source.cols)
    return false;
  const bool scores = map.buffer == ChipBuffer::S || map.buffer == ChipBuffer::P;
  const bool masked = scores && visible.rows == values.rows && visible.cols == values.cols;
  if (scores && !masked && (source.visible || source.problem)) return false;
  const int width = static_cast<int>(std::min<std::int64_t>(window.cols, static_cast<int>(map.rect.w)));
  const int height = static_cast<int>(std::min<std::int64_t>(window.rows, static_cast<int>(map.rect.h)));
  if (width < 1 || height < 1) return false;

  texture.reserve(GL_RG8UI, width, height);
  texels_.use();
  glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 0, values.buffer);
  glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 1, masked ? visible.buffer : values.buffer);
  texture.bind_image(0, GL_RG8UI);
  glUniform4i(texels_.uniform("window"), static_cast<int>(window.row0), static_cast<int>(window.rows),
              static_cast<int>(window.col0), static_cast<int>(window.cols));
  const int pitch = static_cast<int>(values.cols);
  glUniform2i(texels_.uniform("strides"), transposed ? 1 : pitch, transposed ? pitch : 1);
  glUniform2i(texels_.uniform("size"), width, height);
  glUniform1i(texels_.uniform("doubles"), values.doubles);
  glUniform1i(texels_.uniform("masked"), masked);
  glUniform1i(texels_.uniform("visible_cols"), static_cast<int>(visible.cols));
  glUniform2f(texels_.uniform("range"), static_cast<float>(map.range.low), static_cast<float>(map.range.high));
  glDispatchCompute(static_cast<GLuint>(width + 7) / 8, static_cast<GLuint>(height + 7) / 8, 1);
  glMemoryBarrier(GL_TEXTURE_FETCH_BARRIER_BIT);
  return true;
}

void HeatMapPass::draw(std::size_t slot, const HeatMap& map, const StageData& data, const Theme& colours,
                       const Luts& luts, float viewport_width, float viewport_height) {
  const HeatSource source = heat_source(data, map.buffer);
  if (source.empty() || map.rect.empty()) return;
  CellWindow window;
  window.row0 = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(map.row0)), 0, source.rows - 1);
  window.col0 = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(map.col0)), 0, source.cols - 1);
  window.rows = std::min(source.rows, static_cast<std::int64_t>(std::ceil(map.row0 + map.rows - 1e-9))) - window.row0;
  window.cols = std::min(source.cols, static_cast<std::int64_t>(std::ceil(map.col0 + map.cols - 1e-9))) - window.col0;
  const int width = static_cast<int>(map.rect.w), height = static_cast<int>(map.rect.h);

  if (slot >= cache_.size()) cache_.resize(slot + 1);
  Cached& cached = cache_[slot];
  if (cached.version != data.version || cached.buffer != map.buffer || !(cached.window == window) ||
      cached.width != width || cached.height != height || cached.low != map.range.low ||
      cached.high != map.range.high || cached.texture.width() == 0) {
    if (!texels_from_buffers(map, data, source, window, cached.texture)) {
      const HeatImage image = heat_image(source, window, width, height, map.range);
      if (image.texels.empty()) return;
      static_assert(sizeof(HeatTexel) == 2);
      cached.texture.upload(GL_RG8UI, image.width, image.height, GL_RG_INTEGER, GL_UNSIGNED_BYTE, image.texels.data());
    }
    cached.version = data.version, cached.buffer = map.buffer, cached.window = window;
    cached.width = width, cached.height = height, cached.low = map.range.low, cached.high = map.range.high;
  }

  // Texels are cells, or shares of the whole window where there are more cells than pixels.
  const double per_row = static_cast<double>(cached.texture.height()) / static_cast<double>(window.rows);
  const double per_col = static_cast<double>(cached.texture.width()) / static_cast<double>(window.cols);
  program_.use();
  cached.texture.bind(0);
  luts.texture(map.palette).bind(1);
  glUniform1i(program_.uniform("cells"), 0);
  glUniform1i(program_.uniform("lut"), 1);
  glUniform4f(program_.uniform("rect"), map.rect.x, map.rect.y, map.rect.w, map.rect.h);
  glUniform2f(program_.uniform("viewport"), viewport_width, viewport_height);
  glUniform4f(program_.uniform("window"), static_cast<float>((map.col0 - static_cast<double>(window.col0)) * per_col),
              static_cast<float>((map.row0 - static_cast<double>(window.row0)) * per_row),
              static_cast<float>(map.cols * per_col), static_cast<float>(map.rows * per_row));
  glUniform1f(program_.uniform("done"), map.done_rows < 0 ? -1.f : static_cast<float>(map.done_rows * per_row));
  glUniform1f(program_.uniform("opacity"), map.opacity);
  glUniform1i(program_.uniform("flash"), map.opacity < 1);
  set_colour(program_, "nan_colour", colours.nan);
  set_colour(program_, "inf_colour", colours.inf);
  set_colour(program_, "masked_colour", colours.masked);
  set_colour(program_, "hatch_colour", colours.masked_hatch);
  // m starts at -inf: only among scores is that worth an alarm.
  const bool scores = map.buffer == ChipBuffer::S || map.buffer == ChipBuffer::P;
  set_colour(program_, "minus_inf_colour", scores ? colours.minus_inf : colours.well);
  set_colour(program_, "empty_colour", colours.well);
  corners_.bind();
  glDrawArrays(GL_TRIANGLE_STRIP, 0, 4);
}

}  // namespace flashscope::viz
