// What the hardware counted against the formula, for whole tiles and rows of 16 bytes.
#include <fmt/format.h>

#include "support.h"

namespace flashscope::gpu {
namespace {

class Meters : public OnGpu {};

// One launch with the counters read, its answer not checked.
Report measured(const Problem& problem, const Recipe& recipe, KernelChoice kernel = KernelChoice::automatic) {
  GpuRunOptions options;
  options.check.kind = CheckRows::Kind::none, options.measure = true, options.repeats = 1, options.kernel = kernel;
  return run_on_gpu(problem, recipe, options);
}

TEST_F(Meters, flash2_moves_what_the_formula_says) {
  for (const bool causal : {false, true}) {
    Shape shape{.heads = 16, .kv_heads = 16, .Nq = 4096, .Nk = 4096, .d = 64, .dv = 64, .type = DType::bfloat16};
    Mask mask;
    if (causal) mask.causal = Causal::top_left;
    const auto problem = random_problem(shape, 1, {}, mask);
    Recipe recipe;
    recipe.Br = 128, recipe.Bc = 64;
    const Report report = measured(*problem, recipe);
    const GpuFigures& gpu = *report.gpu;
    if (!counters_may_be_read(gpu)) GTEST_SKIP() << gpu.not_measured;
    SCOPED_TRACE(causal ? "causal" : "full");
    const Moved formula = report.traffic.bytes.total();
    const auto read = static_cast<double>(formula.read), written = static_cast<double>(formula.written);
    EXPECT_LE(std::abs(gpu.measured->l2_read - read), 0.0005 * read) << gpu.measured->l2_read;
    const double spilled = most_spilled(gpu, Schedule(shape, mask, recipe).tiles());
    EXPECT_GE(gpu.measured->l2_written, written * 0.9995);
    EXPECT_LE(gpu.measured->l2_written, written * 1.0005 + spilled) << gpu.spill_stores << " bytes a thread";
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

// Every kernel in float32 and bfloat16: flash1 writes its running state back in every tile, standard moves S and P.
TEST_F(Meters, every_kernel_moves_what_the_formula_says) {
  for (const DType type : {DType::float32, DType::bfloat16}) {
    const Shape shape{.heads = 16, .kv_heads = 16, .Nq = 1024, .Nk = 1024, .d = 64, .dv = 64, .type = type};
    const auto problem = random_problem(shape, 1);
    for (const auto& [algorithm, kernel] :
         {std::pair{Algorithm::flash1, KernelChoice::automatic}, std::pair{Algorithm::flash2, KernelChoice::simple},
          std::pair{Algorithm::flash2, KernelChoice::automatic},
          std::pair{Algorithm::standard, KernelChoice::automatic}}) {
      Recipe recipe;
      recipe.algorithm = algorithm;
      const Report report = measured(*problem, recipe, kernel);
      const GpuFigures& gpu = *report.gpu;
      if (!counters_may_be_read(gpu)) GTEST_SKIP() << gpu.not_measured;
      SCOPED_TRACE(report.kernel + " " + std::string(name(type)));
      const Moved formula = report.traffic.bytes.total();
      const auto read = static_cast<double>(formula.read), written = static_cast<double>(formula.written);
      fmt::print("{} {}: read {:.0f} for {:.0f} ({:+.4f} %), written {:.0f} for {:.0f} ({:+.4f} %)\n", report.kernel,
                 name(type), gpu.measured->l2_read, read, 100 * (gpu.measured->l2_read / read - 1),
                 gpu.measured->l2_written, written, 100 * (gpu.measured->l2_written / written - 1));
      EXPECT_GE(gpu.measured->l2_read, 0.9995 * read) << read;
      EXPECT_GE(gpu.measured->l2_written, 0.9995 * written) << written;
      if (algorithm == Algorithm::standard) continue;  // a floor there: the products read their operands again
      EXPECT_LE(gpu.measured->l2_read, 1.0005 * read) << read;
      const double spilled = most_spilled(gpu, Schedule(shape, problem->mask, recipe).tiles());
      EXPECT_LE(gpu.measured->l2_written, 1.0005 * written + spilled) << written;
    }
  }
}

// Four heads of N x N under masks of a file, in the tile that a plan takes.
Report measured_under(const Mask& mask, DType type, std::int64_t N) {
  Recipe recipe;
  recipe.Br = 128, recipe.Bc = 64;
  return measured(*random_problem({4, 4, N, N, 64, 64, type}, 1, {}, mask), recipe);
}

// A keep mask, a bias or both, of a file: each cell crosses once a tile, a byte or a float.
TEST_F(Meters, masks_of_a_file_are_read_once_a_tile) {
  constexpr std::int64_t N = 4096;
  const auto keep = random_keep(1, N, N, 5);
  const auto bias = random_bias(1, N, N, 6);
  for (const DType type : {DType::bfloat16, DType::float32})
    for (const int files : {1, 2, 3}) {
      Mask mask;
      if (files & 1) mask.keep = keep;
      if (files & 2) mask.bias = bias;
      const Report report = measured_under(mask, type, N);
      const GpuFigures& gpu = *report.gpu;
      if (!counters_may_be_read(gpu)) GTEST_SKIP() << gpu.not_measured;
      SCOPED_TRACE(report.kernel + (files & 1 ? " keep mask" : "") + (files & 2 ? " bias" : ""));
      EXPECT_EQ(report.kernel, type == DType::bfloat16 ? "flash2_mma" : "flash2_simple");
      expect_counted(report);
      const Moved formula = report.traffic.bytes.total();
      const auto read = static_cast<double>(formula.read), written = static_cast<double>(formula.written);
      fmt::print("{}{}{}: read {:.0f} for {:.0f} ({:+.3f} %), {} bytes a thread spilled\n", report.kernel,
                 files & 1 ? " keep mask" : "", files & 2 ? " bias" : "", gpu.measured->l2_read, read,
                 100 * (gpu.measured->l2_read / read - 1), gpu.spill_stores);
      EXPECT_LE(std::abs(gpu.measured->l2_read - read), 0.02 * read) << gpu.measured->l2_read;
      const double spilled = most_spilled(gpu, Schedule(report.shape, mask, report.recipe).tiles());
      EXPECT_GE(gpu.measured->l2_written, 0.9995 * written);
      EXPECT_LE(gpu.measured->l2_written, 1.0005 * written + spilled);
    }
}

// Masks whose rows or columns broadcast, and one beside a band: what is counted is what the L2 was asked for.
TEST_F(Meters, masks_that_broadcast_are_read_once_a_tile) {
  constexpr std::int64_t N = 2048;
  for (const DType type : {DType::bfloat16, DType::float32})
    for (const auto& [rows, cols, causal] :
         {std::tuple{std::int64_t{1}, N, false}, {N, std::int64_t{1}, false}, {N, N, true}})
      for (const bool bias : {false, true}) {
        Mask mask;
        if (causal) mask.causal = Causal::top_left;
        if (bias)
          mask.bias = random_bias(1, rows, cols, 6);
        else
          mask.keep = random_keep(1, rows, cols, 5);
        const Report report = measured_under(mask, type, N);
        const GpuFigures& gpu = *report.gpu;
        if (!counters_may_be_read(gpu)) GTEST_SKIP() << gpu.not_measured;
        SCOPED_TRACE(fmt::format("{} {} {} x {}", report.kernel, bias ? "bias" : "keep mask", rows, cols));
        expect_counted(report);
        const auto read = static_cast<double>(report.traffic.bytes.total().read);
        fmt::print("{} {} {} x {}: read {:.0f} for {:.0f} ({:+.3f} %)\n", report.kernel, bias ? "bias" : "keep mask",
                   rows, cols, gpu.measured->l2_read, read, 100 * (gpu.measured->l2_read / read - 1));
        EXPECT_LE(gpu.measured->l2_read, 1.02 * read);
        // What L1 keeps from one tile to the next are cells of the mask only.
        const Traffic& moved = report.traffic.bytes;
        const auto cells = static_cast<double>(moved[Operand::mask].read + moved[Operand::bias].read);
        EXPECT_GE(gpu.measured->l2_read, 0.9995 * (read - (rows * cols < N * N ? cells : 0)));
      }
}

}  // namespace
}  // namespace flashscope::gpu
