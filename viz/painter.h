// How the parts of the scene write into it: positions in sheet units (1280 x 720), text that always
// fits its place. Internal to the scene.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "viz/scene.h"

namespace flashscope::viz {

enum class Align : std::uint8_t { left, centre, right };

struct TextStyle {
  float size = kBody;
  Face face = Face::sans;
  Colour colour;
  Align align = Align::left;
  bool key_number = false;
};

class Painter {
 public:
  Painter(Scene& scene, const Theme& colours, float unit) : scene(scene), colours(colours), unit(unit) {}

  Scene& scene;
  const Theme& colours;
  const float unit;

  Rect pixels(const Rect& sheet) const;  // rounded to whole pixels
  void box(const Rect& rect, Colour fill, Colour stroke = {0, 0, 0, 0}, float rounding = 0, float stroke_width = 1,
           bool dashed = false);
  void panel(const Rect& rect) { box(rect, colours.panel, colours.line, 8); }
  void line(Point from, Point to, Colour colour, float width = 1);

  // Width on the sheet, of the size as it will be rasterised.
  float width(std::string_view text, const TextStyle& style) const;
  // Draws the first of the texts that fits `place`, vertically centred; the last one shortened with an
  // ellipsis if none does; nothing where not even that fits. Returns the width used.
  float text(const Rect& place, const TextStyle& style, std::initializer_list<std::string> texts);
  float text(const Rect& place, const TextStyle& style, const std::string& one) { return text(place, style, {one}); }

  void hit(const Rect& rect, Hit hit);
  HeatMap& heat(const Rect& rect, HeatMap map);
  template <class T>
  void push(T item) {
    scene.items.emplace_back(std::move(item));
  }

  TextStyle body(Colour colour, Align align = Align::left) const { return {kBody, Face::sans, colour, align, false}; }
  TextStyle label(Colour colour, Align align = Align::left) const { return {kLabel, Face::bold, colour, align, false}; }
  TextStyle number(Colour colour, Align align = Align::left) const {
    return {kNumber, Face::sans, colour, align, true};
  }

 private:
  void place_text(const Rect& place, const TextStyle& style, std::string text, float width);
  float pixels_of(float size) const;
};

}  // namespace flashscope::viz
