// The embedded fonts and the widths of text, without OpenGL and without ImGui, so that a layout can be
// computed and tested anywhere. Sizes are pixels per em.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace flashscope::viz {

enum class Face : std::uint8_t { sans, bold, mono, mono_bold };
inline constexpr int kFaces = 4;

std::span<const std::byte> font_file(Face face);

// Advance width of UTF-8 text.
float text_width(Face face, float pixels_per_em, std::string_view text);

// DejaVu's proportions, as shares of the em.
inline constexpr float kAscent = 0.928f, kDescent = 0.236f, kCapHeight = 0.729f;

}  // namespace flashscope::viz
