#include "viz/painter.h"

#include <cmath>

namespace flashscope::viz {

Rect Painter::pixels(const Rect& sheet) const {
  const float x = std::round(sheet.x * unit), y = std::round(sheet.y * unit);
  return {x, y, std::round(sheet.right() * unit) - x, std::round(sheet.bottom() * unit) - y};
}

void Painter::box(const Rect& rect, Colour fill, Colour stroke, float rounding, float stroke_width, bool dashed) {
  scene.items.emplace_back(
      Box{pixels(rect), fill, stroke, std::max(1.f, std::round(stroke_width * unit)), rounding * unit, dashed});
}

void Painter::line(Point from, Point to, Colour colour, float width) {
  const auto snap = [this](float v) { return std::round(v * unit) + 0.5f; };
  scene.items.emplace_back(Path{
      {{snap(from.x), snap(from.y)}, {snap(to.x), snap(to.y)}}, colour, std::max(1.f, width * unit), false, false});
}

// Whole pixels, so that few sizes have to be rasterised.
float Painter::pixels_of(float size) const { return std::max(8.f, std::round(size * unit)); }

float Painter::width(std::string_view text, const TextStyle& style) const {
  return text_width(style.face, pixels_of(style.size), text) / unit;
}

float Painter::text(const Rect& place, const TextStyle& style, std::initializer_list<std::string> texts) {
  for (const std::string& candidate : texts) {
    const float w = width(candidate, style);
    if (w > place.w + 0.5f) continue;
    place_text(place, style, candidate, w);
    return w;
  }
  std::string shortened = *(texts.end() - 1);
  while (!shortened.empty()) {
    do shortened.pop_back();
    while (!shortened.empty() && (static_cast<unsigned char>(shortened.back()) & 0xc0) == 0x80);
    const std::string candidate = shortened + "…";
    const float w = width(candidate, style);
    if (shortened.size() < 2 || w > place.w) continue;
    place_text(place, style, candidate, w);
    return w;
  }
  return 0;
}

void Painter::place_text(const Rect& place, const TextStyle& style, std::string text, float width) {
  if (text.empty()) return;
  const float size = pixels_of(style.size);
  const float slack = place.w - width;
  const float x = place.x + (style.align == Align::left ? 0 : style.align == Align::centre ? slack / 2 : slack);
  Text item;
  item.x = std::round(x * unit);
  item.baseline = std::round((place.y + place.h / 2) * unit + kCapHeight * size / 2);
  item.size = size, item.face = style.face, item.colour = style.colour, item.key_number = style.key_number;
  item.box = {item.x, item.baseline - kCapHeight * size, width * unit, (kCapHeight + 0.2f) * size};
  item.text = std::move(text);
  scene.items.emplace_back(std::move(item));
}

void Painter::hit(const Rect& rect, Hit hit) {
  hit.rect = pixels(rect);
  scene.hits.push_back(hit);
}

HeatMap& Painter::heat(const Rect& rect, HeatMap map) {
  map.rect = pixels(rect);
  scene.items.emplace_back(map);
  return std::get<HeatMap>(scene.items.back());
}

}  // namespace flashscope::viz
