#include "engine/attention/cpu_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/attention/online_softmax.h"
#include "engine/error.h"

namespace flashscope {
namespace {

std::shared_ptr<const Problem> problem_of(DType type, Causal causal = Causal::none, std::int64_t N = 200) {
  Mask mask;
  mask.causal = causal;
  return random_problem({4, 2, N, N, 16, 8, type}, 9, {}, mask);
}

bool same_bits(const Buffer<double>& a, const Buffer<double>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
           return x == y || (std::isnan(x) && std::isnan(y));
         });
}

TEST(CpuRun, EveryAlgorithmAndTypeIsWithinTheTolerance) {
  for (const DType type : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    for (const Causal causal : {Causal::none, Causal::top_left}) {
      const auto problem = problem_of(type, causal);
      for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash1, Algorithm::flash2}) {
        Recipe recipe;
        recipe.algorithm = algorithm, recipe.Br = 48, recipe.Bc = 30;
        const Report report = run_on_cpu(*problem, recipe);
        ASSERT_TRUE(report.error);
        EXPECT_TRUE(report.error->within())
            << name(type) << ' ' << name(algorithm) << ": " << report.error->max << " > " << report.error->tolerance;
        EXPECT_EQ(report.error->rows_checked, 800);
        EXPECT_EQ(report.nan_row_count, 0);
        for (std::int64_t row : {0, 399, 799}) {
          const double right = reference_row(*problem, row / 200, row % 200).LSE;
          EXPECT_LE(std::abs(report.LSE[row] - right), type == DType::float64 ? 1e-12 : 1e-5);
        }
      }
    }
  }
}

TEST(CpuRun, ThreadsDoNotChangeABit) {
  const auto problem = problem_of(DType::float32, Causal::top_left);
  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash1, Algorithm::flash2}) {
    Recipe recipe;
    recipe.algorithm = algorithm, recipe.Br = 16, recipe.Bc = 32;
    RunOptions options;
    options.check.kind = CheckRows::Kind::none;
    options.threads = 1;
    const Report one = run_on_cpu(*problem, recipe, options);
    for (const int threads : {2, 7}) {
      options.threads = threads;
      const Report many = run_on_cpu(*problem, recipe, options);
      EXPECT_TRUE(same_bits(one.O, many.O)) << name(algorithm);
      EXPECT_TRUE(same_bits(one.LSE, many.LSE)) << name(algorithm);
    }
  }
}

TEST(CpuRun, ReportsWhatItDid) {
  const auto problem = problem_of(DType::float16, Causal::top_left);
  Recipe recipe;
  recipe.Br = 64, recipe.Bc = 64;
  RunOptions options;
  options.threads = 2;
  std::int64_t last = 0;
  const Report report = run_on_cpu(*problem, recipe, options, {}, [&](std::int64_t done, std::int64_t total) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, total);
    last = done;
  });
  const Schedule schedule(problem->shape(), problem->mask, recipe);
  EXPECT_GE(last, schedule.tiles());
  EXPECT_EQ(report.device, "CPU, 2 threads");
  EXPECT_EQ(report.kernel, "fold, " + std::string(current_isa()));
  EXPECT_EQ(report.traffic.elements, counted(schedule).elements);
  EXPECT_EQ(report.traffic.bytes, counted(schedule).bytes);
  EXPECT_EQ(report.tensor_bytes, 2 * (4 * 200 * 16 + 2 * 200 * 16 + 2 * 200 * 8));
  EXPECT_GT(report.seconds, 0);
  double sum = 0, sum_abs = 0;
  for (const double o : report.O) sum += o, sum_abs += std::abs(o);
  EXPECT_EQ(report.sum, sum);
  EXPECT_EQ(report.sum_abs, sum_abs);
  options.check.kind = CheckRows::Kind::none;
  EXPECT_FALSE(run_on_cpu(*problem, recipe, options).error);
}

TEST(CpuRun, ListsNaNRowsByHead) {
  const auto problem = problem_of(DType::float32, Causal::top_left, 300);
  Recipe recipe;
  recipe.Br = 64, recipe.Bc = 100, recipe.order = Order::reverse, recipe.guard = Guard::none;
  const Report report = run_on_cpu(*problem, recipe);
  ASSERT_EQ(report.nan_rows.size(), 4u);
  EXPECT_EQ(report.nan_row_count, 4 * 44);
  for (const auto& rows : report.nan_rows) {
    EXPECT_EQ(rows.size(), 44u);
    EXPECT_EQ(rows.front(), 64);
    EXPECT_EQ(rows.back(), 199);
  }
  EXPECT_EQ(report.error->nan_mismatch, 4 * 44);
  EXPECT_FALSE(report.error->within());
}

// The point of the tiled algorithms, as the allocator saw it: no Nq x Nk matrix.
TEST(CpuRun, PeakMemoryIsMeasured) {
  const auto problem = random_problem({2, 1, 1024, 1024, 16, 16, DType::float32}, 1);
  RunOptions options;
  options.check.kind = CheckRows::Kind::none;
  options.threads = 2;
  Recipe recipe;
  const std::int64_t output = 2 * 1024 * (16 + 1) * 4, square = 1024 * 1024 * 4;
  for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2}) {
    recipe.algorithm = algorithm;
    const Report report = run_on_cpu(*problem, recipe, options);
    EXPECT_GE(report.peak_bytes, output + 64 * 64 * 4);  // a thread may come too late to a short run
    EXPECT_LE(report.peak_bytes, output + 2 * 64 * (64 + 16 + 16 + 16) * 4);
  }
  recipe.algorithm = Algorithm::standard;
  const Report report = run_on_cpu(*problem, recipe, options);
  EXPECT_GE(report.peak_bytes, output + 2 * square);  // S and P of one head at a time
  EXPECT_LE(report.peak_bytes, output + 2 * square + (64 << 10));
}

TEST(CpuRun, WhatDoesNotFitIsRefusedWithTheFigures) {
  const auto problem = problem_of(DType::float32);
  Recipe recipe;
  recipe.algorithm = Algorithm::standard;
  RunOptions options;
  options.memory_limit = 300'000;  // S and P are 320,000 bytes
  try {
    run_on_cpu(*problem, recipe, options);
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("S and P"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the memory setting"));
  }
  recipe.algorithm = Algorithm::flash2;
  EXPECT_NO_THROW(run_on_cpu(*problem, recipe, options));
}

TEST(CpuRun, CanBeCancelledFromItsProgress) {
  const auto problem = problem_of(DType::float32);
  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash1, Algorithm::flash2}) {
    Recipe recipe;
    recipe.algorithm = algorithm, recipe.Br = 1, recipe.Bc = 8;
    std::stop_source stop;
    std::int64_t calls = 0;
    RunOptions options;
    options.threads = 2;
    EXPECT_THROW(run_on_cpu(*problem, recipe, options, stop.get_token(),
                            [&](std::int64_t, std::int64_t) {
                              ++calls;
                              stop.request_stop();
                            }),
                 Cancelled);
    EXPECT_LE(calls, 2);  // one a thread
  }
}

}  // namespace
}  // namespace flashscope
