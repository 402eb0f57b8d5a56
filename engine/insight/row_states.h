// One row in any state of its run, folded again: what the provenance asks of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "engine/error.h"
#include "engine/insight/row_replay.h"

namespace flashscope {

// The state that a question is about: tiles of the row folded in completely, and, inside the next one, the stage.
struct At {
  std::int64_t folded = 0;
  std::optional<Stage> stage;  // of visit number `folded`
  bool finished = false;
  std::int64_t K = 0;
};

template <class T>
class RowStates {
 public:
  RowStates(const Problem& problem, const Schedule& schedule, std::int64_t head, std::int64_t row, std::stop_token stop)
      : schedule_(schedule),
        replay_(problem, schedule),
        stop_(std::move(stop)),
        standard_(schedule.recipe().algorithm == Algorithm::standard),
        head_(head),
        row_(row),
        i_(row / schedule.recipe().Br) {}

  // The row in state K; unset: at its end.
  At place(std::optional<std::int64_t> K) const {
    At at;
    at.K = std::clamp<std::int64_t>(K.value_or(schedule_.steps()), 0, schedule_.steps());
    if (!K) {
      at.folded = schedule_.visits(head_, i_), at.finished = true;
      const Stage last = standard_ ? Stage::accumulate : Stage::finish;
      at.K = *schedule_.find(head_, i_, -1, last) + 1;
      return at;
    }
    const Schedule::Progress progress = schedule_.progress(at.K, head_, i_);
    at.folded = progress.folded, at.finished = progress.finished;
    if (at.K == 0) return at;
    if (standard_) {  // m, l and P are there from softmax on
      at.folded = *schedule_.find(head_, i_, -1, Stage::softmax) < at.K;
      return at;
    }
    const Step step = schedule_.step(at.K - 1);
    if (step.head == head_ && step.i == i_ && step.j >= 0 && schedule_.visit_index(head_, i_, step.j) == at.folded)
      at.stage = step.stage;
    return at;
  }
  // What the stage inside the next tile has done already.
  static bool rescaled(const At& at) { return at.stage && (*at.stage == Stage::rescale || *at.stage == Stage::load_v); }
  static bool maximum_known(const At& at) {
    return rescaled(at) || (at.stage && (*at.stage == Stage::max || *at.stage == Stage::exponentials));
  }

  void start() { replay_.start_row(head_, row_); }
  // The n-th visit from the present state on.
  TileRow look(std::int64_t n) { return replay_.look(n, std::span(&row_, 1)).front(); }
  TileRow tile(std::int64_t n) {
    start();
    for (std::int64_t before = 0; !standard_ && before < n; ++before) check_stop(), replay_.fold_in(before);
    return look(n);
  }
  // The first tile, among those that `at` has reached, after which `is` holds of (m, l, O).
  template <class Is>
  std::optional<TileRow> first_tile(const At& at, Is is) {
    if (standard_) {
      if (at.folded == 0) return {};
      start();
      TileRow tile = look(0);
      return is(tile.m, tile.l, tile.O) ? std::optional(std::move(tile)) : std::nullopt;
    }
    start();
    const Fold<T>& fold = replay_.fold();
    const std::int64_t r = replay_.lane(row_);
    for (std::int64_t n = 0; n < at.folded; ++n) {
      check_stop();
      replay_.fold_in(n);
      if (is(static_cast<double>(fold.m()[r]), static_cast<double>(fold.l()[r]), replay_.O(row_)))
        return replay_.look_again(n, std::span(&row_, 1)).front();
    }
    if (!maximum_known(at)) return {};
    TileRow tile = look(at.folded);
    const bool scaled = rescaled(at);
    if (is(tile.m, scaled ? tile.l_rescaled : tile.l_old, scaled ? tile.O_rescaled : tile.O_old)) return tile;
    return {};
  }
  // The row's numbers in the asked state.
  struct Numbers {
    double m = -std::numeric_limits<double>::infinity(), l = 0;
    std::vector<double> O;         // as held
    std::vector<double> O_at_end;  // after finish, else empty
    double LSE = 0;
  };
  Numbers numbers(const At& at) {
    Numbers now;
    start();
    const Fold<T>& fold = replay_.fold();
    const std::int64_t r = replay_.lane(row_);
    if (standard_ && at.folded > 0) {
      look(0);
    } else {
      for (std::int64_t n = 0; n < at.folded; ++n) check_stop(), replay_.fold_in(n);
    }
    now.m = fold.m()[r], now.l = fold.l()[r], now.O = replay_.O(row_);
    if (at.finished) {
      replay_.finish();
      now.O_at_end = replay_.O(row_), now.LSE = fold.LSE()[r];
    } else if (maximum_known(at) && !standard_) {
      const TileRow tile = look(at.folded);
      now.m = tile.m;
      if (rescaled(at)) now.l = tile.l_rescaled, now.O = tile.O_rescaled;
    }
    return now;
  }
  void check_stop() const {
    if (stop_.stop_requested()) throw Cancelled();
  }

 private:
  const Schedule& schedule_;
  RowReplay<T> replay_;
  std::stop_token stop_;
  bool standard_;
  std::int64_t head_, row_, i_;
};

}  // namespace flashscope
