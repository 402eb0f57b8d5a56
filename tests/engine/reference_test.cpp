#include "engine/attention/reference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/error.h"
#include "tests/engine/naive_attention.h"

namespace flashscope {
namespace {

using naive::kInf;
using naive::kNaN;

// Masks with empty rows: bottom-right causal with Nq > Nk empties the first rows.
std::vector<Mask> masks(std::int64_t Nq, std::int64_t Nk) {
  std::vector<Mask> all(4);
  all[1].causal = Causal::bottom_right;
  all[2].causal = Causal::top_left, all[2].window = Window{6, 3};
  auto keep = std::make_shared<KeepMask>(make_keep_mask(1, Nq, Nk));
  auto bias = std::make_shared<Bias>();
  bias->rows = Nq, bias->cols = Nk;
  for (std::int64_t r = 0; r < Nq; ++r) {
    for (std::int64_t c = 0; c < Nk; ++c) {
      if (r != 7 && (r + c) % 3 != 0) set_keep(*keep, 0, r, c);
      bias->f32.push_back(c % 5 == 1 ? -std::numeric_limits<float>::infinity() : static_cast<float>(r - c) / 8);
    }
  }
  all[3].keep = keep, all[3].bias = bias;
  return all;
}

// One tile of the naive loop is plain attention.
Recipe one_tile(const ReferenceOptions& options, std::int64_t Nk) {
  Recipe recipe;
  recipe.Br = 1 << 20, recipe.Bc = Nk, recipe.skip = Skip::none;
  recipe.empty_row = options.empty_row, recipe.mask_apply = options.mask_apply;
  return recipe;
}

void expect_close(double a, double b, double tolerance, const std::string& what) {
  if (std::isnan(b))
    EXPECT_TRUE(std::isnan(a)) << what;
  else if (std::isinf(b))
    EXPECT_EQ(a, b) << what;
  else
    EXPECT_LE(std::abs(a - b), tolerance) << what;
}

TEST(Reference, RowsAndSingleRowsAreTheDefinition) {
  for (const DType type : {DType::float64, DType::float32}) {
    for (std::size_t n = 0; n < 4; ++n) {
      const auto problem = random_problem({4, 2, 90, 70, 6, 5, type}, 3, {}, masks(90, 70)[n]);
      for (const EmptyRow empty_row : {EmptyRow::zero, EmptyRow::nan, EmptyRow::mean}) {
        const ReferenceOptions options{empty_row, MaskApply::select};
        const std::vector<naive::Row> right = naive::attention(*problem, one_tile(options, 70), 3);
        std::vector<double> O(50 * 5), LSE(50);
        reference_rows(*problem, 3, 20, 50, options, O.data(), LSE.data());
        for (std::int64_t r = 0; r < 50; ++r) {
          const ReferenceRow row = reference_row(*problem, 3, 20 + r, options);
          const std::string what = "mask " + std::to_string(n) + ", row " + std::to_string(20 + r);
          expect_close(LSE[r], right[20 + r].LSE, 1e-13, what);
          expect_close(row.LSE, right[20 + r].LSE, 1e-13, what);
          for (std::int64_t e = 0; e < 5; ++e) {
            expect_close(O[r * 5 + e], right[20 + r].O[e], 1e-13, what);
            expect_close(row.O[e], right[20 + r].O[e], 1e-13, what);
          }
        }
      }
    }
  }
}

TEST(Reference, AHiddenNaNDoesNotCountAndAVisibleOneDoes) {
  const auto random = random_problem({1, 1, 12, 12, 4, 3, DType::float64}, 3);
  Mask causal;
  causal.causal = Causal::top_left;
  for (const bool in_V : {true, false}) {
    Tensor Q = make_tensor(DType::float64, 1, 12, 4), K = Q, V = make_tensor(DType::float64, 1, 12, 3);
    Q.f64 = random->Q().f64, K.f64 = random->K().f64, V.f64 = random->V().f64;
    set(in_V ? V : K, 0, 8, 0, kNaN);
    const auto problem = make_problem("nan", std::move(Q), std::move(K), std::move(V), {}, causal);
    std::vector<double> O(12 * 3);
    reference_rows(*problem, 0, 0, 12, {}, O.data(), nullptr);
    for (std::int64_t r = 0; r < 12; ++r) {
      EXPECT_EQ(std::isnan(O[r * 3]), r >= 8) << r;
      EXPECT_EQ(std::isnan(reference_row(*problem, 0, r).O[0]), r >= 8) << r;
    }
    // NaN + -inf is NaN: added masks let a hidden NaN of K through to every row.
    if (in_V) continue;
    reference_rows(*problem, 0, 0, 12, {EmptyRow::zero, MaskApply::add}, O.data(), nullptr);
    for (std::int64_t r = 0; r < 12; ++r) EXPECT_TRUE(std::isnan(O[r * 3])) << r;
  }
}

TEST(Reference, OverSomeKeysIsAttentionOnThoseKeys) {
  const auto problem = random_problem({1, 1, 9, 30, 4, 3, DType::float64}, 8, {}, masks(9, 30)[0]);
  const std::pair<std::int64_t, std::int64_t> ranges[] = {{20, 30}, {3, 8}};
  const ReferenceRow row = reference_row(*problem, 0, 4, ranges);
  double sum = 0, O[3] = {};
  for (const auto& [first, last] : ranges) {
    for (std::int64_t c = first; c < last; ++c) {
      const double p = std::exp(problem->scale * naive::dot(problem->Q(), 0, 4, problem->K(), 0, c));
      sum += p;
      for (int e = 0; e < 3; ++e) O[e] += p * problem->V().at(0, c, e);
    }
  }
  EXPECT_LE(std::abs(row.LSE - std::log(sum)), 1e-13);
  for (int e = 0; e < 3; ++e) EXPECT_LE(std::abs(row.O[e] - O[e] / sum), 1e-13);
  EXPECT_EQ(reference_row(*problem, 0, 4, std::span<const std::pair<std::int64_t, std::int64_t>>()).LSE, -kInf);
}

TEST(Reference, PlainAttentionIsAsExactAsItsType) {
  double error[3] = {};
  const DType types[] = {DType::float32, DType::float16, DType::bfloat16};
  for (int n = 0; n < 3; ++n) {
    const auto problem = random_problem({1, 1, 40, 200, 16, 8, types[n]}, 4);
    std::vector<double> right(40 * 8), plain(40 * 8);
    reference_rows(*problem, 0, 0, 40, {}, right.data(), nullptr);
    plain_rows(*problem, 0, 0, 40, {}, plain.data());
    for (std::size_t k = 0; k < right.size(); ++k) {
      error[n] = std::max(error[n], std::abs(right[k] - plain[k]));
      EXPECT_EQ(plain[k], round_to(types[n], plain[k]));
    }
  }
  EXPECT_GT(error[0], 0);
  EXPECT_LE(error[0], 1e-6);
  EXPECT_GT(error[1], 100 * error[0]);
  EXPECT_GT(error[2], 4 * error[1]);
  EXPECT_LE(error[2], 2e-2);
}

class Check : public testing::Test {
 protected:
  std::shared_ptr<const Problem> problem_ = random_problem({2, 1, 300, 40, 8, 4, DType::float32}, 6);
  std::vector<double> O_ = std::vector<double>(2 * 300 * 4);
  void SetUp() override {
    for (const std::int64_t h : {0, 1}) reference_rows(*problem_, h, 0, 300, {}, O_.data() + h * 1200, nullptr);
  }
  ErrorReport check(CheckRows rows = {}, int threads = 2) { return error_vs_float64(*problem_, O_, {}, rows, threads); }
};

TEST_F(Check, FindsTheWorstRow) {
  EXPECT_TRUE(check().within());
  EXPECT_EQ(check().max, 0);
  EXPECT_EQ(check().rows_checked, 600);
  O_[(300 + 217) * 4 + 2] += 1e-3;
  for (const int threads : {1, 2, 5}) {
    const ErrorReport report = check({}, threads);
    EXPECT_FALSE(report.within());
    EXPECT_LE(std::abs(report.max - 1e-3), 1e-12);
    EXPECT_EQ(report.worst_head, 1);
    EXPECT_EQ(report.worst_row, 217);
    EXPECT_LE(report.tolerance, 1e-5);
  }
}

TEST_F(Check, ANaNIsNoSmallError) {
  O_[(300 + 217) * 4 + 2] = kNaN;
  EXPECT_EQ(check().nan_mismatch, 1);
  EXPECT_EQ(check().max, 0);
  EXPECT_FALSE(check().within());
  O_[0] = kInf;
  EXPECT_EQ(check().max, kInf);
}

// Which side a NaN is on is told: NaN here, NaN in the right answer, and NaN in both, which is no mismatch.
TEST_F(Check, NanRowsAreCountedBySide) {
  Tensor Q = problem_->Q();
  for (const std::int64_t row : {3, 4, 5, 6, 7}) set(Q, 0, row, 0, kNaN);  // NaN in the right answer
  auto problem = std::make_shared<Problem>(*problem_);
  problem->q = std::make_shared<const Tensor>(std::move(Q));
  for (const std::int64_t row : {6, 7, 200, 400}) O_[row * 4 + 1] = kNaN;  // two of them there, two elsewhere
  for (const int threads : {1, 3}) {
    const ErrorReport report = error_vs_float64(*problem, O_, {}, {}, threads);
    ASSERT_TRUE(report.nan);
    EXPECT_EQ(report.nan->here, 2);
    EXPECT_EQ(report.nan->there, 3);
    EXPECT_EQ(report.nan->both, 2);
    EXPECT_EQ(report.nan_mismatch, 5);
    EXPECT_EQ(report.max, 0);
  }
}

TEST_F(Check, SomeRowsAlwaysHaveTheFirstTheLastAndTheNaNRows) {
  const CheckRows some{CheckRows::Kind::some, 20};
  const ErrorReport sampled = check(some);
  EXPECT_GE(sampled.rows_checked, 30);
  EXPECT_LE(sampled.rows_checked, 40);
  EXPECT_EQ(sampled.rows, 600);
  for (const std::int64_t row : {0, 299, 300, 599}) {
    O_[row * 4] += 0.5;
    EXPECT_FALSE(check(some).within()) << row;
    O_[row * 4] -= 0.5;
  }
  for (const std::int64_t row : {5, 117, 450}) O_[row * 4 + 3] = kNaN;
  EXPECT_EQ(check(some).nan_mismatch, 3);
}

TEST_F(Check, CanBeCancelled) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(error_vs_float64(*problem_, O_, {}, {}, 2, stop.get_token()), Cancelled);
}

}  // namespace
}  // namespace flashscope
