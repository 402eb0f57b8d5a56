#include "engine/insight/mask_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/error.h"

namespace flashscope {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kVeryNegative = -1000;
constexpr std::size_t kFirstCells = 8;

VisibleKeys visible_of(const Problem& problem, std::int64_t head, const std::stop_token& stop,
                       const std::function<void()>& row_done) {
  const Shape shape = problem.shape();
  VisibleKeys keys;
  keys.per_row.reserve(shape.Nq);
  for (std::int64_t r = 0; r < shape.Nq; ++r) {
    if (stop.stop_requested()) throw Cancelled();
    const std::int64_t count = visible_keys(problem.mask, shape.Nq, shape.Nk, head, r);
    keys.per_row.push_back(count);
    if (count == 0) keys.empty_rows.push_back(r);
    if (count == 1) keys.one_key_rows.push_back(r);
    row_done();
  }
  std::vector<std::int64_t> sorted = keys.per_row;
  std::sort(sorted.begin(), sorted.end());
  keys.min = sorted.front(), keys.max = sorted.back();
  keys.median =
      (static_cast<double>(sorted[(sorted.size() - 1) / 2]) + static_cast<double>(sorted[sorted.size() / 2])) / 2;
  return keys;
}

template <class Look>
void each_cell(const Bias& bias, const std::stop_token& stop, Look look) {
  for (std::int64_t h = 0; h < bias.heads; ++h)
    for (std::int64_t r = 0; r < bias.rows; ++r) {
      if (stop.stop_requested()) throw Cancelled();
      for (std::int64_t c = 0; c < bias.cols; ++c) look(h, r, c, bias.at(h, r, c));
    }
}

// ---- the values of the bias
void look_at_bias(const Problem& problem, MaskReport& report, const std::stop_token& stop) {
  const Bias& bias = *problem.mask.bias;
  double lowest = 0;
  std::int64_t large = 0, zeros_and_ones = 0, ones = 0;
  each_cell(bias, stop, [&](std::int64_t h, std::int64_t r, std::int64_t c, double value) {
    ++report.bias_cells;
    if (std::isnan(value)) {
      ++report.nan_cells;
      if (report.first_nan.size() < kFirstCells) report.first_nan.push_back({h, r, c});
    } else if (value == kInf) {
      ++report.plus_inf_cells;
      if (report.first_plus_inf.size() < kFirstCells) report.first_plus_inf.push_back({h, r, c});
    } else if (value == -kInf) {
      ++report.minus_inf_cells;
    } else {
      lowest = std::min(lowest, value);
      large += value >= -kVeryNegative;
      zeros_and_ones += value == 0 || value == 1, ones += value == 1;
    }
  });
  if (report.nan_cells > 0 && report.nan_cells + report.minus_inf_cells == report.bias_cells &&
      report.minus_inf_cells > 0)
    report.hints.push_back(
        {"NaN exactly where the mask is not -inf: it was built as (1 - keep) * -inf, and 0 x inf is "
         "NaN; use where(keep, 0, -inf)",
         ""});
  if (zeros_and_ones == report.bias_cells && ones > 0)
    report.hints.push_back(
        {"the float mask holds only 0 and 1, and is added to the scores: it masks nothing; meant as "
         "a keep mask, it must be boolean",
         ""});
  if (large > 0 && report.minus_inf_cells == 0 && lowest > kVeryNegative)
    report.hints.push_back(
        {"the mask adds large positive numbers and none that are negative: its sign is the other way round?", ""});
  if (lowest > kVeryNegative) return;

  StandIn stand_in;
  stand_in.value = lowest;
  std::int64_t at_lowest = 0;
  MaskRow row{-1, -1};
  bool has_low = false, has_inf = false, has_real = false;
  const auto row_ends = [&] {
    if (row.row < 0) return;
    if (has_low && !has_real) stand_in.effectively_empty.push_back(row);
    if (has_low && has_inf) stand_in.mixed.push_back(row);
  };
  // Only cells that the other masks leave count as real.
  const Shape shape = problem.shape();
  stand_in.every_row = bias.rows == 1 && shape.Nq > 1, stand_in.every_head = bias.heads == 1 && shape.heads > 1;
  stand_in.shared_by = (stand_in.every_row ? shape.Nq : 1) * (stand_in.every_head ? shape.heads : 1);
  Mask others = problem.mask;
  others.bias = nullptr;
  const Band limits = band(others, shape.Nq, shape.Nk);
  each_cell(bias, stop, [&](std::int64_t h, std::int64_t r, std::int64_t c, double value) {
    if (h != row.head || r != row.row) row_ends(), row = {h, r}, has_low = has_inf = has_real = false;
    const bool seen = bias.cols == 1 || bias.rows == 1 || visible(others, limits, h, r, c);
    const bool is_low = value <= lowest / 2 && value != -kInf;
    at_lowest += value == lowest, stand_in.cells += is_low;
    has_low = has_low || is_low, has_inf = has_inf || value == -kInf;
    has_real = has_real || (seen && !is_low && value != -kInf);
  });
  row_ends();
  // A single lowest value is the far end of a bias that falls with distance, not a mask.
  if (at_lowest >= 2 || lowest <= -1e30) report.stand_in = std::move(stand_in);
}

// ---- polarity and axis of a keep mask, from head 0
void guess_keep(const KeepMask& keep, const Shape& shape, MaskReport& report) {
  const std::int64_t rows = keep.rows, cols = keep.cols;
  if (cols == 1 && rows > 1 && shape.Nq == shape.Nk)
    report.hints.push_back(
        {"the mask hides whole rows and never single keys: a padding mask must run along the keys, "
         "(1, Nk) and not (Nq, 1)",
         ""});
  if (cols == 1) return;
  std::int64_t kept = 0, uniform_rows = 0, above = 0, on = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t in_row = 0;
    for (std::int64_t w = 0; w < keep.words_per_row; ++w) {
      const std::uint64_t bits = keep.bits[r * keep.words_per_row + w];
      in_row += std::popcount(bits);
      const std::int64_t before = r + 1 - 64 * w;  // bits of the word up to key r
      if (before <= 0)
        above += std::popcount(bits);
      else if (before < 64)
        above += std::popcount(bits >> before);
    }
    on += r < cols && keep.keep(0, r, r);
    kept += in_row;
    uniform_rows += in_row == 0 || in_row == cols;
  }
  const std::int64_t on_or_below = kept - above;
  const bool square = rows == cols && rows > 1;
  const std::int64_t upper = rows * (rows - 1) / 2;
  if (square && above == upper && on_or_below == on && (on == 0 || on == rows)) {
    report.hints.push_back(
        {on == 0 ? "it keeps exactly the keys after each row, and none of its own or before: a causal mask in which "
                   "true means drop"
                 : "it keeps a row's own key and all after it: a causal mask that is transposed, or means drop",
         "--mask-means drop"});
  } else if (rows > 1 && uniform_rows == rows && kept > 0 && kept < rows * cols) {
    report.hints.push_back(
        {"every row is kept or dropped as a whole: a mask of keys that runs along the wrong axis?", ""});
  } else if (rows == 1 && kept > 0 && 2 * kept < cols) {
    // A padding mask usually keeps most keys.
    std::int64_t first = 0, last = cols - 1;
    while (!keep.keep(0, 0, first)) ++first;
    while (!keep.keep(0, 0, last)) --last;
    if (last - first + 1 == kept && (first == 0 || last == cols - 1))
      report.hints.push_back(
          {"it keeps fewer keys than it drops, at one end: true may mark the padding", "--mask-means drop"});
  }
  if (kept == 0) report.hints.push_back({"it keeps no key at all: true may mean drop", "--mask-means drop"});
}

}  // namespace

MaskReport mask_report(const Problem& problem, const Schedule& schedule, std::stop_token stop,
                       const Progress& progress) {
  MaskReport report;
  const Shape shape = problem.shape();
  const std::int64_t heads = mask_heads(problem.mask);
  const std::int64_t tiles = schedule.Tr() * schedule.Tc();
  const bool classes = tiles <= kMostTiles / heads;
  const std::int64_t total = heads * (shape.Nq + (classes ? schedule.Tr() : 0));
  std::int64_t done = 0;
  const auto step = [&] {
    if (++done % 1024 == 0 && progress) progress(done, total);
  };
  if (problem.mask.bias) look_at_bias(problem, report, stop);
  if (problem.mask.keep) guess_keep(*problem.mask.keep, shape, report);
  for (std::int64_t h = 0; h < heads; ++h) report.heads.push_back(visible_of(problem, h, stop, step));
  if (!classes) return report;
  report.tiles = MaskReport::Tiles{};
  MaskReport::Tiles& count = *report.tiles;
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t times = heads == 1 ? shape.heads : 1;
    for (std::int64_t i = 0; i < schedule.Tr(); ++i) {
      if (stop.stop_requested()) throw Cancelled();
      for (std::int64_t j = 0; j < schedule.Tc(); ++j) {
        const TileClass is = schedule.tile_class(h, i, j);
        (is == TileClass::full ? count.full : is == TileClass::partial ? count.partial : count.empty) += times;
        count.visited += schedule.visited(h, i, j) ? times : 0;
      }
      step();
    }
  }
  return report;
}

KeepMask flipped(const KeepMask& mask) {
  KeepMask other = make_keep_mask(mask.heads, mask.rows, mask.cols);
  const std::uint64_t last = ~std::uint64_t{0} >> (64 * mask.words_per_row - mask.cols);  // bits of a row's last word
  for (std::int64_t n = 0; n < static_cast<std::int64_t>(mask.bits.size()); ++n)
    other.bits[n] = ~mask.bits[n] & ((n + 1) % mask.words_per_row == 0 ? last : ~std::uint64_t{0});
  return other;
}

std::int64_t kept_cells(const KeepMask& mask) {
  std::int64_t kept = 0;  // bits behind a row's last column are 0
  for (const std::uint64_t word : mask.bits) kept += std::popcount(word);
  return kept;
}

std::vector<Convention> conventions_in_force(const Problem& problem, const Recipe& recipe) {
  std::vector<Convention> list;
  const Mask& mask = problem.mask;
  const Shape shape = problem.shape();
  if (mask.causal != Causal::none) {
    const bool top = mask.causal == Causal::top_left;
    const std::string words[] = {"top-left: row r sees keys c <= r", "bottom-right: row r sees keys c <= r + Nk - Nq"};
    Convention one{"causal alignment",
                   words[top ? 0 : 1],
                   words[top ? 1 : 0],
                   top ? "--causal bottom-right" : "--causal top-left",
                   shape.Nq != shape.Nk,
                   {},
                   mask,
                   {}};
    one.mask->causal = top ? Causal::bottom_right : Causal::top_left;
    list.push_back(std::move(one));
  }
  if (mask.keep) {
    const std::int64_t cells = mask.keep->heads * mask.keep->rows * mask.keep->cols, kept = kept_cells(*mask.keep);
    list.push_back({"keep or drop",
                    fmt::format("{} of the mask's {} cells keep their key, {} drop it", kept, cells, cells - kept),
                    fmt::format("exchanged: {} keep it, {} drop it", cells - kept, kept),
                    "--mask-means drop",
                    true,
                    {},
                    {},
                    {}});
  }
  if (mask.window && mask.window->left > 0 && mask.window->left < Band::kOpen / 2) {
    const std::int64_t left = mask.window->left;
    Convention one{
        "window bounds",
        "row r sees keys from r - " + std::to_string(left) + ": " + std::to_string(left + 1) + " with its own",
        "the window counts the row's own key: from r - " + std::to_string(left - 1),
        "--window " + std::to_string(left - 1) + "," + std::to_string(mask.window->right),
        true,
        {},
        mask,
        {}};
    one.mask->window->left = left - 1;
    list.push_back(std::move(one));
  }
  if (recipe.guard != Guard::none) {
    const EmptyRow other = recipe.empty_row == EmptyRow::zero  ? EmptyRow::nan
                           : recipe.empty_row == EmptyRow::nan ? EmptyRow::mean
                                                               : EmptyRow::zero;
    const auto words = [](EmptyRow policy) {
      return std::string(policy == EmptyRow::zero  ? "O = 0, LSE = -inf"
                         : policy == EmptyRow::nan ? "O = NaN, as the textbook formula has it"
                                                   : "O = the mean of all V, as a finite stand-in has it");
    };
    Convention one{"empty rows", words(recipe.empty_row),
                   words(other), "--empty-row " + std::string(name(other)),
                   true,         recipe,
                   {},           {}};
    const Band limits = band(mask, shape.Nq, shape.Nk);
    one.matters = false;
    for (std::int64_t h = 0; h < mask_heads(mask) && !one.matters; ++h)
      for (std::int64_t r = 0; r < shape.Nq && !one.matters; ++r)
        one.matters = !any_visible(mask, limits, h, r, 0, shape.Nk);
    one.recipe->empty_row = other;
    list.push_back(std::move(one));
  }
  return list;
}

std::vector<Convention> lse_conventions(const LseConvention& now) {
  std::vector<Convention> list;
  const auto add = [&](const char* name, bool LseConvention::*part, const char* off, const char* on) {
    LseConvention other = now;
    other.*part = !(now.*part);
    list.push_back({name, now.*part ? on : off, now.*part ? off : on, "--lse " + words(other), true, {}, {}, other});
  };
  add("LSE base", &LseConvention::base2, "natural: m + ln l",
      "base 2: (m + ln l) / ln 2, as kernels on exp2 hand it out");
  add("LSE sign", &LseConvention::negative, "m + ln l", "the other sign: -(m + ln l)");
  add("LSE of an empty row", &LseConvention::plus_inf_empty, "-inf", "+inf, so that exp(S - LSE) is 0");
  return list;
}

}  // namespace flashscope
