// One row block walked tile by tile with the schedule and the fold together: what the trace, the scan, the
// CPU run and the diagnosis share.
#pragma once

#include <stop_token>

#include "engine/attention/online_softmax.h"
#include "engine/attention/schedule.h"
#include "engine/error.h"

namespace flashscope {

// Whether the fold has to look at the mask in this tile.
inline bool needs_mask(const Schedule& schedule, std::int64_t head, std::int64_t i, std::int64_t j) {
  return schedule.mask().adds() || schedule.tile_class(head, i, j) != TileClass::full;
}

template <class T>
void start_row_block(Fold<T>& fold, const Schedule& schedule, std::int64_t head, std::int64_t i) {
  fold.start(head, i * schedule.recipe().Br, schedule.rows(i));
}

// The n-th visited tile of the row block that the fold has started; `begin` only, the verbs are the caller's.
template <class T>
void begin_visit(Fold<T>& fold, const Schedule& schedule, std::int64_t head, std::int64_t i, std::int64_t n) {
  const std::int64_t j = schedule.visit_j(head, i, n);
  fold.begin_tile(j * schedule.recipe().Bc, schedule.cols(j), needs_mask(schedule, head, i, j));
}
template <class T>
void fold_visit(Fold<T>& fold, const Schedule& schedule, std::int64_t head, std::int64_t i, std::int64_t n) {
  const std::int64_t j = schedule.visit_j(head, i, n);
  fold.fold_tile(j * schedule.recipe().Bc, schedule.cols(j), needs_mask(schedule, head, i, j));
}
template <class T>
TileCounts fold_visit_counted(Fold<T>& fold, const Schedule& schedule, std::int64_t head, std::int64_t i,
                              std::int64_t n) {
  const std::int64_t j = schedule.visit_j(head, i, n);
  return fold.fold_tile_counted(j * schedule.recipe().Bc, schedule.cols(j), needs_mask(schedule, head, i, j));
}

// Standard attention: the strip of all keys at once.
template <class T>
void begin_strip(Fold<T>& fold, const Schedule& schedule, std::int64_t head, std::int64_t i) {
  bool full = !schedule.mask().adds();
  for (std::int64_t j = 0; full && j < schedule.Tc(); ++j) full = schedule.tile_class(head, i, j) == TileClass::full;
  fold.begin_tile(0, schedule.shape().Nk, !full);
}

// The rows that the fold has started, to their end: all their tiles in order, and finish. Throws Cancelled.
template <class T>
void fold_to_the_end(Fold<T>& fold, const Schedule& schedule, std::int64_t head, std::int64_t i,
                     const std::stop_token& stop) {
  if (schedule.recipe().algorithm == Algorithm::standard) {
    if (stop.stop_requested()) throw Cancelled();
    begin_strip(fold, schedule, head, i);
    fold.scores(), fold.mask(), fold.softmax(), fold.multiply();
  } else {
    for (std::int64_t n = 0; n < schedule.visits(head, i); ++n) {
      if (stop.stop_requested()) throw Cancelled();
      fold_visit(fold, schedule, head, i, n);
    }
  }
  fold.finish();
}

}  // namespace flashscope
