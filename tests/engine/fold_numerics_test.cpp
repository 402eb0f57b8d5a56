// What the fold rounds, and how it bears NaN, infinities, and scores far from 0.
#include "engine/attention/online_softmax.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "engine/attention/fold_kernels.h"
#include "engine/error.h"
#include "tests/engine/fold_rows.h"
#include "tests/place.h"

namespace flashscope {
namespace {

using naive::kInf;
using naive::kNaN;

class FoldNumerics : public OnEveryIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, FoldNumerics, testing::ValuesIn(available_isas()),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(FoldNumerics, PowersOfTwoAndALazyMaximumChangeRoundingOnly) {
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
TEST_P(FoldNumerics, NarrowTypesRoundWhatEachVerbLeaves) {
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

TEST_P(FoldNumerics, RoundingIsTheNearestNumberOfTheType) {
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

TEST_P(FoldNumerics, ExponentialIsAccurateAndKeepsNaN) {
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

TEST_P(FoldNumerics, NaNAndInfinityInTheInputs) {
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
TEST_P(FoldNumerics, AnOffsetOfTenThousandDoesNotMatter) {
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

}  // namespace
}  // namespace flashscope
