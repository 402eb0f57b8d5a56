// The colours and sizes of the stage. Two themes, dark and light; sequential palettes that are safe for
// colour-blind people and projectors; NaN magenta, +inf orange, masked grey hatch, alpha amber below 1.
#pragma once

#include <array>
#include <cstdint>

namespace flashscope::viz {

struct Colour {
  std::uint8_t r = 0, g = 0, b = 0, a = 255;
  bool operator==(const Colour&) const = default;
};
Colour mix(Colour from, Colour to, double share);  // opaque blend
Colour with_alpha(Colour colour, double alpha);    // alpha 0..1

enum class Palette : std::uint8_t { sequential, alpha, nan_count };
inline constexpr int kPalettes = 3;

struct Theme {
  Colour background, panel, raised, well;  // window, panel, button or chip, empty area
  Colour line, line_strong;                // frames
  Colour ink, dim, faint;                  // text: strong, secondary, unavailable
  Colour query, key, result;               // Q blue, K V teal, O and what is computed now amber
  Colour amber, nan, inf, minus_inf;
  Colour masked, masked_hatch;  // the two greys of the hatch
  Colour good, difference;      // agreement; cells that differ between two recipes
};
const Theme& theme(bool dark);

// 256 colours of a palette, low to high. `dark` only changes the neutral end of alpha and nan_count.
using Lut = std::array<Colour, 256>;
const Lut& lut(Palette palette, bool dark);

// The type scale, in pixels of the font's em at 1280 x 720.
inline constexpr float kBody = 14, kLabel = 16, kNumber = 18, kTitle = 22;
// The spacing grid.
inline constexpr float kGap = 12, kPad = 14;

}  // namespace flashscope::viz
