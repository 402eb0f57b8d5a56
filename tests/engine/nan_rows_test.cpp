// The NaN rows of a full run, and the chain behind them: of the tiling's own NaN, and of a NaN that only the run has.
#include "engine/insight/nan_rows.h"

#include "engine/error.h"
#include "support.h"

namespace flashscope::testing {
namespace {

std::shared_ptr<const Problem> case_02() {
  const Case log("open-02-first-tile-masked");
  return log.problem(DType::float32, keep_mask_from(log.json["inputs"]["mask"]["values"]));
}
Recipe unguarded(std::int64_t Bc) {
  Recipe recipe;
  recipe.Br = 2, recipe.Bc = Bc, recipe.guard = Guard::none;
  return recipe;
}
void set_row(Report& report, std::int64_t row, double value) {
  for (std::int64_t e = 0; e < report.shape.dv; ++e) report.O[row * report.shape.dv + e] = value;
  report.nan_rows.clear(), report.nan_row_count = 0;
  CheckRows none;
  none.kind = CheckRows::Kind::none;
  complete(report, *case_02(), none, 1);
}

TEST(NanRows, OfARunAreTracedByTheSameChain) {
  const auto problem = case_02();
  const Report report = run(*problem, unguarded(4));
  const RunNans nans = nans_of_run(problem, report, 1);
  EXPECT_EQ(nans.rows, one_head({0, 1, 2, 3}));
  EXPECT_TRUE(nans.same());
  EXPECT_EQ(text(nans), "the engine has the same 4 rows as NaN: its chain is this run's");
  ASSERT_TRUE(nans.first);
  EXPECT_EQ(text(*nans.first), "O[0,0,0]");
  const Schedule schedule(problem->shape(), problem->mask, report.recipe);
  const Provenance found = why(*problem, schedule, *nans.first);
  EXPECT_EQ(found.cause, Cause::inf_minus_inf);
  EXPECT_EQ(found.origin, Origin::masked_tile);
}

TEST(NanRows, ThatTheEngineDoesNotHaveAreTold) {
  const auto problem = case_02();
  Report report = run(*problem, unguarded(5));
  RunNans nans = nans_of_run(problem, report, 1);
  EXPECT_TRUE(nans.same());
  EXPECT_FALSE(nans.first);
  set_row(report, 2, std::nan(""));
  nans = nans_of_run(problem, report, 1);
  EXPECT_FALSE(nans.same());
  EXPECT_EQ(nans.run_only, one_head({2}));
  EXPECT_EQ(text(*nans.first), "O[0,2,0]");
  EXPECT_EQ(text(nans),
            "1 row of O NaN; not the engine's rows: 1 only in this run, which the engine's chain does not "
            "explain");
  // And the other way round: a row that both have is asked about first.
  report = run(*problem, unguarded(4));
  set_row(report, 0, 1);
  nans = nans_of_run(problem, report, 1);
  EXPECT_EQ(nans.engine_only, one_head({0}));
  EXPECT_EQ(nans.rows, one_head({1, 2, 3}));
  EXPECT_EQ(text(*nans.first), "O[0,1,0]");
  EXPECT_THROW(nans_of_run(random_problem(Shape{1, 1, 4, 4, 2, 2, DType::float32}, 1), report, 1), InputError);
}

TEST(NanRows, TheCellIsTheFirstThatIsNan) {
  const auto problem = case_02();
  Report report = run(*problem, unguarded(5));
  EXPECT_EQ(nan_cell(report, 0, 3).col, 0);
  report.O[3 * report.shape.dv + report.shape.dv - 1] = std::nan("");
  EXPECT_EQ(nan_cell(report, 0, 3).col, report.shape.dv - 1);
}

}  // namespace
}  // namespace flashscope::testing
