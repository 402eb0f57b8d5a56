#include "viz/theme.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace flashscope::viz {
namespace {

constexpr Colour hex(std::uint32_t rgb) {
  return {static_cast<std::uint8_t>(rgb >> 16), static_cast<std::uint8_t>(rgb >> 8), static_cast<std::uint8_t>(rgb),
          255};
}

constexpr Theme kDark = {.background = hex(0x10131a),
                         .panel = hex(0x181d27),
                         .raised = hex(0x262e3d),
                         .well = hex(0x202735),
                         .line = hex(0x313a4c),
                         .line_strong = hex(0x4a566e),
                         .ink = hex(0xeceff5),
                         .dim = hex(0xa2abbd),
                         .faint = hex(0x6d778c),
                         .query = hex(0x6ea8ff),
                         .key = hex(0x4fd1c5),
                         .result = hex(0xf6ad55),
                         .amber = hex(0xf6ad55),
                         .nan = hex(0xff3fd2),
                         .inf = hex(0xff7a1a),
                         .minus_inf = hex(0x4d8dff),
                         .masked = hex(0x2b313e),
                         .masked_hatch = hex(0x4b5364),
                         .good = hex(0x6fd08c),
                         .difference = hex(0xff5c5c)};

constexpr Theme kLight = {.background = hex(0xeef0f4),
                          .panel = hex(0xffffff),
                          .raised = hex(0xe4e8ef),
                          .well = hex(0xf0f2f6),
                          .line = hex(0xcdd3de),
                          .line_strong = hex(0x9aa5b8),
                          .ink = hex(0x161b25),
                          .dim = hex(0x505a6e),
                          .faint = hex(0x8a94a6),
                          .query = hex(0x1f63d0),
                          .key = hex(0x0b7f76),
                          .result = hex(0xb45f06),
                          .amber = hex(0xb45f06),
                          .nan = hex(0xd4009f),
                          .inf = hex(0xe35d00),
                          .minus_inf = hex(0x1f63d0),
                          .masked = hex(0xdfe3ea),
                          .masked_hatch = hex(0xaab2c0),
                          .good = hex(0x1a7f45),
                          .difference = hex(0xc8102e)};

// Viridis, sampled at equal distances (matplotlib, CC0).
constexpr Colour kViridis[] = {hex(0x440154), hex(0x482475), hex(0x414487), hex(0x355f8d), hex(0x2a788e), hex(0x21918c),
                               hex(0x22a884), hex(0x44bf70), hex(0x7ad151), hex(0xbddf26), hex(0xfde725)};

Lut ramp(std::span<const Colour> stops) {
  Lut table;
  for (int n = 0; n < 256; ++n) {
    const double at = n / 255.0 * (stops.size() - 1);
    const auto below = std::min(static_cast<std::size_t>(at), stops.size() - 2);
    table[n] = mix(stops[below], stops[below + 1], at - static_cast<double>(below));
  }
  return table;
}

}  // namespace

Colour mix(Colour from, Colour to, double share) {
  const auto blend = [share](std::uint8_t x, std::uint8_t y) {
    return static_cast<std::uint8_t>(std::lround(x + (y - x) * std::clamp(share, 0.0, 1.0)));
  };
  return {blend(from.r, to.r), blend(from.g, to.g), blend(from.b, to.b), 255};
}

Colour with_alpha(Colour colour, double alpha) {
  colour.a = static_cast<std::uint8_t>(std::lround(255 * std::clamp(alpha, 0.0, 1.0)));
  return colour;
}

const Theme& theme(bool dark) { return dark ? kDark : kLight; }

const Lut& lut(Palette palette, bool dark) {
  static const auto tables = [] {
    std::array<std::array<Lut, 2>, kPalettes> t;
    for (int d = 0; d < 2; ++d) {
      const Theme& colours = theme(d == 1);
      t[static_cast<int>(Palette::sequential)][d] = ramp(kViridis);
      // alpha 0 .. 1: amber where a row is scaled away, the neutral of the panel at 1.
      const Colour amber[] = {colours.amber, mix(colours.amber, colours.well, 0.35),
                              mix(colours.amber, colours.well, 0.7), colours.well};
      t[static_cast<int>(Palette::alpha)][d] = ramp(amber);
      const Colour magenta[] = {colours.well, mix(colours.well, colours.nan, 0.45), colours.nan};
      t[static_cast<int>(Palette::nan_count)][d] = ramp(magenta);
    }
    return t;
  }();
  return tables[static_cast<int>(palette)][dark ? 1 : 0];
}

}  // namespace flashscope::viz
