// A second recipe beside the first: two chips in the place of one and of HBM, the cells that differ outlined on both,
// and a bar that says which recipes they are and how far they are apart at this step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "viz/scene_parts.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

constexpr float kBar = 32;
constexpr float kBlock = 6;   // smaller cells are outlined together
constexpr float kLarge = 16;  // from this size on there is room inside

std::vector<std::pair<std::string, std::string>> options_of(const Recipe& r) {
  return {{"", std::string(name(r.algorithm))},
          {"", fmt::format("{} x {}", r.Br, r.Bc)},
          {"", r.order == Order::reverse ? "reverse" : "forward"},
          {"guard ", std::string(name(r.guard))},
          {"skip ", std::string(name(r.skip))},
          {"normalise ", std::string(name(r.normalised()))},
          {"empty row ", std::string(name(r.empty_row))},
          {"numerators ", std::string(name(r.numerators))},
          {"mask ", std::string(name(r.mask_apply))},
          {"", r.numerics == Numerics{} ? "nothing rounded" : numerics_text(r.numerics)},
          {"", r.defect == Defect::none ? "no defect" : defect_text(r)}};
}

// Where the other run is of another problem, what its mask and scale are.
std::string problem_beside(const Problem& problem, const Problem& other) {
  const Mask &mask = problem.mask, &others = other.mask;
  std::string text;
  const auto say = [&text](const std::string& words) { text += ", " + words; };
  if (mask.causal != others.causal)
    say(mask.causal == Causal::none ? "not causal" : fmt::format("causal {}", name(mask.causal)));
  if (mask.window != others.window)
    say(mask.window ? fmt::format("window {},{}", mask.window->left, mask.window->right) : "no window");
  if (mask.keep != others.keep) say(!mask.keep ? "no keep mask" : others.keep ? "its own keep mask" : "keep mask");
  if (mask.bias != others.bias) say(!mask.bias ? "no bias" : others.bias ? "its own bias" : "bias added");
  if (!(mask.rules == others.rules)) {
    const std::string rules = flashscope::text(mask.rules);
    say(rules.empty() ? "no mask by rule" : rules);
  }
  if (problem.scale != other.scale) say("scale " + number(problem.scale));
  return text;
}

// Inside of large cells, whose edges carry the frames of the step. `cell`: the smaller side of one. Around a large area
// wide enough to be seen from afar, with a dark line inside it that tells it from every colour of a map.
void outline(Painter& p, const Rect& r, float cell) {
  const float inset = cell > kLarge ? 3.f : 0.f;
  const Rect box{r.x + inset, r.y + inset, r.w - 2 * inset, r.h - 2 * inset};
  const bool large = std::min(box.w, box.h) > kLarge;
  p.box(box, {0, 0, 0, 0}, p.colours.difference, 0, large ? 3.f : 1.5f);
  if (large) p.box({box.x + 2, box.y + 2, box.w - 4, box.h - 4}, {0, 0, 0, 0}, p.colours.well, 0, 1);
}

}  // namespace

std::string run_beside(const StageData& run, const StageData& other) {
  std::string text = recipe_beside(run.schedule->recipe(), other.schedule->recipe());
  if (run.problem != other.problem)
    text += problem_beside(*run.problem, *other.problem);
  else if (run.schedule->recipe() == other.schedule->recipe())
    text += ", the same as beside it";
  return text;
}

std::string recipe_beside(const Recipe& recipe, const Recipe& other) {
  const auto mine = options_of(recipe), theirs = options_of(other);
  std::string text;
  for (std::size_t n = 0; n < mine.size(); ++n)
    if (n == 0 || mine[n] != theirs[n]) text += (text.empty() ? "" : ", ") + mine[n].first + mine[n].second;
  return text;
}

std::string difference_line(const Differences& d) {
  std::string text;
  if (!d.inputs.empty()) text = "other " + d.inputs + " here";
  if (d.count > 0) {
    text += fmt::format("{}{} {} here", text.empty() ? "" : "; ", count(d.count),
                        d.count == 1 ? "cell differs" : "cells differ");
    if (d.nan > 0) text += fmt::format(", {} of them NaN on one side", count(d.nan));
    if (!d.largest_at.empty())
      text +=
          fmt::format("{} {}: {} | {}", d.count == 1 ? "," : ", most", d.largest_at, number(d.here), number(d.beside));
  } else if (!d.compared.empty() && d.inputs.empty()) {
    text = "no difference in " + d.compared;
  }
  if (!d.reason.empty()) text += (text.empty() ? "" : "; ") + d.reason;
  return text.empty() ? "nothing to compare here" : text;
}

// Outlines of the marked cells of a buffer, `shift` rows further down than the marks have them.
void draw_differences(Painter& p, const SceneContext& c, ChipBuffer buffer, const Rect& slot, std::int64_t shift) {
  if (!c.differences) return;
  const Differences& d = *c.differences;
  const char* input = buffer == ChipBuffer::Q   ? "Q"
                      : buffer == ChipBuffer::K ? "K"
                      : buffer == ChipBuffer::V ? "V"
                                                : "";
  if (*input && d.inputs.find(input) != std::string::npos) outline(p, slot, std::min(slot.w, slot.h));
  const std::vector<std::uint8_t>* marks = nullptr;
  if (buffer == ChipBuffer::S) marks = &d.S;
  if (buffer == ChipBuffer::P) marks = &d.P;
  if (buffer == ChipBuffer::m) marks = &d.m;
  if (buffer == ChipBuffer::l) marks = &d.l;
  if (buffer == ChipBuffer::alpha) marks = &d.alpha;
  if (buffer == ChipBuffer::O) marks = &d.O;
  if (buffer == ChipBuffer::LSE) marks = &d.LSE;
  const HeatSource source = heat_source(c.data, buffer);
  if (!marks || marks->empty() || source.empty()) return;
  const std::int64_t cols = source.cols;
  const auto mark_rows = static_cast<std::int64_t>(marks->size()) / cols;
  const Camera& camera = c.input.camera;
  const bool follows_cols = buffer == ChipBuffer::S || buffer == ChipBuffer::P;
  const double top = camera.top * static_cast<double>(source.rows),
               high = (camera.bottom - camera.top) * static_cast<double>(source.rows);
  const double left = follows_cols ? camera.left * static_cast<double>(cols) : 0,
               wide =
                   follows_cols ? (camera.right - camera.left) * static_cast<double>(cols) : static_cast<double>(cols);
  // Blocks of whole cells, at least kBlock wide and high.
  const auto per = [](double cells, float length) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(kBlock * cells / length)));
  };
  const std::int64_t per_row = per(high, slot.h), per_col = per(wide, slot.w);
  const auto first_row = static_cast<std::int64_t>(std::floor(top)) / per_row * per_row;
  const auto first_col = static_cast<std::int64_t>(std::floor(left)) / per_col * per_col;
  const auto last_row = std::min(source.rows, static_cast<std::int64_t>(std::ceil(top + high)));
  const auto last_col = std::min(cols, static_cast<std::int64_t>(std::ceil(left + wide)));
  const auto differs = [&](std::int64_t r0, std::int64_t c0) {
    for (std::int64_t r = r0; r < std::min(last_row, r0 + per_row); ++r) {
      const std::int64_t at = r - shift;
      if (at < 0 || at >= mark_rows) continue;
      for (std::int64_t col = c0; col < std::min(last_col, c0 + per_col); ++col)
        if ((*marks)[at * cols + col]) return true;
    }
    return false;
  };
  const auto y_of = [&](double r) {
    return slot.y + slot.h * static_cast<float>(std::clamp((r - top) / high, 0.0, 1.0));
  };
  const auto x_of = [&](double col) {
    return slot.x + slot.w * static_cast<float>(std::clamp((col - left) / wide, 0.0, 1.0));
  };
  // Runs of blocks side by side, and runs below each other that are alike, in one outline.
  struct Run {
    std::int64_t r0, r1, c0, c1;
  };
  std::vector<Run> open;
  const float cell = std::min(slot.w / static_cast<float>(wide), slot.h / static_cast<float>(high));
  const auto close = [&](const Run& run) {
    const float x = x_of(static_cast<double>(run.c0)), y = y_of(static_cast<double>(run.r0));
    outline(p, {x, y, x_of(static_cast<double>(run.c1)) - x, y_of(static_cast<double>(run.r1)) - y}, cell);
  };
  for (std::int64_t r = first_row; r < last_row; r += per_row) {
    std::vector<Run> now;
    for (std::int64_t col = first_col; col < last_col; col += per_col) {
      if (!differs(r, col)) continue;
      const Run run{r, std::min(last_row, r + per_row), col, std::min(last_col, col + per_col)};
      if (!now.empty() && now.back().c1 == col)
        now.back().c1 = run.c1;
      else
        now.push_back(run);
    }
    for (const Run& before : open) {
      const auto same = std::find_if(now.begin(), now.end(),
                                     [&](const Run& run) { return run.c0 == before.c0 && run.c1 == before.c1; });
      if (same == now.end())
        close(before);
      else
        same->r0 = before.r0;
    }
    open = std::move(now);
  }
  for (const Run& run : open) close(run);
}

void draw_two_chips(Painter& p, const SceneContext& c, const Rect& r) {
  const Theme& t = p.colours;
  const bool differs = c.data.differences && c.data.differences->count > 0;
  const Rect bar{r.x, r.y, r.w, kBar};
  p.box(bar, t.panel, differs ? t.difference : t.line, 8);
  const bool start = c.state().K == 0 && c.data.beside->state->K == 0;
  const std::string line = c.data.busy          ? "computing…"
                           : start              ? "nothing has moved yet on either side"
                           : c.data.differences ? difference_line(*c.data.differences)
                                                : "";
  p.text({bar.x + kPad, bar.y, bar.w - 2 * kPad, bar.h}, differs ? p.label(t.difference) : p.body(t.dim), {line, line});

  constexpr float kBetween = 10;
  const float w = (r.w - kBetween) / 2, y = bar.bottom() + 8, h = r.bottom() - y;
  SceneContext beside{*c.data.beside, c.options, c.input};
  beside.side = 1, beside.differences = c.data.differences.get();
  beside.heading = run_beside(*c.data.beside, c.data);
  beside.shift = c.state().row0 - beside.state().row0;
  draw_chip(p, beside, {r.x + w + kBetween, y, w, h});
  p.scene.chip_beside = std::exchange(p.scene.chip, {}), p.scene.score_beside = p.scene.score;
  SceneContext main{c.data, c.options, c.input};
  main.differences = beside.differences;
  main.heading = run_beside(c.data, *c.data.beside);
  draw_chip(p, main, {r.x, y, w, h});
}

}  // namespace flashscope::viz
