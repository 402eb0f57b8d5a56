// The state of a run at any step, forwards or back.
//
// Going to a step is seeking: restore the nearest keyframe of one row block and fold forward; arithmetic
// is never run backwards. Forward stepping and seeking give the same bits. Memory is O(row block), plus
// a bounded cache of keyframes. Not thread-safe: one Trace belongs to one worker; it is cheap to make.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"
#include "engine/attention/schedule.h"

namespace flashscope {

// A small dense matrix that is copied out for reading; row-major. Values convert to double exactly.
struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;
  bool empty() const { return values.empty(); }
  double at(std::int64_t r, std::int64_t c) const { return values[r * cols + c]; }
};

enum class EventKind : std::uint8_t { first_max, rescale, masked, empty_row, nan, inf };
std::string_view name(EventKind kind);

struct Event {
  EventKind kind = EventKind::rescale;
  std::int64_t step = 0;  // state number K in which it is first visible
  std::int64_t head = 0, i = 0, j = 0;
  std::int64_t row = -1;  // query row; -1 for `masked` (a whole tile that is not visited, or has no visible key)
  double alpha = 1;       // of a rescale
  bool operator==(const Event&) const = default;
};

// What exists in state K. A buffer that does not exist at this step is empty.
struct TraceState {
  std::int64_t K = 0, steps = 0;
  std::optional<Step> step;               // the step that led here: step(K - 1); none for K = 0
  std::int64_t head = 0, i = -1, j = -1;  // row and column block on the chip; -1: none
  std::int64_t row0 = 0, rows = 0, col0 = 0, cols = 0;
  TileClass tile_class = TileClass::full;
  std::int64_t folded = 0, visits = 0;  // tiles of this row block folded in completely, and to fold in all
  bool finished = false;

  Matrix Q, K_tile, V, S, P;  // rows x d, cols x d, cols x dv, rows x cols (S masked once mask is done)
  Matrix O;                   // rows x dv, as held on the chip (un-normalised for normalise end)
  std::vector<double> m, m_old, l, l_old, alpha, o_factor, row_sum, LSE;  // [rows]; empty before they exist
  std::vector<std::uint8_t> rescaled;  // [rows] 1: this tile's maximum grew from a finite value
  std::vector<std::uint8_t> visible;   // [rows x cols] 1: key visible; empty unless the tile is partial or empty
  std::vector<Event> events;           // that became visible with this step
};

// One entry of a row's history: the row before and after it folded in one column block. Of a tile that is not
// visited both are the same.
struct RowHistoryEntry {
  std::int64_t j = 0;
  bool visited = true;
  double tile_max = 0, m = 0, l = 0, alpha = 1, o_norm = 0;  // o_norm: Euclidean norm of O[row, :]
  double m_before = 0, l_before = 0, o_norm_before = 0;
  double o = 0, o_before = 0;  // O[row, channel], where a channel was asked for
  bool rescaled = false;
  std::int64_t step = 0;  // state number after accumulate of that tile; 0 where not visited
};

// A worker's progress: done and total work in tiles. Called now and then; cheap.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

class Trace {
 public:
  // Throws InputError where one row block's buffers exceed memory_limit bytes.
  Trace(std::shared_ptr<const Problem> problem, const Recipe& recipe,
        std::int64_t memory_limit = std::int64_t{4} << 30);
  ~Trace();
  Trace(Trace&&) noexcept;

  const Problem& problem() const;
  const Schedule& schedule() const;

  // The state after K steps, clamped to 0..steps. Throws Cancelled.
  TraceState seek(std::int64_t K, std::stop_token stop = {});

  // The next (or previous) state after (before) K in which such an event becomes visible.
  // rescale beyond a factor: only those with alpha < max_alpha. Throws Cancelled.
  std::optional<Event> find(EventKind kind, std::int64_t from_K, bool forward, double max_alpha = 1,
                            std::stop_token stop = {}, const Progress& progress = {});

  // Events of one visited tile in order of (step, row).
  std::vector<Event> tile_events(std::int64_t head, std::int64_t i, std::int64_t j);
  // Events of row block (head, i) that belong to no tile's fold: empty_row and nan at finish.
  std::vector<Event> finish_events(std::int64_t head, std::int64_t i);

  // Masked events of flash2's row block (head, i): tiles that it does not visit.
  std::vector<Event> skipped_tiles(std::int64_t head, std::int64_t i);

  // In the order of folding. `channel`: of O, followed too; -1: none.
  std::vector<RowHistoryEntry> row_history(std::int64_t head, std::int64_t row, std::stop_token stop = {},
                                           std::int64_t channel = -1);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Checks of one row as if the loop stopped in that state: from the row's P over all keys seen so far.
struct RowCheck {
  std::int64_t visible_keys = 0, seen_keys = 0;   // in the whole row; of these, in tiles folded so far
  double sum_p_over_l = 0;                        // 1 up to rounding in a right run
  double masked_weight = 0;                       // softmax weight on keys that are not visible; 0 in a right run
  double max_error = 0;                           // |O/l - reference over the keys seen so far|, largest over dv
  std::vector<double> o_if_stopped, o_reference;  // [dv]
};
RowCheck check_row(const Problem& problem, const Schedule& schedule, const TraceState& state, std::int64_t row,
                   std::stop_token stop = {});

}  // namespace flashscope
