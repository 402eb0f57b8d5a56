#include "engine/attention/online_softmax.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/attention/fold_kernels.h"
#include "engine/error.h"
#include "tests/engine/naive_attention.h"
#include "tests/place.h"

namespace flashscope {
namespace {

using naive::kInf;
using naive::kNaN;

std::shared_ptr<const Problem> small_problem(DType type, Mask mask = {}, std::int64_t Nq = 37, std::int64_t Nk = 29) {
  return random_problem({2, 1, Nq, Nk, 5, 7, type}, 11, {}, std::move(mask));
}

// Masks of every kind, for Nq x Nk with two heads. Row 5 of the keep mask is empty, keys 0..3 are padding.
std::vector<std::pair<std::string, Mask>> masks(std::int64_t Nq, std::int64_t Nk) {
  std::vector<std::pair<std::string, Mask>> all(1, {"none", {}});
  Mask causal, bottom, window, both, keep, bias, everything;
  causal.causal = Causal::top_left;
  bottom.causal = Causal::bottom_right;
  window.window = Window{3, 2};
  both.causal = Causal::bottom_right, both.window = Window{4, 9};
  auto bits = std::make_shared<KeepMask>(make_keep_mask(2, Nq, Nk));
  auto values = std::make_shared<Bias>();
  values->heads = 1, values->rows = Nq, values->cols = Nk;
  values->f32.resize(Nq * Nk);
  for (std::int64_t r = 0; r < Nq; ++r) {
    for (std::int64_t c = 0; c < Nk; ++c) {
      for (std::int64_t h = 0; h < 2; ++h) {
        if (r != 5 && c > 3 && (r * 7 + c * 3 + h) % 5 != 0) set_keep(*bits, h, r, c);
      }
      values->f32[r * Nk + c] =
          (r + 2 * c) % 7 == 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>((r * 5 + c) % 11) / 4 - 1;
    }
  }
  keep.keep = bits, bias.bias = values;
  everything.causal = Causal::top_left, everything.keep = bits, everything.bias = values;
  all.emplace_back("causal", causal);
  all.emplace_back("bottom-right", bottom);
  all.emplace_back("window", window);
  all.emplace_back("causal window", both);
  all.emplace_back("keep", keep);
  all.emplace_back("bias", bias);
  all.emplace_back("everything", everything);
  return all;
}

bool tile_is_full(const Problem& problem, std::int64_t h, std::int64_t row0, std::int64_t rows, std::int64_t col0,
                  std::int64_t cols) {
  if (problem.mask.bias) return false;
  const Band limits = band(problem.mask, problem.shape().Nq, problem.shape().Nk);
  for (std::int64_t r = row0; r < row0 + rows; ++r) {
    for (std::int64_t c = col0; c < col0 + cols; ++c) {
      if (!visible(problem.mask, limits, h, r, c)) return false;
    }
  }
  return true;
}

enum class How { verbs, fused, counted };

// The rows of one head, as the naive loop gives them. O has dv values a row.
template <class T>
std::vector<naive::Row> fold_rows(const Problem& problem, const Recipe& recipe, std::int64_t h, How how = How::fused) {
  const Shape shape = problem.shape();
  Fold<T> fold(problem, recipe);
  std::vector<naive::Row> rows(shape.Nq);
  for (std::int64_t row0 = 0; row0 < shape.Nq; row0 += recipe.Br) {
    const std::int64_t n = std::min(recipe.Br, shape.Nq - row0);
    fold.start(h, row0, n);
    const bool flash = recipe.algorithm != Algorithm::standard;
    if (!flash) {
      fold.begin_tile(0, shape.Nk, !tile_is_full(problem, h, row0, n, 0, shape.Nk));
      fold.scores();
      fold.mask();
      fold.softmax();
      fold.multiply();
    }
    for (const std::int64_t j : flash ? naive::visited(problem, recipe, row0, n) : std::vector<std::int64_t>()) {
      const std::int64_t col0 = j * recipe.Bc, cols = std::min(recipe.Bc, shape.Nk - col0);
      const bool needs_mask = !tile_is_full(problem, h, row0, n, col0, cols);
      if (how == How::fused) fold.fold_tile(col0, cols, needs_mask);
      if (how == How::counted) fold.fold_tile_counted(col0, cols, needs_mask);
      if (how != How::verbs) continue;
      fold.begin_tile(col0, cols, needs_mask);
      fold.scores();
      fold.mask();
      fold.max();
      fold.exponentials();
      fold.rescale();
      fold.accumulate();
    }
    fold.finish();
    for (std::int64_t r = 0; r < n; ++r) {
      naive::Row& row = rows[row0 + r];
      row.m = fold.m()[r], row.l = fold.l()[r], row.LSE = fold.LSE()[r];
      for (std::int64_t e = 0; e < shape.dv; ++e) row.O.push_back(fold.O()[e * fold.lanes() + r]);
    }
  }
  return rows;
}

bool close(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

testing::AssertionResult same_rows(const std::vector<naive::Row>& a, const std::vector<naive::Row>& b,
                                   double tolerance) {
  for (std::size_t r = 0; r < a.size(); ++r) {
    if (!close(a[r].LSE, b[r].LSE, tolerance) || !close(a[r].m, b[r].m, tolerance) || !close(a[r].l, b[r].l, tolerance))
      return testing::AssertionFailure() << "row " << r << ": m, l, LSE " << a[r].m << ' ' << a[r].l << ' ' << a[r].LSE
                                         << " against " << b[r].m << ' ' << b[r].l << ' ' << b[r].LSE;
    for (std::size_t e = 0; e < a[r].O.size(); ++e) {
      if (!close(a[r].O[e], b[r].O[e], tolerance))
        return testing::AssertionFailure()
               << "row " << r << ", O[" << e << "]: " << a[r].O[e] << " against " << b[r].O[e];
    }
  }
  return testing::AssertionSuccess();
}

bool same_bits(const std::vector<naive::Row>& a, const std::vector<naive::Row>& b) {
  const auto same = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  for (std::size_t r = 0; r < a.size(); ++r) {
    if (!same(a[r].m, b[r].m) || !same(a[r].l, b[r].l) || !same(a[r].LSE, b[r].LSE)) return false;
    for (std::size_t e = 0; e < a[r].O.size(); ++e) {
      if (!same(a[r].O[e], b[r].O[e])) return false;
    }
  }
  return true;
}

template <class Body>
void for_each_recipe(const Body& body) {
  for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2})
    for (const Order order : {Order::forward, Order::reverse})
      for (const Skip skip : {Skip::geometry, Skip::none})
        for (const Guard guard : {Guard::clamp, Guard::skip, Guard::none})
          for (const Normalise normalise : {Normalise::end, Normalise::each})
            for (const Numerators numerators : {Numerators::running, Numerators::tile})
              for (const MaskApply apply : {MaskApply::select, MaskApply::add}) {
                Recipe recipe;
                recipe.algorithm = algorithm, recipe.order = order, recipe.skip = skip, recipe.guard = guard;
                recipe.normalise = normalise, recipe.numerators = numerators, recipe.mask_apply = apply;
                recipe.Br = 16, recipe.Bc = 8;
                body(recipe);
              }
}

std::string words(const Recipe& recipe) {
  std::string text;
  for (const std::string_view word :
       {name(recipe.algorithm), name(recipe.order), name(recipe.skip), name(recipe.guard), name(recipe.normalised()),
        name(recipe.numerators), name(recipe.mask_apply), name(recipe.empty_row)})
    text += std::string(word) + ' ';
  return text + defect_text(recipe);
}

class OnEveryIsa : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override { use_isa(GetParam()); }
  void TearDown() override { use_isa("auto"); }
};
INSTANTIATE_TEST_SUITE_P(Isas, OnEveryIsa, testing::ValuesIn(available_isas()),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OnEveryIsa, EveryRecipeAndMaskIsTheDefinition) {
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

TEST_P(OnEveryIsa, EveryDefectIsItsDefinition) {
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
TEST_P(OnEveryIsa, EveryDefectOfSomeShapesIsItsDefinition) {
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

// Folding a few rows of a row block alone gives what the whole row block gives them, local indices included.
TEST_P(OnEveryIsa, RowsFoldedAloneAreTheRowsOfTheirBlock) {
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

TEST_P(OnEveryIsa, PowersOfTwoAndALazyMaximumChangeRoundingOnly) {
  for (const auto& [mask_name, mask] : masks(37, 29)) {
    const auto problem = small_problem(DType::float64, mask);
    for (const Guard guard : {Guard::clamp, Guard::skip, Guard::none})
      for (const Normalise normalise : {Normalise::end, Normalise::each})
        for (const Order order : {Order::forward, Order::reverse}) {
          Recipe recipe;
          recipe.guard = guard, recipe.normalise = normalise, recipe.order = order, recipe.Br = 16, recipe.Bc = 4;
          const std::vector<naive::Row> right = fold_rows<double>(*problem, recipe, 1);
          recipe.numerics.exponential = Exponential::exp2;
          for (const double threshold : {0.0, 1.0, 8.0}) {
            recipe.numerics.rescale_threshold = threshold;
            std::vector<naive::Row> other = fold_rows<double>(*problem, recipe, 1);
            int kept = 0;
            for (std::size_t r = 0; r < other.size(); ++r) {
              kept += other[r].m < right[r].m;
              const double behind = right[r].m == other[r].m ? 0 : (right[r].m - other[r].m) / std::log(2.0);
              EXPECT_LE(behind, threshold + 1e-12);
              other[r].m = right[r].m, other[r].l = right[r].l;  // l is relative to m
            }
            EXPECT_TRUE(same_rows(other, right, 1e-12)) << mask_name << ", " << words(recipe) << ' ' << threshold;
            EXPECT_EQ(kept > 0, threshold > 0) << mask_name << ' ' << threshold;
          }
        }
  }
}

// Each verb leaves numbers of its type, no further from the unrounded ones than half a unit.
TEST_P(OnEveryIsa, NarrowTypesRoundWhatEachVerbLeaves) {
  const auto problem = random_problem({1, 1, 20, 50, 24, 6, DType::float32}, 8);
  for (const DType type : {DType::float16, DType::bfloat16}) {
    Recipe plain, narrow;
    plain.Br = narrow.Br = 20, plain.Bc = narrow.Bc = 50;
    const auto expect_rounded = [&](const float* found, const float* exact, std::int64_t n, const char* what) {
      for (std::int64_t k = 0; k < n; ++k) ASSERT_EQ(found[k], round_to(type, exact[k])) << what << ' ' << k;
    };
    const auto until_P = [&](Fold<float>& fold) {
      fold.start(0, 0, 20), fold.begin_tile(0, 50, false), fold.scores(), fold.mask(), fold.max(), fold.exponentials();
    };
    // A power of 2 as the scale: rounding the raw product and the scaled one is rounding once.
    const auto scaled = with_scale(problem, 0.25);
    narrow.numerics.scores = type;
    Fold<float> a(*scaled, plain), b(*scaled, narrow);
    a.start(0, 0, 20), b.start(0, 0, 20), a.begin_tile(0, 50, false), b.begin_tile(0, 50, false);
    a.scores(), b.scores();
    expect_rounded(b.S(), a.S(), 50 * a.lanes(), "S");

    narrow.numerics = {}, narrow.numerics.P = type;
    Fold<float> c(*problem, plain), d(*problem, narrow);
    until_P(c), until_P(d);
    expect_rounded(d.S(), c.S(), 50 * c.lanes(), "P");
    for (std::int64_t r = 0; r < 20; ++r) EXPECT_EQ(c.row_sum()[r], d.row_sum()[r]);

    narrow.numerics = {}, narrow.numerics.accumulators = type;
    narrow.Bc = 16;
    const std::vector<naive::Row> right = fold_rows<float>(*problem, plain, 0),
                                  rows = fold_rows<float>(*problem, narrow, 0);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      EXPECT_EQ(rows[r].l, round_to(type, rows[r].l));
      for (std::size_t e = 0; e < rows[r].O.size(); ++e)
        EXPECT_LE(std::abs(rows[r].O[e] - right[r].O[e]), 12 * ulp(type, 1));
    }
    EXPECT_TRUE(same_bits(fold_rows<float>(*problem, narrow, 0, How::verbs),
                          fold_rows<float>(*problem, narrow, 0, How::fused)));
  }
}

TEST_P(OnEveryIsa, RoundingIsTheNearestNumberOfTheType) {
  std::vector<float> x = {0.0f,
                          -0.0f,
                          static_cast<float>(kInf),
                          static_cast<float>(-kInf),
                          65504.0f,
                          65519.9f,
                          65520.0f,
                          -65520.0f,
                          3.4e38f,
                          1.0f,
                          0x1p-14f,
                          0x1.ffcp-15f,
                          0x1p-24f,
                          0x1p-25f,
                          0x1.8p-25f,
                          -0x1p-26f};
  for (int n = 0; n < 4000; ++n) {
    const double value = random_normal(3, 2 * n) * std::exp2(random_normal(3, 2 * n + 1) * 12);
    x.push_back(static_cast<float>(value));
    x.push_back(half_to_float(static_cast<std::uint16_t>(n * 7)) * (1 + 0x1p-11f));  // halfway between two
  }
  std::vector<double> xd(x.begin(), x.end());
  for (const DType type : {DType::float16, DType::bfloat16}) {
    std::vector<float> y = x;
    std::vector<double> yd = xd;
    fold_kernels<float>().round(y.data(), static_cast<std::int64_t>(y.size()), type == DType::bfloat16);
    fold_kernels<double>().round(yd.data(), static_cast<std::int64_t>(yd.size()), type == DType::bfloat16);
    for (std::size_t n = 0; n < x.size(); ++n) {
      EXPECT_EQ(y[n], round_to(type, x[n])) << x[n];
      EXPECT_EQ(yd[n], round_to(type, x[n])) << x[n];
      EXPECT_EQ(std::signbit(y[n]), std::signbit(x[n])) << x[n];
    }
    float nan = static_cast<float>(kNaN);
    fold_kernels<float>().round(&nan, 1, type == DType::bfloat16);
    EXPECT_TRUE(std::isnan(nan));
  }
}

TEST_P(OnEveryIsa, VerbsFusedAndCountedGiveTheSameBits) {
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
TEST_P(OnEveryIsa, ARowHasTheSameBitsInAnyRowBlock) {
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
TEST_P(OnEveryIsa, MasksAreTheSameInAnyTile) {
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

TEST_P(OnEveryIsa, ExponentialIsAccurateAndKeepsNaN) {
  std::vector<float> x = {0.0f, -0.0f, static_cast<float>(-kInf), static_cast<float>(kNaN), -1000.0f, -87.0f};
  x.push_back(std::bit_cast<float>(0x7fc00001u));  // a NaN with a payload must not become a number
  x.push_back(std::bit_cast<float>(0xffffffffu));
  const std::size_t special = x.size();
  for (double value = 1e-30; value < 87.3; value = value * 1.00005 + 1e-12) x.push_back(static_cast<float>(-value));
  while (x.size() % kLane != 0) x.push_back(0);
  std::vector<float> y(x.size());
  fold_kernels<float>().exp(x.data(), x.size(), y.data());
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_TRUE(std::isnan(y[3]) && std::isnan(y[6]) && std::isnan(y[7]));
  EXPECT_EQ(y[4], 0.0f);
  double worst = 0;
  for (std::size_t n = special; n < x.size(); ++n) {
    const double right = std::exp(static_cast<double>(x[n]));
    worst = std::max(worst, std::abs(y[n] - right) / ulp(DType::float32, right));
    ASSERT_FALSE(std::isnan(y[n])) << x[n];
  }
  EXPECT_LE(worst, 1.5) << "ulp of float";

  std::vector<double> xd(x.begin(), x.end()), yd(x.size());
  xd[special] = -708.3;
  fold_kernels<double>().exp(xd.data(), xd.size(), yd.data());
  EXPECT_EQ(yd[0], 1.0);
  EXPECT_EQ(yd[2], 0.0);
  EXPECT_TRUE(std::isnan(yd[3]));
  worst = 0;
  for (std::size_t n = special; n < xd.size(); ++n)
    worst = std::max(worst, std::abs(yd[n] - std::exp(xd[n])) / ulp(DType::float64, std::exp(xd[n])));
  EXPECT_LE(worst, 1.5) << "ulp of double";
}

TEST_P(OnEveryIsa, NaNAndInfinityInTheInputs) {
  for (const double bad : {kNaN, kInf, -kInf}) {
    for (const int where : {0, 1, 2}) {
      Tensor tensors[3] = {make_tensor(DType::float32, 1, 20, 4), make_tensor(DType::float32, 1, 30, 4),
                           make_tensor(DType::float32, 1, 30, 3)};
      const auto random = random_problem({1, 1, 20, 30, 4, 3, DType::float32}, 5);
      tensors[0].f32 = random->Q().f32, tensors[1].f32 = random->K().f32, tensors[2].f32 = random->V().f32;
      set(tensors[where], 0, 13, 1, bad);
      Mask causal;
      causal.causal = Causal::top_left;
      for (const MaskApply apply : {MaskApply::select, MaskApply::add}) {
        const auto problem =
            make_problem("bad", Tensor(tensors[0]), Tensor(tensors[1]), Tensor(tensors[2]), {}, causal);
        for (const Guard guard : {Guard::clamp, Guard::skip, Guard::none}) {
          Recipe recipe;
          recipe.Br = 8, recipe.Bc = 7, recipe.mask_apply = apply, recipe.guard = guard;
          EXPECT_TRUE(same_rows(fold_rows<float>(*problem, recipe, 0), naive::attention(*problem, recipe, 0), 1e-5))
              << bad << " in tensor " << where << ", " << words(recipe);
        }
      }
    }
  }
}

// Scores near 1e4 leave float about 1e-3 of absolute precision: what counts is that exp sees the
// difference to the maximum, not the scores.
TEST_P(OnEveryIsa, AnOffsetOfTenThousandDoesNotMatter) {
  Tensor Q = make_tensor(DType::float64, 1, 20, 3), K = make_tensor(DType::float64, 1, 50, 3);
  const auto random = random_problem({1, 1, 20, 50, 3, 4, DType::float64}, 5);
  Tensor V = make_tensor(DType::float64, 1, 50, 4);
  V.f64 = random->V().f64;
  for (std::int64_t r = 0; r < 20; ++r) set(Q, 0, r, 0, 1e4), set(Q, 0, r, 1, random->Q().at(0, r, 1));
  for (std::int64_t c = 0; c < 50; ++c) set(K, 0, c, 0, 1), set(K, 0, c, 1, random->K().at(0, c, 1));
  const auto offset = make_problem("offset", Tensor(Q), Tensor(K), Tensor(V), 1.0);
  for (std::int64_t r = 0; r < 20; ++r) set(Q, 0, r, 0, 0);
  const auto plain = make_problem("plain", std::move(Q), std::move(K), std::move(V), 1.0);
  Recipe recipe;
  recipe.Br = 8, recipe.Bc = 7;
  const std::vector<naive::Row> a = fold_rows<double>(*offset, recipe, 0), b = fold_rows<double>(*plain, recipe, 0);
  for (std::size_t r = 0; r < a.size(); ++r) {
    EXPECT_LE(std::abs(a[r].LSE - 1e4 - b[r].LSE), 1e-11);
    for (std::size_t e = 0; e < 4; ++e) EXPECT_LE(std::abs(a[r].O[e] - b[r].O[e]), 1e-11);
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

TEST(Fold, LargeScoresOverflowIntoCountedInfinities) {
  Tensor Q = make_tensor(DType::float32, 1, 2, 1), K = make_tensor(DType::float32, 1, 2, 1);
  Tensor V = make_tensor(DType::float32, 1, 2, 1);
  set(Q, 0, 0, 0, 1), set(Q, 0, 1, 0, 3e38);
  set(K, 0, 0, 0, 1), set(K, 0, 1, 0, 2);
  const auto problem = make_problem("overflow", std::move(Q), std::move(K), std::move(V), 1.0);
  Recipe recipe;
  recipe.Br = 2, recipe.Bc = 1;
  Fold<float> fold(*problem, recipe);
  fold.start(0, 0, 2);
  EXPECT_EQ(fold.fold_tile_counted(0, 1, false).new_inf, 0);
  const TileCounts counts = fold.fold_tile_counted(1, 1, false);
  EXPECT_EQ(counts.new_inf, 1);
  EXPECT_EQ(counts.new_nan, 1);
  EXPECT_EQ(counts.nan_cells, 1);
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
