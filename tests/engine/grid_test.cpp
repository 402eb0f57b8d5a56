// The grid: sizes x masks x order x algorithm x normalise x guard, against plain float64 attention that is
// written out here, and against the rows that must be NaN without a guard.
#include <cmath>
#include <random>

#include "engine/attention/ledger.h"
#include "engine/attention/reference.h"
#include "engine/attention/schedule.h"
#include "support.h"

namespace flashscope::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct NamedMask {
  std::string name;
  Mask mask;
};

Mask banded(Causal causal, std::optional<Window> window = {}) {
  Mask mask;
  mask.causal = causal, mask.window = window;
  return mask;
}

// One visible key in three, some rows and some first keys without any.
Mask random_keep(std::int64_t Nq, std::int64_t Nk) {
  std::mt19937 random(7);
  KeepMask keep = make_keep_mask(1, Nq, Nk);
  for (std::int64_t r = 0; r < Nq; ++r)
    for (std::int64_t c = r % 4; c < Nk; ++c)
      if (r % 5 != 2 && random() % 3 == 0) set_keep(keep, 0, r, c);
  Mask mask;
  mask.keep = std::make_shared<const KeepMask>(std::move(keep));
  return mask;
}

// One row for all queries, as a padding mask is: the first keys -inf, the others small biases; under causal.
Mask padding_bias(std::int64_t Nk) {
  Bias bias;
  bias.rows = 1, bias.cols = Nk;
  for (std::int64_t c = 0; c < Nk; ++c) bias.f32.push_back(c < Nk / 3 ? -INFINITY : 0.25f * static_cast<float>(c % 5));
  Mask mask = banded(Causal::top_left);
  mask.bias = std::make_shared<const Bias>(std::move(bias));
  return mask;
}

std::vector<NamedMask> masks(std::int64_t Nq, std::int64_t Nk) {
  return {{"none", {}},
          {"causal top-left", banded(Causal::top_left)},
          {"causal bottom-right", banded(Causal::bottom_right)},
          {"window 5,2", banded(Causal::none, Window{5, 2})},
          {"causal window 3", banded(Causal::bottom_right, Window{3, 0})},
          {"keep", random_keep(Nq, Nk)},
          {"causal and padding", padding_bias(Nk)}};
}

// Visibility from the definitions, not from the band.
bool sees(const Mask& mask, std::int64_t Nq, std::int64_t Nk, std::int64_t r, std::int64_t c) {
  const std::int64_t shift = mask.causal == Causal::bottom_right ? Nk - Nq : 0;
  if (mask.causal != Causal::none && c > r + shift) return false;
  if (mask.window && (c < r + shift - mask.window->left || c > r + shift + mask.window->right)) return false;
  if (mask.keep && !mask.keep->keep(0, r, c)) return false;
  return !mask.bias || mask.bias->at(0, r, c) != -kInf;
}

struct Answer {
  std::vector<double> O, LSE;
  double max_V = 0;
};

Answer attention(const Problem& problem) {
  const Shape s = problem.shape();
  Answer answer;
  for (std::int64_t r = 0; r < s.Nq; ++r) {
    std::vector<double> S(s.Nk, -kInf), O(s.dv, 0.0);
    double m = -kInf, l = 0;
    for (std::int64_t c = 0; c < s.Nk; ++c) {
      if (!sees(problem.mask, s.Nq, s.Nk, r, c)) continue;
      double dot = 0;
      for (std::int64_t x = 0; x < s.d; ++x) dot += problem.Q().at(0, r, x) * problem.K().at(0, c, x);
      S[c] = problem.scale * dot + (problem.mask.bias ? problem.mask.bias->at(0, r, c) : 0);
      m = std::max(m, S[c]);
    }
    for (std::int64_t c = 0; c < s.Nk; ++c) {
      const double p = S[c] == -kInf ? 0 : std::exp(S[c] - m);
      l += p;
      for (std::int64_t x = 0; x < s.dv; ++x) O[x] += p * problem.V().at(0, c, x);
    }
    for (const double o : O) answer.O.push_back(l == 0 ? 0 : o / l);
    answer.LSE.push_back(l == 0 ? -kInf : m + std::log(l));
  }
  for (std::int64_t c = 0; c < s.Nk; ++c)
    for (std::int64_t x = 0; x < s.dv; ++x) answer.max_V = std::max(answer.max_V, std::abs(problem.V().at(0, c, x)));
  return answer;
}

// Twice plain attention's error in the same precision, and 2 ulp of max |V|; 1e-12 in float64.
double tolerance(const Problem& problem, const Answer& answer) {
  if (problem.in_double()) return 1e-12;
  const Shape s = problem.shape();
  std::vector<double> plain(s.Nq * s.dv);
  plain_rows(problem, 0, 0, s.Nq, {}, plain.data());
  double error = 0;
  for (std::size_t n = 0; n < plain.size(); ++n) {
    EXPECT_FALSE(std::isnan(plain[n]));
    error = std::max(error, std::abs(plain[n] - answer.O[n]));
  }
  return 2 * error + 2 * ulp(s.type, answer.max_V);
}

// Without a guard: a row is NaN when it sees nothing of the tile it meets first (the exponent is then
// (-inf) - (-inf)), when it meets no tile and 0 is divided by 0 at the end, or, with numerators on the tile's
// own maximum, when it sees nothing of any tile it meets.
bool nan_without_guard(const Problem& problem, const Schedule& schedule, std::int64_t row) {
  const Shape s = problem.shape();
  const Recipe& recipe = schedule.recipe();
  const auto sees_any = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t c = first; c < last; ++c)
      if (sees(problem.mask, s.Nq, s.Nk, row, c)) return true;
    return false;
  };
  if (recipe.algorithm == Algorithm::standard) return !sees_any(0, s.Nk);
  const std::int64_t i = row / recipe.Br, met = schedule.visits(0, i);
  if (met == 0) return recipe.normalised() == Normalise::end;
  for (std::int64_t n = 0; n < met; ++n) {
    const std::int64_t col0 = schedule.visit_j(0, i, n) * recipe.Bc;
    const bool any = sees_any(col0, std::min(col0 + recipe.Bc, s.Nk));
    if (!any) return true;
    if (recipe.numerators == Numerators::running) return false;
  }
  return false;
}

void expect_counts(const Schedule& schedule, const std::string& what) {
  const Formula closed = formula(schedule);
  if (closed.elements) {
    EXPECT_EQ(counted(schedule).elements.total(), *closed.elements) << what;
    if (schedule.recipe().algorithm != Algorithm::standard) {
      EXPECT_EQ(schedule.tiles(), formula_tiles(schedule)) << what;
    }
  } else {
    EXPECT_FALSE(closed.reason.empty()) << what;
    EXPECT_TRUE(schedule.recipe().skip == Skip::all && !schedule.mask().structural_only()) << what;
  }
}

void expect_run(const Problem& problem, const Answer& answer, double allowed, const Recipe& recipe,
                const std::string& what) {
  const Schedule schedule(problem.shape(), problem.mask, recipe);
  // Tiles of one key: normalise each rounds O again for every key, which plain attention does not.
  if (recipe.Bc == 1 && recipe.normalised() == Normalise::each && !problem.in_double())
    allowed += static_cast<double>(problem.shape().Nk) * ulp(DType::float32, answer.max_V);
  const Report report = run(problem, recipe);
  const std::int64_t dv = problem.shape().dv;
  std::vector<std::int64_t> nan_rows;
  for (std::int64_t r = 0; r < problem.shape().Nq; ++r) {
    if (recipe.guard == Guard::none && nan_without_guard(problem, schedule, r)) {
      nan_rows.push_back(r);
      continue;
    }
    if (recipe.guard == Guard::none && answer.LSE[r] == -kInf) continue;  // each, no tile met: the raw 0 stands
    for (std::int64_t x = 0; x < dv; ++x) {
      const double error = std::abs(report.O[r * dv + x] - answer.O[r * dv + x]);
      ASSERT_LE(error, allowed) << what << " row " << r;
    }
    const double lse_allowed = (problem.in_double() ? 1e-12 : 2e-6) * std::max(1.0, std::abs(answer.LSE[r]));
    if (answer.LSE[r] == -kInf) {
      ASSERT_EQ(report.LSE[r], -kInf) << what << " row " << r;
    } else {
      ASSERT_LE(std::abs(report.LSE[r] - answer.LSE[r]), lse_allowed) << what << " row " << r;
    }
  }
  ASSERT_EQ(report.nan_rows, one_head(nan_rows)) << what;
  ASSERT_EQ(report.traffic.elements, counted(schedule).elements) << what;
  expect_counts(schedule, what);
}

void expect_grid(const std::shared_ptr<const Problem>& plain, std::int64_t Br, std::int64_t Bc) {
  const Shape s = plain->shape();
  for (const NamedMask& named : masks(s.Nq, s.Nk)) {
    const auto problem = with_mask(plain, named.mask);
    const Answer answer = attention(*problem);
    const double allowed = tolerance(*problem, answer);
    for (std::int64_t r = 0; r < s.Nq; ++r) {
      const ReferenceRow reference = reference_row(*problem, 0, r);
      for (std::int64_t x = 0; x < s.dv; ++x) ASSERT_LE(std::abs(reference.O[x] - answer.O[r * s.dv + x]), 1e-12);
    }
    for (const Guard guard : {Guard::clamp, Guard::skip, Guard::none}) {
      for (Recipe recipe : recipes(Br, Bc, guard)) {
        for (const Numerators numerators : {Numerators::running, Numerators::tile}) {
          if (recipe.algorithm == Algorithm::standard && numerators == Numerators::tile) continue;
          recipe.numerators = numerators;
          const std::string what = named.name + " Nq " + std::to_string(s.Nq) + " Nk " + std::to_string(s.Nk) + " " +
                                   std::string(name(s.type)) + " " + text(recipe);
          expect_run(*problem, answer, allowed, recipe, what);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

struct Size {
  std::int64_t Nq, Nk;
};
class Grid : public ::testing::TestWithParam<Size> {};

constexpr std::int64_t kBr = 12, kBc = 7;  // neither divides the other, nor the lanes

TEST_P(Grid, every_recipe_is_right) {
  const auto [Nq, Nk] = GetParam();
  for (const DType type : {DType::float32, DType::float64, DType::bfloat16}) {
    expect_grid(random_problem(Shape{1, 1, Nq, Nk, 5, 3, type}, 100 + Nq), kBr, kBc);
    if (HasFatalFailure()) return;
  }
}
TEST_P(Grid, blocks_of_one_and_larger_than_n) {
  const auto [Nq, Nk] = GetParam();
  const auto problem = random_problem(Shape{1, 1, Nq, Nk, 4, 4, DType::float32}, 200 + Nk);
  expect_grid(problem, 1, 1);
  if (!HasFatalFailure()) expect_grid(problem, 64, 128);
}
INSTANTIATE_TEST_SUITE_P(Sizes, Grid,
                         ::testing::Values(Size{1, 1}, Size{2, 2}, Size{11, 11}, Size{12, 12}, Size{13, 13}, Size{6, 6},
                                           Size{7, 7}, Size{8, 8}, Size{29, 29}, Size{37, 37}, Size{1, 23}, Size{23, 1},
                                           Size{17, 31}, Size{31, 17}),
                         [](const auto& info) {
                           return std::to_string(info.param.Nq) + "x" + std::to_string(info.param.Nk);
                         });

// Every score is moved by exactly 1e4: softmax does not see it. Values are small fractions of two, so that
// float32 holds each score exactly and only the softmax itself is tested.
TEST(Offset, scores_with_an_offset_of_1e4) {
  const std::int64_t Nq = 29, Nk = 37, d = 6;
  for (const DType type : {DType::float32, DType::float64}) {
    std::mt19937 random(3);
    const auto fractions = [&random, type](std::int64_t rows, std::int64_t cols) {
      Tensor tensor = make_tensor(type, 1, rows, cols);
      for (std::int64_t n = 0; n < rows * cols; ++n)
        set(tensor, 0, n / cols, n % cols, (static_cast<int>(random() % 17) - 8) / 8.0);
      return tensor;
    };
    Tensor Q = fractions(Nq, d), K = fractions(Nk, d), V = fractions(Nk, 3);
    for (const double sign : {1.0, -1.0}) {
      for (std::int64_t r = 0; r < Nq; ++r) set(Q, 0, r, d - 1, 100 * sign);
      for (std::int64_t c = 0; c < Nk; ++c) set(K, 0, c, d - 1, 100);
      expect_grid(make_problem("offset", Q, K, V, 1.0), kBr, kBc);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace flashscope::testing
