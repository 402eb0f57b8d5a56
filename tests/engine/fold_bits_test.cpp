// The same bits in any tile and row block, by verbs or fused, alone or restored; what the fold counts; instruction
// sets.
#include "engine/attention/online_softmax.h"

#include <gtest/gtest.h>

#include "engine/attention/fold_kernels.h"
#include "engine/error.h"
#include "tests/engine/fold_rows.h"
#include "tests/place.h"

namespace flashscope {
namespace {

using naive::kInf;

class FoldBits : public OnEveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, FoldBits, testing::ValuesIn(available_isas()),
                         [](const auto& info) { return std::string(info.param); });

// Folding a few rows of a row block alone gives what the whole row block gives them, local indices included.
TEST_P(FoldBits, RowsFoldedAloneAreTheRowsOfTheirBlock) {
  Mask causal;
  causal.causal = Causal::top_left;
  const auto problem = random_problem({1, 1, 60, 60, 8, 6, DType::float32}, 4, {}, causal);
  for (const std::string_view defect : {"none", "local-causal", "no-rescale-o", "unmasked-tail", "bf16-row-sum"}) {
    Recipe recipe;
    recipe.Br = 24, recipe.Bc = 16;
    set_defect(recipe, defect);
    const std::vector<naive::Row> rows = fold_rows<float>(*problem, recipe, 0);
    Fold<float> alone(*problem, recipe);
    for (const std::int64_t row : {0, 23, 29, 47, 59}) {
      const std::int64_t row0 = row / 24 * 24;
      alone.start(0, row, 1);
      for (const std::int64_t j : naive::visited(*problem, recipe, row0, std::min<std::int64_t>(24, 60 - row0)))
        alone.fold_tile(j * 16, std::min<std::int64_t>(16, 60 - j * 16), true);
      alone.finish();
      for (std::int64_t e = 0; e < 6; ++e)
        EXPECT_EQ(alone.O()[e * kLane], static_cast<float>(rows[row].O[e])) << defect << ", row " << row;
    }
  }
}

TEST_P(FoldBits, VerbsFusedAndCountedGiveTheSameBits) {
  for (const auto& [mask_name, mask] : masks(37, 29)) {
    const auto problem = small_problem(DType::float32, mask);
    for_each_recipe([&](const Recipe& recipe) {
      const std::vector<naive::Row> verbs = fold_rows<float>(*problem, recipe, 0, How::verbs);
      EXPECT_TRUE(same_bits(verbs, fold_rows<float>(*problem, recipe, 0, How::fused)))
          << mask_name << ' ' << words(recipe);
      EXPECT_TRUE(same_bits(verbs, fold_rows<float>(*problem, recipe, 0, How::counted)))
          << mask_name << ' ' << words(recipe);
    });
  }
}

// d, dv and Bc that leave every remainder of the register blocks; Bc beyond one chunk of keys.
TEST_P(FoldBits, ARowHasTheSameBitsInAnyRowBlock) {
  for (const auto& [d, dv, Bc] : {std::array<std::int64_t, 3>{64, 64, 64}, {33, 17, 29}, {1, 1, 1}, {8, 23, 300}}) {
    const auto problem = random_problem({1, 1, 130, 301, d, dv, DType::float32}, 3);
    Recipe recipe;
    recipe.Bc = Bc, recipe.Br = 64;
    const std::vector<naive::Row> rows = fold_rows<float>(*problem, recipe, 0);
    EXPECT_TRUE(same_rows(rows, naive::attention(*problem, recipe, 0), 4e-6)) << "d " << d << " Bc " << Bc;
    for (const std::int64_t Br : {1, 16, 37, 48, 80, 128, 1000}) {
      recipe.Br = Br;
      EXPECT_TRUE(same_bits(rows, fold_rows<float>(*problem, recipe, 0))) << "Br " << Br << ", Bc " << Bc;
    }
  }
}

// Tiles of more than 64 rows and keys that start and end between the words of a keep mask.
TEST_P(FoldBits, MasksAreTheSameInAnyTile) {
  for (const auto& [mask_name, mask] : masks(150, 170)) {
    const auto problem = small_problem(DType::float64, mask, 150, 170);
    Recipe recipe;
    recipe.skip = Skip::none;
    for (const std::int64_t Bc : {29, 64, 170}) {
      recipe.Bc = Bc, recipe.Br = 1;
      const std::vector<naive::Row> rows = fold_rows<double>(*problem, recipe, 1);
      EXPECT_TRUE(same_rows(rows, naive::attention(*problem, recipe, 1), 1e-12)) << mask_name << ", Bc " << Bc;
      for (const std::int64_t Br : {37, 64, 130, 1000}) {
        recipe.Br = Br;
        EXPECT_TRUE(same_bits(rows, fold_rows<double>(*problem, recipe, 1)))
            << mask_name << ", Br " << Br << ", Bc " << Bc;
      }
    }
  }
}

// Masks that broadcast along rows, columns or heads.
TEST(Fold, BroadcastMasksAreSpreadOut) {
  for (const bool rows : {false, true}) {
    for (const bool cols : {false, true}) {
      const std::int64_t mask_rows = rows ? 70 : 1, mask_cols = cols ? 90 : 1;
      auto keep = std::make_shared<KeepMask>(make_keep_mask(1, mask_rows, mask_cols));
      auto bias = std::make_shared<Bias>();
      bias->rows = mask_rows, bias->cols = mask_cols;
      for (std::int64_t r = 0; r < mask_rows; ++r) {
        for (std::int64_t c = 0; c < mask_cols; ++c) {
          if ((3 * r + c) % 4 != 1) set_keep(*keep, 0, r, c);
          bias->f64.push_back(static_cast<double>((r + 5 * c) % 9) / 3);
        }
      }
      Mask mask;
      mask.keep = keep, mask.bias = bias;
      const auto problem = small_problem(DType::float64, mask, 70, 90);
      Recipe recipe;
      recipe.Br = 40, recipe.Bc = 24;
      EXPECT_TRUE(same_rows(fold_rows<double>(*problem, recipe, 1), naive::attention(*problem, recipe, 1), 1e-12))
          << mask_rows << " x " << mask_cols;
    }
  }
}

TEST(Fold, CountsAreWhatTheVerbsShow) {
  for (const auto& [mask_name, mask] : masks(37, 29)) {
    const auto problem = small_problem(DType::float32, mask);
    Recipe recipe;
    recipe.Br = 16, recipe.Bc = 8, recipe.order = Order::reverse, recipe.guard = Guard::none, recipe.skip = Skip::none;
    Fold<float> counted(*problem, recipe), verbs(*problem, recipe);
    std::int64_t rescaled = 0, new_nan = 0;
    for (std::int64_t row0 = 0; row0 < 37; row0 += 16) {
      const std::int64_t rows = std::min<std::int64_t>(16, 37 - row0);
      counted.start(1, row0, rows), verbs.start(1, row0, rows);
      std::vector<bool> was_nan(rows);
      for (const std::int64_t j : naive::visited(*problem, recipe, row0, rows)) {
        const std::int64_t col0 = j * 8, cols = std::min<std::int64_t>(8, 29 - col0);
        const bool needs_mask = !tile_is_full(*problem, 1, row0, rows, col0, cols);
        const TileCounts counts = counted.fold_tile_counted(col0, cols, needs_mask);
        TileCounts seen;
        seen.largest_score = -kInf;
        verbs.begin_tile(col0, cols, needs_mask);
        verbs.scores(), verbs.mask();
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t c = 0; c < cols; ++c)
            seen.largest_score = std::max<double>(seen.largest_score, verbs.S()[c * verbs.lanes() + r]);
        }
        verbs.max(), verbs.exponentials(), verbs.rescale(), verbs.accumulate();
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t c = 0; c < cols; ++c) seen.nan_cells += std::isnan(verbs.S()[c * verbs.lanes() + r]);
          bool nan = std::isnan(verbs.l()[r]);
          for (std::int64_t e = 0; e < 7; ++e) nan = nan || std::isnan(verbs.O()[e * verbs.lanes() + r]);
          seen.new_nan += nan && !was_nan[r];
          was_nan[r] = nan;
          seen.rescaled += verbs.m_old()[r] != -kInf && verbs.m()[r] > verbs.m_old()[r];
          seen.first_max += verbs.m_old()[r] == -kInf && verbs.m()[r] != -kInf;
        }
        EXPECT_EQ(counts.largest_score, seen.largest_score) << mask_name;
        EXPECT_EQ(counts.rescaled, seen.rescaled) << mask_name;
        EXPECT_EQ(counts.first_max, seen.first_max) << mask_name;
        EXPECT_EQ(counts.new_nan, seen.new_nan) << mask_name;
        EXPECT_EQ(counts.nan_cells, seen.nan_cells) << mask_name;
        EXPECT_EQ(counts.new_inf, 0) << mask_name;
        rescaled += counts.rescaled, new_nan += counts.new_nan;
      }
    }
    EXPECT_GT(rescaled, 0) << mask_name;
    EXPECT_TRUE(mask.causal != Causal::top_left || new_nan > 0) << mask_name;
  }
}

TEST(Fold, RestoredStateContinuesWithTheSameBits) {
  const auto problem = random_problem({1, 1, 40, 90, 8, 6, DType::float32}, 2);
  Recipe recipe;
  recipe.Br = 40, recipe.Bc = 10;
  Fold<float> through(*problem, recipe), restored(*problem, recipe);
  RowBlockState<float> state;
  through.start(0, 0, 40);
  for (int j = 0; j < 9; ++j) {
    if (j == 5) through.save(state);
    through.fold_tile(j * 10, 10, false);
  }
  EXPECT_EQ(state.folded, 5);
  restored.start(0, 0, 40);
  restored.restore(state);
  for (int j = 5; j < 9; ++j) restored.fold_tile(j * 10, 10, false);
  for (std::int64_t e = 0; e < 6; ++e) {
    for (std::int64_t r = 0; r < 40; ++r)
      EXPECT_EQ(through.O()[e * through.lanes() + r], restored.O()[e * through.lanes() + r]);
  }
}

TEST(Isa, IsNamedChosenAndRefused) {
  const std::vector<std::string_view> isas = available_isas();
  ASSERT_FALSE(isas.empty());
  for (const std::string_view isa : isas) {
    use_isa(isa);
    EXPECT_EQ(current_isa(), isa);
    EXPECT_EQ(available_isas(), isas);
  }
  use_isa("auto");
  EXPECT_EQ(current_isa(), isas.front());
  EXPECT_THROW(use_isa("AVX9"), InputError);
  EXPECT_EQ(current_isa(), isas.front());
}

}  // namespace
}  // namespace flashscope
