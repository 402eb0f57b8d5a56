// What the hardware counted against the formula, for whole tiles and rows of 16 bytes.
#include <fmt/format.h>

#include "support.h"

namespace flashscope::gpu {
namespace {

class Meters : public OnGpu {};

TEST_F(Meters, flash2_moves_what_the_formula_says) {
  for (const bool causal : {false, true}) {
    Shape shape{.heads = 16, .kv_heads = 16, .Nq = 4096, .Nk = 4096, .d = 64, .dv = 64, .type = DType::bfloat16};
    Mask mask;
    if (causal) mask.causal = Causal::top_left;
    const auto problem = random_problem(shape, 1, {}, mask);
    Recipe recipe;
    recipe.Br = 128, recipe.Bc = 64;
    GpuRunOptions options;
    options.check.kind = CheckRows::Kind::none, options.measure = true, options.repeats = 1;
    const Report report = run_on_gpu(*problem, recipe, options);
    const GpuFigures& gpu = *report.gpu;
    if (!gpu.measured && gpu.not_measured.find("permission") != std::string::npos) GTEST_SKIP() << gpu.not_measured;
    ASSERT_TRUE(gpu.measured) << gpu.not_measured;
    SCOPED_TRACE(causal ? "causal" : "full");
    const Moved formula = report.traffic.bytes.total();
    const auto read = static_cast<double>(formula.read), written = static_cast<double>(formula.written);
    EXPECT_LE(std::abs(gpu.measured->l2_read - read), 0.0005 * read) << gpu.measured->l2_read;
    // Stores include spilled registers; every thread stores each at least once.
    const double spilled = static_cast<double>(gpu.spill_stores) * gpu.threads * static_cast<double>(gpu.blocks);
    EXPECT_GE(gpu.measured->l2_written, written * 0.9995);
    EXPECT_LE(gpu.measured->l2_written, (written + (spilled > 0 ? 100 * spilled : 0)) * 1.0005);
    ASSERT_TRUE(gpu.measured_warm);
    EXPECT_LE(std::abs(gpu.measured_warm->l2_read - read), 0.0005 * read) << gpu.measured_warm->l2_read;
    const auto live = static_cast<double>(report.tensor_bytes) + written;
    if (static_cast<double>(gpu.l2_bytes.value()) > 1.5 * live) {  // all of it stays in the L2
      EXPECT_LE(gpu.measured_warm->dram_read, 0.5 * gpu.measured->dram_read);
    }
    EXPECT_GE(gpu.measured_warm->l2_hit_percent, gpu.measured->l2_hit_percent);
    // DRAM's counters see the whole device. The kernel's own writes show only where others' do not.
    ASSERT_TRUE(gpu.measured->dram_written_idle);
    const double idle = *gpu.measured->dram_written_idle;
    fmt::print(
        "{}: DRAM written {:.0f} for {:.0f}, {:.0f} in a pass without the kernel; warm: DRAM read {:.0f}, "
        "written {:.0f}\n",
        causal ? "causal" : "full", gpu.measured->dram_written, gpu.measured->l2_written, idle,
        gpu.measured_warm->dram_read, gpu.measured_warm->dram_written);
    const auto tensors = static_cast<double>(report.tensor_bytes);
    EXPECT_LE(std::abs(gpu.measured->dram_read - tensors), 0.02 * tensors) << gpu.measured->dram_read;
    EXPECT_GE(gpu.measured->dram_written, 0.97 * gpu.measured->l2_written);
    EXPECT_LE(gpu.measured->dram_written, 1.03 * gpu.measured->l2_written + idle);
    EXPECT_GT(gpu.measured->occupancy_percent, 1);
    EXPECT_LE(gpu.measured->occupancy_percent, 100);
    EXPECT_GT(gpu.measured->tensor_percent, 1);
    RecordProperty(causal ? "causal" : "full", std::to_string(gpu.measured->l2_read));
  }
}

// flash1 writes its running state back in every tile; standard moves S and P.
TEST_F(Meters, flash1_and_standard) {
  Shape shape{.heads = 16, .kv_heads = 16, .Nq = 1024, .Nk = 1024, .d = 64, .dv = 64, .type = DType::float32};
  const auto problem = random_problem(shape, 1);
  for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2, Algorithm::standard}) {
    Recipe recipe;
    recipe.algorithm = algorithm;
    GpuRunOptions options;
    options.check.kind = CheckRows::Kind::none, options.measure = true, options.repeats = 1;
    const Report report = run_on_gpu(*problem, recipe, options);
    const GpuFigures& gpu = *report.gpu;
    if (!gpu.measured && gpu.not_measured.find("permission") != std::string::npos) GTEST_SKIP() << gpu.not_measured;
    ASSERT_TRUE(gpu.measured) << gpu.not_measured;
    SCOPED_TRACE(name(algorithm));
    const Moved formula = report.traffic.bytes.total();
    const auto read = static_cast<double>(formula.read), written = static_cast<double>(formula.written);
    EXPECT_GE(gpu.measured->l2_read, 0.9995 * read) << read;
    EXPECT_GE(gpu.measured->l2_written, 0.9995 * written) << written;
    if (algorithm != Algorithm::standard) {  // for which the formula is a floor: products read their operands again
      EXPECT_LE(gpu.measured->l2_read, 1.02 * read) << read;
      EXPECT_LE(gpu.measured->l2_written, 1.02 * written) << written;
    }
  }
}

}  // namespace
}  // namespace flashscope::gpu
