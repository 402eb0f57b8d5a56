// Every kernel on a GPU against float64: a seeded sample of shapes x block sizes x masks x types x conventions.
#include <fmt/format.h>

#include <random>

#include "engine/error.h"
#include "engine/files/problem_file.h"
#include "support.h"
#include "tests/place.h"

namespace flashscope::gpu {
namespace {

struct Sample {
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
  KernelChoice kernel = KernelChoice::automatic;
  std::string text;
};

enum class Family { mma, simple, flash1, standard };

// Three documents one after another; or scattered ones, which are no runs of keys.
std::shared_ptr<const Documents> draw_documents(std::mt19937& random, std::int64_t Nq, std::int64_t Nk) {
  const bool scattered = random() % 3 == 0;
  const auto ids = [&](std::int64_t count) {
    std::vector<std::int64_t> all;
    for (std::int64_t n = 0; n < count; ++n)
      all.push_back(scattered ? static_cast<std::int64_t>(random() % 3) : 3 * n / count);
    return all;
  };
  std::vector<std::int64_t> rows = ids(Nq);
  return std::make_shared<const Documents>(make_documents(std::move(rows), ids(Nk)));
}

// A mask by rule: they reach kernels as planes, and move no byte that the ledger counts.
void draw_rule(std::mt19937& random, Mask& mask, std::int64_t heads, std::int64_t Nq, std::int64_t Nk) {
  const std::size_t of_heads = random() % 2 ? static_cast<std::size_t>(heads) : 1;
  switch (random() % 4) {
    case 0:
      mask.rules.lengths.clear();
      for (std::size_t h = 0; h < of_heads; ++h)
        mask.rules.lengths.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(Nk + 1)));
      return;
    case 1:
      mask.rules.documents = draw_documents(random, Nq, Nk);
      return;
    case 2:
      if (mask.causal == Causal::none) mask.causal = Causal::bottom_right;
      mask.rules.prefix = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(Nk + 1));
      return;
    default:
      mask.rules.alibi = alibi_slopes(heads);
      mask.rules.alibi.resize(of_heads);
  }
}

Mask draw_mask(std::mt19937& random, std::int64_t heads, std::int64_t Nq, std::int64_t Nk, std::string& text) {
  Mask mask;
  const auto draw_keep = [&] {
    mask.keep = random_keep(random() % 2 ? heads : 1, random() % 3 ? Nq : 1, Nk, random());
    text += " keep mask";
  };
  const auto draw_bias = [&] {
    const int bytes[] = {2, 4, 4, 8};
    const int element = bytes[random() % 4];
    mask.bias = random_bias_of(element, random() % 2 ? heads : 1, Nq, random() % 3 ? Nk : 1, random());
    text += fmt::format(" bias of {} bytes a cell", element);
  };
  switch (random() % 14) {
    case 0:
    case 1:
      return mask;
    case 2:
    case 3:
      mask.causal = Causal::top_left, text += " causal top-left";
      return mask;
    case 4:
      mask.causal = Causal::bottom_right, text += " causal bottom-right";
      return mask;
    case 5:
      mask.window = Window{static_cast<std::int64_t>(random() % 90), static_cast<std::int64_t>(random() % 40)};
      text += " window";
      return mask;
    case 6:
      mask.causal = Causal::bottom_right, mask.window = Window{static_cast<std::int64_t>(random() % 150), 3};
      text += " causal bottom-right and window";
      return mask;
    case 7:
    case 8:
      draw_keep();
      if (random() % 2) mask.causal = Causal::top_left;
      return mask;
    case 9:
    case 10:
      draw_bias();
      return mask;
    case 11:
    case 12:
      if (random() % 2) mask.causal = random() % 2 ? Causal::top_left : Causal::bottom_right;
      draw_rule(random, mask, heads, Nq, Nk);
      if (random() % 2) draw_rule(random, mask, heads, Nq, Nk);
      break;
    default:  // a file and a rule, which share one plane
      draw_rule(random, mask, heads, Nq, Nk);
      random() % 2 ? draw_keep() : draw_bias();
  }
  text += " " + flashscope::text(mask.rules);
  return mask;
}

constexpr int kOfFamily[] = {120, 60, 30, 30};  // samples of each

// Sample `number` of a family.
Sample draw(Family family, int number) {
  std::mt19937 random(static_cast<std::uint32_t>(4 * number + static_cast<int>(family)) * 7919 + 1);
  const auto one_of = [&](std::initializer_list<std::int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  Sample sample;
  Shape shape;
  shape.kv_heads = one_of({1, 1, 2}), shape.heads = shape.kv_heads * one_of({1, 2, 3});
  shape.Nq = one_of({1, 33, 128, 200, 257, 384}), shape.Nk = random() % 2 ? shape.Nq : one_of({1, 64, 100, 300, 513});
  Recipe& recipe = sample.recipe;
  if (family == Family::mma) {
    shape.type = random() % 2 ? DType::bfloat16 : DType::float16;
    shape.d = one_of({32, 64, 64, 96, 128, 128, 256}), shape.dv = random() % 3 ? shape.d : one_of({32, 64, 128});
    recipe.Br = one_of({16, 48, 64, 128, 128, 256}), recipe.Bc = one_of({16, 32, 64, 64, 80, 128});
    if (shape.d == 256) recipe.Br = std::min<std::int64_t>(recipe.Br, 128), recipe.Bc = 32;
    recipe.guard = random() % 5 == 0 ? Guard::none : Guard::clamp;
    sample.kernel = KernelChoice::mma;
  } else {
    const int type = random() % 4;
    shape.type = type == 0 ? DType::float16 : type == 1 ? DType::bfloat16 : DType::float32;
    shape.d = one_of({1, 6, 32, 64, 80, 256}), shape.dv = random() % 2 ? shape.d : one_of({3, 64, 96});
    recipe.Br = one_of({1, 7, 16, 64, 100}), recipe.Bc = one_of({3, 5, 16, 64, 96});
    if (shape.d == 256)
      recipe.Br = std::min<std::int64_t>(recipe.Br, 16), recipe.Bc = std::min<std::int64_t>(recipe.Bc, 32);
    if (shape.Nq * shape.Nk > 40000) recipe.Br = std::max<std::int64_t>(recipe.Br, 16);
    recipe.algorithm = family == Family::flash1 ? Algorithm::flash1 : Algorithm::flash2;
    recipe.guard = random() % 3 == 0 ? Guard::skip : Guard::clamp;
    if (family == Family::standard) recipe.algorithm = Algorithm::standard;
    if (random() % 2 && family != Family::standard) recipe.normalise = random() % 2 ? Normalise::each : Normalise::end;
    sample.kernel = KernelChoice::simple;
  }
  recipe.order = random() % 2 && family != Family::standard ? Order::reverse : Order::forward;
  recipe.skip = random() % 4 == 0 ? Skip::none : Skip::geometry;
  recipe.mask_apply = random() % 4 == 0 ? MaskApply::add : MaskApply::select;
  const bool each = recipe.normalised() == Normalise::each;
  if (recipe.algorithm != Algorithm::flash1 || !each)
    recipe.empty_row = random() % 3 == 0 ? EmptyRow::nan : EmptyRow::zero;
  if (family != Family::mma && (recipe.algorithm != Algorithm::flash1 || !each) && random() % 3 == 0)
    recipe.empty_row = EmptyRow::mean;
  sample.text = fmt::format("{} {} H{}/{} {}x{} d{},{} {}x{}", name(recipe.algorithm), name(shape.type), shape.heads,
                            shape.kv_heads, shape.Nq, shape.Nk, shape.d, shape.dv, recipe.Br, recipe.Bc);
  Mask mask = draw_mask(random, shape.heads, shape.Nq, shape.Nk, sample.text);
  // Without a guard a tile without a visible key is NaN: that comparison has its own test.
  if (!mask.none() && recipe.guard == Guard::none) recipe.guard = Guard::clamp;
  sample.text += fmt::format(" {}", conventions(recipe, mask));
  sample.problem = random_problem(shape, random(), {}, std::move(mask));
  return sample;
}

GpuRunOptions quick(KernelChoice kernel) {
  GpuRunOptions options;
  options.kernel = kernel, options.repeats = 2, options.check.kind = CheckRows::Kind::all;
  return options;
}

class Grid : public OnGpu {
 protected:
  // Those of a family, or the first ones; all of them compiled beforehand, on all cores.
  static void check(Family family) {
    std::vector<Sample> samples;
    const int count = sample_count(kOfFamily[static_cast<int>(family)]);
    samples.reserve(static_cast<std::size_t>(count));
    for (int number = 0; number < count; ++number) samples.push_back(draw(family, number));
    ASSERT_FALSE(samples.empty());
    const GpuDevice device = gpu_status().devices.front();
    std::vector<CompileJob> jobs;
    for (const Sample& sample : samples)
      for (const bool count : {false, true}) {
        if (count && sample.recipe.algorithm == Algorithm::standard) continue;
        jobs.push_back({plan_launch(*sample.problem, sample.recipe, sample.kernel, count, device.limits).code,
                        device.architecture});
      }
    compile_all(jobs, 0);
    for (const Sample& sample : samples) {
      SCOPED_TRACE(sample.text);
      const Report report = run_on_gpu(*sample.problem, sample.recipe, quick(sample.kernel));
      ASSERT_TRUE(report.error);
      EXPECT_EQ(report.error->nan_mismatch, 0);
      EXPECT_LE(report.error->max, report.error->tolerance)
          << "head " << report.error->worst_head << " row " << report.error->worst_row;
      expect_lse(*sample.problem, report);
      if (sample.recipe.algorithm != Algorithm::standard)
        expect_counted(report, moved_as_planes(*sample.problem, sample.recipe));
    }
  }
};

// Right against float64 and counted as the ledger counts.
TEST_F(Grid, flash2_mma) { check(Family::mma); }
TEST_F(Grid, flash2_simple) { check(Family::simple); }
TEST_F(Grid, standard) { check(Family::standard); }
TEST_F(Grid, flash1) { check(Family::flash1); }

class Kernels : public OnGpu {};

// Outputs of 250 launches are the same bits, whatever the order in which blocks ran.
TEST_F(Kernels, repeats_are_bit_equal) {
  Shape shape{.heads = 8, .kv_heads = 4, .Nq = 700, .Nk = 700, .d = 64, .dv = 64, .type = DType::bfloat16};
  Mask mask;
  mask.causal = Causal::top_left;
  const auto problem = random_problem(shape, 5, {}, mask);
  for (const auto& [algorithm, kernel] :
       {std::pair{Algorithm::flash2, KernelChoice::mma}, std::pair{Algorithm::flash2, KernelChoice::simple},
        std::pair{Algorithm::flash1, KernelChoice::automatic},
        std::pair{Algorithm::standard, KernelChoice::automatic}}) {
    Recipe recipe;
    recipe.algorithm = algorithm, recipe.Br = kernel == KernelChoice::mma ? 128 : 64, recipe.Bc = 64;
    GpuRunOptions options = quick(kernel);
    options.check.kind = CheckRows::Kind::none, options.count = false;
    std::vector<double> O, LSE;
    // Each run poisons its outputs and launches several times over the same buffers.
    for (int n = 0; n < 250; ++n) {
      const Report report = run_on_gpu(*problem, recipe, options);
      SCOPED_TRACE(report.kernel);
      if (n == 0) O.assign(report.O.begin(), report.O.end()), LSE.assign(report.LSE.begin(), report.LSE.end());
      ASSERT_TRUE(std::all_of(O.begin(), O.end(), [](double x) { return std::isfinite(x); }));
      ASSERT_TRUE(std::equal(O.begin(), O.end(), report.O.begin(), report.O.end())) << n;
      ASSERT_TRUE(std::equal(LSE.begin(), LSE.end(), report.LSE.begin(), report.LSE.end())) << n;
    }
  }
}

// An additive mask that hides by a finite number, as many models' do. Rows that see nothing else weigh all keys alike,
// rows of which the first tiles are hidden forget those again; nothing becomes NaN or infinite on the way, whatever
// unit a kernel keeps its scores in.
TEST_F(Kernels, rows_masked_by_finite_sentinels) {
  constexpr std::int64_t N = 200, hidden = 130;
  const float lowest_bfloat16 = -0x1.fep127f;
  for (const float sentinel : {-std::numeric_limits<float>::max(), lowest_bfloat16, -1e38f, -65504.f}) {
    Bias bias;
    bias.rows = bias.cols = N;
    for (std::int64_t r = 0; r < N; ++r)
      for (std::int64_t c = 0; c < N; ++c) {
        const bool all = r % 3 == 0, first = r % 3 == 1 && c < hidden, scattered = r % 3 == 2 && (r + c) % 5 == 0;
        bias.f32.push_back(all || first || scattered ? sentinel : static_cast<float>((r + c) % 7) / 4);
      }
    Mask mask;
    mask.bias = std::make_shared<const Bias>(std::move(bias));
    for (const DType type : {DType::bfloat16, DType::float16, DType::float32}) {
      const auto problem = random_problem({2, 1, N, N, 64, 64, type}, 3, {}, mask);
      for (const auto& [algorithm, kernel] :
           {std::pair{Algorithm::flash2, KernelChoice::automatic}, std::pair{Algorithm::flash2, KernelChoice::simple},
            std::pair{Algorithm::flash1, KernelChoice::automatic},
            std::pair{Algorithm::standard, KernelChoice::automatic}})
        for (const Order order : {Order::forward, Order::reverse}) {
          if (algorithm == Algorithm::standard && order == Order::reverse) continue;
          Recipe recipe;
          recipe.algorithm = algorithm, recipe.Br = 64, recipe.Bc = 32, recipe.order = order;
          const Report report = run_on_gpu(*problem, recipe, quick(kernel));
          SCOPED_TRACE(fmt::format("{} {} {} sentinel {}", report.kernel, name(type), name(order), sentinel));
          EXPECT_TRUE(std::all_of(report.O.begin(), report.O.end(), [](double x) { return std::isfinite(x); }));
          ASSERT_TRUE(report.error);
          EXPECT_TRUE(report.error->within()) << report.error->max << " > " << report.error->tolerance << ", head "
                                              << report.error->worst_head << " row " << report.error->worst_row;
          expect_lse(*problem, report);
          if (algorithm != Algorithm::standard) expect_counted(report);
        }
    }
  }
}

// Real tensors, all heads, and the NaN rows of each guard and order as on the CPU.
TEST_F(Kernels, codelm_and_its_nan_rows) {
  for (const char* file : {"assets/codelm_layer1.npz", "tests/data/codelm_layer3.npz"}) {
    ProblemFiles files;
    files.input = source_path(file);
    files.causal = Causal::top_left;
    const auto problem = load_problem(files).problem;
    for (const Order order : {Order::forward, Order::reverse})
      for (const Guard guard : {Guard::none, Guard::clamp})
        for (const std::int64_t Bc : {64, 128})
          for (const KernelChoice kernel : {KernelChoice::automatic, KernelChoice::simple}) {
            Recipe recipe;
            recipe.Br = 128, recipe.Bc = Bc, recipe.order = order, recipe.guard = guard;
            GpuRunOptions options = quick(kernel);
            if (guard == Guard::none) options.check.kind = CheckRows::Kind::none;
            RunOptions cpu;
            cpu.check.kind = CheckRows::Kind::none;
            SCOPED_TRACE(fmt::format("{} {} Bc {}", file, conventions(recipe, problem->mask), Bc));
            const Report found = run_on_gpu(*problem, recipe, options), expected = run_on_cpu(*problem, recipe, cpu);
            EXPECT_EQ(found.nan_rows, expected.nan_rows);
            if (guard == Guard::none && order == Order::reverse && Bc == 64) {
              EXPECT_EQ(found.nan_rows.at(0).size(), 512u);
            }
            if (found.error) {
              EXPECT_TRUE(found.error->within()) << found.error->max << " > " << found.error->tolerance;
            }
            expect_counted(found);
          }
  }
}

// NaN and infinity in Q, K, V land in the same rows as on the CPU, with every kernel.
TEST_F(Kernels, bad_inputs_as_on_the_cpu) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const DType type : {DType::float32, DType::bfloat16})
    for (const float bad : {std::nanf(""), inf, -inf})
      for (int where = 0; where < 3; ++where) {
        Shape shape{.heads = 1, .kv_heads = 1, .Nq = 100, .Nk = 100, .d = 32, .dv = 32, .type = type};
        const auto clean = random_problem(shape, 9);
        Tensor tensors[3] = {clean->Q(), clean->K(), clean->V()};
        set(tensors[where], 0, 40, 3, bad);
        Mask mask;
        mask.causal = Causal::top_left;
        const auto problem =
            make_problem("bad", std::move(tensors[0]), std::move(tensors[1]), std::move(tensors[2]), {}, mask);
        for (const Algorithm algorithm : {Algorithm::flash2, Algorithm::flash1, Algorithm::standard}) {
          Recipe recipe;
          recipe.algorithm = algorithm, recipe.Br = 32, recipe.Bc = 16;
          GpuRunOptions options = quick(KernelChoice::automatic);
          options.check.kind = CheckRows::Kind::none;
          RunOptions cpu;
          cpu.check.kind = CheckRows::Kind::none;
          SCOPED_TRACE(fmt::format("{} {} in {} {}", name(type), bad, "QKV"[where], name(algorithm)));
          EXPECT_EQ(run_on_gpu(*problem, recipe, options).nan_rows, run_on_cpu(*problem, recipe, cpu).nan_rows);
        }
      }
}

// Rows that see no key stay as the policy has them, whatever is in Q, K and V.
TEST_F(Kernels, empty_rows_beside_bad_inputs_as_on_the_cpu) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const DType type : {DType::float32, DType::bfloat16})
    for (const float bad : {std::nanf(""), inf})
      for (int where = 0; where < 3; ++where)
        for (const MaskApply apply : {MaskApply::select, MaskApply::add}) {
          Shape shape{.heads = 2, .kv_heads = 1, .Nq = 80, .Nk = 48, .d = 32, .dv = 32, .type = type};
          const auto clean = random_problem(shape, 9);
          Tensor tensors[3] = {clean->Q(), clean->K(), clean->V()};
          set(tensors[where], 0, 10, 3, bad);
          Mask mask;
          mask.causal = Causal::bottom_right;  // rows 0 to 31 are empty
          const auto problem =
              make_problem("bad", std::move(tensors[0]), std::move(tensors[1]), std::move(tensors[2]), {}, mask);
          for (const Algorithm algorithm : {Algorithm::flash2, Algorithm::flash1, Algorithm::standard}) {
            Recipe recipe;
            recipe.algorithm = algorithm, recipe.Br = 32, recipe.Bc = 16, recipe.mask_apply = apply;
            GpuRunOptions options = quick(KernelChoice::automatic);
            options.check.kind = CheckRows::Kind::none;
            RunOptions cpu;
            cpu.check.kind = CheckRows::Kind::none;
            SCOPED_TRACE(fmt::format("{} {} in {} {} {}", name(type), bad, "QKV"[where], name(algorithm), name(apply)));
            const Report gpu = run_on_gpu(*problem, recipe, options), right = run_on_cpu(*problem, recipe, cpu);
            EXPECT_EQ(gpu.nan_rows, right.nan_rows);
            for (std::int64_t h = 0; h < 2; ++h)
              for (std::int64_t r = 0; r < 32; ++r) {
                EXPECT_EQ(gpu.LSE[h * 80 + r], -std::numeric_limits<double>::infinity()) << r;
                for (std::int64_t e = 0; e < 32; ++e) EXPECT_EQ(gpu.O[(h * 80 + r) * 32 + e], 0) << r;
              }
          }
        }
}

// What the pools measured: outputs alone for flash2, the running state with flash1.
TEST_F(Kernels, memory_is_measured) {
  Shape shape{.heads = 16, .kv_heads = 16, .Nq = 4096, .Nk = 4096, .d = 64, .dv = 64, .type = DType::bfloat16};
  const auto problem = random_problem(shape, 1);
  Recipe recipe;
  recipe.Br = 128, recipe.Bc = 64;
  GpuRunOptions options = quick(KernelChoice::automatic);
  options.check = {CheckRows::Kind::some, 8};
  const Report report = run_on_gpu(*problem, recipe, options);
  const std::int64_t O = 16 * 4096 * 64 * 2, LSE = 16 * 4096 * 4;
  EXPECT_EQ(report.peak_bytes, O + LSE);
  EXPECT_TRUE(report.error->within());
  expect_counted(report);
  EXPECT_EQ(report.gpu->blocks, 16 * 32);
  EXPECT_GE(report.gpu->blocks_per_sm, 1);
  EXPECT_GT(report.gpu->tflops(), 1);
  EXPECT_LE(report.gpu->fastest, report.gpu->median);

  recipe.algorithm = Algorithm::standard;  // S and P, and cuBLAS's workspace
  const std::int64_t S = std::int64_t{16} * 4096 * 4096 * 2;
  EXPECT_EQ(run_on_gpu(*problem, recipe, options).peak_bytes, O + LSE + 2 * S + (32 << 20));
}

// S and P that are larger than the memory are refused with the figures before anything is allocated.
TEST_F(Kernels, standard_that_cannot_fit_is_refused) {
  Shape shape{.heads = 16, .kv_heads = 16, .Nq = 1 << 17, .Nk = 50000, .d = 8, .dv = 8, .type = DType::bfloat16};
  const auto problem = make_problem("zeros", make_tensor(shape.type, 16, shape.Nq, 8),
                                    make_tensor(shape.type, 16, shape.Nk, 8), make_tensor(shape.type, 16, shape.Nk, 8));
  Recipe recipe;
  recipe.algorithm = Algorithm::standard;
  try {
    run_on_gpu(*problem, recipe, quick(KernelChoice::automatic));
    FAIL() << "ran";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("S and P"), std::string::npos) << error.what();
  }
}

// A row of S that shared memory does not hold comes in three times, and is as right as one that it does.
TEST_F(Kernels, standard_with_rows_beyond_shared_memory) {
  Shape shape{.heads = 1, .kv_heads = 1, .Nq = 3, .Nk = 70001, .d = 16, .dv = 16, .type = DType::float32};
  const auto problem = random_problem(shape, 4);
  Recipe recipe;
  recipe.algorithm = Algorithm::standard;
  GpuRunOptions options = quick(KernelChoice::automatic);
  const Report report = run_on_gpu(*problem, recipe, options);
  EXPECT_LT(report.gpu->shared_bytes, 1000);
  EXPECT_TRUE(report.error->within()) << report.error->max;
  expect_lse(*problem, report);
}

}  // namespace
}  // namespace flashscope::gpu
