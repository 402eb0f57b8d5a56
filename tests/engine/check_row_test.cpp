// The checks of a row hold in every state of a right run, also in the middle of a tile.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/attention/trace.h"

namespace flashscope {
namespace {

TEST(CheckRow, HoldsInEveryStateOfARightRun) {
  Mask mask;
  mask.causal = Causal::top_left;
  for (const DType type : {DType::float32, DType::float64})
    for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2})
      for (const Normalise normalise : {Normalise::each, Normalise::end}) {
        const auto problem = random_problem({1, 1, 24, 24, 8, 8, type}, 5, 2.0, mask);
        Recipe recipe;
        recipe.algorithm = algorithm, recipe.normalise = normalise, recipe.Br = 8, recipe.Bc = 5;
        Trace trace(problem, recipe);
        int checked = 0;
        for (std::int64_t K = 1; K <= trace.schedule().steps(); ++K) {
          const TraceState state = trace.seek(K);
          for (std::int64_t row = state.row0; row < state.row0 + state.rows; ++row) {
            const RowCheck check = check_row(*problem, trace.schedule(), state, row);
            if (check.seen_keys == 0) continue;
            ++checked;
            EXPECT_LE(std::abs(check.sum_p_over_l - 1), 1e-5) << name(algorithm) << " K " << K << " row " << row;
            EXPECT_LE(check.max_error, 1e-5) << name(algorithm) << " K " << K << " row " << row;
            EXPECT_EQ(check.masked_weight, 0);
          }
        }
        EXPECT_GT(checked, 500);
      }
}

}  // namespace
}  // namespace flashscope
