// The part of the mask report that needs scores, and the report in words.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>

#include "engine/attention/row_walk.h"
#include "engine/digits.h"
#include "engine/error.h"
#include "engine/insight/mask_report.h"
#include "engine/threads.h"

namespace flashscope {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// What is known of a row so far.
struct RowScores {
  double masked = -kInf, real = -kInf, lowest = kInf;
  std::int64_t masked_key = -1, lowest_key = -1;
};

template <class T>
void scan_row_block(Fold<T>& fold, const Problem& problem, const Schedule& schedule, double stand_in, std::int64_t head,
                    std::int64_t i, std::vector<RowScores>& rows) {
  const Band limits = band(problem.mask, problem.shape().Nq, problem.shape().Nk);
  const auto& bias = problem.mask.bias;
  rows.assign(schedule.rows(i), {});
  start_row_block(fold, schedule, head, i);
  const bool standard = schedule.recipe().algorithm == Algorithm::standard;
  for (std::int64_t n = 0; n < schedule.visits(head, i); ++n) {
    if (standard)
      begin_strip(fold, schedule, head, i);
    else
      begin_visit(fold, schedule, head, i, n);
    fold.scores();
    fold.mask();
    for (std::int64_t c = 0; c < fold.cols(); ++c) {
      const T* S = fold.S() + c * fold.lanes();
      const std::int64_t key = fold.col0() + c;
      for (std::int64_t r = 0; r < fold.rows(); ++r) {
        RowScores& row = rows[r];
        const double score = S[r];
        const bool real = visible(problem.mask, limits, head, fold.row0() + r, key) &&
                          !(bias && bias->at(head, fold.row0() + r, key) <= stand_in / 2);
        if (!real) {
          if (score > row.masked) row.masked = score, row.masked_key = key;
        } else {
          if (score > row.real) row.real = score;
          if (score < row.lowest) row.lowest = score, row.lowest_key = key;
        }
      }
    }
  }
}

template <class T>
ScoreReport scan(const Problem& problem, const Schedule& schedule, double stand_in, int threads,
                 const std::stop_token& stop, const Progress& progress) {
  const std::int64_t blocks = schedule.shape().heads * schedule.Tr();
  std::atomic<std::int64_t> next{0}, done{0};
  std::mutex mutex;
  ScoreReport report;
  report.lowest_real = kInf;
  const auto work = [&] {
    Fold<T> fold(problem, schedule.recipe());
    std::vector<RowScores> rows;
    for (std::int64_t block; (block = next++) < blocks && !stop.stop_requested();) {
      const std::int64_t head = block / schedule.Tr(), i = block % schedule.Tr();
      scan_row_block(fold, problem, schedule, stand_in, head, i, rows);
      const std::lock_guard lock(mutex);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const RowScores& row = rows[r];
        const std::int64_t at = i * schedule.recipe().Br + static_cast<std::int64_t>(r);
        if (row.masked > row.real) {
          ++report.maximum_on_masked_rows;
          report.maximum_on_masked.push_back({head, at, row.masked_key, row.masked, row.real});
        }
        if (row.lowest >= row.masked) continue;
        ++report.real_below_masked_rows;
        if (row.lowest >= report.lowest_real) continue;
        report.lowest_real = row.lowest, report.stand_in_score = row.masked;
        report.real_below_masked = MaskCell{head, at, row.lowest_key};
      }
      if (progress) progress(++done, blocks);
    }
  };
  on_threads(threads, work, blocks);
  if (stop.stop_requested()) throw Cancelled();
  auto& list = report.maximum_on_masked;
  std::sort(list.begin(), list.end(),
            [](const auto& a, const auto& b) { return std::pair(a.head, a.row) < std::pair(b.head, b.row); });
  if (list.size() > kMostRows) list.resize(kMostRows);
  return report;
}

std::string rows_text(const std::vector<std::int64_t>& rows) {
  constexpr std::size_t kRanges = 12;
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t n = 0; n < rows.size(); ++ranges) {
    if (ranges == kRanges) return text + ", ...";
    std::size_t end = n + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    if (n > 0) text += ", ";
    text += end == n + 1 ? std::to_string(rows[n]) : fmt::format("{}-{}", rows[n], rows[end - 1]);
    n = end;
  }
  return text;
}

std::string rows_text(const std::vector<MaskRow>& rows) {
  const bool one_head = std::all_of(rows.begin(), rows.end(), [](const MaskRow& row) { return row.head == 0; });
  std::vector<std::int64_t> numbers;
  if (one_head) {
    for (const MaskRow& row : rows) numbers.push_back(row.row);
    return rows_text(numbers);
  }
  return fmt::format("{} and others of several heads", rows.front().row);
}

std::string cells_text(const std::vector<MaskCell>& cells, std::int64_t all, std::int64_t first_head) {
  std::string text;
  for (const MaskCell& cell : cells)
    text += fmt::format("{}{}[{}, {}]", text.empty() ? "" : " ",
                        first_head + cell.head > 0 ? fmt::format("head {} ", first_head + cell.head) : "", cell.row,
                        cell.key);
  return all > static_cast<std::int64_t>(cells.size()) ? text + " ..." : text;
}

}  // namespace

bool masked_scores_matter(const MaskReport& report, const Recipe& recipe) {
  return report.stand_in || recipe.defect == Defect::finite_sentinel || recipe.defect == Defect::local_causal;
}

ScoreReport score_report(const Problem& problem, const Schedule& schedule, const MaskReport& report, int threads,
                         std::stop_token stop, const Progress& progress) {
  const double stand_in = report.stand_in ? report.stand_in->value : -kInf;
  return problem.in_double() ? scan<double>(problem, schedule, stand_in, threads, stop, progress)
                             : scan<float>(problem, schedule, stand_in, threads, stop, progress);
}

std::vector<MaskLine> mask_lines(const Problem& problem, const MaskReport& report,
                                 const std::optional<ScoreReport>& scores, std::int64_t first_head) {
  using enum MaskLine::Kind;
  std::vector<MaskLine> lines;
  const auto add = [&](MaskLine::Kind kind, std::string text) { lines.push_back({kind, std::move(text)}); };
  if (report.nan_cells > 0)
    add(fault, fmt::format("{} in the mask: {}", counted(report.nan_cells, "NaN cell"),
                           cells_text(report.first_nan, report.nan_cells, first_head)));
  if (report.plus_inf_cells > 0)
    add(fault, fmt::format("{} in the mask: {}", counted(report.plus_inf_cells, "+inf cell"),
                           cells_text(report.first_plus_inf, report.plus_inf_cells, first_head)));
  if (scores && scores->maximum_on_masked_rows > 0) {
    const ScoreReport::Row& first = scores->maximum_on_masked.front();
    add(fault, fmt::format("{} whose maximum sits on a masked cell: first head {} row {}, masked key {} scores "
                           "{:.6g}, the best real key {:.6g}",
                           counted(scores->maximum_on_masked_rows, "row"), first_head + first.head, first.row,
                           first.key, first.score, first.largest_real));
  }
  if (scores && scores->real_below_masked)
    add(fault, fmt::format("a real score lies below a masked one in {}: S[{}, {}] = {:.6g}, masked {:.6g}",
                           counted(scores->real_below_masked_rows, "row"), scores->real_below_masked->row,
                           scores->real_below_masked->key, scores->lowest_real, scores->stand_in_score));
  for (const MaskHint& hint : report.hints)
    add(fault, hint.option.empty() ? hint.text : fmt::format("{} ({})", hint.text, hint.option));
  if (report.stand_in) {
    const StandIn& stand_in = *report.stand_in;
    add(notice, fmt::format("{} a finite stand-in for -inf (lowest {:.6g})",
                            counted(stand_in.cells, "cell holds", "cells hold"), stand_in.value));
    const auto add_rows = [&](MaskLine::Kind kind, const std::vector<MaskRow>& rows, const char* text) {
      if (rows.empty()) return;
      const std::int64_t count = static_cast<std::int64_t>(rows.size()) * stand_in.shared_by;
      add(kind,
          fmt::format("{} {}, {}{}", counted(count, "row"), text, stand_in.every_row ? "every row" : rows_text(rows),
                      stand_in.every_head ? " of every head" : ""));
    };
    add_rows(fault, stand_in.effectively_empty, "without any cell above the stand-in: they attend to what is masked");
    add_rows(notice, stand_in.mixed, "with both -inf and stand-ins: two masks were added");
  }
  for (std::size_t h = 0; h < report.heads.size(); ++h) {
    const VisibleKeys& keys = report.heads[h];
    const std::string of =
        report.heads.size() == 1 ? "" : fmt::format("head {}: ", first_head + static_cast<std::int64_t>(h));
    if (!keys.empty_rows.empty())
      add(notice,
          fmt::format("{}{}: {}", of, counted(std::ssize(keys.empty_rows), "empty row"), rows_text(keys.empty_rows)));
    if (!keys.one_key_rows.empty())
      add(fact, fmt::format("{}{} with a single visible key: {}", of, counted(std::ssize(keys.one_key_rows), "row"),
                            rows_text(keys.one_key_rows)));
    add(fact, fmt::format("{}visible keys a row: {} to {}, median {} of {}", of, keys.min, keys.max, keys.median,
                          problem.shape().Nk));
  }
  if (report.tiles) {
    const MaskReport::Tiles& tiles = *report.tiles;
    add(fact, fmt::format("tiles: {} full, {} partial, {} empty; {} of {} visited, {:.1f} % skipped", tiles.full,
                          tiles.partial, tiles.empty, tiles.visited, tiles.total(),
                          100.0 * static_cast<double>(tiles.total() - tiles.visited) /
                              static_cast<double>(std::max<std::int64_t>(tiles.total(), 1))));
  }
  std::stable_sort(lines.begin(), lines.end(), [](const MaskLine& a, const MaskLine& b) { return a.kind < b.kind; });
  return lines;
}

}  // namespace flashscope
