// The chip, laid out as the matrix product it is: a row reads across (Q, S, m, alpha, l, O), a column
// reads down (K^T over S, V over O). Buffers that do not exist at this step leave an empty place.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/digits.h"
#include "viz/scene_parts.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

struct Slots {
  Rect Q, K, V, S, m, alpha, l, O;
};

// Shares of a length by the roots of sizes, which tell them apart and stay readable; none below `least`.
template <std::size_t n>
std::array<float, n> shares(const std::array<double, n>& sizes, const std::array<double, n>& weights,
                            const std::array<double, n>& least) {
  std::array<double, n> part;
  double sum = 0, total = 0;
  for (std::size_t k = 0; k < n; ++k) sum += part[k] = weights[k] * std::sqrt(std::max(sizes[k], 1.0));
  for (std::size_t k = 0; k < n; ++k) total += part[k] = std::max(part[k] / sum, least[k]);
  std::array<float, n> result;
  for (std::size_t k = 0; k < n; ++k) result[k] = static_cast<float>(part[k] / total);
  return result;
}

constexpr float kLabelRow = 26;

Slots lay_out(const Rect& r, const TraceState& s, const Shape& shape, std::int64_t cols) {
  constexpr float kBetween = 10;
  const auto d = static_cast<double>(shape.d), dv = static_cast<double>(shape.dv);
  const double rows = static_cast<double>(std::max<std::int64_t>(s.rows, 1));
  const float height = r.h - kLabelRow;
  const auto vertical = shares<2>({std::max(d, static_cast<double>(cols)), rows}, {1, 2}, {0.28, 0.4});
  const float top = std::round(height * vertical[0]), bottom = height - top;
  // Strips are wide enough for numbers where the rows are high enough for them.
  const float strip = bottom / static_cast<float>(rows) >= 18 && r.w > 480 ? 56 : 26;
  const float gap = strip > 40 ? kBetween : 16;  // room for the word alpha
  const float wide = r.w - 3 * strip - 2 * gap - 2 * kBetween - 8;
  const auto horizontal = shares<3>({d, static_cast<double>(cols), dv}, {0.95, 2, 1.3}, {0.18, 0.34, 0.24});
  const float q = std::round(wide * horizontal[0]), sw = std::round(wide * horizontal[1]), o = wide - q - sw;

  Slots slots;
  const float y0 = r.y, y1 = y0 + top + kLabelRow;
  float x = r.x;
  slots.Q = {x, y1, q, bottom};
  x += q + kBetween;
  slots.S = {x, y1, sw, bottom};
  slots.K = {x, y0, sw, top};
  x += sw + kBetween + 4;
  slots.m = {x, y1, strip, bottom};
  slots.alpha = {x + strip + gap, y1, strip, bottom};
  slots.l = {x + 2 * (strip + gap), y1, strip, bottom};
  x = r.right() - o;
  slots.O = {x, y1, o, bottom};
  slots.V = {x, y0, o, top};
  return slots;
}

// "-0.75" as "-.75", where that is all there is room for.
std::string without_leading_zero(std::string text) {
  if (const std::size_t at = text.find("0."); at == 0 || (at == 1 && text[0] == '-')) text.erase(at, 1);
  return text;
}

// Numbers inside the cells of a map, once they fit. NaN has a mark of its own.
void cell_numbers(Painter& p, const HeatMap& map, const HeatSource& source, const SceneContext& c, ChipBuffer buffer) {
  const StageOptions& options = c.options;
  const DType type = type_of(*c.data.problem, buffer);
  const float cell_w = map.rect.w / static_cast<float>(map.cols) / p.unit;
  const float cell_h = map.rect.h / static_cast<float>(map.rows) / p.unit;
  if (cell_w < 36 || cell_h < 18) return;
  const float x0 = map.rect.x / p.unit, y0 = map.rect.y / p.unit;
  const auto last_row = std::min<std::int64_t>(source.rows, static_cast<std::int64_t>(std::ceil(map.row0 + map.rows)));
  const auto last_col = std::min<std::int64_t>(source.cols, static_cast<std::int64_t>(std::ceil(map.col0 + map.cols)));
  for (auto r = static_cast<std::int64_t>(map.row0); r < last_row; ++r)
    for (auto col = static_cast<std::int64_t>(map.col0); col < last_col; ++col) {
      const Rect cell{x0 + static_cast<float>(col - map.col0) * cell_w, y0 + static_cast<float>(r - map.row0) * cell_h,
                      cell_w, cell_h};
      if (cell.x < x0 - 0.01f || cell.y < y0 - 0.01f) continue;
      if (cell.right() > x0 + map.rect.w / p.unit + 0.5f || cell.bottom() > y0 + map.rect.h / p.unit + 0.5f) continue;
      const double value = source.at(r, col);
      const bool visible = source.is_visible(r, col);
      const HeatTexel texel = heat_texel(value, visible, map.range);
      if (texel.mark == Mark::masked || texel.mark == Mark::nan) continue;
      const Colour under = texel.mark == Mark::value || texel.mark == Mark::masked_value
                               ? lut(map.palette, options.dark)[texel.index]
                           : texel.mark == Mark::minus_inf ? p.colours.well
                                                           : p.colours.nan;
      const bool light = 0.299 * under.r + 0.587 * under.g + 0.114 * under.b > 130;
      const TextStyle style{kBody, Face::mono, light ? Colour{12, 14, 20, 255} : Colour{245, 247, 250, 255},
                            Align::centre, false};
      const double shown = written(c.data, buffer, value);
      const std::string hex = options.show_hex ? hex_bits(type, shown) : number(shown);
      const std::string few = fmt::format("{:.2g}", shown);
      const std::string candidates[] = {hex, number(shown), fmt::format("{:.3g}", shown), few,
                                        without_leading_zero(few)};
      for (const std::string& text : candidates)
        if (p.width(text, style) <= cell_w - 2) {
          p.text(cell, style, text);
          break;
        }
    }
}

void map_of(Painter& p, const SceneContext& c, ChipBuffer buffer, const Rect& rect, bool follow_rows,
            bool follow_cols) {
  p.scene.chip[static_cast<int>(buffer)] = p.pixels(rect);
  const HeatSource source = heat_source(c.data, buffer);
  if (source.empty()) return;
  const Camera& camera = c.input.camera;
  HeatMap map;
  map.buffer = buffer, map.side = c.side;
  const auto rows = static_cast<double>(source.rows), cols = static_cast<double>(source.cols);
  map.row0 = follow_rows ? camera.top * rows : 0;
  map.rows = follow_rows ? (camera.bottom - camera.top) * rows : rows;
  map.col0 = follow_cols ? camera.left * cols : 0;
  map.cols = follow_cols ? (camera.right - camera.left) * cols : cols;
  map.range = c.input.ranges[static_cast<int>(buffer)];
  if (buffer == ChipBuffer::alpha) map.palette = Palette::alpha, map.range = {0, 1, true};
  const HeatMap drawn = p.heat(rect, map);
  cell_numbers(p, drawn, source, c, buffer);
  Hit hit;
  hit.target = Target::chip_cell, hit.what = static_cast<int>(buffer), hit.side = c.side;
  hit.row0 = map.row0, hit.rows = map.rows, hit.col0 = map.col0, hit.cols = map.cols;
  p.hit(rect, hit);
}

// Which buffers a stage reads and which it makes, for their frames.
struct Roles {
  bool reads(ChipBuffer b) const { return in & (1u << static_cast<int>(b)); }
  bool makes(ChipBuffer b) const { return out & (1u << static_cast<int>(b)); }
  unsigned in = 0, out = 0;
};
Roles roles(TraceStage stage) {
  const auto set = [](std::initializer_list<ChipBuffer> buffers) {
    unsigned bits = 0;
    for (ChipBuffer b : buffers) bits |= 1u << static_cast<int>(b);
    return bits;
  };
  using enum ChipBuffer;
  switch (stage) {
    case TraceStage::load_q:
      return {0, set({Q})};
    case TraceStage::load_k:
      return {0, set({K})};
    case TraceStage::load_v:
      return {0, set({V})};
    case TraceStage::load_kv:
      return {0, set({K, V})};
    case TraceStage::load_rows:
      return {0, set({Q, O, m, l})};
    case TraceStage::scores:
      return {set({Q, K}), set({S})};
    case TraceStage::mask:
      return {0, set({S})};
    case TraceStage::max:
      return {set({S}), set({m})};
    case TraceStage::exponentials:
      return {set({S, m}), set({P})};
    case TraceStage::rescale:
      return {set({m}), set({alpha, l, O})};
    case TraceStage::accumulate:
      return {set({P, V}), set({l, O})};
    case TraceStage::softmax:
      return {set({S}), set({P, m, l})};
    case TraceStage::finish:
      return {set({m, l}), set({O, LSE})};
    case TraceStage::load_s:
      return {0, set({S})};
    case TraceStage::load_p:
      return {0, set({P, V})};
    case TraceStage::store_s:
      return {set({S}), 0};
    case TraceStage::store_p:
      return {set({P}), 0};
    case TraceStage::store:
    case TraceStage::store_o:
      return {set({O, LSE}), 0};
    case TraceStage::store_rows:
      return {set({O, m, l}), 0};
  }
  return {};
}

// What a stage does to the buffer that it makes, to be read after the buffer's name.
std::string operation(TraceStage stage, ChipBuffer made, const Recipe& recipe) {
  const bool each = recipe.normalised() == Normalise::each;
  switch (stage) {
    case TraceStage::scores:
      return "= scale Q K^T";
    case TraceStage::mask: {
      const std::string into = masked_scores(recipe);
      return into.find(' ') == into.npos ? into + " where masked" : into;
    }
    case TraceStage::exponentials:
      return "= exp(S - m)";
    case TraceStage::softmax:
      return made == ChipBuffer::P ? "= exp(S - m) / l" : "";
    case TraceStage::rescale:
      return made == ChipBuffer::O ? "*= alpha" : "";
    case TraceStage::accumulate:
      return made != ChipBuffer::O                     ? ""
             : recipe.algorithm == Algorithm::standard ? "= P V"
             : each                                    ? "+= P V / l"
                                                       : "+= P V";
    case TraceStage::finish:
      return made == ChipBuffer::O && !each ? "/= l" : "";
    default:
      return "";
  }
}

struct Named {
  ChipBuffer buffer;
  Rect rect;
  Rect label;
  Align align;
  std::string name, detail;  // detail: where there is room
};

std::string block(const char* letter, std::int64_t n) {
  return n < 0 ? std::string(letter) : fmt::format("{}{}", letter, n);
}

// The name in bold with its detail behind it (above a slot) or below it (beside one).
void draw_name(Painter& p, const Named& n, Colour ink) {
  const TextStyle bold{n.rect.w < 50 ? kBody : kLabel, Face::bold, ink, n.align, false};
  if (n.align == Align::right || n.detail.empty()) {
    p.text(n.label, bold, {n.name, ""});
    if (!n.detail.empty())
      p.text({n.label.x, n.label.y + 20, n.label.w, 20}, p.body(p.colours.dim, n.align), {n.detail, ""});
    return;
  }
  const float first = p.width(n.name, bold), second = p.width(n.detail, p.body(ink));
  const float both = first + 7 + second;
  if (both > n.label.w) {
    p.text(n.label, bold, {n.name, ""});
    return;
  }
  const float x = n.label.x + (n.label.w - both) / 2;
  p.text({x, n.label.y, first + 1, n.label.h}, {bold.size, bold.face, ink, Align::left, false}, n.name);
  p.text({x + first + 7, n.label.y, second + 1, n.label.h}, p.body(ink == p.colours.amber ? ink : p.colours.dim),
         n.detail);
}

// All of a block's buffers: what the two lists at the bottom add up to.
std::int64_t all_bytes(const OnChip& chip) {
  std::int64_t sum = 0;
  for (const OnChip::BufferInfo& b : chip.buffers) sum += b.bytes;
  return sum;
}

// "Q 8, K 8, V 8 KiB"; the three columns of numbers together.
std::string buffer_list(const OnChip& chip, bool registers) {
  std::int64_t largest = 0, columns = 0;
  for (const OnChip::BufferInfo& b : chip.buffers) largest = std::max(largest, b.bytes);
  const double unit = largest < 2048 ? 1 : 1024;
  std::string list, names;
  const auto add = [&](std::string_view name, std::int64_t size) {
    const std::string value =
        unit == 1 ? std::to_string(size) : fmt::format("{:.3g}", static_cast<double>(size) / unit);
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", name, value);
  };
  for (const OnChip::BufferInfo& b : chip.buffers) {
    if (b.registers != registers) continue;
    if (b.name == "m" || b.name == "l" || b.name == "alpha") {
      columns += b.bytes;
      names += fmt::format("{}{}", names.empty() ? "" : " ", b.name);
    } else {
      add(b.name, b.bytes);
    }
  }
  if (columns > 0) add(names, columns);
  return list.empty() ? list : list + (unit == 1 ? " B" : " KiB");
}

void draw_bottom_lines(Painter& p, const SceneContext& c, const Rect& first, const Rect& second) {
  const TraceState& s = c.state();
  std::int64_t nan_rows = 0, rescaled = 0;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const auto n = static_cast<std::size_t>(r);
    nan_rows += (n < s.l.size() && std::isnan(s.l[n])) || (n < s.m.size() && std::isnan(s.m[n]));
    rescaled += n < s.rescaled.size() && s.rescaled[n];
  }
  if (nan_rows > 0)
    p.text(
        first, p.label(p.colours.nan),
        {fmt::format("{} of {} hold NaN in m or l", nan_rows, counted(s.rows, "row")), counted(nan_rows, "NaN row")});
  else if (rescaled > 0)
    p.text(first, p.label(p.colours.amber),
           {fmt::format("{} of {} met a larger score in this tile and {} rescaled", rescaled, counted(s.rows, "row"),
                        s.rows == 1 ? "is" : "are"),
            fmt::format("{} of {} rescaled in this tile", rescaled, counted(s.rows, "row")),
            fmt::format("{} rescaled", rescaled)});
  else if (s.j >= 0 && s.step && c.data.schedule->recipe().algorithm != Algorithm::standard)
    p.text(first, p.body(p.colours.dim),
           {fmt::format("tile ({}, {}): {} of {} of this row block folded in", s.i, s.j, s.folded,
                        counted(s.visits, "column block")),
            fmt::format("{} of {} folded in", s.folded, counted(s.visits, "column block"))});

  // Where the buffers are: two columns of a legend.
  const std::string shared = buffer_list(c.data.on_chip, false), registers = buffer_list(c.data.on_chip, true);
  if (shared.empty() && registers.empty()) return;
  const TextStyle style = p.body(p.colours.dim);
  for (const auto& [before, between] : {std::pair{"shared memory: ", "    registers: "},
                                        std::pair{"shared: ", "  registers: "}, std::pair{"", " | "}}) {
    const std::string line = (shared.empty() ? "" : before + shared) + (registers.empty() ? "" : between + registers);
    if (p.width(line, style) > second.w && before[0] != 0) continue;
    p.text(second, style, line);
    return;
  }
}

}  // namespace

void draw_chip(Painter& p, const SceneContext& c, const Rect& r) {
  const Theme& t = p.colours;
  p.box(r, t.panel, t.line_strong, 8);
  const Rect head{r.x + kPad, r.y + 8, r.w - 2 * kPad, 26};
  const bool budgeted = c.ready() && c.recipe().sram && c.recipe().algorithm != Algorithm::standard;
  const TextStyle title_style{kNumber, Face::bold, t.ink, Align::left, false};
  const float title =
      !c.heading.empty()
          ? p.text({head.x, head.y, head.w - 80, head.h}, {kLabel, Face::bold, t.ink, Align::left, false},
                   (c.side == 0 ? "left: " : "right: ") + c.heading)
      : budgeted && head.w < 640
          ? p.text(head, title_style, "On chip")
          : p.text({head.x, head.y, head.w * 0.45f, head.h}, title_style, {"On chip, one block", "On chip"});
  if (!c.ready()) return;
  const TraceState& s = c.state();
  const Shape shape = c.data.problem->shape();

  // Bytes against the budget.
  const bool standard = c.recipe().algorithm == Algorithm::standard;
  const Rect right{head.x + title + 16, head.y, head.w - title - 16, head.h};
  const std::int64_t used = all_bytes(c.data.on_chip);
  if (standard) {
    p.text(right, p.body(t.dim, Align::right), {"idealised, no SRAM budget", "no SRAM budget"});
  } else if (c.recipe().sram) {
    const std::int64_t budget = *c.recipe().sram * size_of(shape.type);
    const double share = static_cast<double>(used) / static_cast<double>(std::max<std::int64_t>(budget, 1));
    const float bar = std::min(150.f, right.w * 0.35f);
    p.text({right.x, right.y, right.w - bar - 10, right.h}, p.number(share > 1 ? t.amber : t.ink, Align::right),
           {fmt::format("{} of {}, {:.0f} %", bytes(used), bytes(budget), 100 * share),
            fmt::format("{:.0f} %", 100 * share)});
    const Rect track{right.right() - bar, right.y + 7, bar, 12};
    p.box(track, t.well, t.line, 6);
    p.box({track.x, track.y, std::max(6.f, bar * static_cast<float>(std::min(share, 1.0))), track.h},
          share > 1 ? t.amber : t.key, {0, 0, 0, 0}, 6);
  } else {
    p.text(right, p.number(t.ink, Align::right), {bytes(used) + ", no budget set", bytes(used)});
  }

  const Rect body{r.x + kPad, head.bottom() + 10, r.w - 2 * kPad, r.h - 44 - 60};
  const std::int64_t cols = standard ? shape.Nk : s.cols > 0 ? s.cols : std::min(c.recipe().Bc, shape.Nk);
  const Slots slots = lay_out(body, s, shape, cols);
  p.scene.score = p.pixels(slots.S);
  const bool weights = !s.P.empty();
  const bool lse = !s.LSE.empty();
  const bool unfinished = c.recipe().normalised() == Normalise::end && !s.finished && !standard && s.step;
  const std::string rows = std::to_string(s.rows > 0 ? s.rows : std::min(c.recipe().Br, shape.Nq));
  const auto above = [](const Rect& slot) {
    const float side = slot.w < 50 ? 14 : 4;  // room for the word alpha
    return Rect{slot.x - side, slot.y - kLabelRow + 1, slot.w + 2 * side, kLabelRow - 4};
  };
  const auto beside = [](const Rect& slot, float from) {
    return Rect{from, slot.y + slot.h / 2 - 20, slot.x - 8 - from, 22};
  };
  using enum ChipBuffer;
  Named named[] = {
      {Q, slots.Q, above(slots.Q), Align::centre, block("Q", s.i), ""},
      {K, slots.K, beside(slots.K, body.x), Align::right, block("K", s.j) + "^T",
       fmt::format("{} x {}", shape.d, cols)},
      {V, slots.V, beside(slots.V, slots.K.right() + 4), Align::right, block("V", s.j),
       fmt::format("{} x {}", cols, shape.dv)},
      {weights ? P : S, slots.S, above(slots.S), Align::centre, weights ? "P tile" : "S tile",
       fmt::format("{} x {}", rows, cols)},
      {m, slots.m, above(slots.m), Align::centre, "m", ""},
      {lse ? LSE : alpha, slots.alpha, above(slots.alpha), Align::centre, lse ? "LSE" : "alpha", ""},
      {l, slots.l, above(slots.l), Align::centre, "l", ""},
      {O, slots.O, above(slots.O), Align::centre, block("O", s.i), unfinished ? "un-normalised" : ""},
  };
  const Roles role = s.step ? roles(s.step->stage) : Roles{};
  for (Named& n : named) {
    if (standard && n.buffer == alpha) continue;  // nothing is ever rescaled
    if (role.makes(n.buffer))
      if (const std::string does = operation(s.step->stage, n.buffer, c.recipe()); !does.empty()) n.detail = does;
    const bool exists = !heat_source(c.data, n.buffer).empty();
    p.box(n.rect, exists ? t.well : t.panel, t.line, 0, 1, !exists);
    map_of(p, c, n.buffer, n.rect, n.buffer != K && n.buffer != V, n.buffer == K || n.buffer == S || n.buffer == P);
    Colour ink = t.ink;
    if (n.buffer == Q) ink = t.query;
    if (n.buffer == K || n.buffer == V) ink = t.key;
    if (role.makes(n.buffer)) ink = t.amber;
    if (!exists) ink = t.faint;
    draw_name(p, n, ink);
    const Rect frame{n.rect.x - 2, n.rect.y - 2, n.rect.w + 4, n.rect.h + 4};
    if (role.makes(n.buffer) && exists) p.box(frame, {0, 0, 0, 0}, t.amber, 2, 2);
    if (role.reads(n.buffer) && exists) p.box(frame, {0, 0, 0, 0}, t.key, 2, 1.5f);
    draw_differences(p, c, n.buffer, n.rect, c.shift);  // over the frames: of one cell they are as large
  }
  const float y = slots.S.bottom() + 11;  // transfers pass between
  draw_bottom_lines(p, c, {body.x, y, body.w, 22}, {body.x, y + 23, body.w, 22});
}

}  // namespace flashscope::viz
