#include "engine/insight/parity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace flashscope {
namespace {

std::shared_ptr<const Problem> problem(bool causal, DType type = DType::bfloat16) {
  Mask mask;
  mask.causal = causal ? Causal::top_left : Causal::none;
  return random_problem(Shape{2, 1, 150, 170, 32, 24, type}, 7, {}, mask);
}

TEST(Parity, SteppedIsTheRunOnTheCpu) {
  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash1, Algorithm::flash2}) {
    for (const bool causal : {false, true}) {
      Recipe recipe;
      recipe.algorithm = algorithm, recipe.Br = 48, recipe.Bc = 32;
      const auto with = problem(causal);
      const Report cpu = run_on_cpu(*with, recipe);
      const Parity found = parity(with, recipe, &cpu, nullptr);
      ASSERT_TRUE(found.pairs[0]) << name(algorithm);
      EXPECT_FALSE(found.pairs[1] || found.pairs[2]);
      EXPECT_EQ(found.pairs[0]->rows, 300);
      EXPECT_EQ(found.rows_stepped, 300);
      EXPECT_TRUE(found.equal()) << name(algorithm) << ' ' << found.max_O() << ' ' << found.max_LSE();
      EXPECT_GT(found.tolerance_O, 0);
      EXPECT_EQ(verdict(found), "stepped = CPU");
    }
  }
}

TEST(Parity, AWrongValueANanAndAnInfinityAreSeenOnEverySide) {
  const auto with = problem(false);
  const Recipe recipe;
  const Report cpu = run_on_cpu(*with, recipe);
  const auto changed = [&](std::size_t at, double value) {
    Report gpu = cpu;
    gpu.O[at] = value;
    return parity(with, recipe, &cpu, &gpu);
  };
  const std::size_t at = (150 + 31) * 24 + 5;  // head 1, row 31
  const Parity same = changed(at, cpu.O[at]);
  EXPECT_TRUE(same.equal());
  EXPECT_EQ(verdict(same), "stepped = CPU = GPU");

  const Parity wrong = changed(at, cpu.O[at] + 0.5);
  EXPECT_FALSE(wrong.equal());
  EXPECT_LE(std::abs(wrong.pairs[1]->max_O - 0.5), 1e-6);
  EXPECT_EQ(wrong.pairs[1]->worst_head, 1);
  EXPECT_EQ(wrong.pairs[1]->worst_row, 31);
  EXPECT_EQ(wrong.one_sided(), 0);
  EXPECT_EQ(verdict(wrong), "stepped = CPU \xe2\x89\xa0 GPU");

  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const Parity one_sided = changed(at, value);
    EXPECT_FALSE(one_sided.equal());
    EXPECT_EQ(one_sided.one_sided(), 1);
    EXPECT_LE(one_sided.max_O(), one_sided.tolerance_O);  // no distance
    EXPECT_EQ(one_sided.pairs[1]->worst_row, 31);
  }
}

TEST(Parity, NansOnBothSidesAreEqual) {
  Recipe recipe;
  recipe.guard = Guard::none, recipe.order = Order::reverse, recipe.Br = 64, recipe.Bc = 32;
  const auto with = problem(true);
  const Report cpu = run_on_cpu(*with, recipe);
  ASSERT_GT(cpu.nan_row_count, 0);
  EXPECT_TRUE(parity(with, recipe, &cpu, &cpu).equal());
}

TEST(Parity, LargeProblemsAreSampled) {
  const auto with = random_problem(Shape{1, 1, 20'000, 20'000, 64, 64, DType::float32}, 3);
  Recipe recipe;
  recipe.Br = recipe.Bc = 256;
  Report cpu;  // of the right size; what it holds is not compared here
  cpu.shape = with->shape();
  cpu.O.assign(20'000 * 64, 0), cpu.LSE.assign(20'000, 0);
  cpu.error.emplace();
  const Parity found = parity(with, recipe, &cpu, nullptr);
  EXPECT_GT(found.rows_stepped, 0);
  EXPECT_LT(found.rows_stepped, found.rows);
  EXPECT_EQ(found.pairs[0]->rows, found.rows_stepped);
  EXPECT_FALSE(found.equal());
}

TEST(Parity, NothingRunIsNothingCompared) {
  const Parity found = parity(problem(false), {}, nullptr, nullptr);
  EXPECT_FALSE(found.pairs[0] || found.pairs[1] || found.pairs[2]);
  EXPECT_EQ(verdict(found), "stepped");
}

}  // namespace
}  // namespace flashscope
