// The whole run of one head as a strip: where rows are rescaled, where tiles are masked, where NaNs are,
// and where we are. And the conventions in force.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/scene_parts.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

// Where each block of the outer loop starts, as a state number of this head.
struct Block {
  std::int64_t number, K;
};
std::vector<Block> outer_blocks(const Schedule& schedule, std::int64_t head, std::int64_t most) {
  std::vector<Block> blocks;
  const Algorithm algorithm = schedule.recipe().algorithm;
  const bool columns = algorithm == Algorithm::flash1;
  const std::int64_t all = columns ? schedule.Tc() : schedule.Tr();
  const std::int64_t stride = std::max<std::int64_t>(1, (all + most - 1) / most);
  for (std::int64_t n = 0; n < all; n += stride) {
    const auto k =
        columns ? schedule.find(head, -1, n, TraceStage::load_kv) : schedule.find(head, n, -1, TraceStage::load_q);
    if (k) blocks.push_back({n, *k});
  }
  std::sort(blocks.begin(), blocks.end(), [](const Block& x, const Block& y) { return x.K < y.K; });
  return blocks;
}

// One convention that has another side, and the word in the conventions line that names it.
struct Convention {
  const char* which;
  std::string text;
};

std::vector<Convention> conventions_of(const SceneContext& c) {
  const Recipe& recipe = c.recipe();
  const Mask& mask = c.data.problem->mask;
  std::vector<Convention> list;
  list.push_back({"causal", mask.causal == Causal::none ? "not causal" : fmt::format("causal {}", name(mask.causal))});
  list.push_back({"skip", fmt::format("skip {}", name(recipe.skip))});
  list.push_back({"guard", fmt::format("guard {}", name(recipe.guard))});
  list.push_back({"empty-row", fmt::format("empty row {}", name(recipe.empty_row))});
  return list;
}

void draw_conventions(Painter& p, const SceneContext& c, const Rect& r) {
  const Theme& t = p.colours;
  float x = r.x;
  const TextStyle style = p.body(t.ink);
  const auto list = conventions_of(c);
  for (std::size_t n = 0; n < list.size(); ++n) {
    const float w = p.width(list[n].text, style) + 16;
    if (x + w > r.right()) return;
    const Rect chip{x, r.y, w, r.h};
    const bool risky = list[n].text == "guard none";
    p.box(chip, t.raised, risky ? t.amber : t.line, 5);
    p.text({x + 8, r.y, w - 16, r.h}, p.body(risky ? t.amber : t.ink), list[n].text);
    Hit hit;
    hit.target = Target::convention, hit.what = static_cast<int>(n);
    p.hit(chip, hit);
    x += w + 6;
  }
  // What the engine's line says beyond the four that can be switched here.
  std::string rest;
  for (std::size_t at = 0; at < c.data.conventions.size();) {
    const std::size_t end = std::min(c.data.conventions.find(", ", at), c.data.conventions.size());
    const std::string part = c.data.conventions.substr(at, end - at);
    const bool shown =
        std::any_of(list.begin(), list.end(), [&part](const Convention& one) { return part == one.text; }) ||
        part.starts_with("empty row") || part.starts_with("skip ") || part.starts_with("guard ") || part == "no mask";
    if (!shown) rest += (rest.empty() ? "" : ", ") + part;
    at = end + 2;
  }
  if (!rest.empty() && r.right() - x > 60) p.text({x + 4, r.y, r.right() - x - 4, r.h}, p.body(t.dim), rest);
}

}  // namespace

const char* convention_name(int index) {
  static constexpr const char* names[] = {"causal", "skip", "guard", "empty-row"};
  return names[std::clamp(index, 0, 3)];
}

void draw_run(Painter& p, const SceneContext& c, const Rect& r) {
  const Theme& t = p.colours;
  p.panel(r);
  if (!c.ready()) return;
  const TraceState& s = c.state();
  const Rect head{r.x + kPad, r.y + 6, r.w - 2 * kPad, 26};
  const float step = p.text(head, p.number(t.ink), fmt::format("step {} of {}", count(s.K), count(s.steps)));

  // The legend of the strip, with the totals so far.
  const ScanTotals& totals = c.data.totals;
  struct Entry {
    Colour colour;
    std::string text;
  };
  std::vector<Entry> entries = {{t.amber, fmt::format("{} rescales", count(totals.rescale))},
                                {t.masked_hatch, fmt::format("{} masked tiles", count(totals.masked))},
                                {t.nan, fmt::format("{} NaN events", count(totals.nan))}};
  if (!totals.complete && totals.tiles > 0)
    entries.push_back({t.faint, fmt::format("scanned {:.0f} %", 100.0 * static_cast<double>(totals.tiles_scanned) /
                                                                    static_cast<double>(totals.tiles))});
  float x = head.right();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const float w = p.width(entry->text, p.body(t.dim));
    if (x - w - 22 < head.x + step + 20) break;
    p.text({x - w, head.y, w + 1, head.h}, p.body(t.dim), entry->text);
    p.box({x - w - 18, head.y + 7, 12, 12}, entry->colour, {0, 0, 0, 0}, 2);
    x -= w + 36;
  }

  const bool roomy = r.h >= 104;
  const Rect strip{r.x + kPad, head.bottom() + 4, r.w - 2 * kPad, r.h - 36 - (roomy ? 52 : 28)};
  p.box(strip, t.well, t.line, 0);
  if (c.data.strip) p.push(Bars{p.pixels(strip)});
  const auto [first, last] = head_steps(*c.data.schedule, s.head);
  const auto x_of = [&](std::int64_t K) {
    return strip.x + strip.w * static_cast<float>(static_cast<double>(K - first) /
                                                  static_cast<double>(std::max<std::int64_t>(last - first, 1)));
  };
  const bool columns = c.recipe().algorithm == Algorithm::flash1;
  const std::string letter = columns ? "j = " : "i = ";
  float free_from = strip.x - 1;
  for (const Block& block : outer_blocks(*c.data.schedule, s.head, 128)) {
    const float at = x_of(block.K);
    if (block.K > first) p.line({at, strip.y}, {at, strip.bottom()}, t.line_strong);
    const std::string text = letter + std::to_string(block.number);
    const float w = p.width(text, p.body(t.dim));
    if (at < free_from || at + w > strip.right()) continue;
    const bool here = block.number == (columns ? s.j : s.i);
    p.text({at, strip.bottom() + 2, w + 1, 18}, p.body(here ? t.ink : t.dim), text);
    free_from = at + w + 16;
  }
  const float cursor = x_of(s.K);
  p.box({cursor - 1.5f, strip.y - 5, 3, strip.h + 10}, t.ink, {0, 0, 0, 0}, 1);
  Hit hit;
  hit.target = Target::strip;
  hit.col0 = static_cast<double>(first), hit.cols = static_cast<double>(last - first);
  p.hit({strip.x, strip.y - 4, strip.w, strip.h + 8}, hit);
  if (roomy) draw_conventions(p, c, {r.x + kPad, r.bottom() - 30, r.w - 2 * kPad, 24});
}

}  // namespace flashscope::viz
