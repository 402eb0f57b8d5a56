// What a guard does is named in the chain, in place of an equation that does not hold there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/insight/provenance.h"

namespace flashscope::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Row 0 of a causal run from the last key on: its first tile, keys 64.. of column block 1, shows it nothing.
std::string formula_of(Algorithm algorithm, Guard guard, const Question& question) {
  Mask mask;
  mask.causal = Causal::top_left;
  const auto problem = random_problem(Shape{1, 1, 128, 128, 8, 8, DType::float32}, 1, {}, mask);
  Recipe recipe;
  recipe.algorithm = algorithm, recipe.Br = 128, recipe.Bc = 64, recipe.order = Order::reverse, recipe.guard = guard;
  return why(*problem, Schedule(problem->shape(), problem->mask, recipe), question).links.front().formula;
}
const Question kAlpha{CellKind::alpha, 0, 0, 1, {}}, kP{CellKind::P, 0, 0, 64, {}};

TEST(ProvenanceGuard, SkipIsNamed) {
  EXPECT_EQ(formula_of(Algorithm::flash2, Guard::skip, kAlpha), "no visible key in this tile: skipped, alpha = 1");
  EXPECT_EQ(formula_of(Algorithm::flash2, Guard::skip, kP), "no visible key in this tile: skipped, P = 0");
}

TEST(ProvenanceGuard, ClampIsNamed) {
  EXPECT_EQ(formula_of(Algorithm::flash2, Guard::clamp, kAlpha), "exp((-inf) - 0) = 0, m = -inf clamped to 0");
  EXPECT_EQ(formula_of(Algorithm::flash2, Guard::clamp, kP), "exp(S - m) = exp((-inf) - 0) = 0");
}

TEST(ProvenanceGuard, WithoutOneTheEquationStands) {
  EXPECT_EQ(formula_of(Algorithm::flash2, Guard::none, kAlpha), "exp(m_old - m) = exp((-inf) - (-inf)) = NaN");
}

TEST(ProvenanceGuard, AnEmptyRowOfStandardIsNotDividedByZero) {
  Mask mask;
  mask.causal = Causal::bottom_right;  // the first 4 of 12 rows see none of 8 keys
  const auto problem = random_problem(Shape{1, 1, 12, 8, 4, 4, DType::float32}, 1, {}, mask);
  Recipe recipe;
  recipe.algorithm = Algorithm::standard;
  for (const Guard guard : {Guard::clamp, Guard::skip}) {
    recipe.guard = guard;
    const Schedule schedule(problem->shape(), problem->mask, recipe);
    const std::string formula = why(*problem, schedule, {CellKind::P, 0, 1, 2, {}}).links.front().formula;
    EXPECT_THAT(formula, Not(HasSubstr("(-inf) - (-inf)"))) << name(guard);
    EXPECT_THAT(formula, Not(HasSubstr("/ 0"))) << name(guard);
  }
}

}  // namespace
}  // namespace flashscope::testing
