#include "viz/fonts.h"

#include <stb_truetype.h>

#include <array>
#include <stdexcept>
#include <string>

#include "embedded/font_files.h"

namespace flashscope::viz {
namespace {

constexpr std::uint32_t kCached = 0x250;  // Latin and a little more; the rest is looked up

struct Metrics {
  stbtt_fontinfo font{};
  std::array<float, kCached> advance{};  // em
  float em_per_unit = 0;

  explicit Metrics(Face face) {
    const auto file = font_file(face);
    if (file.empty() || !stbtt_InitFont(&font, reinterpret_cast<const unsigned char*>(file.data()), 0))
      throw std::runtime_error("fonts: an embedded font cannot be read");
    em_per_unit = stbtt_ScaleForMappingEmToPixels(&font, 1);
    for (std::uint32_t c = 0; c < kCached; ++c) advance[c] = look_up(c);
  }
  float look_up(std::uint32_t codepoint) const {
    int width = 0, bearing = 0;
    stbtt_GetCodepointHMetrics(&font, static_cast<int>(codepoint), &width, &bearing);
    return static_cast<float>(width) * em_per_unit;
  }
};

const Metrics& metrics(Face face) {
  static const std::array<Metrics, kFaces> all{Metrics(Face::sans), Metrics(Face::bold), Metrics(Face::mono),
                                               Metrics(Face::mono_bold)};
  return all[static_cast<std::size_t>(face)];
}

// Next code point of valid UTF-8; malformed bytes count as themselves.
std::uint32_t next(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t n) { return static_cast<std::uint8_t>(text[n]); };
  const std::uint32_t lead = byte(at++);
  const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
  if (more == 0 || at + more > text.size()) return lead;
  std::uint32_t c = lead & (0x3fu >> more);
  for (int n = 0; n < more; ++n) c = c << 6 | (byte(at++) & 0x3fu);
  return c;
}

}  // namespace

std::span<const std::byte> font_file(Face face) {
  static constexpr std::string_view names[kFaces] = {"DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf",
                                                     "DejaVuSansMono-Bold.ttf"};
  return font_files(names[static_cast<std::size_t>(face)]);
}

float text_width(Face face, float pixels_per_em, std::string_view text) {
  const Metrics& m = metrics(face);
  float width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t c = next(text, at);
    width += c < kCached ? m.advance[c] : m.look_up(c);
  }
  return width * pixels_per_em;
}

}  // namespace flashscope::viz
