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

// What the mask step adds to a visible score is told with its numbers, and what a cap makes of it in its own step.
TEST(FormulaLine, AVisibleScoreThatChangesIsTold) {
  const auto says = [](double slope, double cap, std::int64_t key) {
    Mask mask;
    mask.causal = Causal::top_left, mask.rules.softcap = cap;
    if (slope != 0) mask.rules.alibi = {slope};
    const test::Run run = test::make_run({1, 1, 256, 256, 16, 16, DType::float32}, {}, mask, 0.4);
    Trace trace(run.problem, {});
    const std::int64_t scored = *run.schedule->find(0, 2, 2, TraceStage::scores) + 1;
    StageData data = test::naive_stage(run, scored);
    const double before = trace.seek(scored).S.at(12, key - 128);
    data.state = std::make_shared<const TraceState>(trace.seek(scored + (cap == 0)));
    data.transfers.clear();
    return std::pair{formula_line(data, 140, key).texts.front(), before};
  };
  const auto [alibi, before] = says(0.5, 0, 130);  // 10 keys back
  EXPECT_THAT(alibi, HasSubstr("S[140, 130] + ALiBi = "));
  EXPECT_THAT(alibi, HasSubstr(fmt::format("+ (-5) = {}; 51 of 64 keys of this tile masked", number(before - 5))));
  const auto [capped, score] = says(0, 2, 130);
  EXPECT_THAT(capped, HasSubstr("S[140, 130] = 2 tanh(scale * Q[140].K[130] / 2) = 2 tanh(0.4 * "));
  EXPECT_THAT(capped, HasSubstr(" / 2) = " + number(score)));
  EXPECT_LT(std::abs(score), 2);
  EXPECT_THAT(says(0.5, 0, 150).first, HasSubstr("51 of 64 keys of this tile masked, their scores: -inf"));
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
