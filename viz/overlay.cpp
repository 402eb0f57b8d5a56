#include "viz/overlay.h"

#include <imgui.h>
// After imgui.h.
#include <GL/glcorearb.h>
#include <backends/imgui_impl_opengl3.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

namespace flashscope::viz {
namespace {

ImU32 colour_of(Colour c) { return IM_COL32(c.r, c.g, c.b, c.a); }

void draw_dashed(ImDrawList& list, ImVec2 from, ImVec2 to, ImU32 colour, float width) {
  const float length = std::hypot(to.x - from.x, to.y - from.y), dash = 5 * std::max(width, 1.f);
  const ImVec2 way{(to.x - from.x) / std::max(length, 1.f), (to.y - from.y) / std::max(length, 1.f)};
  for (float at = 0; at < length; at += 1.8f * dash) {
    const float end = std::min(at + dash, length);
    list.AddLine({from.x + way.x * at, from.y + way.y * at}, {from.x + way.x * end, from.y + way.y * end}, colour,
                 width);
  }
}

// A software rasteriser clears a rectangle several times faster than it blends one.
constexpr float kClearedArea = 6000;  // pixels

bool is_cleared(const Box& box) {
  return box.fill.a == 255 && (box.rect.w - 2 * box.rounding) * box.rect.h > kClearedArea;
}
// The fill but for its rounded corners, which are drawn here.
std::array<Rect, 3> cleared_parts(const Box& box) {
  const Rect& r = box.rect;
  const float c = std::ceil(box.rounding);
  return {Rect{r.x + c, r.y, r.w - 2 * c, r.h}, Rect{r.x, r.y + c, c, r.h - 2 * c},
          Rect{r.right() - c, r.y + c, c, r.h - 2 * c}};
}
void draw_corners(ImDrawList& list, const Box& box) {
  const float c = std::ceil(box.rounding);
  if (c < 1) return;
  const Rect& r = box.rect;
  const ImVec2 centres[] = {
      {r.x + c, r.y + c}, {r.right() - c, r.y + c}, {r.right() - c, r.bottom() - c}, {r.x + c, r.bottom() - c}};
  for (int n = 0; n < 4; ++n) {
    list.PathLineTo(centres[n]);
    list.PathArcToFast(centres[n], box.rounding, 6 + 3 * n, 9 + 3 * n);
    list.PathFillConvex(colour_of(box.fill));
  }
}

void draw(ImDrawList& list, const Box& box) {
  const ImVec2 from{box.rect.x, box.rect.y}, to{box.rect.right(), box.rect.bottom()};
  if (is_cleared(box))
    draw_corners(list, box);
  else if (box.fill.a)
    list.AddRectFilled(from, to, colour_of(box.fill), box.rounding);
  if (!box.stroke.a) return;
  const float half = box.stroke_width / 2;
  const ImVec2 a{from.x + half, from.y + half}, b{to.x - half, to.y - half};
  if (!box.dashed) {
    // ImGui strokes between pixel centres, half a pixel inside these corners.
    list.AddRect({a.x, a.y}, {b.x + 0.0f, b.y + 0.0f}, colour_of(box.stroke), box.rounding, 0, box.stroke_width);
    return;
  }
  const ImU32 colour = colour_of(box.stroke);
  draw_dashed(list, a, {b.x, a.y}, colour, box.stroke_width);
  draw_dashed(list, {b.x, a.y}, b, colour, box.stroke_width);
  draw_dashed(list, b, {a.x, b.y}, colour, box.stroke_width);
  draw_dashed(list, {a.x, b.y}, a, colour, box.stroke_width);
}

void draw(ImDrawList& list, const Path& path) {
  if (path.points.size() < 2) return;
  std::vector<ImVec2> points;
  for (const Point& point : path.points)
    if (points.empty() || std::hypot(point.x - points.back().x, point.y - points.back().y) > 0.3f)
      points.push_back({point.x, point.y});
  if (points.size() < 2) return;
  const ImU32 colour = colour_of(path.colour);
  if (path.arrow) {
    const ImVec2 tip = points.back(), before = points[points.size() - 2];
    const float length = std::max(std::hypot(tip.x - before.x, tip.y - before.y), 0.01f), size = 4.5f * path.width;
    const ImVec2 way{(tip.x - before.x) / length, (tip.y - before.y) / length};
    const ImVec2 base{tip.x - way.x * size, tip.y - way.y * size};
    list.AddTriangleFilled({tip.x, tip.y}, {base.x - way.y * size * 0.5f, base.y + way.x * size * 0.5f},
                           {base.x + way.y * size * 0.5f, base.y - way.x * size * 0.5f}, colour);
    points.back() = base;
  }
  list.AddPolyline(points.data(), static_cast<int>(points.size()), colour, 0, path.width);
}

void draw(ImDrawList& list, const PaletteBar& bar, bool dark) {
  constexpr int kParts = 32;
  const Lut& table = lut(bar.palette, dark);
  for (int n = 0; n < kParts; ++n) {
    const float x0 = bar.rect.x + bar.rect.w * static_cast<float>(n) / kParts,
                x1 = bar.rect.x + bar.rect.w * static_cast<float>(n + 1) / kParts;
    const ImU32 low = colour_of(table[n * 255 / kParts]), high = colour_of(table[(n + 1) * 255 / kParts]);
    list.AddRectFilledMultiColor({x0, bar.rect.y}, {x1, bar.rect.bottom()}, low, high, high, low);
  }
}

// Per bin: what is not reached is lighter; masked tiles a grey foot, rescaled rows an amber bar, NaN and inf
// marks on top that are never thinner than two pixels.
void draw(ImDrawList& list, const Bars& bars, const ScanStrip& strip, const Theme& t) {
  const Rect& r = bars.rect;
  const auto n = static_cast<float>(strip.bins.size());
  float top = 0;
  for (const ScanStrip::Bin& bin : strip.bins) top = std::max(top, bin.rescaled);
  for (std::size_t k = 0; k < strip.bins.size(); ++k) {
    const ScanStrip::Bin& bin = strip.bins[k];
    const float x0 = r.x + r.w * static_cast<float>(k) / n, x1 = r.x + r.w * static_cast<float>(k + 1) / n;
    if (bin.reached < 1)
      list.AddRectFilled({x0, r.y + 1}, {x1, r.bottom() - 1},
                         colour_of(with_alpha(t.masked_hatch, 0.35 * (1 - bin.reached))));
    if (bin.masked)
      list.AddRectFilled({x0, r.bottom() - 1 - r.h * 0.12f}, {x1, r.bottom() - 1}, colour_of(t.masked_hatch));
    if (bin.rescaled > 0 && top > 0) {
      const float h = std::max(2.f, (r.h * 0.84f) * bin.rescaled);
      list.AddRectFilled({x0, r.bottom() - 1 - h}, {std::max(x1, x0 + 1), r.bottom() - 1}, colour_of(t.amber));
    }
  }
  for (std::size_t k = 0; k < strip.bins.size(); ++k) {
    const ScanStrip::Bin& bin = strip.bins[k];
    if (!bin.nan && !bin.inf) continue;
    const float x0 = r.x + r.w * static_cast<float>(k) / n,
                x1 = std::max(r.x + r.w * static_cast<float>(k + 1) / n, x0 + 2);
    if (bin.inf) list.AddRectFilled({x0, r.y + 1}, {x1, r.y + 1 + r.h * 0.3f}, colour_of(t.inf));
    if (bin.nan) list.AddRectFilled({x0, r.y + 1}, {x1, r.y + 1 + r.h * 0.22f}, colour_of(t.nan));
  }
}

}  // namespace

struct Overlay::Impl {
  ImGuiContext* context = nullptr;
  std::map<std::pair<Face, int>, ImFont*> fonts;

  // Rasterises the sizes that the scene uses and that are not there yet.
  void need_fonts(const Scene& scene) {
    bool missing = false;
    std::map<std::pair<Face, int>, ImFont*> used;
    for (const Item& item : scene.items)
      if (const auto* text = std::get_if<Text>(&item)) {
        const std::pair key{text->face, static_cast<int>(text->size)};
        used.emplace(key, nullptr);
        missing |= !fonts.contains(key);
      }
    if (!missing) return;
    if (fonts.size() > 24) fonts.clear();  // sizes of a window that has been resized
    for (const auto& [key, font] : used) fonts.emplace(key, font);
    static const ImWchar ranges[] = {0x20,   0x17f,  0x391,  0x3c9,  0x2010, 0x2026, 0x2190,
                                     0x2193, 0x2212, 0x221e, 0x2260, 0x2265, 0};
    ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
    atlas.Clear();
    for (auto& [key, font] : fonts) {
      ImFontConfig config;
      config.FontDataOwnedByAtlas = false;
      config.OversampleH = 2, config.OversampleV = 1;
      const auto file = font_file(key.first);
      const float line_height = static_cast<float>(key.second) * (1901.f + 483.f) / 2048.f;  // DejaVu's, per em
      font = atlas.AddFontFromMemoryTTF(const_cast<std::byte*>(file.data()), static_cast<int>(file.size()), line_height,
                                        &config, ranges);
    }
    ImGui_ImplOpenGL3_DestroyFontsTexture();
    if (!ImGui_ImplOpenGL3_CreateFontsTexture()) throw std::runtime_error("overlay: the font texture cannot be made");
  }

  void draw(ImDrawList& list, const Text& text) {
    ImFont* font = fonts.at({text.face, static_cast<int>(text.size)});
    list.AddText(font, font->FontSize, {text.x, text.baseline - std::round(font->Ascent)}, colour_of(text.colour),
                 text.text.data(), text.text.data() + text.text.size());
  }
};

Overlay::Overlay() : impl_(new Impl) {
  impl_->context = ImGui::CreateContext();
  ImGui::SetCurrentContext(impl_->context);
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr, io.LogFilename = nullptr;
  if (!ImGui_ImplOpenGL3_Init("#version 430 core")) throw std::runtime_error("overlay: ImGui finds no OpenGL 4.3 core");
  io.Fonts->AddFontDefault();
  ImGui_ImplOpenGL3_NewFrame();  // makes its device objects
}

Overlay::~Overlay() {
  ImGui::SetCurrentContext(impl_->context);
  ImGui_ImplOpenGL3_Shutdown();
  ImGui::DestroyContext(impl_->context);
}

void Overlay::draw(const Scene& scene, const ScanStrip* strip, bool dark, float width, float height,
                   const std::function<void(const Item&)>& pass) {
  ImGui::SetCurrentContext(impl_->context);
  impl_->need_fonts(scene);
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = {width, height};
  io.DeltaTime = 1.f / 60;
  ImGui_ImplOpenGL3_NewFrame();
  ImGui::NewFrame();
  ImDrawList& list = *ImGui::GetBackgroundDrawList();

  struct Call {
    const std::function<void(const Item&)>* pass;
    const Item* item;
  };
  std::vector<Call> calls;
  calls.reserve(scene.items.size());  // the draw list keeps pointers to them
  struct Clear {
    Rect rect;
    Colour colour;
    float height;
  };
  std::vector<Clear> clears;
  clears.reserve(3 * scene.items.size());
  const auto clear = [&](const Rect& rect, Colour colour) {
    if (rect.empty()) return;
    clears.push_back({rect, colour, height});
    list.AddCallback(
        [](const ImDrawList*, const ImDrawCmd* command) {
          const auto& c = *static_cast<const Clear*>(command->UserCallbackData);
          glScissor(static_cast<int>(c.rect.x), static_cast<int>(c.height - c.rect.bottom()),
                    static_cast<int>(c.rect.w), static_cast<int>(c.rect.h));
          glClearColor(static_cast<float>(c.colour.r) / 255, static_cast<float>(c.colour.g) / 255,
                       static_cast<float>(c.colour.b) / 255, 1);
          glClear(GL_COLOR_BUFFER_BIT);
        },
        &clears.back());
  };
  for (const Item& item : scene.items) {
    if (const auto* box = std::get_if<Box>(&item)) {
      if (is_cleared(*box))
        for (const Rect& part : cleared_parts(*box)) clear(part, box->fill);
      viz::draw(list, *box);
    } else if (const auto* text = std::get_if<Text>(&item))
      impl_->draw(list, *text);
    else if (const auto* path = std::get_if<Path>(&item))
      viz::draw(list, *path);
    else if (const auto* bar = std::get_if<PaletteBar>(&item))
      viz::draw(list, *bar, dark);
    else if (const auto* bars = std::get_if<Bars>(&item)) {
      if (strip) viz::draw(list, *bars, *strip, theme(dark));
    } else {
      calls.push_back({&pass, &item});
      list.AddCallback(
          [](const ImDrawList*, const ImDrawCmd* command) {
            const auto& call = *static_cast<const Call*>(command->UserCallbackData);
            (*call.pass)(*call.item);
          },
          &calls.back());
      list.AddCallback(ImDrawCallback_ResetRenderState, nullptr);
    }
  }
  ImGui::Render();
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
}

}  // namespace flashscope::viz
