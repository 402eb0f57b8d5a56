// Faults of every kind planted at random places: cause, row, tile, stage and source of the chain against a plain
// recomputation of the row that shares nothing with the engine.
#include "engine/insight/provenance.h"

#include <fmt/format.h>

#include <map>
#include <random>

#include "engine/attention/trace.h"
#include "engine/error.h"
#include "engine/insight/diagnosis.h"
#include "support.h"

namespace flashscope::testing {
namespace {

const float kNan = std::nanf("");
const float kInf = std::numeric_limits<float>::infinity();

enum class Plant {
  none,
  q_nan,
  k_nan,
  v_nan,
  q_inf,
  k_inf,
  v_inf,
  bias_nan,
  bias_inf,
  masked_tiles,  // a random keep mask, no guard
  empty_row,
  score_overflow,
  float16_overflow,  // scores kept in float16, products beyond it
  mask_overflow
};
constexpr int kPlants = 14;
constexpr std::int64_t kHeads = 4;  // on 1, 2 or 4 of keys

struct Planted {
  Plant plant = Plant::none;
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
  std::int64_t head = 0, row = 0, col = 0;  // of the tensor it is planted in
  std::int64_t query_head = 0;              // a head that meets it
};

// ---- the row again, in plain float
struct Found {
  Stage stage = Stage::scores;
  std::int64_t j = -1, key = -1;
  double P = 1;                           // of the key
  bool by_visible = false, plus = false;  // of inf - inf: a visible score is that infinity
  bool l_zero = false;                    // at finish
};

bool sees(const Problem& p, std::int64_t h, std::int64_t r, std::int64_t c) {
  const Mask& mask = p.mask;
  const std::int64_t shift = mask.causal == Causal::bottom_right ? p.K().rows - p.Q().rows : 0;
  if (mask.causal != Causal::none && c > r + shift) return false;
  if (mask.window && (c < r + shift - mask.window->left || c > r + shift + mask.window->right)) return false;
  if (mask.keep && !mask.keep->keep(h, r, c)) return false;
  return !mask.bias || mask.bias->at(h, r, c) != -kInf;
}
bool empty(const Problem& p, std::int64_t h, std::int64_t r) {
  for (std::int64_t c = 0; c < p.K().rows; ++c)
    if (sees(p, h, r, c)) return false;
  return true;
}

bool visits(const Problem& p, const Recipe& recipe, std::int64_t h, std::int64_t i, std::int64_t j) {
  if (recipe.skip == Skip::none) return true;
  Problem structure = p;
  if (recipe.skip == Skip::geometry) structure.mask.keep = nullptr, structure.mask.bias = nullptr;
  for (std::int64_t r = i * recipe.Br; r < std::min(p.Q().rows, (i + 1) * recipe.Br); ++r)
    for (std::int64_t c = j * recipe.Bc; c < std::min(p.K().rows, (j + 1) * recipe.Bc); ++c)
      if (sees(structure, h, r, c)) return true;
  return false;
}

std::optional<Found> oracle(const Problem& p, const Recipe& recipe, std::int64_t h, std::int64_t r, std::int64_t x) {
  const bool standard = recipe.algorithm == Algorithm::standard;
  const bool each = !standard && recipe.normalised() == Normalise::each;
  const std::int64_t Nk = p.K().rows, kv = p.shape().kv_head(h), Bc = standard ? Nk : recipe.Bc;
  const std::int64_t Tc = (Nk + Bc - 1) / Bc;
  if (recipe.guard != Guard::none && recipe.defect == Defect::none && empty(p, h, r)) {
    if (recipe.empty_row == EmptyRow::nan) return Found{standard ? Stage::accumulate : Stage::finish};
    return {};
  }
  float m = -kInf, l = 0, o = 0;
  for (std::int64_t n = 0; n < Tc; ++n) {
    const std::int64_t j = recipe.order == Order::reverse && !standard ? Tc - 1 - n : n;
    if (!standard && !visits(p, recipe, h, r / recipe.Br, j)) continue;
    std::optional<Found> at_scores, at_mask, at_exp;
    std::vector<float> S;
    const std::int64_t c0 = j * Bc, c1 = std::min(Nk, c0 + Bc);
    bool any = false;
    float top = -kInf;
    for (std::int64_t c = c0; c < c1; ++c) {
      float dot = 0;
      for (std::int64_t e = 0; e < p.Q().cols; ++e)
        dot += static_cast<float>(p.Q().at(h, r, e)) * static_cast<float>(p.K().at(kv, c, e));
      const auto kept = [&](float score) { return static_cast<float>(round_to(recipe.numerics.scores, score)); };
      const float raw = kept(kept(dot) * static_cast<float>(p.scale));
      const bool seen = sees(p, h, r, c);
      float s = raw;
      const double bias = p.mask.bias ? p.mask.bias->at(h, r, c) : 0;
      if (p.mask.bias && bias != -kInf) s += static_cast<float>(bias);
      if (!seen) {
        if (recipe.defect == Defect::finite_sentinel)
          s = recipe.sentinel_added ? s + static_cast<float>(recipe.sentinel) : static_cast<float>(recipe.sentinel);
        else
          s = recipe.mask_apply == MaskApply::add ? s - kInf : -kInf;
      }
      any = any || seen;
      if (std::isnan(s) && std::isnan(raw) && !at_scores) at_scores = Found{Stage::scores, j, c};
      if (std::isnan(s) && !at_mask) at_mask = Found{Stage::mask, j, c};
      if (s > top) top = s;
      S.push_back(s);
    }
    if (!standard && recipe.guard == Guard::skip && !any) continue;
    const float m_new = top > m ? top : m;
    const float shift = recipe.guard == Guard::clamp && m_new == -kInf ? 0 : m_new;
    float alpha = std::exp(m - shift), sum = 0, pv = 0;
    std::optional<Found> at_v;
    std::vector<float> P;
    for (std::int64_t c = c0; c < c1; ++c) {
      P.push_back(std::exp(S[c - c0] - shift));
      sum += P.back();
      if (std::isnan(P.back()) && !std::isnan(S[c - c0]) && !at_exp) {
        at_exp = Found{Stage::exponentials, j, c};
        at_exp->plus = shift > 0;
        for (std::int64_t k = c0; k < c1; ++k)
          at_exp->by_visible = at_exp->by_visible || (S[k - c0] == shift && (at_exp->plus || sees(p, h, r, k)));
      }
    }
    if (standard && recipe.guard == Guard::skip && !any) {
      at_exp.reset(), sum = 0, std::fill(P.begin(), P.end(), 0.0f);
    } else if (standard) {
      const float divisor = recipe.guard != Guard::none && !any        ? 1
                            : recipe.guard == Guard::clamp && sum == 0 ? 1
                                                                       : sum;
      if (at_exp) at_exp->stage = Stage::softmax;
      for (float& q : P) q /= divisor;
      if (!at_exp && !at_scores && !at_mask && std::isnan(P[0])) at_exp = Found{Stage::softmax, -1, 0};
    }
    for (std::int64_t c = c0; c < c1; ++c) {
      const auto v = static_cast<float>(p.V().at(kv, c, x));
      pv += P[c - c0] * v;
      if (std::isnan(P[c - c0] * v) && !at_v) {
        at_v = Found{Stage::accumulate, j, c};
        at_v->P = P[c - c0];
      }
    }
    const float l_scaled = standard ? 0 : l * alpha, o_scaled = standard ? 0 : each ? o * (alpha * l) : o * alpha;
    const float l_new = l_scaled + sum;
    float o_new = o_scaled + pv;
    if (each) o_new *= 1 / (recipe.guard == Guard::clamp && l_new == 0 ? 1 : l_new);
    if (std::isnan(l_new) || std::isnan(o_new)) {
      auto found = at_scores ? at_scores : at_mask ? at_mask : at_exp;
      if (!found && (std::isnan(l_scaled) || std::isnan(o_scaled))) found = Found{Stage::rescale, j, -1};
      if (!found) found = at_v ? at_v : Found{Stage::accumulate, j, -1};
      if (standard) found->j = -1;
      return found;
    }
    m = m_new, l = l_new, o = o_new;
  }
  Found found{standard ? Stage::accumulate : Stage::finish};
  found.l_zero = l == 0;
  if (!standard && recipe.normalised() == Normalise::end && std::isnan(o / l)) return found;
  return {};
}

// ---- planting
class Planter {
 public:
  explicit Planter(unsigned seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }

  Planted plant(Plant what) {
    Planted planted;
    planted.plant = what;
    Shape shape{kHeads,        std::int64_t{1} << below(3), 3 + below(16), 3 + below(16), 1 + below(4), 1 + below(3),
                DType::float32};
    const auto base = random_problem(shape, random_());
    Tensor Q = base->Q(), K = base->K(), V = base->V();
    Mask mask;
    Recipe& recipe = planted.recipe;
    recipe.algorithm = static_cast<Algorithm>(below(3));
    recipe.Br = 1 + below(7), recipe.Bc = 1 + below(7);
    recipe.order = static_cast<Order>(below(2));
    recipe.skip = static_cast<Skip>(below(3));
    recipe.guard = static_cast<Guard>(below(3));
    recipe.normalise = recipe.algorithm == Algorithm::standard ? Normalise::end : static_cast<Normalise>(below(2));
    if (below(2) == 0) recipe.empty_row = EmptyRow::nan;
    if (below(3) == 0) mask.causal = below(2) ? Causal::top_left : Causal::bottom_right;
    if (below(4) == 0) mask.window = Window{below(5), below(5)};
    const auto element = [&](Tensor& tensor, double value) {
      planted.head = below(tensor.heads);
      planted.query_head = planted.head * (kHeads / tensor.heads) + below(kHeads / tensor.heads);
      planted.row = below(tensor.rows), planted.col = below(tensor.cols);
      set(tensor, planted.head, planted.row, planted.col, value);
    };
    const auto keep = [&](std::int64_t one_in) {
      KeepMask bits = make_keep_mask(1, shape.Nq, shape.Nk);
      for (std::int64_t r = 0; r < shape.Nq; ++r)
        for (std::int64_t c = 0; c < shape.Nk; ++c)
          if (below(one_in) == 0) set_keep(bits, 0, r, c);
      return bits;
    };
    const auto bias_cell = [&](float value) {
      Bias bias;
      bias.heads = kHeads, bias.rows = shape.Nq, bias.cols = shape.Nk;
      for (std::int64_t n = 0; n < kHeads * shape.Nq * shape.Nk; ++n) bias.f32.push_back(static_cast<float>(below(3)));
      planted.head = planted.query_head = below(kHeads), planted.row = below(shape.Nq), planted.col = below(shape.Nk);
      bias.f32[(planted.head * shape.Nq + planted.row) * shape.Nk + planted.col] = value;
      mask.bias = std::make_shared<const Bias>(std::move(bias));
    };
    const float sign = below(2) ? 1 : -1;
    switch (what) {
      case Plant::none:
        break;
      case Plant::q_nan:
      case Plant::q_inf:
        element(Q, what == Plant::q_nan ? kNan : sign * kInf);
        break;
      case Plant::k_nan:
      case Plant::k_inf:
        element(K, what == Plant::k_nan ? kNan : sign * kInf);
        break;
      case Plant::v_nan:
      case Plant::v_inf:
        element(V, what == Plant::v_nan ? kNan : sign * kInf);
        break;
      case Plant::bias_nan:
        bias_cell(kNan);
        break;
      case Plant::bias_inf:
        bias_cell(kInf);
        break;
      case Plant::masked_tiles:
        recipe.guard = Guard::none;
        mask.keep = std::make_shared<const KeepMask>(keep(3));
        break;
      case Plant::empty_row: {
        KeepMask bits = keep(1);
        planted.row = below(shape.Nq);
        std::fill_n(bits.bits.begin() + planted.row * bits.words_per_row, bits.words_per_row, 0);
        mask.keep = std::make_shared<const KeepMask>(std::move(bits));
        break;
      }
      case Plant::score_overflow:
        planted.row = below(shape.Nq);
        for (std::int64_t e = 0; e < shape.d; ++e) set(Q, 0, planted.row, e, 1e30f);
        for (std::int64_t c = 0; c < shape.Nk; ++c)
          for (std::int64_t e = 0; e < shape.d; ++e) set(K, 0, c, e, 1e30f);
        break;
      case Plant::float16_overflow: {
        recipe.numerics.scores = DType::float16;
        planted.row = below(shape.Nq);
        for (std::int64_t e = 0; e < shape.d; ++e) set(Q, 0, planted.row, e, 300);
        const std::int64_t one_in = 1 + below(4);
        for (std::int64_t c = 0; c < shape.Nk; ++c)
          if (below(one_in) == 0)
            for (std::int64_t e = 0; e < shape.d; ++e) set(K, 0, c, e, 300);
        break;
      }
      case Plant::mask_overflow: {
        recipe.defect = Defect::finite_sentinel, recipe.sentinel = -3e38, recipe.sentinel_added = true;
        recipe.guard = Guard::none;
        mask.keep = std::make_shared<const KeepMask>(keep(3));
        Bias bias;
        bias.rows = shape.Nq, bias.cols = shape.Nk;
        for (std::int64_t n = 0; n < shape.Nq * shape.Nk; ++n)
          bias.f32.push_back(mask.keep->keep(0, n / shape.Nk, n % shape.Nk) ? 0 : -3e38f);
        mask.bias = std::make_shared<const Bias>(std::move(bias));
        break;
      }
    }
    planted.problem = make_problem("planted", std::move(Q), std::move(K), std::move(V), {}, std::move(mask));
    return planted;
  }

 private:
  std::mt19937 random_;
};

// What a NaN found at that stage must be called, and what the chain must end at.
struct Expected {
  Cause cause;
  std::optional<Origin> origin;
};
Expected expected(const Planted& planted, const Found& found, std::int64_t h, std::int64_t r) {
  const bool is_empty = empty(*planted.problem, h, r);
  const Origin hidden = is_empty                                          ? Origin::empty_row
                        : planted.recipe.algorithm == Algorithm::standard ? Origin::empty_row
                                                                          : Origin::masked_tile;
  Origin origin = Origin::values;
  switch (planted.plant) {
    case Plant::q_nan:
    case Plant::q_inf:
      origin = Origin::q;
      break;
    case Plant::k_nan:
    case Plant::k_inf:
      origin = Origin::k;
      break;
    case Plant::bias_nan:
    case Plant::bias_inf:
      origin = Origin::bias;
      break;
    case Plant::score_overflow:
    case Plant::float16_overflow:
      origin = Origin::score_overflow;
      break;
    case Plant::mask_overflow:
      origin = Origin::mask_overflow;
      break;
    default:
      break;
  }
  switch (found.stage) {
    case Stage::scores:
      return {planted.plant == Plant::q_nan   ? Cause::q_nan
              : planted.plant == Plant::k_nan ? Cause::k_nan
                                              : Cause::inf_minus_inf,
              origin};
    case Stage::mask:
      return {planted.plant == Plant::bias_nan ? Cause::mask_nan : Cause::inf_minus_inf, origin};
    case Stage::exponentials:
    case Stage::softmax:
      if (planted.plant == Plant::mask_overflow) return {Cause::mask_overflow, Origin::mask_overflow};
      if (found.by_visible)
        return {planted.plant == Plant::float16_overflow ? Cause::fp16_overflow : Cause::inf_minus_inf, origin};
      return {Cause::inf_minus_inf, hidden};
    case Stage::finish:
      if (planted.recipe.guard != Guard::none && is_empty) return {Cause::empty_row, Origin::empty_row};
      return {Cause::div_zero, is_empty ? Origin::empty_row : origin};
    case Stage::accumulate:
      if (found.key < 0 && planted.recipe.guard != Guard::none && is_empty)
        return {Cause::empty_row, Origin::empty_row};
      if (found.key < 0) return {Cause::div_zero, {}};
      return {found.P == 0 ? Cause::zero_times_nan : Cause::v_nan, Origin::v};
    default:
      return {Cause::zero_times_nan, {}};
  }
}

std::string where(const Planted& planted, std::int64_t h, std::int64_t r, std::int64_t x, const Provenance& found) {
  const Shape s = planted.problem->shape();
  return fmt::format("plant {} {} of {}x{} causal {} window {}; O[{},{},{}]: {}", static_cast<int>(planted.plant),
                     text(planted.recipe), s.Nq, s.Nk, name(planted.problem->mask.causal),
                     planted.problem->mask.window.has_value(), h, r, x, one_line(found));
}

// Every link is a place that can be gone to, and holds there what it says.
void expect_places(const Provenance& found, Trace& trace, const std::string& what) {
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (const Link& link : found.links) {
    ASSERT_GE(link.step, 1) << what;
    ASSERT_LE(link.step, trace.schedule().steps()) << what;
    EXPECT_LE(link.step, before) << what << " at " << link.place;
    before = link.step;
    if (link.of == CellKind::tile || link.of == CellKind::keys || link.of == CellKind::bias || link.col < -1) continue;
    const TraceState state = trace.seek(link.step);
    const std::int64_t r = link.row - state.row0;
    const auto same = [&](double value) {
      EXPECT_TRUE(value == link.value || (std::isnan(value) && std::isnan(link.value)))
          << what << ": " << link.place << " is " << value << ", said " << link.value;
    };
    const bool own = link.row >= state.row0 && link.row < state.row0 + state.rows;
    if (link.of == CellKind::O && own) same(state.O.at(r, link.col));
    if (link.of == CellKind::l && own && !state.l.empty()) same(state.l[r]);
    if (link.of == CellKind::m && own && !state.m.empty()) same(state.m[r]);
    if (link.of == CellKind::alpha && own) same(state.alpha.at(r));
    if (link.of == CellKind::P && link.col >= 0) same(state.P.at(r, link.col - state.col0));
    if (link.of == CellKind::S && link.place[0] == 'S' && link.place[1] == '[')
      same(state.S.at(r, link.col - state.col0));
  }
}

TEST(Provenance, planted_faults) {
  Planter planter(20261130);
  std::map<std::string, int> met;
  int nan_cells = 0;
  for (int n = 0; n < 1400; ++n) {
    const Planted planted = planter.plant(static_cast<Plant>(n % kPlants));
    const Problem& problem = *planted.problem;
    const Shape shape = problem.shape();
    const Schedule schedule(shape, problem.mask, planted.recipe);
    Trace trace(planted.problem, planted.recipe);
    for (int cell = 0; cell < 24; ++cell) {
      // The planted row as often as any other.
      std::int64_t h = planter.below(kHeads), r = planter.below(shape.Nq);
      const std::int64_t x = planter.below(shape.dv);
      if (cell % 3 != 0) h = planted.query_head;
      if (cell % 2 == 0 && planted.row < shape.Nq) r = planted.row;
      const Provenance found = why(problem, schedule, {CellKind::O, h, r, x, {}});
      const std::string what = where(planted, h, r, x, found);
      const auto right = oracle(problem, planted.recipe, h, r, x);
      ASSERT_EQ(std::isnan(found.links.front().value), right.has_value()) << what;
      expect_places(found, trace, what);
      if (!right) {
        EXPECT_FALSE(found.cause) << what;
        continue;
      }
      ++nan_cells;
      const Expected should = expected(planted, *right, h, r);
      ASSERT_TRUE(found.cause && found.stage) << what;
      EXPECT_EQ(name(*found.cause), name(should.cause)) << what;
      EXPECT_EQ(name(*found.stage), name(right->stage)) << what;
      if (should.origin) {
        EXPECT_EQ(name(found.origin), name(*should.origin)) << what;
      }
      ++met[fmt::format("{} {}", name(*found.cause), name(found.origin))];
      // The tile: of the last link that has one.
      if (right->stage != Stage::finish && right->j >= 0) {
        std::int64_t j = -1;
        for (const Link& link : found.links)
          if (link.j >= 0) j = link.j;
        EXPECT_EQ(j, right->j) << what;
      }
      const Link& last = found.links.back();
      if (found.origin == Origin::q || found.origin == Origin::k || found.origin == Origin::v) {
        EXPECT_EQ(last.head, planted.head) << what;
        EXPECT_EQ(last.row, planted.row) << what;
        EXPECT_EQ(last.col, planted.col) << what;
      }
      if (found.cause == Cause::inf_minus_inf && (found.origin == Origin::q || found.origin == Origin::k)) {
        EXPECT_TRUE(conclusion(found).ends_with(found.origin == Origin::q ? "infinity in Q" : "infinity in K")) << what;
      }
      if (found.origin == Origin::bias) {
        EXPECT_EQ(last.row, planted.row) << what;
        EXPECT_EQ(last.col, planted.col) << what;
      }
      // The diagnosis says the same of the row, where this column of O is the first of it.
      const auto first = first_nan_of_rows(problem, schedule, h, std::span(&r, 1));
      ASSERT_TRUE(first) << what;
      if (first->stage == right->stage && (first->stage != Stage::accumulate || shape.dv == 1)) {
        EXPECT_EQ(name(first->cause), name(should.cause)) << what;
        EXPECT_EQ(first->j, right->stage == Stage::finish ? -1 : right->j) << what;
        if (right->key >= 0) {
          EXPECT_EQ(first->key, right->key) << what;
        }
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(nan_cells, 3000);
  for (const auto& [kind, count] : met) RecordProperty(kind, count);
  for (const char* kind : {"q_nan q", "k_nan k", "v_nan v", "zero_times_nan v", "mask_nan bias", "inf_minus_inf q",
                           "inf_minus_inf k", "inf_minus_inf bias", "inf_minus_inf score_overflow",
                           "fp16_overflow score_overflow", "mask_overflow mask_overflow", "inf_minus_inf masked_tile",
                           "inf_minus_inf empty_row", "empty_row empty_row", "div_zero empty_row"})
    EXPECT_GE(met[kind], 10) << kind;
}

// Any cell, also in the middle of the run: the first link holds the value of that state, and a cell that is
// NaN has a cause.
TEST(Provenance, any_cell_of_any_state) {
  Planter planter(7);
  for (int n = 0; n < 280; ++n) {
    const Planted planted = planter.plant(static_cast<Plant>(n % kPlants));
    const Schedule schedule(planted.problem->shape(), planted.problem->mask, planted.recipe);
    Trace trace(planted.problem, planted.recipe);
    for (int cell = 0; cell < 20; ++cell) {
      const std::int64_t K = 1 + planter.below(schedule.steps());
      const TraceState state = trace.seek(K);
      if (state.rows == 0) continue;
      const std::int64_t r = planter.below(state.rows), row = state.row0 + r;
      const auto ask = [&](CellKind of, std::int64_t col, double value) {
        const Provenance found = why(*planted.problem, schedule, {of, state.head, row, col, K});
        const std::string what = where(planted, state.head, row, col, found) + " " + std::string(name(of)) + " at " +
                                 std::to_string(K) + " " + std::string(name(state.step->stage));
        const double said = found.links.front().value;
        EXPECT_TRUE(said == value || (std::isnan(said) && std::isnan(value))) << what << ": " << said << " " << value;
        EXPECT_EQ(found.cause.has_value(), std::isnan(value)) << what;
        expect_places(found, trace, what);
      };
      const std::int64_t x = planter.below(planted.problem->V().cols),
                         c = planter.below(std::max<std::int64_t>(state.cols, 1));
      if (!state.O.empty()) ask(CellKind::O, x, state.O.at(r, x));
      if (!state.l.empty()) ask(CellKind::l, -1, state.l[r]);
      if (!state.m.empty()) ask(CellKind::m, -1, state.m[r]);
      if (!state.P.empty()) ask(CellKind::P, state.col0 + c, state.P.at(r, c));
      if (!state.LSE.empty()) ask(CellKind::LSE, -1, state.LSE[r]);
      if (!state.alpha.empty()) ask(CellKind::alpha, state.j, state.alpha[r]);
      const bool masked = state.step->stage != Stage::scores && state.step->stage != Stage::load_q;
      if (!state.S.empty() && masked) ask(CellKind::S, state.col0 + c, state.S.at(r, c));
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace flashscope::testing
