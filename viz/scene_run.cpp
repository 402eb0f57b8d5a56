// The whole run of one head as a strip: where rows are rescaled, where tiles are masked, where NaNs are,
// and where we are. And the conventions in force.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/digits.h"
#include "viz/scene_parts.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

// Where each block of the outer loop starts: a state number of this head and what to call it.
struct Block {
  std::string name;
  std::int64_t K;
  bool here;
};
std::vector<Block> outer_blocks(const Schedule& schedule, const TraceState& s, std::int64_t most) {
  std::vector<Block> blocks;
  if (schedule.recipe().algorithm == Algorithm::standard) {
    const std::pair<TraceStage, const char*> passes[] = {
        {TraceStage::load_q, "S = Q K^T"}, {TraceStage::load_s, "P = softmax S"}, {TraceStage::load_p, "O = P V"}};
    for (const auto& [stage, name] : passes)
      if (const auto k = schedule.find(s.head, 0, -1, stage)) blocks.push_back({name, *k, false});
    for (std::size_t n = blocks.size(); n-- > 0;)
      if (s.K > blocks[n].K) {
        blocks[n].here = true;
        break;
      }
    return blocks;
  }
  const bool columns = schedule.recipe().algorithm == Algorithm::flash1;
  const std::int64_t all = columns ? schedule.Tc() : schedule.Tr();
  const std::int64_t stride = std::max<std::int64_t>(1, (all + most - 1) / most);
  for (std::int64_t n = 0; n < all; n += stride) {
    const auto k =
        columns ? schedule.find(s.head, -1, n, TraceStage::load_kv) : schedule.find(s.head, n, -1, TraceStage::load_q);
    if (k) blocks.push_back({fmt::format("{} = {}", columns ? 'j' : 'i', n), *k, n == (columns ? s.j : s.i)});
  }
  std::sort(blocks.begin(), blocks.end(), [](const Block& x, const Block& y) { return x.K < y.K; });
  return blocks;
}

constexpr int kLse = 4;  // of convention_name

// One convention that has another side, in the words of the conventions line.
struct Convention {
  int index;  // of convention_name
  std::string text;
};

// The parts of the engine's line that can be switched here, and what else it says.
struct Conventions {
  std::vector<Convention> list;
  std::string rest;
};
Conventions conventions_of(const SceneContext& c) {
  std::string line = c.data.conventions;
  const std::string lse = "LSE " + flashscope::text(c.data.lse);  // one part, commas and all
  if (const std::size_t at = line.find(lse); at != line.npos)
    line.erase(at >= 2 ? at - 2 : at, lse.size() + (at >= 2 ? 2 : 0));
  static constexpr const char* starts[] = {"causal ", "skip ", "guard ", "empty row "};
  Conventions found;
  if (c.data.problem->mask.causal == Causal::none) found.list.push_back({0, "not causal"});
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(", ", at), line.size());
    const std::string part = line.substr(at, end - at);
    at = end + 2;
    const auto start =
        std::find_if(std::begin(starts), std::end(starts), [&part](const char* one) { return part.starts_with(one); });
    if (start != std::end(starts))
      found.list.push_back({static_cast<int>(start - std::begin(starts)), part});
    else if (part != "no mask")
      found.rest += (found.rest.empty() ? "" : ", ") + part;
  }
  found.list.push_back({kLse, lse});
  std::stable_sort(found.list.begin(), found.list.end(),
                   [](const Convention& x, const Convention& y) { return x.index < y.index; });
  return found;
}

// Buttons in a row from r's left edge; returns where they end.
float draw_conventions(Painter& p, const std::vector<Convention>& list, const std::string& rest, const Rect& r) {
  const Theme& t = p.colours;
  float x = r.x;
  for (std::size_t n = 0; n < list.size(); ++n) {
    const float w = p.width(list[n].text, p.body(t.ink)) + 16;
    if (x + w > r.right()) return x;
    const Rect button{x, r.y, w, r.h};
    const bool risky = list[n].text == "guard none";
    const bool other = list[n].text != "empty row as computed";  // without a guard there is none, and no button
    if (other) p.box(button, t.raised, risky ? t.amber : t.line, 5);
    p.text({x + 8, r.y, w - 15, r.h}, p.body(risky ? t.amber : other ? t.ink : t.dim), list[n].text);
    Hit hit;
    hit.target = Target::convention, hit.what = list[n].index;
    if (other) p.hit(button, hit);
    x += w + 6;
  }
  const Colour ink = rest.find("DEFECT") == rest.npos ? t.dim : t.amber;
  if (!rest.empty() && r.right() - x > 60) x += p.text({x + 4, r.y, r.right() - x - 4, r.h}, p.body(ink), rest) + 4;
  return x;
}

struct Entry {
  Colour colour;
  std::string text;
};

}  // namespace

const char* convention_name(int index) {
  static constexpr const char* names[] = {"causal", "skip", "guard", "empty-row", "lse"};
  return names[std::clamp(index, 0, kLse)];
}

void draw_run(Painter& p, const SceneContext& c, const Rect& r) {
  const Theme& t = p.colours;
  p.panel(r);
  if (!c.ready()) return;
  const TraceState& s = c.state();
  const Rect head{r.x + kPad, r.y + 6, r.w - 2 * kPad, 26};
  const float step = p.text(head, p.number(t.ink),
                            fmt::format("{}step {} of {}", c.data.beside ? "left: " : "", count(s.K), count(s.steps)));

  // The legend of the strip, with the totals so far.
  const ScanTotals& totals = c.data.totals;
  std::vector<Entry> entries;
  if (!totals.complete && totals.tiles_scanned == 0) {  // nothing is known yet: "0 NaN" would be a promise
    entries.push_back({t.faint, "not scanned yet"});
  } else {
    entries = {{t.amber, counted(totals.rescale, "rescale")},
               {t.masked_hatch, fmt::format("{} masked", count(totals.masked))},
               {t.nan, fmt::format("{} NaN", count(totals.nan))}};
    if (totals.inf > 0) entries.push_back({t.inf, fmt::format("{} inf", count(totals.inf))});
    if (!totals.complete && totals.tiles > 0)
      entries.push_back({t.faint, fmt::format("scanned {:.0f} %", 100.0 * static_cast<double>(totals.tiles_scanned) /
                                                                      static_cast<double>(totals.tiles))});
  }
  float legend = 0;
  for (const Entry& entry : entries) legend += p.width(entry.text, p.body(t.dim)) + 34;
  float x = head.right();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const float w = p.width(entry->text, p.body(t.dim));
    if (x - w - 22 < head.x + step + 20) break;
    p.text({x - w, head.y, w + 1, head.h}, p.body(t.dim), entry->text);
    p.box({x - w - 18, head.y + 7, 12, 12}, entry->colour, {0, 0, 0, 0}, 2);
    x -= w + 34;
  }

  // The conventions in the same line where they fit, else in one of their own.
  const auto [conventions, rest] = conventions_of(c);
  float buttons = p.width(rest, p.body(t.dim)) + 10;
  for (const Convention& one : conventions) buttons += p.width(one.text, p.body(t.ink)) + 22;
  const float from = head.x + step + 24;
  const bool same_line = from + buttons + 20 < head.right() - legend;
  if (same_line)
    draw_conventions(p, conventions, rest, {from, head.y + 1, buttons, 24});
  else
    draw_conventions(p, conventions, rest, {head.x, r.bottom() - 30, head.w, 24});

  const Rect strip{r.x + kPad, head.bottom() + 6, r.w - 2 * kPad, r.h - 38 - (same_line ? 26 : 52)};
  p.box(strip, t.well, t.line, 0);
  if (c.data.strip) p.push(Bars{p.pixels(strip)});
  const std::pair<std::int64_t, std::int64_t> ends = head_steps(*c.data.schedule, s.head);
  const std::int64_t first = ends.first, last = ends.second;
  const auto x_of = [&](std::int64_t K) {
    return strip.x + strip.w * static_cast<float>(static_cast<double>(K - first) /
                                                  static_cast<double>(std::max<std::int64_t>(last - first, 1)));
  };
  float free_from = strip.x - 1;
  for (const Block& block : outer_blocks(*c.data.schedule, s, 128)) {
    const float at = x_of(block.K);
    if (block.K > first) p.line({at, strip.y}, {at, strip.bottom()}, t.line_strong);
    const float w = p.width(block.name, p.body(t.dim));
    if (at < free_from || at + w > strip.right()) continue;
    p.text({at, strip.bottom() + 3, w + 1, 18}, p.body(block.here ? t.ink : t.dim), block.name);
    free_from = at + w + 16;
  }
  const float cursor = x_of(s.K);
  p.box({cursor - 1.5f, strip.y - 5, 3, strip.h + 10}, t.ink, {0, 0, 0, 0}, 1);
  Hit hit;
  hit.target = Target::strip;
  hit.col0 = static_cast<double>(first), hit.cols = static_cast<double>(last - first);
  p.hit({strip.x, strip.y - 4, strip.w, strip.h + 8}, hit);
}

}  // namespace flashscope::viz
