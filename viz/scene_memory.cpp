// HBM: the tensors with one scale for all rows and one for all columns, so that areas compare; S and P
// only where the algorithm stores them, else the bytes they would take.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/scene_parts.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

struct Column {
  Operand operand;
  std::int64_t rows, cols;
  float width = 0, slot = 0;
};

Colour colour_of(const Theme& t, Operand operand) {
  switch (operand) {
    case Operand::Q:
      return t.query;
    case Operand::K:
    case Operand::V:
      return t.key;
    case Operand::O:
      return t.amber;
    default:
      return t.line_strong;
  }
}

// Rows of O (and LSE) that lie final in HBM in this state.
std::int64_t stored_rows(const SceneContext& c) {
  const TraceState& s = c.state();
  if (!s.step || s.i < 0) return s.K == s.steps && s.K > 0 ? c.data.problem->shape().Nq : 0;
  const TraceStage stage = s.step->stage;
  switch (c.recipe().algorithm) {
    case Algorithm::flash2:
      return s.row0 + (stage == TraceStage::store ? s.rows : 0);
    case Algorithm::flash1:
      return stage == TraceStage::finish ? s.row0 + s.rows : 0;
    case Algorithm::standard:
      if (stage == TraceStage::store_o) return s.row0 + s.rows;
      return stage == TraceStage::load_p || stage == TraceStage::accumulate ? s.row0 : 0;
  }
  return 0;
}

// Rows of S and P that have been stored (standard).
std::pair<std::int64_t, std::int64_t> stored_scores(const SceneContext& c) {
  const TraceState& s = c.state();
  const std::int64_t all = c.data.problem->shape().Nq;
  if (!s.step) return {0, 0};
  switch (s.step->stage) {
    case TraceStage::load_q:
    case TraceStage::scores:
    case TraceStage::mask:
      return {s.row0, 0};
    case TraceStage::store_s:
      return {s.row0 + s.rows, 0};
    case TraceStage::load_s:
    case TraceStage::softmax:
      return {all, s.row0};
    case TraceStage::store_p:
      return {all, s.row0 + s.rows};
    default:
      return {all, all};
  }
}

void tile_lines(Painter& p, const Rect& r, std::int64_t rows, std::int64_t size) {
  const float step = r.h * static_cast<float>(size) / static_cast<float>(std::max<std::int64_t>(rows, 1));
  if (step * p.unit < 5) return;
  for (std::int64_t n = 1; n * size < rows; ++n) {
    const float y = r.y + step * static_cast<float>(n);
    p.line({r.x, y}, {r.right() - 1 / p.unit, y}, with_alpha(p.colours.line_strong, 0.6));
  }
}

Rect tile_rect(const Rect& r, std::int64_t rows, std::int64_t row0, std::int64_t count) {
  const float per_row = r.h / static_cast<float>(std::max<std::int64_t>(rows, 1));
  const float h = std::max(3.f, per_row * static_cast<float>(count));
  const float y = std::min(r.y + per_row * static_cast<float>(row0), r.bottom() - h);
  return {r.x, std::max(y, r.y), r.w, std::min(h, r.h)};
}

void draw_tensor(Painter& p, const SceneContext& c, const Column& column, const Rect& r) {
  const Theme& t = p.colours;
  const TraceState& s = c.state();
  const bool keys = column.operand == Operand::K || column.operand == Operand::V;
  const std::int64_t size = keys ? c.recipe().Bc : c.recipe().Br;
  p.box(r, t.well, t.line, 0);
  if (!keys && column.operand != Operand::Q) {
    const std::int64_t done = stored_rows(c);
    if (column.operand == Operand::O && c.data.o_row_norm && !c.data.o_row_norm->empty()) {
      HeatMap map;
      map.buffer = ChipBuffer::o_norm;
      map.rows = static_cast<double>(c.data.o_row_norm->size()), map.cols = 1;
      map.range = c.input.ranges[static_cast<int>(ChipBuffer::o_norm)];
      map.done_rows = static_cast<double>(done);
      p.heat(r, map);
    } else if (done > 0) {
      p.box(tile_rect(r, column.rows, 0, done), mix(t.well, t.amber, 0.35));
    }
  }
  tile_lines(p, r, column.rows, size);
  const std::int64_t block = keys ? s.j : s.i;
  if (block >= 0) {
    const std::int64_t row0 = keys ? s.col0 : s.row0, count = keys ? s.cols : s.rows;
    const bool whole = c.recipe().algorithm == Algorithm::standard && keys;
    const Rect tile = whole ? r : tile_rect(r, column.rows, row0, count);
    const Colour colour = colour_of(t, column.operand);
    if (column.operand == Operand::Q || keys) {
      // Solid where the tile is on the chip, outlined where it is only its turn.
      const ChipBuffer buffer = column.operand == Operand::Q   ? ChipBuffer::Q
                                : column.operand == Operand::K ? ChipBuffer::K
                                                               : ChipBuffer::V;
      if (heat_source(c.data, buffer).empty())
        p.box(tile, {0, 0, 0, 0}, colour, 0, 1.5f);
      else
        p.box(tile, with_alpha(colour, 0.85));
    } else
      p.box({tile.x - 1, tile.y - 1, tile.w + 2, tile.h + 2}, {0, 0, 0, 0}, t.amber, 0, 2, tile.h > 10);
  }
  if (column.operand == Operand::Q)
    for (const std::int64_t row : c.data.pinned_rows)  // followed, wherever they are
      if (row >= 0 && row < column.rows) {
        const float y = r.y + r.h * (static_cast<float>(row) + 0.5f) / static_cast<float>(column.rows);
        p.box({r.x - 8, y - 1.5f, 7, 3}, t.query);
      }
  p.scene.hbm.push_back({column.operand, p.pixels(r), column.rows, column.cols});
  Hit hit;
  hit.target = Target::hbm_tile, hit.what = static_cast<int>(column.operand);
  hit.rows = static_cast<double>(column.rows), hit.cols = static_cast<double>(column.cols);
  p.hit(r, hit);
}

void draw_scores(Painter& p, const SceneContext& c, const Rect& area) {
  const Theme& t = p.colours;
  const Shape shape = c.data.problem->shape();
  const bool stored = c.recipe().algorithm == Algorithm::standard;
  const std::int64_t size = shape.Nq * shape.Nk * size_of(shape.type);
  const std::string a_head = shape.heads > 1 ? " a head" : "";
  const auto [rows_S, rows_P] = stored_scores(c);
  const float half = (area.w - kGap) / 2;
  for (int n = 0; n < 2; ++n) {
    const Operand operand = n == 0 ? Operand::S : Operand::P;
    const Rect slot{area.x + static_cast<float>(n) * (half + kGap), area.y, half, area.h};
    if (!stored) {
      p.box(slot, {0, 0, 0, 0}, t.faint, 4, 1, true);
      const float y = slot.y + slot.h / 2 - 33;
      if (slot.h < 68) {
        p.text({slot.x + 4, slot.y, slot.w - 8, slot.h}, p.body(t.dim, Align::centre),
               {fmt::format("{} never stored", n == 0 ? "S" : "P"), n == 0 ? "S" : "P"});
        continue;
      }
      p.text({slot.x, y, slot.w, 24}, {kTitle, Face::bold, t.faint, Align::centre, false}, n == 0 ? "S" : "P");
      p.text({slot.x + 4, y + 25, slot.w - 8, 18}, p.body(t.dim, Align::centre), {"never stored", "not kept"});
      p.text({slot.x + 4, y + 45, slot.w - 8, 18}, p.body(t.dim, Align::centre),
             {"would be " + bytes(size) + a_head, bytes(size) + a_head, bytes(size)});
      continue;
    }
    const float aspect = static_cast<float>(shape.Nk) / static_cast<float>(shape.Nq);
    const float h = std::min(slot.h - 42, slot.w / aspect), w = std::min(slot.w, h * aspect);
    const Rect r{slot.x + (slot.w - std::max(w, 8.f)) / 2, slot.y + 20, std::max(w, 8.f), std::max(h, 8.f)};
    p.text({slot.x, slot.y, slot.w, 18}, p.label(t.ink, Align::centre), n == 0 ? "S" : "P");
    p.box(r, t.well, t.line_strong, 0);
    const std::int64_t done = n == 0 ? rows_S : rows_P;
    if (done > 0) p.box(tile_rect(r, shape.Nq, 0, done), mix(t.well, t.amber, 0.45));
    tile_lines(p, r, shape.Nq, c.recipe().Br);
    if (c.state().i >= 0) {
      const Rect tile = tile_rect(r, shape.Nq, c.state().row0, c.state().rows);
      p.box({tile.x - 1, tile.y - 1, tile.w + 2, tile.h + 2}, {0, 0, 0, 0}, t.amber, 0, 1.5f);
    }
    p.text({slot.x, slot.bottom() - 18, slot.w, 18}, p.body(t.dim, Align::centre), {bytes(size) + a_head, bytes(size)});
    p.scene.hbm.push_back({operand, p.pixels(r), shape.Nq, shape.Nk});
    Hit hit;
    hit.target = Target::hbm_tile, hit.what = static_cast<int>(operand);
    hit.rows = static_cast<double>(shape.Nq), hit.cols = static_cast<double>(shape.Nk);
    p.hit(r, hit);
  }
}

// All heads' bytes on one scale: what is allocated, and what S and P would add.
void draw_footprint(Painter& p, const SceneContext& c, const Rect& r) {
  const Theme& t = p.colours;
  const Shape shape = c.data.problem->shape();
  const Footprint& f = c.data.footprint;
  const std::int64_t scores = 2 * shape.heads * shape.Nq * shape.Nk * size_of(shape.type);
  const bool stored = c.recipe().algorithm == Algorithm::standard;
  const std::int64_t all = f.total() + (stored ? 0 : scores);
  if (all <= 0) return;
  const std::string heads = shape.heads > 1 ? fmt::format("all {} heads: ", shape.heads) : "in HBM ";
  const std::string instead = stored ? "" : ", not " + bytes(all);
  p.text({r.x, r.y, r.w, 18}, p.body(t.dim),
         {heads + bytes(f.total()) + instead, heads + bytes(f.total()), bytes(f.total())});
  const Rect bar{r.x, r.y + 22, r.w, 12};
  p.box(bar, {0, 0, 0, 0}, t.faint, 0, 1, true);
  float x = bar.x;
  for (int n = 0; n < kOperands; ++n) {
    const auto operand = static_cast<Operand>(n);
    const float w = bar.w * static_cast<float>(static_cast<double>(f.bytes[n]) / static_cast<double>(all));
    if (w <= 0) continue;
    p.box({x, bar.y, w, bar.h},
          operand == Operand::S || operand == Operand::P ? mix(t.panel, t.amber, 0.5) : colour_of(t, operand));
    x += w;
  }
}

}  // namespace

void draw_memory(Painter& p, const SceneContext& c, const Rect& r) {
  const Theme& t = p.colours;
  p.panel(r);
  const Rect head{r.x + kPad, r.y + 8, r.w - 2 * kPad, 26};
  const float title = p.text(head, {kNumber, Face::bold, t.ink, Align::left, false}, "HBM");
  if (!c.ready()) return;
  const Shape shape = c.data.problem->shape();
  // A name too long for its place is cut; the head is not.
  const Rect about{head.x + title + 10, head.y, head.w - title - 10, head.h};
  const TextStyle about_style = p.body(t.dim, Align::right);
  const std::string head_name = shape.heads > 1 ? fmt::format("head {} of {}", c.state().head, shape.heads) : "";
  const float head_w = head_name.empty() ? 0 : p.width(head_name, about_style);
  const float name_w = about.w - (head_name.empty() ? 0 : head_w + p.width(", ", about_style));
  if (!head_name.empty()) p.text(about, about_style, {head_name, fmt::format("head {}", c.state().head)});
  if (name_w > 30)
    p.text({about.x, about.y, name_w + (head_name.empty() ? 0 : p.width(",", about_style)), about.h}, about_style,
           c.data.title + (head_name.empty() ? "" : ","));

  const Algorithm algorithm = c.recipe().algorithm;
  std::vector<Column> columns = {{Operand::Q, shape.Nq, shape.d},
                                 {Operand::K, shape.Nk, shape.d},
                                 {Operand::V, shape.Nk, shape.dv},
                                 {Operand::O, shape.Nq, shape.dv}};
  if (algorithm == Algorithm::flash2) columns.push_back({Operand::LSE, shape.Nq, 1});
  if (algorithm == Algorithm::flash1)
    columns.push_back({Operand::m, shape.Nq, 1}), columns.push_back({Operand::l, shape.Nq, 1});

  const float left = r.x + kPad, wide = r.w - 2 * kPad;
  const bool standard = algorithm == Algorithm::standard;
  const float scores_h = std::clamp(r.h * (standard ? 0.36f : 0.2f), 40.f, 240.f);
  const float tensors_h = std::max(40.f, r.h - 36 - 24 - 24 - scores_h - 14 - 48);
  std::int64_t cols = 0, widest = 1;
  for (const Column& column : columns) cols += column.cols, widest = std::max(widest, column.cols);
  constexpr float kBetween = 10;
  float extra = kBetween * static_cast<float>(columns.size() - 1);
  for (const Column& column : columns) extra += column.cols == 1 ? 22.f : 0;
  const float per_col = std::min((wide - extra) / static_cast<float>(cols), 64.f / static_cast<float>(widest));
  float used = extra - 0;
  for (Column& column : columns) {
    column.width = std::max(7.f, per_col * static_cast<float>(column.cols));
    column.slot = std::max(column.width, p.width(name(column.operand), p.label(t.ink)) + 2);
    used += 0;
  }
  used = kBetween * static_cast<float>(columns.size() - 1);
  for (const Column& column : columns) used += column.slot;
  const float spread = used < wide ? (wide - used) / static_cast<float>(columns.size() - 1) : 0;
  const float shrink = used > wide ? (wide - kBetween * static_cast<float>(columns.size() - 1)) /
                                         (used - kBetween * static_cast<float>(columns.size() - 1))
                                   : 1;
  float x = left;
  const float y = r.y + 36 + 22;
  const auto longest = static_cast<float>(std::max(shape.Nq, shape.Nk));
  for (const Column& column : columns) {
    const float slot = column.slot * shrink, w = std::min(column.width, slot);
    const float h = std::max(4.f, tensors_h * static_cast<float>(column.rows) / longest);
    p.text({x, y - 22, slot, 20}, p.label(t.ink, Align::centre), std::string(name(column.operand)));
    draw_tensor(p, c, column, {x + (slot - w) / 2, y, w, h});
    x += slot + kBetween + std::min(spread, 26.f);
  }

  const std::int64_t q = shape.Nq * shape.d * size_of(shape.type);
  const bool same = shape.Nq == shape.Nk && shape.d == shape.dv;
  const std::string dtype{name(shape.type)}, each = shape.heads > 1 ? "a head" : "each";
  const Rect sizes{left, y + tensors_h + 4, wide, 20};
  const std::string all = fmt::format("Nq {}, Nk {}, d {}", shape.Nq, shape.Nk, shape.d);
  if (same)
    p.text(sizes, p.body(t.dim),
           {fmt::format("{} x {} {}, {} {}", shape.Nq, shape.d, dtype, bytes(q), each),
            fmt::format("{} x {}, {} {}", shape.Nq, shape.d, bytes(q), each), bytes(q) + " " + each});
  else
    p.text(sizes, p.body(t.dim),
           {fmt::format("{}, dv {} {}", all, shape.dv, dtype), fmt::format("{}, dv {}", all, shape.dv), all});

  const float below = sizes.bottom() + 6;
  draw_scores(p, c, {left, below, wide, r.bottom() - 52 - below});
  draw_footprint(p, c, {left, r.bottom() - 46, wide, 40});
}

}  // namespace flashscope::viz
