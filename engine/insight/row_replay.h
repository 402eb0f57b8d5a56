// Rows folded again tile by tile, to look at them verb by verb: what diagnosis and provenance share. Nothing
// of a run is stored; what is recomputed here has the bits of the run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/attention/row_walk.h"

namespace flashscope {

// One row in one visited tile (standard: in its strip of all keys), after each verb. Values convert to double exactly.
struct TileRow {
  std::int64_t head = 0, row = 0, i = 0, j = 0, n = 0;  // n: the tile's number among those that the row block visits
  std::int64_t col0 = 0, cols = 0;
  std::vector<double> raw, S, P;             // [cols] scores before and after the mask; numerators
  double m_old = 0, m = 0, tile_max = 0;     // the maxima ignore NaN
  double subtracted = 0;                     // what the exponents subtract: m, or the tile's maximum; clamped
  double l_old = 0, l_rescaled = 0, l = 0;   // before the tile, after rescale, after accumulate
  double alpha = 1, o_factor = 1;            // o_factor: what O was multiplied by in rescale
  std::vector<double> O_old, O_rescaled, O;  // [dv]
  std::int64_t key(std::int64_t c) const { return col0 + c; }
};

template <class T>
class RowReplay {
 public:
  RowReplay(const Problem& problem, const Schedule& schedule)
      : problem_(problem), schedule_(schedule), fold_(problem, schedule.recipe()) {}

  const Fold<T>& fold() const { return fold_; }
  std::int64_t lane(std::int64_t row) const { return row - fold_.row0(); }

  void start_block(std::int64_t head, std::int64_t i) {
    i_ = i;
    start_row_block(fold_, schedule_, head, i);
  }
  // One row alone, except where its place in the tile matters.
  void start_row(std::int64_t head, std::int64_t row) {
    i_ = row / schedule_.recipe().Br;
    if (schedule_.recipe().defect == Defect::local_causal)
      start_row_block(fold_, schedule_, head, i_);
    else
      fold_.start(head, row, 1);
  }

  // The n-th visit. `before` receives the state ahead of it, for look().
  void fold_in(std::int64_t n) {
    fold_.save(before_);
    fold_visit(fold_, schedule_, fold_.head(), i_, n);
  }
  // The n-th visit verb by verb, from the state before the last fold_in(n).
  std::vector<TileRow> look_again(std::int64_t n, std::span<const std::int64_t> rows) {
    fold_.restore(before_);
    return look(n, rows);
  }
  std::vector<TileRow> look(std::int64_t n, std::span<const std::int64_t> rows) {
    const bool standard = schedule_.recipe().algorithm == Algorithm::standard;
    if (standard)
      begin_strip(fold_, schedule_, fold_.head(), i_);
    else
      begin_visit(fold_, schedule_, fold_.head(), i_, n);
    std::vector<TileRow> found;
    for (const std::int64_t row : rows) {
      TileRow& one = found.emplace_back();
      one.head = fold_.head(), one.row = row, one.i = i_, one.n = n;
      one.j = standard ? -1 : schedule_.visit_j(fold_.head(), i_, n);
      one.col0 = fold_.col0(), one.cols = fold_.cols();
      one.l_old = fold_.l()[lane(row)];
      one.O_old = O(row);
    }
    const auto each = [&](auto note) {
      for (TileRow& one : found) note(one, lane(one.row));
    };
    fold_.scores();
    each([&](TileRow& one, std::int64_t r) { one.raw = cells(r); });
    fold_.mask();
    each([&](TileRow& one, std::int64_t r) { one.S = cells(r); });
    if (standard) {
      fold_.softmax();
    } else {
      fold_.max();
      fold_.exponentials();
    }
    each([&](TileRow& one, std::int64_t r) {
      one.P = cells(r);
      one.m_old = fold_.m_old()[r], one.m = fold_.m()[r];
      one.tile_max = -std::numeric_limits<double>::infinity();
      for (const double s : one.S)
        if (s > one.tile_max) one.tile_max = s;
      one.subtracted = own_maximum() ? one.tile_max : one.m;
      if (schedule_.recipe().guard == Guard::clamp && std::isinf(one.subtracted) && one.subtracted < 0)
        one.subtracted = 0;
    });
    if (!standard) fold_.rescale();
    each([&](TileRow& one, std::int64_t r) {
      one.alpha = fold_.alpha()[r], one.o_factor = fold_.o_factor()[r];
      one.l_rescaled = fold_.l()[r], one.O_rescaled = standard ? one.O_old : O(one.row);
    });
    if (standard)
      fold_.multiply();
    else
      fold_.accumulate();
    each([&](TileRow& one, std::int64_t r) { one.l = fold_.l()[r], one.O = O(one.row); });
    return found;
  }
  void finish() { fold_.finish(); }

  std::vector<double> O(std::int64_t row) const {
    std::vector<double> values(problem_.V().cols);
    for (std::size_t e = 0; e < values.size(); ++e)
      values[e] = fold_.O()[static_cast<std::int64_t>(e) * fold_.lanes() + lane(row)];
    return values;
  }
  // NaN in l or O of the row; in one column of O, or in all of them (-1).
  bool is_nan(std::int64_t row, std::int64_t column = -1) const {
    return std::isnan(fold_.l()[lane(row)]) || o_is_nan(row, column);
  }
  bool o_is_nan(std::int64_t row, std::int64_t column = -1) const {
    for (std::int64_t e = std::max<std::int64_t>(column, 0); e < (column < 0 ? problem_.V().cols : column + 1); ++e)
      if (std::isnan(fold_.O()[e * fold_.lanes() + lane(row)])) return true;
    return false;
  }

 private:
  bool own_maximum() const {
    const Recipe& recipe = schedule_.recipe();
    return recipe.algorithm != Algorithm::standard &&
           (recipe.numerators == Numerators::tile || recipe.defect == Defect::tile_max);
  }
  std::vector<double> cells(std::int64_t r) const {
    std::vector<double> values(fold_.cols());
    for (std::int64_t c = 0; c < fold_.cols(); ++c) values[c] = fold_.S()[c * fold_.lanes() + r];
    return values;
  }

  const Problem& problem_;
  const Schedule& schedule_;
  Fold<T> fold_;
  RowBlockState<T> before_;
  std::int64_t i_ = 0;
};

}  // namespace flashscope
