#include "engine/insight/provenance.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/digits.h"
#include "engine/error.h"
#include "engine/insight/row_states.h"
#include "engine/insight/tile_chain.h"

namespace flashscope {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T>
class Explainer : private TileChain {
 public:
  Explainer(const Problem& problem, const Schedule& schedule, const Question& question, std::stop_token stop)
      : TileChain(problem, schedule, question.head, question.row),
        states_(problem, schedule, question.head, question.row, std::move(stop)) {}

  Provenance answer(const Question& question) {
    const At at = states_.place(question.K);
    switch (question.of) {
      case CellKind::O:
        why_O(question.col, at);
        break;
      case CellKind::LSE:
        why_LSE(at);
        break;
      case CellKind::l:
        why_l(at);
        break;
      case CellKind::m:
        why_m(at);
        break;
      default: {
        const std::int64_t j = question.of == CellKind::alpha ? question.col : question.col / recipe_.Bc;
        if (const auto tile = tile_of(j)) {
          if (question.of == CellKind::alpha) why_alpha(*tile);
          if (question.of == CellKind::P) why_P(*tile, question.col - tile->col0);
          if (question.of == CellKind::S) why_S(*tile, question.col - tile->col0);
        }
      }
    }
    return std::move(result_);
  }

 private:
  using Numbers = typename RowStates<T>::Numbers;

  std::optional<TileRow> tile_of(std::int64_t j) {
    const std::int64_t n = standard_ ? 0 : schedule_.visit_index(head_, i_, j);
    if (n < 0) {
      Link& link = add(CellKind::tile, fmt::format("tile ({}, {}) is not visited", i_, j));
      link.j = j;
      link.step = schedule_.nearest(head_, row_, j * recipe_.Bc, Stage::scores);
      hidden(j * recipe_.Bc, j * recipe_.Bc + schedule_.cols(j));
      result_.origin = Origin::not_visited;
      return {};
    }
    return states_.tile(n);
  }

  // ---- O, LSE, l, m
  void why_O(std::int64_t x, const At& at) {
    const auto now = states_.numbers(at);
    const double running = now.O[x], value = at.finished ? now.O_at_end[x] : running;
    Link& link = add_O(x, at.K, value);
    const bool replaced = at.finished && policy_decides(problem_, recipe_, head_, row_);
    if (replaced) {
      const std::string_view policy = name(recipe_.empty_row);
      link.formula = recipe_.empty_row == EmptyRow::mean ? "mean over keys of V = " + number(value) : number(value);
      link.text = fmt::format("the policy for empty rows, {}, overwrites what the row computed", policy);
      if (std::isnan(value))
        result_.cause = cause_at_finish(problem_, recipe_, head_, row_, now.l),
        result_.stage = standard_ ? Stage::accumulate : Stage::finish;
      return empty_row();
    }
    const bool divides = at.finished && !standard_ && recipe_.normalised() == Normalise::end &&
                         recipe_.defect != Defect::no_final_divide;
    if (divides) link.formula = fmt::format("O / l = {} / {} = {}", term(running), term(now.l), number(value));
    if (std::isnan(value)) return nan_of(x, at, now);
    if (std::isinf(value)) return inf_of_O(x, at, now);
    if (value == 0) return zero_of_O(x, at, now);
    largest_term(x, at, now, value);
  }
  void why_LSE(const At& at) {
    const auto now = states_.numbers(at);
    const double value = at.finished ? now.LSE : now.m + std::log(now.l);
    Link& link = add(CellKind::LSE, fmt::format("LSE[{}]", row_));
    link.step = at.K, link.value = value;
    if (at.finished && policy_decides(problem_, recipe_, head_, row_)) {
      link.text = "an empty row's LSE is -inf by convention";
      return empty_row();
    }
    link.formula = fmt::format("m + ln l = {} + ln {} = {}", term(now.m), term(now.l), number(value));
    if (std::isnan(value) && std::isnan(now.l)) return nan_of(-2, at, now);
    if (std::isfinite(value) || now.m != -kInf) return why_m(at);
    why_l(at);
  }
  void why_l(const At& at) {
    const auto now = states_.numbers(at);
    if (std::isnan(now.l)) return nan_of(-2, at, now);
    Link& link = add(CellKind::l, fmt::format("l[{}]", row_));
    link.step = at.K, link.value = now.l;
    if (now.l == 0) return nothing_folded(at);
    if (std::isinf(now.l)) {
      const auto tile = states_.first_tile(at, [](double, double l, const auto&) { return std::isinf(l); });
      if (tile) link.step = step_of(*tile, Stage::accumulate), link.text = "the sum is beyond the type";
      result_.origin = Origin::overflow;
      return;
    }
    link.text = "the sum of exp(S - m) over the keys seen so far";
    why_m(at);
  }
  void why_m(const At& at) {
    const auto now = states_.numbers(at);
    Link& link = add(CellKind::m, fmt::format("m[{}]", row_));
    link.step = at.K, link.value = now.m;
    if (now.m == -kInf) return nothing_folded(at, true);
    const auto tile = states_.first_tile(at, [&](double m, double, const auto&) { return m == now.m; });
    if (!tile) return;
    // The link to the step that set the maximum.
    link.step = step_of(*tile, Stage::max), link.j = tile->j;
    for (std::int64_t c = 0; c < tile->cols; ++c) {
      if (tile->S[c] != now.m) continue;
      link.formula = fmt::format("max(m, S) = max({}, {}) at key {}", number(tile->m_old), number(now.m), tile->key(c));
      return why_S(*tile, c);
    }
  }
  // l or O is still 0, or m -inf: of all tiles folded in, for m with the one whose maximum is known already.
  void nothing_folded(const At& at, bool of_maximum = false) {
    if (schedule_.visits(head_, i_) == 0) {
      Link& link = add(CellKind::tile, fmt::format("row block {} visits no tile", i_));
      link.step = at.K;
      hidden(0, shape_.Nk);
      result_.origin = Origin::empty_row;
      return;
    }
    const std::int64_t tiles = at.folded + (of_maximum && states_.maximum_known(at) ? 1 : 0);
    if (tiles == 0) {
      result_.links.back().text = "no tile of this row block has been folded in yet";
      result_.origin = Origin::nothing_yet;
      return;
    }
    const auto tile = tile_of(standard_ ? 0 : schedule_.visit_j(head_, i_, tiles - 1));
    if (const std::int64_t c = made_infinite(problem_, recipe_, *tile, -kInf); c >= 0) return why_S(*tile, c);
    if (empty()) return empty_row();
    no_key(*tile, false);
  }

  // ---- NaN. x: a column of O, or -2 for l alone.
  void nan_of(std::int64_t x, const At& at, const Numbers& now) {
    const auto tile = states_.first_tile(at, [&](double, double l, const std::vector<double>& O) {
      return std::isnan(l) || (x >= 0 && std::isnan(O[x]));
    });
    if (!tile) {  // in finish
      result_.cause = cause_at_finish(problem_, recipe_, head_, row_, now.l);
      result_.stage = standard_ ? Stage::accumulate : Stage::finish;
      if (now.l == 0) {
        result_.links.back().text = "0 / 0";
        return why_l(at);
      }
      result_.links.back().text = "the quotient of two infinities";
      return x >= 0 && std::isinf(now.O[x]) ? inf_of_O(x, at, now) : why_l(at);
    }
    const Birth birth = birth_of_nan(problem_, recipe_, *tile, x >= 0 ? x : 0).value_or(Birth{});
    result_.cause = birth.cause, result_.stage = birth.stage;
    if (standard_) return nan_in_strip(x, *tile, birth);
    if (std::isnan(tile->l)) {
      const bool only_rescaled = rescaled_here(at, *tile);
      Link& link = add(CellKind::l, *tile, only_rescaled ? Stage::rescale : Stage::accumulate, tile->l);
      double sum = 0;
      for (const double p : tile->P) sum += p;
      link.formula = fmt::format("l alpha = {} x {}", term(tile->l_old), term(tile->alpha));
      if (!only_rescaled)
        link.formula = fmt::format("l alpha + sum P = {} x {} + {}", term(tile->l_old), term(tile->alpha), term(sum));
      link.formula += " = NaN";
    }
    const auto at_key = [&] { return birth.key - tile->col0; };
    switch (birth.stage) {
      case Stage::scores:
      case Stage::mask:
        nan_of_P(*tile, at_key());
        return why_S(*tile, at_key());
      case Stage::exponentials:
        nan_of_P(*tile, -1);
        return inf_minus_inf(*tile, at_key());
      case Stage::rescale:
        return nan_in_rescale(x, *tile, at);
      default:
        return nan_in_accumulate(x, *tile, birth, at);
    }
  }
  // The question is about a state in which this tile has been rescaled, but not accumulated.
  bool rescaled_here(const At& at, const TileRow& tile) const { return at.folded == tile.n && states_.rescaled(at); }
  void nan_in_rescale(std::int64_t x, const TileRow& tile, const At& at) {
    if (std::isnan(tile.alpha)) {
      Link& link = add(CellKind::alpha, tile, Stage::rescale, tile.alpha);
      link.formula = fmt::format("exp(m_old - m) = exp({} - {})", term(tile.m_old), term(tile.m));
      return no_key(tile, false);
    }
    x = std::max<std::int64_t>(x, 0);
    Link& link = add_O(x, step_of(tile, Stage::rescale), tile.O_rescaled[x]);
    link.j = tile.j;
    link.formula = fmt::format("O x factor = {} x {} = NaN", term(tile.O_old[x]), term(tile.o_factor));
    if (std::isinf(tile.o_factor)) {
      add(CellKind::alpha, tile, Stage::rescale, tile.alpha).formula =
          fmt::format("1 / alpha = 1 / {} = {}", number(tile.alpha), number(tile.o_factor));
      result_.origin = Origin::defect;
      return;
    }
    At before = at;
    before.folded = tile.n, before.stage.reset(), before.finished = false;
    born_inf(x, before);
  }
  void nan_in_accumulate(std::int64_t x, const TileRow& tile, const Birth& birth, const At& at) {
    x = birth.column >= 0 ? birth.column : std::max<std::int64_t>(x, 0);
    Link& link = add_O(x, step_of(tile, Stage::accumulate), tile.O[x]);
    link.j = tile.j;
    const std::int64_t kv = kv_head(shape_, recipe_, head_);
    if (birth.key >= 0) {
      const std::int64_t c = birth.key - tile.col0;
      link.formula = fmt::format("O + P V: P[{}, {}] x V[{}, {}] = {} x {} = NaN", row_, birth.key, birth.key, x,
                                 number(tile.P[c]), term(problem_.V().at(kv, birth.key, x)));
      if (tile.P[c] == 0 && !is_visible(birth.key))
        link.text = fmt::format("key {} is masked: its weight is 0, and 0 does not hide it", birth.key);
      return input(CellKind::V, problem_.V(), kv, birth.key, x, Origin::v);
    }
    if (tile.l == 0) {
      link.formula = fmt::format("O / l = {} / 0", number(tile.O_rescaled[x]));
      return nothing_folded({tile.n + 1, {}, false, link.step});
    }
    for (std::int64_t c = 0; c < tile.cols; ++c) {
      if (!std::isinf(problem_.V().at(kv, tile.key(c), x))) continue;
      link.formula = fmt::format("O + P V = {} + ... {} x {}", term(tile.O_rescaled[x]), number(tile.P[c]),
                                 term(problem_.V().at(kv, tile.key(c), x)));
      link.text = "infinities of both signs";
      return input(CellKind::V, problem_.V(), kv, tile.key(c), x, Origin::v);
    }
    At before = at;
    before.folded = tile.n, before.stage.reset(), before.finished = false;
    born_inf(x, before);
  }
  void nan_in_strip(std::int64_t x, const TileRow& tile, const Birth& birth) {
    const std::int64_t c = birth.key < 0 ? -1 : birth.key - tile.col0;
    if (birth.stage == Stage::accumulate) return nan_in_accumulate(x, tile, birth, {1, {}, true, 0});
    nan_of_P(tile, birth.stage == Stage::softmax ? -1 : c);
    result_.links.back().formula.clear();  // normalised: not the exponential alone
    if (birth.stage != Stage::softmax) return why_S(tile, c);
    if (birth.cause == Cause::div_zero) {
      result_.origin = Origin::underflow;
      result_.links.back().formula = fmt::format("P / l = 0 / {}", number(tile.l));
      return;
    }
    inf_minus_inf(tile, c);
  }

  // ---- infinities, zeros and ordinary values of O
  void inf_of_O(std::int64_t x, const At& at, const Numbers& now) {
    if (std::isfinite(now.O[x])) {
      result_.origin = Origin::division;
      return why_l(at);
    }
    born_inf(x, at);
  }
  // The tile in which O[x] became infinite.
  void born_inf(std::int64_t x, const At& at) {
    const auto tile =
        states_.first_tile(at, [&](double, double, const std::vector<double>& O) { return std::isinf(O[x]); });
    if (!tile) return;
    Link& link = add_O(x, step_of(*tile, Stage::accumulate), tile->O[x]);
    link.j = tile->j;
    const std::int64_t kv = kv_head(shape_, recipe_, head_);
    for (std::int64_t c = 0; c < tile->cols; ++c) {
      const double v = problem_.V().at(kv, tile->key(c), x);
      if (!std::isinf(v) || tile->P[c] == 0) continue;
      link.formula = fmt::format("O + P V: P[{}, {}] x V[{}, {}] = {} x {}", row_, tile->key(c), tile->key(c), x,
                                 number(tile->P[c]), term(v));
      return input(CellKind::V, problem_.V(), kv, tile->key(c), x, Origin::v);
    }
    link.text = "the sum of finite terms is beyond the type";
    result_.origin = Origin::overflow;
  }
  void zero_of_O(std::int64_t x, const At& at, const Numbers& now) {
    if (now.l == 0) return nothing_folded(at);
    if (std::isinf(now.l)) return why_l(at);
    largest_term(x, at, now, 0);
  }
  // The key that weighs most in O[x]; an O that is not divided yet counts its terms as they are held.
  void largest_term(std::int64_t x, const At& at, const Numbers& now, double value) {
    const bool undivided = !standard_ && recipe_.normalised() == Normalise::end &&
                           (!at.finished || recipe_.defect == Defect::no_final_divide);
    const double divisor = undivided ? 1 : static_cast<double>(now.l);
    const std::int64_t kv = kv_head(shape_, recipe_, head_), folded = standard_ ? 1 : at.folded;
    struct Term {
      double size = -1, weight = 0;
      std::int64_t n = 0, key = 0;
    } most;
    std::int64_t keys = 0, zeros = 0;
    states_.start();
    for (std::int64_t n = 0; n < folded; ++n) {
      states_.check_stop();
      const TileRow tile = states_.look(n);
      for (std::int64_t c = 0; c < tile.cols; ++c) {
        const double weight = tile.S[c] == -kInf ? 0 : std::exp(tile.S[c] - now.m) / divisor;
        const double v = problem_.V().at(kv, tile.key(c), x), size = std::abs(weight * v);
        keys += tile.S[c] != -kInf, zeros += tile.S[c] != -kInf && v == 0;
        if (size > most.size || (size == most.size && weight > most.weight)) most = {size, weight, n, tile.key(c)};
      }
    }
    if (most.size < 0) return;
    const double v = problem_.V().at(kv, most.key, x);
    Link& link = result_.links.back();
    if (value == 0 && zeros == keys)
      link.text = fmt::format("every V[k, {}] that this row sees is 0", x);
    else
      link.text =
          fmt::format("of {} {} the largest is key {}: {} x {} = {}", counted(keys, "term"),
                      undivided ? "P V" : "P V / l", most.key, number(most.weight), term(v), number(most.weight * v));
    const auto tile = tile_of(standard_ ? 0 : schedule_.visit_j(head_, i_, most.n));
    const std::size_t of_P = result_.links.size();
    why_P(*tile, most.key - tile->col0, true);
    // What becomes of P on its way into O: the alphas of the tiles after it, and l.
    if (Link& P = result_.links[of_P];
        !standard_ && recipe_.defect == Defect::none && tile->m < now.m && P.text.empty())
      P.text = fmt::format("rescaled by exp({} - {}) = {} since{}: {}", term(tile->m), term(now.m),
                           number(std::exp(tile->m - now.m)),
                           undivided ? "" : fmt::format(", over l = {}", term(now.l)), number(most.weight));
    Link& twin = result_.links.back();
    twin.twins.push_back(fmt::format("V[{}, {}] = {}", most.key, x, number(v)));
  }
  RowStates<T> states_;
};

}  // namespace

std::string conclusion(const Provenance& provenance) {
  if (!provenance.cause) return "";
  std::string said(explanation(*provenance.cause));
  // How it came about is not yet where it came from.
  if (provenance.cause != Cause::inf_minus_inf && provenance.cause != Cause::div_zero) return said;
  switch (provenance.origin) {
    case Origin::q:
      return said + ", behind it an infinity in Q";
    case Origin::k:
      return said + ", behind it an infinity in K";
    case Origin::bias:
      return said + ", behind it an infinity in the bias";
    case Origin::score_overflow:
      return said + ", behind it a product beyond the scores' type";
    case Origin::masked_tile:
      return said + ", behind it a tile of which the row sees no key, unguarded: what --guard clamp and skip are for";
    case Origin::empty_row:
      return said + ", behind it a row that sees no key at all, unguarded: what --guard clamp and skip are for";
    default:
      return said;
  }
}

Provenance why(const Problem& problem, const Schedule& schedule, const Question& question, std::stop_token stop) {
  check(question, schedule);
  if (problem.in_double()) return Explainer<double>(problem, schedule, question, std::move(stop)).answer(question);
  return Explainer<float>(problem, schedule, question, std::move(stop)).answer(question);
}

}  // namespace flashscope
