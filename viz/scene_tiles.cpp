// The tile map with its legend, and the traffic.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/scene_parts.h"
#include "viz/tile_grid.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

// A count of elements, three digits.
std::string elements(std::int64_t value) {
  static constexpr const char* units[] = {"", " k", " M", " G", " T", " P"};
  auto v = static_cast<double>(value);
  int n = 0;
  for (; v >= 999.5 && n < 5; ++n) v /= 1000;
  return n == 0 ? std::to_string(value) : fmt::format("{:.3g}{}", v, units[n]);
}

float draw_switch(Painter& p, const SceneContext& c, const Rect& r) {
  static constexpr const char* words[4][2] = {
      {"score", "score"}, {"rescales", "resc."}, {"mass", "mass"}, {"NaN", "NaN"}};
  const TextStyle plain = p.body(p.colours.dim);
  float need = 0;
  for (const auto& word : words) need += p.width(word[0], plain) + 10;
  const int which = need <= r.w ? 0 : 1;
  need = 0;
  for (const auto& word : words) need += p.width(word[which], plain);
  const float pad = std::max(2.f, (r.w - need) / 8);
  float x = r.x;
  p.box(r, p.colours.well, p.colours.line, 5);
  for (int n = 0; n < 4; ++n) {
    const float w = p.width(words[n][which], plain) + 2 * pad;
    const Rect segment{x, r.y, w, r.h};
    const bool on = static_cast<int>(c.options.map_colour) == n;
    if (on)
      p.box({segment.x + 1, segment.y + 1, segment.w - 2, segment.h - 2}, mix(p.colours.raised, p.colours.key, 0.25),
            p.colours.key, 4);
    p.text(segment, {kBody, Face::sans, on ? p.colours.ink : p.colours.dim, Align::centre, false}, words[n][which]);
    Hit hit;
    hit.target = Target::map_colour, hit.what = n;
    p.hit(segment, hit);
    x += w;
  }
  return r.bottom();
}

float draw_legend(Painter& p, const SceneContext& c, float x, float y, float w) {
  const Theme& t = p.colours;
  const MapColour mode = c.options.map_colour;
  const MapScale scale = map_scale(c.data.map.get(), mode);
  if (scale.any) {
    const std::string low = number(scale.low), high = number(scale.high);
    const float left = p.width(low, p.body(t.dim)), right = p.width(high, p.body(t.dim));
    p.text({x, y, left + 1, 18}, p.body(t.dim), low);
    p.text({x + w - right - 1, y, right + 1, 18}, p.body(t.dim, Align::right), high);
    if (w - left - right > 40)
      p.push(PaletteBar{p.pixels({x + left + 8, y + 4, w - left - right - 16, 10}), palette_of(mode)});
  } else {
    p.text({x, y, w, 18}, p.body(t.dim), "not scanned yet");
  }
  y += 22;
  struct Entry {
    Colour fill, stroke;
    const char* word;
    int mark;  // 1: hatched, 2: hatched both ways, -1: diagonal
  };
  const Colour sample = lut(palette_of(mode), c.options.dark)[180], none{0, 0, 0, 0};
  const Schedule& schedule = *c.data.schedule;
  const ScanTotals& totals = c.data.totals;
  const Shape& shape = schedule.shape();
  std::vector<Entry> entries = {{none, t.amber, "now", 0}, {mix(t.panel, sample, 0.4), none, "to come", 0}};
  // What is left out stands apart from what is gone through without a visible key: by standard attention, by
  // --skip none, and where the schedule cannot know of a file's mask.
  const bool standard = c.recipe().algorithm == Algorithm::standard;
  const std::int64_t skipped = standard ? 0 : shape.heads * schedule.Tr() * schedule.Tc() - schedule.tiles();
  if (skipped > 0) entries.push_back({t.masked, none, "skipped", 1});
  if (totals.masked > skipped || (standard && !schedule.mask().none()))
    entries.push_back({t.raised, none, "masked", 2});
  if (!schedule.mask().none()) entries.push_back({sample, none, "partial", -1});
  if (totals.nan > 0 && mode != MapColour::nan_count) entries.push_back({t.nan, none, "NaN", 0});
  if (!totals.complete) entries.push_back({t.raised, t.masked_hatch, "not reached", 0});
  float at = x;
  for (const Entry& entry : entries) {
    const float need = 18 + p.width(entry.word, p.body(t.dim));
    if (at + need > x + w) at = x, y += 20;
    p.box({at, y + 3, 13, 13}, entry.fill, entry.stroke, 2, 1.5f);
    if (entry.mark > 0) p.line({at + 1, y + 15}, {at + 12, y + 4}, t.masked_hatch, 1.5f);
    if (entry.mark > 1) p.line({at + 1, y + 4}, {at + 12, y + 15}, t.masked_hatch, 1.5f);
    if (entry.mark < 0) p.line({at + 1, y + 4}, {at + 12, y + 15}, t.panel, 1.5f);
    p.text({at + 18, y, need - 17, 19}, p.body(t.dim), entry.word);
    at += need + 13;
  }
  return y + 22;
}

// One quantity of the whole run as a bar with its words on it; the part that has been moved so far is solid.
void bar(Painter& p, const Rect& r, const char* name, std::int64_t so_far, std::int64_t total, std::int64_t whole,
         Colour colour) {
  const Theme& t = p.colours;
  const Rect track{r.x, r.y + 1, r.w, r.h - 3};
  const auto w = [&](std::int64_t n) {
    return track.w * static_cast<float>(static_cast<double>(n) / static_cast<double>(std::max<std::int64_t>(whole, 1)));
  };
  p.box(track, t.well);
  p.box({track.x, track.y, std::max(1.f, w(total)), track.h}, mix(t.well, colour, 0.22));
  if (so_far > 0) p.box({track.x, track.y, std::max(2.f, w(so_far)), track.h}, mix(t.well, colour, 0.62));
  const std::string value = elements(total);
  const float right = p.width(value, p.body(t.ink));
  p.text({r.right() - right - 7, r.y, right + 1, r.h - 1}, p.body(t.ink, Align::right), value);
  p.text({r.x + 6, r.y, r.w - right - 18, r.h - 1}, p.body(t.ink), name);
}

void draw_traffic(Painter& p, const SceneContext& c, const Rect& r) {
  const Theme& t = p.colours;
  const StageData& d = c.data;
  float y = r.y;
  const auto row = [&](float h) {
    const Rect place{r.x, y, r.w, h};
    y += h;
    return place;
  };
  const auto fits = [&](float h) { return y + h <= r.bottom() + 0.5f; };
  const std::int64_t run_so_far = d.traffic_so_far.elements.total().total(),
                     run = d.traffic_total.elements.total().total();
  const std::string so_far = elements(run_so_far), all = elements(run);
  const Rect heading = row(22);
  const float title = p.text(heading, p.label(t.ink), {"HBM traffic"});
  p.text({heading.x + title + 8, heading.y, heading.w - title - 8, heading.h}, p.body(t.dim, Align::right),
         {d.beside ? "elements, left" : "elements", ""});
  if (fits(24)) {
    const Rect place = row(24);
    const float used = p.text(place, p.number(t.ink), {so_far + " of " + all, so_far});
    p.text({place.x + used + 8, place.y, place.w - used - 8, place.h}, p.body(t.dim, Align::right),
           {"so far, counted", "so far", ""});
  }
  if (fits(20)) p.text(row(20), p.body(t.dim), {"whole run (solid: so far)", "whole run"});
  const std::int64_t floor = d.minimum.elements.total();
  const std::int64_t whole = std::max({d.standard_elements_total, run, floor});
  if (fits(22))
    bar(p, row(22), "standard, formula", d.standard_elements_so_far, d.standard_elements_total, whole, t.dim);
  if (fits(22)) bar(p, row(22), "this run, counted", run_so_far, run, whole, t.key);
  if (fits(22)) bar(p, row(22), "I/O minimum, bound", 0, floor, whole, t.query);
  if (fits(20)) {
    const Rect place = row(20);
    if (d.formula.elements) {
      const bool equal = d.formula.elements->total() == run;
      const std::string same = equal ? "=" : "is not";
      p.text(place, p.body(equal ? t.good : t.nan),
             {fmt::format("formula {} counted {}", same, count(run)), fmt::format("formula {} {}", same, count(run)),
              equal ? "formula = counted" : "formula differs"});
    } else {
      p.text(place, p.body(t.dim), {"no formula: " + d.formula.reason, "no formula"});
    }
  }
  if (fits(20) && c.recipe().algorithm != Algorithm::standard) {
    // What the run reads of a file's mask is in its sum and no loss by skipping.
    const Traffic& moved = d.traffic_total.elements;
    const std::int64_t mask = moved[Operand::mask].total() + moved[Operand::bias].total();
    const std::string tiling = elements(d.saving.by_tiling()), skipping = elements(d.saving.by_skipping() + mask);
    const std::string more = mask > 0 ? fmt::format("; mask reads {} more", elements(mask)) : "";
    p.text(row(20), p.body(t.dim),
           {fmt::format("saved: tiling {}, skipping {}{}", tiling, skipping, more),
            fmt::format("saved: tiling {}, skip {}{}", tiling, skipping, more),
            fmt::format("tiling {}, skip {}{}", tiling, skipping, mask > 0 ? ", mask +" + elements(mask) : ""),
            fmt::format("tiling {}, skip {}", tiling, skipping), ""});
  }
}

}  // namespace

void draw_tiles(Painter& p, const SceneContext& c, const Rect& r) {
  const Theme& t = p.colours;
  p.panel(r);
  const Rect head{r.x + kPad, r.y + 8, r.w - 2 * kPad, 26};
  if (!c.ready()) return;
  const Schedule& schedule = *c.data.schedule;
  const std::int64_t Tr = schedule.Tr(), Tc = schedule.Tc();
  const float title =
      p.text(head, {kNumber, Face::bold, t.ink, Align::left, false}, c.data.beside ? "Tiles, left" : "Tiles");
  p.text({head.x + title + 8, head.y, head.w - title - 8, head.h}, p.number(t.dim, Align::right),
         {fmt::format("{} x {}", count(Tr), count(Tc)), ""});
  float y = draw_switch(p, c, {head.x, head.bottom() + 4, head.w, 24}) + 8;

  constexpr float kTraffic = 180, kLegend = 64;
  const bool legend = r.bottom() - y > 90 + kLegend + 110;
  const float traffic = std::clamp(r.bottom() - y - 90 - (legend ? kLegend : 0), 48.f, kTraffic);
  const float space = r.bottom() - 8 - traffic - (legend ? kLegend : 0) - y - 6;
  const Shape shape = schedule.shape();
  const float aspect =
      static_cast<float>(std::clamp(static_cast<double>(shape.Nk) / static_cast<double>(shape.Nq), 0.05, 20.0));
  const float h = std::clamp(std::min(space, head.w / aspect), 12.f, std::max(12.f, space)),
              w = std::clamp(h * aspect, 12.f, head.w);
  const Rect map{head.x + std::round((head.w - w) / 2), y, w, h};
  const Camera& camera = c.input.map_camera;
  const TileMap view{p.pixels(map), camera.top * static_cast<double>(Tr),
                     (camera.bottom - camera.top) * static_cast<double>(Tr), camera.left * static_cast<double>(Tc),
                     (camera.right - camera.left) * static_cast<double>(Tc)};
  p.push(view);
  p.scene.map = view.rect;
  Hit hit;
  hit.target = Target::map_tile;
  hit.row0 = view.i0, hit.rows = view.rows, hit.col0 = view.j0, hit.cols = view.cols;
  p.hit(map, hit);
  // Where one tile is a pixel or less, a cross of hair lines finds the current one.
  const TraceState& s = c.state();
  if (s.i >= 0 && (map.h / static_cast<float>(view.rows) < 6 || map.w / static_cast<float>(view.cols) < 6)) {
    const float v = (static_cast<float>(s.i - view.i0) + 0.5f) / static_cast<float>(view.rows);
    const float u = (static_cast<float>(s.j - view.j0) + 0.5f) / static_cast<float>(view.cols);
    if (v >= 0 && v < 1) p.box({map.x - 7, map.y + map.h * v - 1, 6, 2}, t.amber);
    if (s.j >= 0 && u >= 0 && u < 1) p.box({map.x + map.w * u - 1, map.y - 7, 2, 6}, t.amber);
  }
  y = map.bottom() + 6;
  if (legend) y = draw_legend(p, c, head.x, y, head.w);
  y = std::max(y, r.bottom() - 8 - traffic);
  p.line({r.x + kPad, y - 4}, {r.right() - kPad, y - 4}, t.line);
  draw_traffic(p, c, {head.x, y, head.w, r.bottom() - 6 - y});
}

}  // namespace flashscope::viz
