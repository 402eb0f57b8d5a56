// The typed half of the trace: one row block's fold brought to any number of tiles through keyframes, the
// verbs of one tile up to a stage, and the events that each verb brings. See trace.h.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "engine/attention/row_walk.h"
#include "engine/attention/trace.h"

namespace flashscope {

template <class T>
class Stepper {
 public:
  Stepper(std::shared_ptr<const Problem> problem, const Schedule& schedule);

  TraceState state(std::int64_t K, std::stop_token stop);
  std::vector<Event> tile_events(std::int64_t head, std::int64_t i, std::int64_t n, std::stop_token stop);
  std::vector<Event> finish_events(std::int64_t head, std::int64_t i, std::stop_token stop);
  std::vector<RowHistoryEntry> row_history(std::int64_t head, std::int64_t row, std::int64_t channel,
                                           std::stop_token stop);

  // The first (last) event of that kind of row block (head, i) with from_K < step < bound (bound < step <
  // from_K going backwards). Calls `folded` after each tile.
  std::optional<Event> search(EventKind kind, std::int64_t head, std::int64_t i, std::int64_t from_K,
                              std::int64_t bound, bool forward, double max_alpha, std::stop_token stop,
                              const std::function<void()>& folded);

 private:
  using State = RowBlockState<T>;
  // Keyframes of one row block, every `interval` tiles.
  struct Keyframes {
    std::int64_t head = 0, i = 0, interval = 1;
    std::vector<State> frames;  // frames[n] has folded == n * interval
  };

  std::int64_t interval_of(std::int64_t visits) const;
  Keyframes& keyframes(std::int64_t head, std::int64_t i);
  // Brings the fold to row block (head, i) with n tiles folded in; tile_start_ holds that state.
  void seek(std::int64_t head, std::int64_t i, std::int64_t n, std::stop_token stop);

  // The verbs of the tile that the fold has begun, up to `last`; events of each stage go to `events`.
  void run_tile(std::int64_t n, Stage last, std::vector<Event>& events);
  void run_strip(Stage last, std::vector<Event>& events);
  void finish(std::vector<Event>& events);

  struct RowMarks {  // per row: what it already had before the stage
    std::vector<std::uint8_t> nan, inf;
  };
  RowMarks marks() const;
  void note_cells(RowMarks& marks, bool only_visible, Event event, std::vector<Event>& events) const;
  void note_rows(RowMarks& marks, Event event, std::vector<Event>& events) const;

  void copy_row_state(TraceState& state) const;
  Matrix cells() const;
  Matrix input(const Tensor& tensor, std::int64_t head, std::int64_t row0, std::int64_t rows) const;

  std::shared_ptr<const Problem> problem_;
  const Schedule& schedule_;
  Band limits_;
  Fold<T> fold_;
  bool started_ = false;
  std::int64_t head_ = 0, i_ = 0;
  State tile_start_;            // of (head_, i_), tile_start_.folded tiles
  std::list<Keyframes> cache_;  // most recent first
};

}  // namespace flashscope
