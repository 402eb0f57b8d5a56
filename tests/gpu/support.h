// What the tests on a GPU share: they are skipped, and counted as skipped, where there is none.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "engine/attention/cpu_runner.h"
#include "kernels/host/gpu_runner.h"

namespace flashscope::gpu {

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const GpuStatus status = gpu_status();
    if (!status.can_run()) GTEST_SKIP() << (status.missing.empty() ? "no GPU" : status.missing.front());
  }
};

// Another file's masks: about three quarters of the keys kept, rows without any among them.
inline std::shared_ptr<const KeepMask> random_keep(std::int64_t heads, std::int64_t rows, std::int64_t cols,
                                                   std::uint32_t seed) {
  std::mt19937 random(seed);
  KeepMask keep = make_keep_mask(heads, rows, cols);
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c)
        if (random() % 4 != 0 && r % 17 != 5) set_keep(keep, h, r, c);
  return std::make_shared<const KeepMask>(std::move(keep));
}
inline std::shared_ptr<const Bias> random_bias(std::int64_t heads, std::int64_t rows, std::int64_t cols,
                                               std::uint32_t seed) {
  std::mt19937 random(seed);
  Bias bias;
  bias.heads = heads, bias.rows = rows, bias.cols = cols;
  for (std::int64_t n = 0; n < heads * rows * cols; ++n) {
    const std::uint32_t x = random();
    bias.f32.push_back(x % 8 == 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(x % 1024) / 256 - 2);
  }
  return std::make_shared<const Bias>(std::move(bias));
}

// Bytes that the kernel counted equal the ledger's, operand by operand.
inline void expect_counted(const Report& report) {
  ASSERT_TRUE(report.gpu && report.gpu->counted);
  for (int n = 0; n < kOperands; ++n) {
    const auto operand = static_cast<Operand>(n);
    const Moved found = (*report.gpu->counted)[operand], expected = report.traffic.bytes[operand];
    EXPECT_EQ(found.read, expected.read) << name(operand);
    EXPECT_EQ(found.written, expected.written) << name(operand);
  }
}

// LSE against the reference. Standard attention keeps S in the problem's type: its scores, here up to about 8, are
// rounded before they are summed.
inline void expect_lse(const Problem& problem, const Report& report) {
  const bool rounded = report.recipe.algorithm == Algorithm::standard && problem.shape().type != DType::float32;
  const double tolerance = rounded ? ulp(problem.shape().type, 4.0) / 2 : 2e-5;
  const Shape shape = problem.shape();
  std::vector<double> O(static_cast<std::size_t>(shape.Nq * shape.dv)), LSE(static_cast<std::size_t>(shape.Nq));
  double worst = 0;
  std::int64_t infinite = 0;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    reference_rows(problem, h, 0, shape.Nq, {report.recipe.empty_row, report.recipe.mask_apply}, O.data(), LSE.data());
    for (std::int64_t r = 0; r < shape.Nq; ++r) {
      const double found = report.LSE[static_cast<std::size_t>(h * shape.Nq + r)],
                   expected = LSE[static_cast<std::size_t>(r)];
      if (std::isinf(expected)) {
        infinite += found != expected;
        continue;
      }
      const double difference = std::abs(found - expected) / std::max(1.0, std::abs(expected));
      worst = difference <= worst ? worst : difference;  // a NaN becomes the worst
    }
  }
  EXPECT_EQ(infinite, 0) << "rows whose LSE should be -inf";
  EXPECT_LE(worst, tolerance) << "LSE";
}

}  // namespace flashscope::gpu
