#include "engine/insight/tile_chain.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "engine/digits.h"

namespace flashscope {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace

std::string TileChain::number(double value) { return number_text(value); }
std::string TileChain::term(double value) {
  const std::string text = number(value);
  return text[0] == '-' || std::isinf(value) ? "(" + text + ")" : text;
}

// ---- links

std::int64_t TileChain::step_of(const TileRow& tile, Stage stage) const {
  if (standard_ && (stage == Stage::max || stage == Stage::exponentials || stage == Stage::rescale))
    stage = Stage::softmax;
  return schedule_.find(head_, tile.i, tile.j, stage).value_or(-1) + 1;
}

Link& TileChain::add(CellKind of, std::string place) {
  Link& link = result_.links.emplace_back();
  link.of = of, link.head = head_, link.row = row_, link.i = i_;
  link.place = std::move(place);
  return link;
}

Link& TileChain::add(CellKind of, const TileRow& tile, Stage stage, double value, std::int64_t c) {
  std::string place = fmt::format("{}[{}]", name(of), row_);
  if (of == CellKind::P || of == CellKind::S)
    place = c < 0 ? fmt::format("{}[{}, :]", name(of), row_) : fmt::format("{}[{}, {}]", name(of), row_, tile.key(c));
  Link& link = add(of, std::move(place));
  link.j = tile.j, link.step = step_of(tile, stage), link.value = value;
  if (c >= 0) link.col = tile.key(c);
  return link;
}

Link& TileChain::add_O(std::int64_t x, std::int64_t step, double value) {
  Link& link = add(CellKind::O, fmt::format("O[{}, {}]", row_, x));
  link.col = x, link.step = step, link.value = value;
  return link;
}

void TileChain::input(CellKind of, const Tensor& tensor, std::int64_t head, std::int64_t row, std::int64_t col,
                      Origin origin) {
  Link& link = add(of, fmt::format("{}[{}, {}]", name(of), row, col));
  link.head = head, link.row = row, link.col = col;
  link.value = tensor.at(head, row, col);
  link.step = result_.links.size() > 1 ? result_.links[result_.links.size() - 2].step : 0;
  link.j = result_.links.size() > 1 ? result_.links[result_.links.size() - 2].j : -1;
  link.text = fmt::format("{} holds {}", name(of), number(link.value));
  result_.origin = origin;
}

void TileChain::hidden(std::int64_t first, std::int64_t last) {
  Link& link = add(CellKind::keys, why_hidden(problem_, head_, row_, first, last));
  const auto& before = result_.links[result_.links.size() - 2];
  link.step = before.step, link.j = before.j;
}

bool TileChain::empty() const { return !any_visible(problem_.mask, limits_, head_, row_, 0, shape_.Nk); }

void TileChain::empty_row() {
  Link& link = add(CellKind::tile, fmt::format("row {} sees no key at all", row_));
  link.step = result_.links[result_.links.size() - 2].step;
  hidden(0, shape_.Nk);
  result_.origin = Origin::empty_row;
}

void TileChain::no_key(const TileRow& tile, bool only_this_tile) {
  if (standard_) return empty_row();
  Link& link = add(CellKind::tile, fmt::format("tile ({}, {}) has no visible key for this row", tile.i, tile.j));
  link.j = tile.j, link.step = step_of(tile, Stage::mask);
  if (tile.n > 0 && !only_this_tile)
    link.text = fmt::format("nor had the {} tile{} before it", tile.n, tile.n == 1 ? "" : "s");
  hidden(tile.col0, tile.col0 + tile.cols);
  result_.origin = Origin::masked_tile;
  if (!empty()) return;
  result_.links.back().text = fmt::format("row {} sees no key in any tile", row_);
  result_.origin = Origin::empty_row;
}

bool TileChain::is_visible(std::int64_t key) const { return visible(problem_.mask, limits_, head_, row_, key); }

// ---- alpha, P, S

bool TileChain::skipped(const TileRow& tile) const {
  return recipe_.guard == Guard::skip &&
         !any_visible(problem_.mask, limits_, head_, row_, tile.col0, tile.col0 + tile.cols);
}

const char* TileChain::subtracted_name(const TileRow& tile) const {
  const bool own = !standard_ && (recipe_.numerators == Numerators::tile || recipe_.defect == Defect::tile_max);
  return own && tile.tile_max != tile.m ? "tile max" : "m";
}

std::string TileChain::alpha_formula(const TileRow& tile) const {
  if (skipped(tile)) return "no visible key in this tile: skipped, alpha = " + number(tile.alpha);
  if (recipe_.guard == Guard::clamp && tile.m == -kInf)
    return fmt::format("exp({} - 0) = {}, m = -inf clamped to 0", term(tile.m_old), number(tile.alpha));
  return fmt::format("exp(m_old - m) = exp({} - {}) = {}", term(tile.m_old), term(tile.m), number(tile.alpha));
}

std::string TileChain::alpha_text(const TileRow& tile) const {
  return fmt::format("alpha[{}] = {}", row_, alpha_formula(tile));
}

std::string TileChain::exp_text(const TileRow& tile, std::int64_t c) const {
  if (skipped(tile)) return "no visible key in this tile: skipped, P = " + number(tile.P[c]);
  return fmt::format("exp(S - {}) = exp({} - {}) = {}", subtracted_name(tile), term(tile.S[c]), term(tile.subtracted),
                     number(tile.P[c]));
}

void TileChain::nan_of_P(const TileRow& tile, std::int64_t c) {
  Link& link = add(CellKind::P, tile, Stage::exponentials, std::nan(""), c);
  if (std::isnan(tile.alpha)) link.twins.push_back(alpha_text(tile));
  if (c >= 0) link.formula = exp_text(tile, c);
}

void TileChain::inf_minus_inf(const TileRow& tile, std::int64_t c) {
  const std::string difference =
      fmt::format("S - {} = {} - {}", subtracted_name(tile), term(tile.subtracted), term(tile.subtracted));
  Link& link = add(CellKind::S, difference);
  link.col = tile.key(c), link.j = tile.j, link.step = step_of(tile, Stage::exponentials);
  link.value = std::nan("");
  if (const std::int64_t x = made_infinite(problem_, recipe_, tile, tile.subtracted); x >= 0) return why_S(tile, x);
  no_key(tile, tile.subtracted != tile.m);
}

void TileChain::why_alpha(const TileRow& tile) {
  Link& link = add(CellKind::alpha, tile, Stage::rescale, tile.alpha);
  link.formula = alpha_formula(tile);
  if (std::isnan(tile.alpha)) {
    result_.cause = Cause::inf_minus_inf, result_.stage = Stage::rescale;
    if (const std::int64_t c = made_infinite(problem_, recipe_, tile, tile.m); c >= 0) {
      result_.cause = fault(tile, c).cause;
      return why_S(tile, c);
    }
    return no_key(tile, false);
  }
  if (tile.alpha == 1 && tile.m == tile.m_old) {
    link.text = "the maximum did not grow";
    return;
  }
  if (tile.m == -kInf) return no_key(tile, false);
  if (tile.m_old == -kInf) link.text = "the first maximum of the row: there is nothing to carry over";
  if (tile.alpha == 0 && tile.m_old != -kInf) link.text = "the old maximum is so far below that nothing is left";
  for (std::int64_t c = 0; c < tile.cols; ++c)
    if (tile.S[c] == tile.m) return why_S(tile, c);
}

void TileChain::why_P(const TileRow& tile, std::int64_t c, bool of_largest) {
  Link& link = add(CellKind::P, tile, Stage::exponentials, tile.P[c], c);
  const bool guarded = recipe_.guard != Guard::none && tile.m == -kInf;
  link.formula = standard_ && !guarded ? fmt::format("exp(S - m) / l = exp({} - {}) / {} = {}", term(tile.S[c]),
                                                     term(tile.m), term(tile.l), number(tile.P[c]))
                                       : exp_text(tile, c);
  if (std::isnan(tile.P[c])) {
    if (std::isnan(tile.alpha)) link.twins.push_back(alpha_text(tile));
    const auto birth = birth_of_nan(problem_, recipe_, tile, 0);
    if (birth && birth->stage <= Stage::exponentials) result_.cause = birth->cause, result_.stage = birth->stage;
    if (std::isnan(tile.S[c])) {
      result_.cause = cause_of_nan_score(tile, c);
      result_.stage = std::isnan(tile.raw[c]) ? Stage::scores : Stage::mask;
      return why_S(tile, c);
    }
    if (standard_ && birth) return why_strip(tile, *birth);
    return inf_minus_inf(tile, c);
  }
  if (tile.P[c] == 0 && tile.S[c] != -kInf) {
    if (tile.m == -kInf || tile.S[c] - tile.subtracted > -80) {
      link.text = "the guard skips a row without a visible key in this tile";
      return no_key(tile, false);
    }
    link.text = "so far below the maximum that exp underflows";
    result_.origin = Origin::underflow;
  }
  if (!of_largest || tile.P[c] != 0 || tile.S[c] == -kInf) why_S(tile, c);
}

void TileChain::why_strip(const TileRow& tile, const Birth& birth) {
  result_.cause = birth.cause, result_.stage = birth.stage;
  const std::int64_t c = birth.key - tile.col0;
  if (birth.stage != Stage::softmax) return why_S(tile, c);
  if (birth.cause == Cause::inf_minus_inf) return inf_minus_inf(tile, c);
  result_.origin = Origin::underflow;
}

ScoreFault TileChain::fault(const TileRow& tile, std::int64_t c) const {
  return fault_of_score(problem_, recipe_, head_, row_, tile.key(c), tile.raw[c]);
}

Cause TileChain::cause_of_nan_score(const TileRow& tile, std::int64_t c) const {
  return !std::isnan(tile.raw[c]) && std::isinf(tile.raw[c]) ? Cause::inf_minus_inf : fault(tile, c).cause;
}

void TileChain::why_S(const TileRow& tile, std::int64_t c) {
  const std::int64_t key = tile.key(c), kv = kv_head(shape_, recipe_, head_);
  const double raw = tile.raw[c], score = tile.S[c];
  const bool seen = is_visible(key);
  const bool untouched = raw == score || (std::isnan(raw) && std::isnan(score));
  Link& link = add(CellKind::S, tile, untouched ? Stage::scores : Stage::mask, score, c);
  const auto& bias = problem_.mask.bias;
  const Mask& mask = problem_.mask;
  const char* product = mask.rules.softcap != 0 ? "softcap(scale q k)" : "scale q k";
  link.formula = fmt::format("{} = {}", product, number(raw));
  if (mask.adds() && seen)
    link.formula = fmt::format("{} + {} = {} + {} = {}", product,
                               mask.rules.alibi.empty() ? "bias"
                               : mask.bias              ? "bias + ALiBi"
                                                        : "ALiBi",
                               term(raw), term(added(mask, limits_, head_, row_, key)), number(score));
  if (std::isnan(score) && !result_.cause)
    result_.cause = cause_of_nan_score(tile, c), result_.stage = std::isnan(raw) ? Stage::scores : Stage::mask;
  const bool overflowed = recipe_.defect == Defect::finite_sentinel && std::isinf(score);
  if (!seen && !std::isnan(score) && !overflowed) {
    link.formula = fmt::format("masked: {} -> {}", number(raw), number(score));
    hidden(key, key + 1);
    result_.origin = Origin::masked_key;
    return;
  }
  if (std::isfinite(score)) {
    link.text = float16_note(tile, c);
    if (result_.origin != Origin::underflow) result_.origin = Origin::values;
    return;
  }
  const ScoreFault from = fault(tile, c);
  result_.origin = from.origin;
  switch (from.origin) {
    case Origin::q:
      return input(CellKind::Q, problem_.Q(), from.head, from.row, from.col, Origin::q);
    case Origin::k:
      return input(CellKind::K, problem_.K(), kv, from.row, from.col, Origin::k);
    case Origin::bias: {
      Link& cell = add(CellKind::bias, fmt::format("bias[{}, {}]", row_, key));
      cell.col = key, cell.j = tile.j, cell.step = step_of(tile, Stage::mask), cell.value = bias->at(head_, row_, key);
      cell.text = fmt::format("the mask holds {}", number(cell.value));
      return;
    }
    case Origin::score_overflow:
      link.text =
          fmt::format("finite elements of Q and K, q k = {}: beyond the type of the scores, {}", number(dot(tile, c)),
                      name(problem_.in_double() ? DType::float64 : recipe_.numerics.scores));
      return;
    case Origin::mask_overflow:
      link.text = "a finite score and finite masks: their sum is beyond the type of the scores";
      return;
    default:
      link.text = "by the defect of this recipe";
  }
}

std::string TileChain::float16_note(const TileRow& tile, std::int64_t c) const {
  if (shape_.type != DType::float16) return {};
  constexpr double kLargest = 65504;
  const double product = dot(tile, c);
  if (std::abs(product) <= kLargest) return {};
  return fmt::format("q k = {} before the scale is beyond float16's 65504: a kernel that keeps it in float16 has {}",
                     number(product), product > 0 ? "inf" : "-inf");
}

double TileChain::dot(const TileRow& tile, std::int64_t c) const {
  double sum = 0;
  for (std::int64_t e = 0; e < shape_.d; ++e)
    sum += problem_.Q().at(head_, row_, e) * problem_.K().at(kv_head(shape_, recipe_, head_), tile.key(c), e);
  return sum;
}

}  // namespace flashscope
