// Which kernel is chosen and launched how, and the reasons where none is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/error.h"
#include "kernels/host/gpu_runner.h"
#include "kernels/host/launch_plan.h"
#include "kernels/host/point_runner.h"

namespace flashscope::gpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<const Problem> problem(DType type, std::int64_t N, std::int64_t d, std::int64_t heads = 1) {
  return make_problem("zeros", make_tensor(type, heads, N, d), make_tensor(type, heads, N, d),
                      make_tensor(type, heads, N, d));
}
Recipe recipe(Algorithm algorithm, std::int64_t Br, std::int64_t Bc) {
  Recipe r;
  r.algorithm = algorithm, r.Br = Br, r.Bc = Bc;
  return r;
}
int constant(const LaunchPlan& plan, const std::string& name) {
  for (const auto& [key, value] : plan.code.constants)
    if (key == name) return value;
  ADD_FAILURE() << "no constant " << name;
  return -1;
}
std::string refusal(const Problem& p, const Recipe& r, KernelChoice choice = KernelChoice::automatic) {
  try {
    plan_launch(p, r, choice, false, {});
  } catch (const InputError& error) {
    return error.what();
  }
  return "planned";
}

TEST(LaunchPlan, sixteen_bit_flash2_goes_to_tensor_cores_the_rest_to_the_plain_kernels) {
  const Recipe flash2 = recipe(Algorithm::flash2, 128, 64);
  EXPECT_EQ(plan_launch(*problem(DType::bfloat16, 512, 64), flash2, {}, false, {}).entry, "flash2_mma");
  EXPECT_EQ(plan_launch(*problem(DType::float32, 512, 64), flash2, {}, false, {}).entry, "flash2_simple");
  EXPECT_EQ(plan_launch(*problem(DType::float16, 512, 48), flash2, {}, false, {}).entry, "flash2_simple");
  EXPECT_EQ(plan_launch(*problem(DType::float16, 512, 64), recipe(Algorithm::flash1, 64, 64), {}, false, {}).entry,
            "flash1");
  EXPECT_EQ(plan_launch(*problem(DType::float16, 512, 64), flash2, KernelChoice::simple, false, {}).entry,
            "flash2_simple");
}

TEST(LaunchPlan, blocks_threads_and_shared_memory) {
  const auto p = problem(DType::bfloat16, 1000, 64, 3);
  const LaunchPlan mma = plan_launch(*p, recipe(Algorithm::flash2, 128, 64), {}, false, {});
  EXPECT_EQ(mma.blocks, 3 * 8);
  EXPECT_EQ(mma.threads, 32 * constant(mma, "WARPS"));
  EXPECT_EQ(128 % (16 * constant(mma, "WARPS")), 0);
  EXPECT_EQ(mma.shared_bytes, 2 * (128 * 64 + constant(mma, "STAGES") * 64 * 128));
  // K and V outside: one block of threads a head, whatever N.
  EXPECT_EQ(plan_launch(*p, recipe(Algorithm::flash1, 64, 64), {}, false, {}).blocks, 3);
  // Any multiple of 16 finds warps that divide it.
  for (std::int64_t Br = 16; Br <= 256; Br += 16) {
    const LaunchPlan plan = plan_launch(*p, recipe(Algorithm::flash2, Br, 32), {}, false, {});
    EXPECT_EQ(Br % (16 * constant(plan, "WARPS")), 0) << Br;
    EXPECT_LE(plan.threads, 1024) << Br;
  }
}

TEST(LaunchPlan, says_by_how_much_it_does_not_fit) {
  const std::string text = refusal(*problem(DType::float32, 4096, 256), recipe(Algorithm::flash1, 128, 128));
  EXPECT_THAT(text, HasSubstr("flash1 with Br 128, Bc 128, d 256"));
  EXPECT_THAT(text, HasSubstr("bytes of shared memory"));
  EXPECT_THAT(text, HasSubstr("at most 166912 bytes"));
  // The same sizes on a small problem are its own size.
  EXPECT_EQ(refusal(*problem(DType::float32, 16, 256), recipe(Algorithm::flash1, 128, 128)), "planned");
}

TEST(LaunchPlan, refuses_what_no_kernel_does) {
  Recipe flash2 = recipe(Algorithm::flash2, 64, 64);
  EXPECT_THAT(refusal(*problem(DType::float64, 64, 64), flash2), HasSubstr("float64"));
  EXPECT_THAT(refusal(*problem(DType::float32, 64, 64), flash2, KernelChoice::mma), HasSubstr("float16 or bfloat16"));
  flash2.defect = Defect::no_rescale;
  EXPECT_THAT(refusal(*problem(DType::float32, 64, 64), flash2), HasSubstr("no-rescale"));
}

// What a measured point is kept under changes with everything that its launch has of its own.
TEST(LaunchPlan, its_text_tells_launches_apart) {
  MeasuredPoint point;
  point.shape = {.heads = 16, .kv_heads = 16, .Nq = 4096, .Nk = 4096, .d = 64, .dv = 64, .type = DType::bfloat16};
  point.mask.causal = Causal::top_left;
  point.recipe = recipe(Algorithm::flash2, 128, 64);
  const DeviceLimits h200{
      .sms = 132, .shared_bytes_per_block = 227 << 10, .shared_bytes_per_sm = 228 << 10, .l2_bytes = 60 << 20};
  const std::string text = launch_text(point, {}, h200);
  EXPECT_THAT(text, AllOf(HasSubstr("flash2_mma"), HasSubstr(" WARPS=4"), HasSubstr(" STAGES=2"),
                          HasSubstr(" MIN_BLOCKS=3"), HasSubstr(" together 16"), HasSubstr(" blocks 512 ")));
  EXPECT_EQ(launch_text(point, {}, h200), text);
  DeviceLimits other = h200;
  other.shared_bytes_per_sm = 100 << 10;  // no third block an SM
  EXPECT_THAT(launch_text(point, {}, other), HasSubstr(" MIN_BLOCKS=1"));
  other = h200, other.l2_bytes = 4 << 20;
  EXPECT_THAT(launch_text(point, {}, other), Not(HasSubstr(" together 16")));
  MeasuredPoint keeps = point;
  keeps.mask.rules.lengths = {4000};
  EXPECT_THAT(launch_text(keeps, {}, h200), AllOf(HasSubstr(" KEEP=1"), HasSubstr(" MIN_BLOCKS=1")));
  EXPECT_THAT(launch_text(point, KernelChoice::simple, h200), HasSubstr("flash2_simple"));
  point.recipe.Br = 7;
  EXPECT_THAT(launch_text(point, KernelChoice::mma, h200), HasSubstr("multiples of 16"));
  point.recipe = recipe(Algorithm::standard, 128, 64);
  EXPECT_THAT(launch_text(point, {}, h200), HasSubstr("cuBLAS"));  // its version, or that it is missing
}

TEST(GpuStatus, each_missing_piece_is_one_line) {
  const GpuStatus status = gpu_status();
  EXPECT_TRUE(!status.devices.empty() || !status.missing.empty());
  for (const std::string& line : status.missing) {
    EXPECT_THAT(line, Not(HasSubstr("\n")));
    EXPECT_GT(line.size(), 30u) << line;
  }
}

GpuDevice gpu_of(int index, int major, const char* name) {
  GpuDevice device;
  device.index = index, device.major = major, device.name = name;
  return device;
}

TEST(GpuStatus, an_old_GPU_beside_a_good_one_keeps_nothing_from_it) {
  const GpuStatus status =
      sorted_by_use({gpu_of(0, 7, "Tesla V100"), gpu_of(1, 9, "NVIDIA H200")}, {{2, "GPU 2 is ill"}});
  EXPECT_TRUE(status.can_run());
  ASSERT_EQ(status.devices.size(), 1u);
  EXPECT_EQ(usable_device(status, 1).name, "NVIDIA H200");
  for (const auto& [index, why] : {std::pair{0, "GPU 0 (Tesla V100) is too old"}, std::pair{2, "GPU 2 is ill"}}) {
    try {
      usable_device(status, index);
      ADD_FAILURE() << index;
    } catch (const Missing& missing) {
      EXPECT_THAT(missing.what(), HasSubstr(why));
    }
  }
  EXPECT_THROW(usable_device(status, 3), InputError);
}

TEST(GpuStatus, where_none_is_usable_that_is_what_is_missing) {
  const GpuStatus status = sorted_by_use({gpu_of(0, 7, "Tesla V100")});
  EXPECT_FALSE(status.can_run());
  ASSERT_EQ(status.missing.size(), 1u);
  EXPECT_THAT(status.missing.front(), HasSubstr("compute capability 7.0"));
  EXPECT_THROW(usable_device(status, 0), Missing);
}

}  // namespace
}  // namespace flashscope::gpu
