// The links of a provenance inside one tile: alpha, P and S of a row back to Q, K, the masks, or to the tile that has
// no key for the row. What needs the row in other states than this tile's is provenance.cpp's.
//
//   P[r, k] = exp(S[r, k] - m[r])    alpha[r] = exp(m_old[r] - m[r])
#pragma once

#include <string>

#include "engine/insight/provenance.h"
#include "engine/insight/row_replay.h"

namespace flashscope {

class TileChain {
 public:
  TileChain(const Problem& problem, const Schedule& schedule, std::int64_t head, std::int64_t row)
      : problem_(problem),
        schedule_(schedule),
        recipe_(schedule.recipe()),
        shape_(problem.shape()),
        limits_(band(problem.mask, shape_.Nq, shape_.Nk)),
        standard_(recipe_.algorithm == Algorithm::standard),
        head_(head),
        row_(row),
        i_(row / recipe_.Br) {}

 protected:
  static std::string number(double value);  // "NaN", "-inf", "0.25"
  static std::string term(double value);    // in a formula: negative numbers and infinities in brackets

  // ---- links. A new one is the last of the result.
  std::int64_t step_of(const TileRow& tile, Stage stage) const;
  Link& add(CellKind of, std::string place);
  Link& add(CellKind of, const TileRow& tile, Stage stage, double value, std::int64_t c = -1);
  Link& add_O(std::int64_t x, std::int64_t step, double value);
  void input(CellKind of, const Tensor& tensor, std::int64_t head, std::int64_t row, std::int64_t col, Origin origin);
  // Why none of these keys is visible.
  void hidden(std::int64_t first, std::int64_t last);
  bool empty() const;
  void empty_row();
  // The row has met no visible key up to and with this tile.
  void no_key(const TileRow& tile, bool only_this_tile);
  bool is_visible(std::int64_t key) const;

  // ---- chains. They end at their source, and set cause, stage and origin.
  void nan_of_P(const TileRow& tile, std::int64_t c);
  // P is NaN of sound scores: S equals what is subtracted, and both are infinite.
  void inf_minus_inf(const TileRow& tile, std::int64_t c);
  void why_alpha(const TileRow& tile);
  void why_P(const TileRow& tile, std::int64_t c, bool of_largest = false);
  // A NaN that the division by l has spread over the strip.
  void why_strip(const TileRow& tile, const Birth& birth);
  void why_S(const TileRow& tile, std::int64_t c);
  std::string alpha_formula(const TileRow& tile) const;
  std::string alpha_text(const TileRow& tile) const;
  std::string exp_text(const TileRow& tile, std::int64_t c) const;

  const Problem& problem_;
  const Schedule& schedule_;
  const Recipe& recipe_;
  const Shape shape_;
  const Band limits_;
  bool standard_;
  std::int64_t head_, row_, i_;
  Provenance result_;

 private:
  // Under guard skip such a row keeps its state, whatever the exponents would be.
  bool skipped(const TileRow& tile) const;
  const char* subtracted_name(const TileRow& tile) const;
  ScoreFault fault(const TileRow& tile, std::int64_t c) const;
  Cause cause_of_nan_score(const TileRow& tile, std::int64_t c) const;
  // What a kernel that keeps its scores in float16 would make of it.
  std::string float16_note(const TileRow& tile, std::int64_t c) const;
  double dot(const TileRow& tile, std::int64_t c) const;
};

}  // namespace flashscope
