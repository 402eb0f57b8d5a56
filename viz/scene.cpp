#include "viz/scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/formula_line.h"
#include "viz/scene_parts.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

constexpr float kMargin = 16;

struct Layout {
  Rect header, formula, memory, crossing, chip, tiles, run;
};

Layout lay_out(float w, float h) {
  Layout l;
  const float inner = w - 2 * kMargin;
  l.header = {kMargin, 6, inner, 34};
  l.formula = {kMargin, 44, inner, 60};
  const float run_h = std::clamp(h * 0.16f, 114.f, 150.f);
  l.run = {kMargin, h - 10 - run_h, inner, run_h};
  const float y = l.formula.bottom() + 10, main_h = l.run.y - 10 - y;
  const float tiles = std::clamp(inner * 0.216f, 206.f, 330.f);
  const float memory = std::clamp(inner * 0.22f, 196.f, 380.f);
  const float crossing = std::clamp(inner * 0.08f, 84.f, 130.f);
  l.memory = {kMargin, y, memory, main_h};
  l.crossing = {l.memory.right(), y, crossing, main_h};
  l.tiles = {w - kMargin - tiles, y, tiles, main_h};
  l.chip = {l.crossing.right(), y, l.tiles.x - kGap - l.crossing.right(), main_h};
  return l;
}

// The stages one can step to from here: those of this row block and tile, or of the three passes.
struct StageWord {
  TraceStage stage;
  std::int64_t K;  // where a click goes; -1: not from here
};
std::vector<StageWord> stage_words(const SceneContext& c) {
  const TraceState& s = c.state();
  const Schedule& schedule = *c.data.schedule;
  const auto at = [&](std::int64_t i, std::int64_t j, TraceStage stage) {
    const auto k = schedule.find(s.head, i, j, stage);
    return StageWord{stage, k ? *k + 1 : -1};
  };
  const std::int64_t i = std::max<std::int64_t>(s.i, 0);
  std::vector<StageWord> words;
  using enum flashscope::Stage;  // clang wants the enumeration itself, not its alias
  if (c.recipe().algorithm == Algorithm::standard) {
    for (TraceStage stage : {load_q, scores, mask, store_s, load_s, softmax, store_p, load_p, accumulate, store_o})
      words.push_back(at(i, -1, stage));
    return words;
  }
  const bool flash1 = c.recipe().algorithm == Algorithm::flash1;
  std::int64_t j = s.j;
  if (j < 0 && schedule.visits(s.head, i) > 0) {
    const bool after = s.step && (s.step->stage == finish || s.step->stage == store);
    j = schedule.visit_j(s.head, i, after ? schedule.visits(s.head, i) - 1 : 0);
  }
  words.push_back(flash1 ? at(-1, j, load_kv) : at(i, -1, load_q));
  for (TraceStage stage : schedule.tile_stages()) words.push_back(at(i, j, stage));
  words.push_back(at(i, -1, finish));
  if (!flash1) words.push_back(at(i, -1, store));
  return words;
}

float draw_stages(Painter& p, const SceneContext& c, const Rect& r, float least_x) {
  const Theme& t = p.colours;
  const auto words = stage_words(c);
  const auto style = p.body(t.dim);
  constexpr float kPadding = 12, kBetween = 2;
  float need = 0;
  for (const StageWord& word : words) need += p.width(label(word.stage), style) + kPadding + kBetween;
  const bool whole = need <= r.right() - least_x;
  const float small = 16;
  if (!whole) {  // only the current one in words
    need = 0;
    for (const StageWord& word : words) {
      const bool now = c.state().step && c.state().step->stage == word.stage;
      need += (now ? p.width(label(word.stage), style) + kPadding : small) + kBetween;
    }
    if (need > r.right() - least_x) return r.right();
  }
  float x = r.right() - need;
  const float start = x;
  for (const StageWord& word : words) {
    const bool now = c.state().step && c.state().step->stage == word.stage;
    const float w = whole || now ? p.width(label(word.stage), style) + kPadding : small;
    const Rect pill{x, r.y + 5, w, r.h - 10};
    p.box(pill, now ? t.amber : t.raised, {0, 0, 0, 0}, 5);
    const Colour ink = now ? t.background : word.K >= 0 ? t.ink : t.faint;
    if (whole || now) p.text(pill, {kBody, Face::sans, ink, Align::centre, false}, label(word.stage));
    if (word.K >= 0) {
      Hit hit;
      hit.target = Target::stage, hit.K = word.K;
      p.hit(pill, hit);
    }
    x += w + kBetween;
  }
  return start;
}

// A few lines of text in a box near the pointer, inside the window.
void draw_tooltip(Painter& p, const std::string& text, Point pointer, float width, float height) {
  const Theme& t = p.colours;
  std::vector<std::string> lines;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  float w = 0;
  for (std::size_t n = 0; n < lines.size(); ++n)
    w = std::max(w, p.width(lines[n], n == 0 ? p.label(t.ink) : p.body(t.ink)));
  const float h = 21 * static_cast<float>(lines.size()) + 14;
  w += 24;
  float x = pointer.x / p.unit + 16, y = pointer.y / p.unit + 18;
  if (x + w > width - 4) x = pointer.x / p.unit - 12 - w;
  if (y + h > height - 4) y = pointer.y / p.unit - 10 - h;
  x = std::clamp(x, 4.f, std::max(4.f, width - w - 4)), y = std::clamp(y, 4.f, std::max(4.f, height - h - 4));
  p.box({x, y, w, h}, mix(t.panel, t.background, 0.4), t.line_strong, 6);
  for (std::size_t n = 0; n < lines.size(); ++n)
    p.text({x + 12, y + 7 + 21 * static_cast<float>(n), w - 22, 21}, n == 0 ? p.label(t.ink) : p.body(t.ink), lines[n]);
}

Rect notice_room(const Layout& l, bool two) {
  const Rect wide{l.memory.x + kPad, l.memory.y, l.chip.right() - l.memory.x - 2 * kPad, l.memory.h - 6};
  const Rect gap{l.memory.x + kPad, l.memory.y, l.chip.x - l.memory.x - 2 * kPad, l.memory.h - 54};
  return two ? wide : gap;
}

void draw_message(Painter& p, const std::string& message, const Rect& main) {
  const Theme& t = p.colours;
  const float w = std::min(p.width(message, p.label(t.ink)) + 32, main.w - 80);
  const Rect r{main.x + (main.w - w) / 2, main.bottom() - 46, w, 34};
  p.box(r, t.raised, t.amber, 8, 1.5f);
  p.text({r.x + 16, r.y, r.w - 32, r.h}, p.label(t.ink, Align::centre), message);
}

}  // namespace

float unit_of(float width, float height, float scale) {
  const float fit = std::min(width / 1280, height / 720);
  const float least = 0.86f * scale;  // text stays readable on a small window; the layout gives up space instead
  return std::floor(std::max(fit, least) * 16 + 0.001f) / 16;
}

Rect notice_place(float width, float height, float scale, bool two) {
  const float unit = unit_of(width, height, scale);
  const Rect room = notice_room(lay_out(width / unit, height / unit), two);
  return {room.x * unit, room.y * unit, room.w * unit, room.h * unit};
}

std::pair<std::int64_t, std::int64_t> head_steps(const Schedule& schedule, std::int64_t head) {
  const Algorithm algorithm = schedule.recipe().algorithm;
  const TraceStage last = algorithm == Algorithm::standard ? TraceStage::store_o
                          : algorithm == Algorithm::flash2 ? TraceStage::store
                                                           : TraceStage::finish;
  const auto end = [&](std::int64_t h) {
    return h < 0 ? 0 : schedule.find(h, schedule.Tr() - 1, -1, last).value_or(schedule.steps() - 1) + 1;
  };
  return {end(head - 1), end(head)};
}

std::array<Range, kChipBuffers> finite_ranges(const StageData& data) {
  std::array<Range, kChipBuffers> ranges;
  for (int n = 0; n < kChipBuffers; ++n) {
    Range& range = ranges[n] = finite_range(heat_source(data, static_cast<ChipBuffer>(n)));
    if (!data.beside) continue;
    const Range other = finite_range(heat_source(*data.beside, static_cast<ChipBuffer>(n)));
    if (!other.any) continue;
    range.low = range.any ? std::min(range.low, other.low) : other.low;
    range.high = range.any ? std::max(range.high, other.high) : other.high;
    range.any = true;
  }
  return ranges;
}

Place place_at(const Scene& scene, Point point) {
  for (auto hit = scene.hits.rbegin(); hit != scene.hits.rend(); ++hit) {
    if (!hit->rect.contains(point.x, point.y)) continue;
    Place place{hit->target, hit->what, -1, -1, hit->K, hit->side};
    const double u = (point.x + 0.5 - hit->rect.x) / hit->rect.w, v = (point.y + 0.5 - hit->rect.y) / hit->rect.h;
    if (hit->rows > 0)
      place.row = static_cast<std::int64_t>(std::floor(hit->row0 + std::min(v, 0.999999999) * hit->rows));
    if (hit->cols > 0)
      place.col = static_cast<std::int64_t>(std::floor(hit->col0 + std::min(u, 0.999999999) * hit->cols));
    if (hit->target == Target::strip) place.K = std::llround(hit->col0 + u * hit->cols), place.col = -1;
    return place;
  }
  return {};
}

std::int64_t row_of(const StageData& data, const Place& place) {
  const auto buffer = static_cast<ChipBuffer>(place.what);
  if (!data.state || place.target != Target::chip_cell || buffer == ChipBuffer::K || buffer == ChipBuffer::V) return -1;
  return (place.side && data.beside ? *data.beside : data).state->row0 + place.row;
}

void draw_header(Painter& p, const SceneContext& c, const Rect& r) {
  const Theme& t = p.colours;
  if (!c.ready()) {
    p.text(r, {kTitle, Face::bold, t.ink, Align::left, false}, "flashscope");
    return;
  }
  const TraceState& s = c.state();
  const Schedule& schedule = *c.data.schedule;
  float x = r.x +
            p.text({r.x, r.y, r.w * 0.4f, r.h}, {kTitle, Face::bold, t.ink, Align::left, false},
                   label(c.recipe().algorithm)) +
            12;
  // An order that is not the usual one decides what is seen here: it stays longest.
  const bool unusual = c.recipe().algorithm != Algorithm::standard && c.recipe().order != Order::forward;
  const std::string order = loop_order(c.recipe());
  const TextStyle order_style = p.body(unusual ? t.ink : t.dim);
  const float order_w = unusual ? p.width(order, order_style) + 18 : 0;
  const auto block = [](const char* letter, std::int64_t n, std::int64_t all) {
    return n < 0 ? std::string{} : fmt::format("{} = {} of {}", letter, n, all);
  };
  const std::string i = block("i", s.i, schedule.Tr()), j = block("j", s.j, schedule.Tc());
  const std::string place = i + (i.empty() || j.empty() ? "" : "   ") + j;
  const auto number_style = p.number(t.ink);
  const float stages =
      draw_stages(p, c, r, x + order_w + std::max(150.f, unusual ? p.width(place, number_style) + 15 : 0));
  const float room = stages - 14 - x;
  const float place_w = std::min(p.width(place, number_style) + 1, room);
  if (unusual)
    x += p.text({x, r.y, room, r.h}, order_style, {order, "reverse"}) + 18;
  else if (room - place_w > 30 && p.width(order, order_style) < room - place_w - 18)
    x += p.text({x, r.y, room - place_w - 14, r.h}, order_style, order) + 18;
  p.text({x, r.y, stages - 14 - x, r.h}, number_style, {place, i, ""});
}

void draw_formula(Painter& p, const SceneContext& c, const Rect& r) {
  const Theme& t = p.colours;
  p.panel(r);
  const Place& pointed = p.scene.pointed;
  std::int64_t key = -1;
  if (c.ready() && pointed.target == Target::chip_cell) {
    const auto buffer = static_cast<ChipBuffer>(pointed.what);
    const TraceState& s = pointed.side && c.data.beside ? *c.data.beside->state : c.state();
    if (buffer == ChipBuffer::K || buffer == ChipBuffer::S || buffer == ChipBuffer::P) key = s.col0 + pointed.col;
    if (buffer == ChipBuffer::V) key = s.col0 + pointed.row;
  }
  p.scene.focus_row = focus_row(c.data, row_of(c.data, pointed));
  FormulaLine line = formula_line(c.data, p.scene.focus_row, key);
  if (c.data.beside)
    for (std::string& text : line.texts) text.insert(0, "left: ");
  const Rect upper{r.x + kPad, r.y + 5, r.w - 2 * kPad, 28}, lower{r.x + kPad, r.y + 34, r.w - 2 * kPad, 22};
  const TextStyle style{kNumber, Face::mono, line.nan ? t.nan : t.amber, Align::left, true};
  const auto fit = std::find_if(line.texts.begin(), line.texts.end(),
                                [&](const std::string& one) { return p.width(one, style) <= upper.w; });
  if (!line.texts.empty()) p.text(upper, style, fit == line.texts.end() ? line.texts.back() : *fit);
  auto checks = check_line(c.data);
  if (c.data.beside)
    for (std::string& text : checks) text.insert(0, "left: ");
  const auto check = std::find_if(checks.begin(), checks.end(),
                                  [&](const std::string& one) { return p.width(one, p.body(t.dim)) <= lower.w; });
  if (!checks.empty())
    p.text(lower, p.body(t.ink), check == checks.end() ? checks.back() : *check);
  else if (c.ready())
    p.text(lower, p.body(t.dim),
           {"Point at a row for its numbers and checks; click to follow it across steps. Wheel: zoom into the tile, "
            "drag: move, double click: all.",
            "Point at a row for its numbers; click to follow it.", ""});
}

void draw_highlights(Painter& p, const SceneContext& c) {
  if (!c.ready()) return;
  const Theme& t = p.colours;
  const TraceState& s = c.state();
  const auto slot = [&](ChipBuffer b) { return p.scene.chip[static_cast<int>(b)]; };
  const Rect O = slot(ChipBuffer::O);
  const Camera& camera = c.input.camera;
  // A frame around rows [r, r+1) of the block, across all buffers of a chip.
  const auto frame_on = [&](const TraceState& s, const std::array<Rect, kChipBuffers>& chip, std::int64_t row,
                            Colour colour, float width) {
    const Rect Q = chip[static_cast<int>(ChipBuffer::Q)], O = chip[static_cast<int>(ChipBuffer::O)];
    if (row < s.row0 || row >= s.row0 + s.rows || Q.empty()) return;
    const double rows = static_cast<double>(s.rows);
    const double top = (static_cast<double>(row - s.row0) / rows - camera.top) / (camera.bottom - camera.top);
    const double h = 1 / rows / (camera.bottom - camera.top);
    if (top + h <= 0 || top >= 1) return;
    const float y = std::round(Q.y + static_cast<float>(std::max(top, 0.0)) * Q.h);
    const float bottom = std::round(Q.y + static_cast<float>(std::min(top + h, 1.0)) * Q.h);
    const float line = std::max(1.f, std::round(width * p.unit)), pad = 4 * p.unit;  // lies around the row, not on it
    p.push(Box{
        {std::round(Q.x - pad), y - line, std::round(O.right() - Q.x + 2 * pad), std::max(bottom - y, 1.f) + 2 * line},
        {0, 0, 0, 0},
        colour,
        line,
        1,
        false});
  };
  const auto row_frame = [&](std::int64_t row, Colour colour, float width) {
    frame_on(s, p.scene.chip, row, colour, width);
    if (c.data.beside && c.data.beside->state) frame_on(*c.data.beside->state, p.scene.chip_beside, row, colour, width);
  };
  for (std::int64_t row : c.data.pinned_rows) row_frame(row, t.query, 2);
  // While tiles move no row's numbers are told, unless one is pointed at.
  const bool told = c.data.transfers.empty() || row_of(c.data, p.scene.pointed) >= 0;
  if (p.scene.focus_row >= 0 && told) row_frame(p.scene.focus_row, t.amber, 1.6f);

  const Place& at = p.scene.pointed;
  const auto buffer = static_cast<ChipBuffer>(at.what);
  if (at.target == Target::chip_cell && at.side == 0) {
    std::int64_t key = -1;
    if (buffer == ChipBuffer::K || buffer == ChipBuffer::S || buffer == ChipBuffer::P) key = at.col;
    if (buffer == ChipBuffer::V) key = at.row;
    const Rect K = slot(ChipBuffer::K), S = p.scene.score, V = slot(ChipBuffer::V);
    const auto cols = static_cast<double>(std::max<std::int64_t>(s.cols, 1));
    if (key >= 0 && !K.empty()) {
      const double left = (static_cast<double>(key) / cols - camera.left) / (camera.right - camera.left),
                   w = 1 / cols / (camera.right - camera.left);
      if (left + w > 0 && left < 1) {
        const float x = K.x + static_cast<float>(std::max(left, 0.0)) * K.w,
                    right = K.x + static_cast<float>(std::min(left + w, 1.0)) * K.w;
        p.push(Box{{std::round(x) - 1, K.y - 2, std::max(2.f, std::round(right - x)) + 2, S.bottom() - K.y + 4},
                   {0, 0, 0, 0},
                   t.ink,
                   1,
                   1,
                   false});
      }
      if (!heat_source(c.data, ChipBuffer::V).empty()) {
        const auto part = static_cast<float>(V.h / cols);
        p.push(Box{{V.x - 2, std::round(V.y + part * static_cast<float>(key)) - 1, V.w + 4, std::max(2.f, part) + 2},
                   {0, 0, 0, 0},
                   t.ink,
                   1,
                   1,
                   false});
      }
    }
  }
  for (const Hit& hit : p.scene.hits)  // buttons answer the pointer
    if ((hit.target == Target::stage || hit.target == Target::map_colour || hit.target == Target::convention) &&
        hit.rect.contains(c.input.pointer.x, c.input.pointer.y) && c.input.pointer_inside)
      p.push(Box{hit.rect, {0, 0, 0, 0}, t.ink, 1, 5 * p.unit, false});

  if (c.input.flash > 0 && !s.alpha.empty() && s.step &&
      s.step->stage == TraceStage::rescale) {  // the rescaled rows flash
    const Rect place = slot(ChipBuffer::alpha);
    HeatMap flash;
    flash.buffer = ChipBuffer::alpha, flash.palette = Palette::alpha, flash.range = {0, 1, true};
    flash.row0 = camera.top * static_cast<double>(s.rows),
    flash.rows = (camera.bottom - camera.top) * static_cast<double>(s.rows);
    flash.cols = 1, flash.opacity = static_cast<float>(0.75 * c.input.flash);
    flash.rect = {O.x, O.y, O.w, O.h};
    if (!place.empty()) p.push(flash);
  }
}

Scene make_scene(const StageData& data, const StageOptions& options, const SceneInput& input) {
  Scene scene;
  const float unit = unit_of(input.width, input.height, input.scale);
  Painter p(scene, theme(options.dark), unit);
  const float w = input.width / unit, h = input.height / unit;
  const Layout l = lay_out(w, h);
  const SceneContext c{data, options, input};

  draw_header(p, c, l.header);
  const bool two = c.ready() && data.beside && data.beside->state;
  if (two) {
    draw_two_chips(p, c, {l.memory.x, l.memory.y, l.chip.right() - l.memory.x, l.memory.h});
  } else {
    draw_memory(p, c, l.memory);
    draw_chip(p, c, l.chip);
  }
  draw_tiles(p, c, l.tiles);
  draw_run(p, c, l.run);
  if (input.pointer_inside) scene.pointed = place_at(scene, input.pointer);
  draw_formula(p, c, l.formula);
  draw_highlights(p, c);
  scene.floating = scene.items.size();
  if (!two) draw_transfers(p, c, l.crossing);
  if (data.busy && !two)
    p.text({l.crossing.x + 2, l.crossing.y + 8, l.crossing.w - 4, 20}, p.body(p.colours.dim, Align::centre),
           {"computing…", ""});
  if (!data.message.empty())
    draw_message(p, data.message, {l.memory.x, l.memory.y, l.tiles.right() - l.memory.x, l.memory.h});
  scene.tooltip = read_out(data, options, scene.pointed);
  if (!scene.tooltip.empty()) draw_tooltip(p, scene.tooltip, input.pointer, w, h);
  return scene;
}

}  // namespace flashscope::viz
