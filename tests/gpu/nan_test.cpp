// NaNs of the kernels run without a guard: the rows that the engine has, traced by its chain.
#include "engine/insight/nan_rows.h"
#include "support.h"
#include "tests/engine/support.h"

namespace flashscope::gpu {
namespace {

class NansOnGpu : public OnGpu {
 protected:
  static Report run(const Problem& problem, const Recipe& recipe) {
    GpuRunOptions options;
    options.check.kind = CheckRows::Kind::none, options.repeats = 1;
    return run_on_gpu(problem, recipe, options);
  }
};

// Case 02: the NaN comes and goes with the block size.
TEST_F(NansOnGpu, of_case_02_are_traced_by_the_same_chain) {
  const testing::Case log("open-02-first-tile-masked");
  const auto problem = log.problem(DType::float32, testing::keep_mask_from(log.json["inputs"]["mask"]["values"]));
  for (const Algorithm algorithm : {Algorithm::flash2, Algorithm::flash1})
    for (const Order order : {Order::forward, Order::reverse})
      for (const std::int64_t Bc : {1, 2, 3, 4, 5, 8}) {
        Recipe recipe;
        recipe.algorithm = algorithm, recipe.order = order;
        recipe.Br = 2, recipe.Bc = Bc, recipe.guard = Guard::none;
        SCOPED_TRACE(testing::text(recipe));
        const Report report = run(*problem, recipe);
        const bool nan = order == Order::forward && Bc <= 4;
        EXPECT_EQ(report.nan_row_count, nan ? 4 : 0);
        const RunNans nans = nans_of_run(problem, report, 1);
        EXPECT_TRUE(nans.same()) << text(nans);
        ASSERT_EQ(nans.first.has_value(), nan);
        if (!nan) continue;
        const Provenance found = why(*problem, Schedule(problem->shape(), problem->mask, recipe), *nans.first);
        EXPECT_EQ(found.cause, Cause::inf_minus_inf);
        EXPECT_EQ(found.origin, Origin::masked_tile) << one_line(found);
      }
}

// Golden: reverse causal, N = 300, Br = 64, Bc = 100, guard none: 44 NaN rows with geometry, 200 with none.
TEST_F(NansOnGpu, of_reverse_causal_are_the_known_rows) {
  Mask mask;
  mask.causal = Causal::top_left;
  for (const DType type : {DType::float32, DType::bfloat16}) {
    const auto problem = random_problem({1, 1, 300, 300, 64, 64, type}, 1, {}, mask);
    Recipe recipe;
    recipe.Br = 64, recipe.Bc = 100, recipe.order = Order::reverse, recipe.guard = Guard::none;
    for (const auto& [skip, rows] : {std::pair{Skip::geometry, 44}, {Skip::none, 200}}) {
      recipe.skip = skip;
      const Report report = run(*problem, recipe);
      EXPECT_EQ(report.nan_row_count, rows);
      const RunNans nans = nans_of_run(problem, report, 1);
      EXPECT_TRUE(nans.same()) << text(nans);
    }
  }
}

}  // namespace
}  // namespace flashscope::gpu
