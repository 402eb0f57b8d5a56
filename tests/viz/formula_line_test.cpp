// The line of the operation holds the numbers of the state.
#include "viz/formula_line.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "naive_stage.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

using testing::HasSubstr;

struct Lines {
  test::Run run;
  Lines() {
    Recipe recipe;
    Mask mask;
    mask.causal = Causal::top_left;
    run = test::make_run({1, 1, 256, 256, 16, 16, DType::float16}, recipe, mask, 0.4);
  }
  StageData at(TraceStage stage, std::int64_t i = 2, std::int64_t j = 1) const {
    auto k = run.schedule->find(0, i, j, stage);
    if (!k) k = run.schedule->find(0, i, -1, stage);
    return test::naive_stage(run, *k + 1);
  }
};

TEST(FormulaLine, EveryStageOfATile) {
  const Lines lines;
  const std::int64_t row = 140, r = row - 128, key = 70, c = key - 64;
  const auto says = [&](TraceStage stage) { return formula_line(lines.at(stage), row, key).texts.front(); };
  const auto state = [&](TraceStage stage) { return *lines.at(stage).state; };
  const TraceState scores = state(TraceStage::scores);
  EXPECT_THAT(says(TraceStage::scores),
              HasSubstr(fmt::format("S[140, 70] = scale * Q[140].K[70] = 0.4 * {} = {}",
                                    number(scores.S.at(r, c) / 0.4), number(scores.S.at(r, c)))));
  EXPECT_THAT(says(TraceStage::mask), HasSubstr("all 64 keys of this tile are visible"));
  const TraceState max = state(TraceStage::max);
  EXPECT_THAT(says(TraceStage::max), HasSubstr(fmt::format("max({}, ", number(max.m_old[r]))));
  EXPECT_THAT(says(TraceStage::max), HasSubstr(fmt::format("= {}", number(max.m[r]))));
  const TraceState p = state(TraceStage::exponentials);
  EXPECT_THAT(says(TraceStage::exponentials),
              HasSubstr(fmt::format("- {}) = {}", number(p.m[r]), number(p.P.at(r, c)))));
  const TraceState rescale = state(TraceStage::rescale);
  EXPECT_THAT(says(TraceStage::rescale),
              HasSubstr(fmt::format("alpha = exp(m_old - m_new) = exp({} - {}) = {}   l: {} -> {}",
                                    number(rescale.m_old[r]), number(rescale.m[r]), number(rescale.alpha[r]),
                                    number(rescale.l_old[r]), number(rescale.l[r]))));
  const TraceState sum = state(TraceStage::accumulate);
  EXPECT_THAT(says(TraceStage::accumulate),
              HasSubstr(fmt::format("+ {} = {}", number(sum.row_sum[r]), number(sum.l[r]))));
  const TraceState end = state(TraceStage::finish);
  EXPECT_THAT(says(TraceStage::finish), HasSubstr(fmt::format("O[140,:] /= {}", number(end.l[r]))));
  EXPECT_THAT(says(TraceStage::finish), HasSubstr(fmt::format("= {}", number(end.LSE[r]))));
  EXPECT_THAT(says(TraceStage::load_k), HasSubstr("HBM -> chip:  K1 [64 x 16] 2 KiB"));
  EXPECT_THAT(says(TraceStage::store), HasSubstr("chip -> HBM:  O2 [64 x 16] 2 KiB + LSE2 [64 x 1] 256 B"));
}

TEST(FormulaLine, TheDiagonalTileIsPartlyMasked) {
  const Lines lines;
  EXPECT_THAT(formula_line(lines.at(TraceStage::mask, 2, 2), 130, -1).texts.front(),
              HasSubstr("61 of 64 keys of this tile masked, their scores: -inf"));
}

TEST(FormulaLine, NaNIsTold) {
  const Lines lines;
  StageData data = lines.at(TraceStage::rescale);
  auto state = std::make_shared<TraceState>(*data.state);
  state->alpha[3] = std::nan(""), state->l[3] = std::nan("");
  data.state = state;
  EXPECT_TRUE(formula_line(data, 131, -1).nan);
  EXPECT_FALSE(formula_line(data, 132, -1).nan);
  EXPECT_THAT(formula_line(data, 131, -1).texts.front(), HasSubstr("= NaN"));
}

TEST(FormulaLine, TheRowIsThePointedElseThePinnedElseTheFirstRescaled) {
  const Lines lines;
  StageData data = lines.at(TraceStage::rescale);
  EXPECT_EQ(focus_row(data, 150), 150);
  data.pinned_rows = {3, 160};
  EXPECT_EQ(focus_row(data, 3), 160);  // row 3 is not on the chip
  data.pinned_rows = {};
  const auto& rescaled = data.state->rescaled;
  const auto first = std::find(rescaled.begin(), rescaled.end(), 1) - rescaled.begin();
  ASSERT_LT(first, 64);
  EXPECT_EQ(focus_row(data, -1), 128 + first);
}

TEST(FormulaLine, ChecksAreWordsWithNumbers) {
  const Lines lines;
  const auto checks = check_line(lines.at(TraceStage::accumulate));
  ASSERT_FALSE(checks.empty());
  EXPECT_THAT(checks.front(), HasSubstr("row 128 if stopped now: max |O/l - reference| = 2.5e-07"));
  EXPECT_THAT(checks.front(), HasSubstr("sum P/l = 1"));
  EXPECT_THAT(checks.front(), HasSubstr("weight on masked keys = 0"));
}

}  // namespace
}  // namespace flashscope::viz
