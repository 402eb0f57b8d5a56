#include "engine/insight/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/attention/cpu_runner.h"
#include "engine/error.h"

namespace flashscope {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// Folds one row block again and looks at the rows that turn NaN, in the tile in which they do. A whole row block
// and not one row, because local-causal depends on a row's place in its tile.
template <class T>
class Search {
 public:
  Search(const Problem& problem, const Schedule& schedule)
      : problem_(problem), schedule_(schedule), replay_(problem, schedule) {}

  // The first NaN, in step order, of these rows of row block (head, i) that reaches O; only up to state `limit`.
  std::optional<FirstNan> first_nan(std::int64_t head, std::int64_t i, std::span<const std::int64_t> rows,
                                    std::int64_t limit, const std::stop_token& stop) {
    const Recipe& recipe = schedule_.recipe();
    const bool standard = recipe.algorithm == Algorithm::standard;
    replay_.start_block(head, i);
    first_.reset();
    // Where finish overwrites O, what was there before does not reach it.
    std::vector<std::int64_t> computed, decided;
    for (const std::int64_t row : rows)
      (policy_decides(problem_, recipe, head, row) ? decided : computed).push_back(row);

    for (std::int64_t n = 0; n < schedule_.visits(head, i); ++n) {
      if (stop.stop_requested()) throw Cancelled();
      const std::int64_t j = schedule_.visit_j(head, i, n);
      if (*schedule_.find(head, i, j, Stage::scores) > limit) return {};
      std::vector<TileRow> tiles;
      if (standard) {
        tiles = replay_.look(n, computed);
      } else {
        replay_.fold_in(n);
        std::vector<std::int64_t> turned;
        for (const std::int64_t row : computed)
          if (replay_.is_nan(row)) turned.push_back(row);
        if (turned.empty()) continue;
        tiles = replay_.look_again(n, turned);
      }
      for (const TileRow& tile : tiles)
        if (const auto birth = birth_of_nan(problem_, recipe, tile)) {
          // A NaN in l alone is one of every column in the end.
          const auto nan = std::find_if(tile.O.begin(), tile.O.end(), [](double o) { return std::isnan(o); });
          note(head, i, j, tile.row, nan == tile.O.end() ? 0 : nan - tile.O.begin(), *birth);
        }
      if (first_ && !standard) return first_;
    }
    std::vector<double> l;
    for (const std::int64_t row : rows) l.push_back(replay_.fold().l()[replay_.lane(row)]);
    replay_.finish();
    // Standard attention has no finish of its own: it is part of the last pass.
    const Stage stage = standard ? Stage::accumulate : Stage::finish;
    for (std::size_t at = 0; at < rows.size(); ++at)
      if (replay_.o_is_nan(rows[at]))
        note(head, i, -1, rows[at], first_nan_column(rows[at]),
             {stage, -1, cause_at_finish(problem_, recipe, head, rows[at], l[at]), -1});
    return first_;
  }

 private:
  std::int64_t first_nan_column(std::int64_t row) const {
    std::int64_t column = 0;
    while (!replay_.o_is_nan(row, column)) ++column;
    return column;
  }
  void note(std::int64_t head, std::int64_t i, std::int64_t j, std::int64_t row, std::int64_t column,
            const Birth& birth) {
    const auto step = schedule_.find(head, i, j, birth.stage);
    if (!step || (first_ && *step + 1 >= first_->step)) return;
    first_ = FirstNan{head, *step + 1, i, j, row, birth.key, column, birth.stage, birth.cause};
  }

  const Problem& problem_;
  const Schedule& schedule_;
  RowReplay<T> replay_;
  std::optional<FirstNan> first_;
};

// Row blocks follow each other in flash2, and in standard's pass over the scores; flash1 interleaves them.
bool later_row_blocks_come_later(Algorithm algorithm, Stage stage) {
  if (algorithm == Algorithm::standard) return stage == Stage::scores || stage == Stage::mask;
  return algorithm == Algorithm::flash2;
}

template <class T>
std::optional<FirstNan> first_nan_of_rows(const Problem& problem, const Schedule& schedule, std::int64_t head,
                                          std::span<const std::int64_t> rows, const std::stop_token& stop) {
  Search<T> search(problem, schedule);
  std::optional<FirstNan> first;
  const std::int64_t Br = schedule.recipe().Br;
  while (!rows.empty()) {
    if (stop.stop_requested()) throw Cancelled();
    const std::int64_t i = rows.front() / Br;
    std::size_t n = 1;
    while (n < rows.size() && rows[n] / Br == i) ++n;
    const auto found = search.first_nan(head, i, rows.first(n), first ? first->step : kNoLimit, stop);
    if (found && (!first || found->step < first->step)) first = found;
    if (first && later_row_blocks_come_later(schedule.recipe().algorithm, first->stage)) break;
    rows = rows.subspan(n);
  }
  return first;
}

}  // namespace

std::optional<FirstNan> first_nan_of_rows(const Problem& problem, const Schedule& schedule, std::int64_t head,
                                          std::span<const std::int64_t> rows, const std::stop_token& stop) {
  return problem.in_double() ? first_nan_of_rows<double>(problem, schedule, head, rows, stop)
                             : first_nan_of_rows<float>(problem, schedule, head, rows, stop);
}

Diagnosis diagnose(std::shared_ptr<const Problem> problem, const Recipe& recipe, int threads, std::stop_token stop,
                   const Progress& progress) {
  Diagnosis diagnosis;
  const Shape shape = problem->shape();
  diagnosis.mask = summarise(problem->mask);
  for (std::int64_t h = 0; h < shape.heads; ++h)
    diagnosis.empty_rows.push_back(empty_rows(problem->mask, shape.Nq, shape.Nk, h));

  RunOptions options;
  options.threads = threads;
  options.check.kind = CheckRows::Kind::none;
  diagnosis.nan_rows = run_on_cpu(*problem, recipe, options, stop, progress).nan_rows;

  const Schedule schedule(shape, problem->mask, recipe);
  for (std::int64_t h = 0; h < shape.heads && !diagnosis.first_nan; ++h) {
    if (!diagnosis.nan_rows[h].empty())
      diagnosis.first_nan = first_nan_of_rows(*problem, schedule, h, diagnosis.nan_rows[h], stop);
  }
  return diagnosis;
}

}  // namespace flashscope
