#include "engine/attention/skipped_tiles.h"

namespace flashscope {
namespace {

class Walk {
 public:
  Walk(const Schedule& schedule, const Step& step, std::int64_t K, std::int64_t limit)
      : schedule_(schedule), step_(step), K_(K), limit_(limit) {}

  // flash2: the columns of the row block passed over before a tile, or after its last.
  void along_the_row() {
    const std::int64_t visits = schedule_.visits(step_.head, step_.i);
    const auto position = [&](std::int64_t n) { return column(schedule_.visit_j(step_.head, step_.i, n)); };
    std::int64_t from = 0, to = 0;
    if (step_.stage == Stage::load_k) {
      const std::int64_t n = schedule_.visit_index(step_.head, step_.i, step_.j);
      from = n == 0 ? 0 : position(n - 1) + 1, to = position(n);
    } else if (step_.stage == Stage::finish) {
      from = visits == 0 ? 0 : position(visits - 1) + 1, to = schedule_.Tc();
    }
    for (std::int64_t p = from; p < to && !full(); ++p) add(step_.i, column(p));
  }

  // flash1: the rows of the column block before a tile; and before the next column block, or the first finish, the
  // rows after the last visited one of the previous column block, and column blocks without any.
  void down_the_columns() {
    if (step_.stage == Stage::load_rows) {
      std::int64_t i = step_.i;
      while (i > 0 && !schedule_.visited(step_.head, i - 1, step_.j)) --i;
      for (; i < step_.i && !full(); ++i) add(i, step_.j);
      return;
    }
    const bool first_finish = step_.stage == Stage::finish && step_.i == 0;
    if (step_.stage != Stage::load_kv && !first_finish) return;
    const std::int64_t here = first_finish ? schedule_.Tc() : column(step_.j);
    std::int64_t p = here;
    while (p > 0 && !schedule_.find(step_.head, -1, column(p - 1), Stage::load_kv)) --p;
    if (p > 0) {
      const std::int64_t j = column(p - 1);
      std::int64_t i = schedule_.Tr();
      while (i > 0 && !schedule_.visited(step_.head, i - 1, j)) --i;
      for (; i < schedule_.Tr() && !full(); ++i) add(i, j);
    }
    for (; p < here && !full(); ++p)
      for (std::int64_t i = 0; i < schedule_.Tr() && !full(); ++i) add(i, column(p));
  }

  std::vector<Event> events;

 private:
  // The column block at a position of the order, and the position of a column block.
  std::int64_t column(std::int64_t position) const {
    return schedule_.recipe().order == Order::reverse ? schedule_.Tc() - 1 - position : position;
  }
  void add(std::int64_t i, std::int64_t j) { events.push_back({EventKind::masked, K_, step_.head, i, j, -1, 1}); }
  bool full() const { return static_cast<std::int64_t>(events.size()) >= limit_; }

  const Schedule& schedule_;
  const Step& step_;
  std::int64_t K_, limit_;
};

}  // namespace

std::vector<Event> skipped_before(const Schedule& schedule, const Step& step, std::int64_t K, std::int64_t limit) {
  const Recipe& recipe = schedule.recipe();
  if (recipe.skip == Skip::none || recipe.algorithm == Algorithm::standard) return {};
  Walk walk(schedule, step, K, limit);
  if (recipe.algorithm == Algorithm::flash1)
    walk.down_the_columns();
  else
    walk.along_the_row();
  return walk.events;
}

}  // namespace flashscope
