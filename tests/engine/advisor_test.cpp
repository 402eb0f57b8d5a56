#include "engine/insight/advisor.h"

#include <gmock/gmock.h>

#include "support.h"

namespace flashscope::testing {
namespace {

using ::testing::HasSubstr;

std::int64_t bytes(const Advice& advice) { return advice.cost.form.bytes.total().total(); }

TEST(Advisor, the_best_is_the_least_of_all_that_fit) {
  for (const Causal causal : {Causal::none, Causal::top_left}) {
    for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2}) {
      for (const char* device : {"T4", "A100 40GB", "H200"}) {
        Mask mask;
        mask.causal = causal;
        const SweepProblem problem = sweep_problem({8, 2, 2000, 2000, 64, 64, DType::float16}, mask);
        Recipe recipe;
        recipe.algorithm = algorithm;
        const AdviceList list = advise(problem, recipe, sheet_named(device));
        ASSERT_EQ(list.best.size(), 5u);
        for (std::size_t n = 0; n < list.best.size(); ++n) {
          const Advice& one = list.best[n];
          EXPECT_EQ(why_infeasible(problem.shape, one.recipe, sheet_named(device)), "");
          EXPECT_EQ(why_spills(problem.shape, one.recipe, sheet_named(device)), "");
          EXPECT_FALSE(one.why.empty());
          EXPECT_GE(bytes(one), bytes(list.best[n == 0 ? 0 : n - 1]));
          // What is advised is what the walk counts.
          EXPECT_EQ(counted(Schedule(problem.shape, mask, one.recipe)).bytes, one.cost.form.bytes);
        }
        for (Recipe at = recipe; at.Br <= 512; at.Br += 64) {
          for (at.Bc = 64; at.Bc <= 256; at.Bc += 64) {
            if (limit_broken(problem.shape, at, sheet_named(device)) != Limit::none) continue;
            if (!why_spills(problem.shape, at, sheet_named(device)).empty()) continue;
            EXPECT_GE(sweep_point(problem, at).form.bytes.total().total(), bytes(list.best[0])) << text(at);
          }
        }
      }
    }
  }
}

TEST(Advisor, reasons_name_what_stops_the_next_and_idle_sms) {
  const SweepProblem problem = sweep_problem({1, 1, 4096, 4096, 64, 64, DType::float16}, {});
  const AdviceList list = advise(problem, {}, sheet_named("H200"));
  ASSERT_FALSE(list.best.empty());
  EXPECT_EQ(list.best[0].recipe.Br, 512);
  EXPECT_THAT(list.best[0].why, HasSubstr("K, V for each of 8 row blocks"));
  EXPECT_THAT(list.best[0].why, HasSubstr("Br 528 needs 1056 threads"));
  EXPECT_THAT(list.best[0].why, HasSubstr("only 8 blocks for 132 SMs"));
  EXPECT_THAT(list.best[1].why, HasSubstr("the same traffic"));
  ASSERT_EQ(list.fills.size(), 2u);
  EXPECT_GE(list.fills[0].cost.blocks, 132);
  EXPECT_LE(list.fills[0].recipe.Br, 31);
  EXPECT_THAT(list.fills[0].why, HasSubstr("29 x the traffic"));
  // Four idle SMs cost less than twice that.
  EXPECT_EQ(list.fills[1].recipe.Br, 32);
  EXPECT_THAT(list.fills[1].why, HasSubstr("128 blocks leave 3 % of 132 SMs idle"));
  EXPECT_THAT(list.fills[1].why, HasSubstr("14 x the traffic"));
  EXPECT_THAT(list.note, AllOf(HasSubstr("limits of H200"), HasSubstr("does not say what is fastest")));

  // Many heads fill the device with the largest blocks.
  const AdviceList many =
      advise(sweep_problem({64, 64, 4096, 4096, 64, 64, DType::float16}, {}), {}, sheet_named("H200"));
  EXPECT_TRUE(many.fills.empty());
  EXPECT_THAT(many.best[0].why, ::testing::Not(HasSubstr("SMs")));
}

// 512 x 256 fits shared memory and threads, and moves least; its S and O alone are 2.5 times an SM's registers.
TEST(Advisor, tiles_that_registers_cannot_hold_are_left_out_and_no_limit) {
  const SweepProblem problem = sweep_problem({16, 16, 4096, 4096, 64, 64, DType::bfloat16}, {});
  const HardwareSheet& h200 = sheet_named("H200");
  Recipe recipe;
  recipe.Br = 512, recipe.Bc = 256;
  EXPECT_EQ(accumulator_registers(problem.shape, recipe), 512 * (256 + 64));
  EXPECT_EQ(limit_broken(problem.shape, recipe, h200), Limit::none);
  EXPECT_EQ(why_spills(problem.shape, recipe, h200),
            "S and O take 163,840 registers a block, an SM of H200 has 65,536 [formula]: they would spill");
  recipe.Br = 16, recipe.Bc = 448;
  EXPECT_EQ(why_spills(problem.shape, recipe, h200),
            "S and O take 256 registers a thread, which has 255 [formula]: they would spill");
  recipe.Br = recipe.Bc = 128;  // the fastest that was measured
  EXPECT_EQ(why_spills(problem.shape, recipe, h200), "");
  recipe.algorithm = Algorithm::flash1, recipe.Br = 512;  // everything in shared memory
  EXPECT_EQ(why_spills(problem.shape, recipe, h200), "");
  const AdviceList list = advise(problem, {}, h200);
  ASSERT_FALSE(list.best.empty());
  EXPECT_EQ(list.best[0].recipe.Br, 512);
  EXPECT_EQ(list.best[0].recipe.Bc, 32);  // at 64 S and O take all 65,536, and 48 is ragged
  EXPECT_GT(list.spilling, 0);
}

TEST(Advisor, nothing_fits) {
  HardwareSheet tiny = what_if(sheet_named("T4"), Quantity::shared_per_block, 1024);
  const AdviceList list = advise(sweep_problem({1, 1, 512, 512, 256, 256, DType::float32}, {}), {}, tiny);
  EXPECT_TRUE(list.best.empty());
  EXPECT_EQ(list.infeasible, list.considered);
}

}  // namespace
}  // namespace flashscope::testing
