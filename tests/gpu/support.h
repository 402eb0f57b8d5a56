// What the tests on a GPU share: they are skipped, and counted as skipped, where there is none.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "engine/attention/cpu_runner.h"
#include "kernels/host/gpu_runner.h"
#include "tests/gpu/masks.h"

namespace flashscope::gpu {

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const GpuStatus status = gpu_status();
    if (!status.can_run()) GTEST_SKIP() << (status.missing.empty() ? "no GPU" : status.missing.front());
  }
};

// How many samples of a grid of `all` are drawn: FLASHSCOPE_GPU_SAMPLES, else all. Throws where that is no number above
// 0: a grid of which nothing is drawn shows nothing.
inline int sample_count(int all) {
  const char* text = std::getenv("FLASHSCOPE_GPU_SAMPLES");
  if (!text) return all;
  const std::string_view digits = text;
  int count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc() || end != digits.data() + digits.size() || count < 1)
    throw std::runtime_error("FLASHSCOPE_GPU_SAMPLES is \"" + std::string(digits) + "\", expected a number above 0");
  return std::min(all, count);
}

// False where the counters may not be read by this user: the test is to be skipped then. Any other reason fails it.
inline bool counters_may_be_read(const GpuFigures& gpu) {
  if (gpu.measured) return true;
  EXPECT_NE(gpu.not_measured.find("permission"), std::string::npos) << gpu.not_measured;
  return false;
}

// What spilled registers may add to what the SMs write: the stores of a thread as the code stands, each at most once a
// tile, or once a block outside the loop.
inline double most_spilled(const GpuFigures& gpu, std::int64_t tiles) {
  return static_cast<double>(gpu.spill_stores) * gpu.threads * static_cast<double>(tiles + gpu.blocks);
}

// What the ledger counts where the masks are as the kernels get them: rules as planes, a bias in float32.
inline Traffic moved_as_planes(const Problem& problem, const Recipe& recipe) {
  const Shape shape = problem.shape();
  Mask mask = lowered(problem.mask, shape.heads, shape.Nq, shape.Nk);
  if (mask.bias) {
    auto bias = std::make_shared<Bias>(*mask.bias);
    bias->element_bytes = sizeof(float);
    mask.bias = std::move(bias);
  }
  return counted(Schedule(shape, mask, recipe)).bytes;
}

// Bytes that the kernel counted equal the ledger's, operand by operand.
inline void expect_counted(const Report& report, const Traffic& ledger) {
  ASSERT_TRUE(report.gpu && report.gpu->counted);
  for (int n = 0; n < kOperands; ++n) {
    const auto operand = static_cast<Operand>(n);
    const Moved found = (*report.gpu->counted)[operand], expected = ledger[operand];
    EXPECT_EQ(found.read, expected.read) << name(operand);
    EXPECT_EQ(found.written, expected.written) << name(operand);
  }
}

inline void expect_counted(const Report& report) { expect_counted(report, report.traffic.bytes); }

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
