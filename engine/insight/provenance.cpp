#include "engine/insight/provenance.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/error.h"
#include "engine/insight/row_states.h"

namespace flashscope {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{:.6g}", value);
}
// In a formula: negative numbers and infinities in brackets.
std::string term(double value) {
  const std::string text = number(value);
  return text[0] == '-' || std::isinf(value) ? "(" + text + ")" : text;
}
template <class T>
class Explainer {
 public:
  Explainer(const Problem& problem, const Schedule& schedule, const Question& question, std::stop_token stop)
      : problem_(problem),
        schedule_(schedule),
        recipe_(schedule.recipe()),
        shape_(problem.shape()),
        limits_(band(problem.mask, shape_.Nq, shape_.Nk)),
        states_(problem, schedule, question.head, question.row, std::move(stop)),
        standard_(recipe_.algorithm == Algorithm::standard),
        head_(question.head),
        row_(question.row),
        i_(question.row / recipe_.Br) {}

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

  std::int64_t step_of(const TileRow& tile, Stage stage) const {
    if (standard_ && (stage == Stage::max || stage == Stage::exponentials || stage == Stage::rescale))
      stage = Stage::softmax;
    return schedule_.find(head_, tile.i, tile.j, stage).value_or(-1) + 1;
  }
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

  // ---- links
  Link& add(CellKind of, std::string place) {
    Link& link = result_.links.emplace_back();
    link.of = of, link.head = head_, link.row = row_, link.i = i_;
    link.place = std::move(place);
    return link;
  }
  Link& add(CellKind of, const TileRow& tile, Stage stage, double value, std::int64_t c = -1) {
    std::string place = fmt::format("{}[{}]", name(of), row_);
    if (of == CellKind::P || of == CellKind::S)
      place = c < 0 ? fmt::format("{}[{}, :]", name(of), row_) : fmt::format("{}[{}, {}]", name(of), row_, tile.key(c));
    Link& link = add(of, std::move(place));
    link.j = tile.j, link.step = step_of(tile, stage), link.value = value;
    if (c >= 0) link.col = tile.key(c);
    return link;
  }
  Link& add_O(std::int64_t x, std::int64_t step, double value) {
    Link& link = add(CellKind::O, fmt::format("O[{}, {}]", row_, x));
    link.col = x, link.step = step, link.value = value;
    return link;
  }
  void input(CellKind of, const Tensor& tensor, std::int64_t head, std::int64_t row, std::int64_t col, Origin origin) {
    Link& link = add(of, fmt::format("{}[{}, {}]", name(of), row, col));
    link.head = head, link.row = row, link.col = col;
    link.value = tensor.at(head, row, col);
    link.step = result_.links.size() > 1 ? result_.links[result_.links.size() - 2].step : 0;
    link.j = result_.links.size() > 1 ? result_.links[result_.links.size() - 2].j : -1;
    link.text = fmt::format("{} holds {}", name(of), number(link.value));
    result_.origin = origin;
  }
  // Why none of these keys is visible.
  void hidden(std::int64_t first, std::int64_t last) {
    Link& link = add(CellKind::keys, why_hidden(problem_, head_, row_, first, last));
    const auto& before = result_.links[result_.links.size() - 2];
    link.step = before.step, link.j = before.j;
  }
  bool empty() const { return !any_visible(problem_.mask, limits_, head_, row_, 0, shape_.Nk); }
  void empty_row() {
    Link& link = add(CellKind::tile, fmt::format("row {} sees no key at all", row_));
    link.step = result_.links[result_.links.size() - 2].step;
    hidden(0, shape_.Nk);
    result_.origin = Origin::empty_row;
  }
  // The row has met no visible key up to and with this tile.
  void no_key(const TileRow& tile, bool only_this_tile) {
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
  bool is_visible(std::int64_t key) const { return visible(problem_.mask, limits_, head_, row_, key); }

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
      link.formula += " = nan";
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
  void nan_of_P(const TileRow& tile, std::int64_t c) {
    Link& link = add(CellKind::P, tile, Stage::exponentials, std::nan(""), c);
    if (std::isnan(tile.alpha)) link.twins.push_back(alpha_text(tile));
    if (c >= 0) link.formula = exp_text(tile, c);
  }
  // Under guard skip such a row keeps its state, whatever the exponents would be.
  bool skipped(const TileRow& tile) const {
    return recipe_.guard == Guard::skip &&
           !any_visible(problem_.mask, limits_, head_, row_, tile.col0, tile.col0 + tile.cols);
  }
  std::string alpha_formula(const TileRow& tile) const {
    if (skipped(tile)) return "no visible key in this tile: skipped, alpha = " + number(tile.alpha);
    if (recipe_.guard == Guard::clamp && tile.m == -kInf)
      return fmt::format("exp({} - 0) = {}, m = -inf clamped to 0", term(tile.m_old), number(tile.alpha));
    return fmt::format("exp(m_old - m) = exp({} - {}) = {}", term(tile.m_old), term(tile.m), number(tile.alpha));
  }
  std::string alpha_text(const TileRow& tile) const { return fmt::format("alpha[{}] = {}", row_, alpha_formula(tile)); }
  std::string exp_text(const TileRow& tile, std::int64_t c) const {
    if (skipped(tile)) return "no visible key in this tile: skipped, P = " + number(tile.P[c]);
    return fmt::format("exp(S - {}) = exp({} - {}) = {}", subtracted_name(tile), term(tile.S[c]), term(tile.subtracted),
                       number(tile.P[c]));
  }
  const char* subtracted_name(const TileRow& tile) const {
    const bool own = !standard_ && (recipe_.numerators == Numerators::tile || recipe_.defect == Defect::tile_max);
    return own && tile.tile_max != tile.m ? "tile max" : "m";
  }
  // P is NaN of sound scores: S equals what is subtracted, and both are infinite.
  void inf_minus_inf(const TileRow& tile, std::int64_t c) {
    const std::string difference =
        fmt::format("S - {} = {} - {}", subtracted_name(tile), term(tile.subtracted), term(tile.subtracted));
    Link& link = add(CellKind::S, difference);
    link.col = tile.key(c), link.j = tile.j, link.step = step_of(tile, Stage::exponentials);
    link.value = std::nan("");
    if (const std::int64_t x = made_infinite(problem_, recipe_, tile, tile.subtracted); x >= 0) return why_S(tile, x);
    no_key(tile, tile.subtracted != tile.m);
  }
  void nan_in_rescale(std::int64_t x, const TileRow& tile, const At& at) {
    if (std::isnan(tile.alpha)) {
      Link& link = add(CellKind::alpha, tile, Stage::rescale, tile.alpha);
      link.formula = fmt::format("exp(m_old - m) = exp({} - {})", term(tile.m_old), term(tile.m));
      return no_key(tile, false);
    }
    x = std::max<std::int64_t>(x, 0);
    Link& link = add_O(x, step_of(tile, Stage::rescale), tile.O_rescaled[x]);
    link.j = tile.j;
    link.formula = fmt::format("O x factor = {} x {} = nan", term(tile.O_old[x]), term(tile.o_factor));
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
      link.formula = fmt::format("O + P V: P[{}, {}] x V[{}, {}] = {} x {} = nan", row_, birth.key, birth.key, x,
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
      link.text = fmt::format("of {} terms {} the largest is key {}: {} x {} = {}", keys, undivided ? "P V" : "P V / l",
                              most.key, number(most.weight), term(v), number(most.weight * v));
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

  // ---- alpha, P, S
  void why_alpha(const TileRow& tile) {
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
  void why_P(const TileRow& tile, std::int64_t c, bool of_largest = false) {
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
  // A NaN that the division by l has spread over the strip.
  void why_strip(const TileRow& tile, const Birth& birth) {
    result_.cause = birth.cause, result_.stage = birth.stage;
    const std::int64_t c = birth.key - tile.col0;
    if (birth.stage != Stage::softmax) return why_S(tile, c);
    if (birth.cause == Cause::inf_minus_inf) return inf_minus_inf(tile, c);
    result_.origin = Origin::underflow;
  }
  ScoreFault fault(const TileRow& tile, std::int64_t c) const {
    return fault_of_score(problem_, recipe_, head_, row_, tile.key(c), tile.raw[c]);
  }
  Cause cause_of_nan_score(const TileRow& tile, std::int64_t c) const {
    return !std::isnan(tile.raw[c]) && std::isinf(tile.raw[c]) ? Cause::inf_minus_inf : fault(tile, c).cause;
  }
  void why_S(const TileRow& tile, std::int64_t c) {
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
        cell.col = key, cell.j = tile.j, cell.step = step_of(tile, Stage::mask),
        cell.value = bias->at(head_, row_, key);
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
  // What a kernel that keeps its scores in float16 would make of it.
  std::string float16_note(const TileRow& tile, std::int64_t c) const {
    if (shape_.type != DType::float16) return {};
    constexpr double kLargest = 65504;
    const double product = dot(tile, c);
    if (std::abs(product) <= kLargest) return {};
    return fmt::format("q k = {} before the scale is beyond float16's 65504: a kernel that keeps it in float16 has {}",
                       number(product), product > 0 ? "inf" : "-inf");
  }
  double dot(const TileRow& tile, std::int64_t c) const {
    double sum = 0;
    for (std::int64_t e = 0; e < shape_.d; ++e)
      sum += problem_.Q().at(head_, row_, e) * problem_.K().at(kv_head(shape_, recipe_, head_), tile.key(c), e);
    return sum;
  }

  const Problem& problem_;
  const Schedule& schedule_;
  const Recipe& recipe_;
  const Shape shape_;
  const Band limits_;
  RowStates<T> states_;
  bool standard_;
  std::int64_t head_, row_, i_;
  Provenance result_;
};

}  // namespace

Provenance why(const Problem& problem, const Schedule& schedule, const Question& question, std::stop_token stop) {
  check(question, schedule);
  if (problem.in_double()) return Explainer<double>(problem, schedule, question, std::move(stop)).answer(question);
  return Explainer<float>(problem, schedule, question, std::move(stop)).answer(question);
}

}  // namespace flashscope
