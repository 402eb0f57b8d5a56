// The fold is the definition: every recipe, mask and defect against a plain loop.
#include "engine/attention/online_softmax.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/attention/fold_kernels.h"
#include "engine/error.h"
#include "tests/engine/fold_rows.h"
#include "tests/place.h"

namespace flashscope {
namespace {

class FoldDefinition : public OnEveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, FoldDefinition, testing::ValuesIn(available_isas()),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(FoldDefinition, EveryRecipeAndMaskIsTheDefinition) {
  for (const auto& [mask_name, mask] : masks(37, 29)) {
    const auto in_double = small_problem(DType::float64, mask);
    const auto in_float = small_problem(DType::float32, mask);
    for_each_recipe([&](const Recipe& recipe) {
      for (const std::int64_t h : {0, 1}) {
        EXPECT_TRUE(same_rows(fold_rows<double>(*in_double, recipe, h), naive::attention(*in_double, recipe, h), 1e-12))
            << mask_name << ", head " << h << ", " << words(recipe);
        EXPECT_TRUE(same_rows(fold_rows<float>(*in_float, recipe, h), naive::attention(*in_float, recipe, h), 4e-6))
            << mask_name << ", head " << h << ", float, " << words(recipe);
      }
    });
  }
}

TEST_P(FoldDefinition, EveryDefectIsItsDefinition) {
  for (const std::string_view defect :
       {"no-rescale", "no-rescale-l", "no-rescale-o", "inverse-rescale", "tile-max", "local-causal", "unscaled",
        "double-scale", "no-final-divide", "unmasked-tail", "finite-sentinel=-2", "finite-sentinel=-2,add"}) {
    int differs = 0;
    for (const auto& [mask_name, mask] : masks(37, 29)) {
      const auto problem = small_problem(DType::float64, mask);
      for (const Guard guard : {Guard::clamp, Guard::skip, Guard::none}) {
        for (const Normalise normalise : {Normalise::end, Normalise::each}) {
          Recipe recipe;
          recipe.guard = guard, recipe.normalise = normalise, recipe.Br = 16, recipe.Bc = 8;
          const std::vector<naive::Row> right = fold_rows<double>(*problem, recipe, 1);
          set_defect(recipe, defect);
          if (recipe.defect == Defect::no_final_divide && normalise == Normalise::each) continue;
          const std::vector<naive::Row> wrong = fold_rows<double>(*problem, recipe, 1);
          EXPECT_TRUE(same_rows(wrong, naive::attention(*problem, recipe, 1), 1e-11))
              << mask_name << ", " << words(recipe);
          differs += !same_rows(wrong, right, 1e-6);
        }
      }
    }
    EXPECT_GT(differs, 0) << defect << " is nowhere different from the right answer";
  }
}

// The defects that need heads that share keys, a square tile, a bias or an LSE to be seen.
TEST_P(FoldDefinition, EveryDefectOfSomeShapesIsItsDefinition) {
  for (const std::string_view defect :
       {"mask-twice", "lse-base2", "gqa-interleaved", "k-untransposed", "bf16-row-sum"}) {
    int differs = 0;
    for (const auto& [mask_name, mask] : masks(37, 29)) {
      if (mask.keep) continue;  // of two heads
      const auto problem = random_problem({4, 2, 37, 29, 8, 7, DType::float64}, 11, {}, mask);
      for (const Guard guard : {Guard::clamp, Guard::skip, Guard::none}) {
        for (const Normalise normalise : {Normalise::end, Normalise::each}) {
          Recipe recipe;
          recipe.guard = guard, recipe.normalise = normalise, recipe.Br = 16, recipe.Bc = 8;
          const std::vector<naive::Row> right = fold_rows<double>(*problem, recipe, 1);
          set_defect(recipe, defect);
          const std::vector<naive::Row> wrong = fold_rows<double>(*problem, recipe, 1);
          EXPECT_TRUE(same_rows(wrong, naive::attention(*problem, recipe, 1), 1e-11))
              << mask_name << ", " << words(recipe);
          const bool shows = why_defect_cannot_show(recipe, *problem).empty();
          const bool differs_here = !same_rows(wrong, right, 1e-6);
          EXPECT_TRUE(shows || !differs_here) << mask_name << ", " << words(recipe);
          differs += differs_here;
        }
      }
    }
    EXPECT_GT(differs, 0) << defect << " is nowhere different from the right answer";
  }
}

TEST(Fold, StandardIsTheSoftmaxOfTheWholeRow) {
  for (const auto& [mask_name, mask] : masks(37, 29)) {
    const auto problem = small_problem(DType::float64, mask);
    for (const Guard guard : {Guard::clamp, Guard::skip, Guard::none}) {
      for (const MaskApply apply : {MaskApply::select, MaskApply::add}) {
        Recipe one_tile;
        one_tile.Br = 16, one_tile.Bc = 29, one_tile.guard = guard, one_tile.mask_apply = apply;
        one_tile.skip = Skip::none;
        Recipe standard = one_tile;
        standard.algorithm = Algorithm::standard;
        EXPECT_TRUE(same_rows(fold_rows<double>(*problem, standard, 1), naive::attention(*problem, one_tile, 1), 1e-12))
            << mask_name << ' ' << words(standard);
      }
    }
  }
}

// Case open-03: scores of -15000 against a sentinel of -10000, which replaces or is added.
TEST(Fold, AFiniteSentinelWinsOverVeryNegativeScores) {
  std::ifstream file(source_path("tests/data/cases/open-03-finite-sentinel-wins.json"));
  const auto log = nlohmann::json::parse(file);
  const auto tensor = [&](const char* name, std::int64_t rows) {
    Tensor tensor = make_tensor(DType::float64, 1, rows, 1);
    for (std::int64_t r = 0; r < rows; ++r) set(tensor, 0, r, 0, log["inputs"][name]["values"][r][0]);
    return tensor;
  };
  auto keep = std::make_shared<KeepMask>(make_keep_mask(1, 2, 4));
  for (std::int64_t r = 0; r < 2; ++r) {
    for (std::int64_t c = 0; c < 4; ++c) {
      if (log["inputs"]["mask"]["values"][r][c] == 1) set_keep(*keep, 0, r, c);
    }
  }
  Mask mask;
  mask.keep = keep;
  const auto problem = make_problem("open-03", tensor("Q", 2), tensor("K", 4), tensor("V", 4), 1.0, mask);
  const auto expect_O = [&](const char* defect, const nlohmann::json& O) {
    Recipe recipe;
    recipe.Br = recipe.Bc = 2;
    set_defect(recipe, defect);
    const std::vector<naive::Row> rows = fold_rows<double>(*problem, recipe, 0);
    for (std::size_t r = 0; r < 2; ++r) EXPECT_LE(std::abs(rows[r].O[0] - O[r][0].get<double>()), 1e-12) << defect;
  };
  expect_O("none", log["expected"]["O"]);
  expect_O("finite-sentinel=-10000", log["wrong"]["masked score replaced by -10000"]);
  expect_O("finite-sentinel=-10000,add", log["wrong"]["-10000 added to masked score"]);
}

// Golden: N = 300, Br = 64, Bc = 100, causal, reverse.
TEST(Fold, UnguardedReverseCausalGivesNaNInTheKnownRows) {
  Mask causal;
  causal.causal = Causal::top_left;
  const auto problem = random_problem({1, 1, 300, 300, 16, 16, DType::float32}, 1, {}, causal);
  const auto nan_rows = [&](Order order, Skip skip, Guard guard, Numerators numerators) {
    Recipe recipe;
    recipe.Br = 64, recipe.Bc = 100, recipe.order = order, recipe.skip = skip, recipe.guard = guard;
    recipe.numerators = numerators;
    std::vector<std::int64_t> rows;
    const std::vector<naive::Row> all = fold_rows<float>(*problem, recipe, 0);
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (std::isnan(all[r].O[0])) rows.push_back(static_cast<std::int64_t>(r));
    }
    return rows;
  };
  std::vector<std::int64_t> known;
  for (std::int64_t r = 64; r < 100; ++r) known.push_back(r);
  for (std::int64_t r = 192; r < 200; ++r) known.push_back(r);
  EXPECT_EQ(nan_rows(Order::reverse, Skip::geometry, Guard::none, Numerators::running), known);
  EXPECT_EQ(nan_rows(Order::reverse, Skip::none, Guard::none, Numerators::running).size(), 200u);
  EXPECT_EQ(nan_rows(Order::reverse, Skip::geometry, Guard::clamp, Numerators::running).size(), 0u);
  EXPECT_EQ(nan_rows(Order::reverse, Skip::none, Guard::skip, Numerators::running).size(), 0u);
  EXPECT_EQ(nan_rows(Order::forward, Skip::geometry, Guard::none, Numerators::tile), known);
  EXPECT_EQ(nan_rows(Order::forward, Skip::geometry, Guard::none, Numerators::running).size(), 0u);
}

}  // namespace
}  // namespace flashscope
