// The case log through the kernels: what people met in public threads, computed and stepped on the GPU as on the CPU;
// in float32 as the cases stand, and in 16 bits for the tensor cores.
//
// Not here: 16 is about a checker, 18 and 19 about files.
#include <fmt/format.h>

#include "support.h"
#include "tests/engine/support.h"
#include "tests/gpu/step_run.h"

namespace flashscope::gpu {
namespace {

using testing::Case;
using testing::Json;

// A case with one way to read its mask.
struct LoggedCase {
  const char* name;
  const char* reading = "";
  Mask mask;
};

std::vector<LoggedCase> logged_cases() {
  const auto values = [](const char* name, const char* mask = "mask") -> Json {
    return Case(name).json["inputs"][mask]["values"];
  };
  const auto with_zeros_for_nan = [](Json rows) {
    for (Json& row : rows)
      for (Json& cell : row)
        if (cell == "nan") cell = 0;
    return rows;
  };
  const auto flipped = [](Json rows) {
    for (Json& row : rows)
      for (Json& cell : row) cell = 1 - cell.get<int>();
    return rows;
  };
  std::vector<LoggedCase> all;
  const auto add = [&](const char* name, const char* reading, Mask mask) {
    all.push_back({name, reading, std::move(mask)});
  };
  const auto causal = [](Causal causal, std::optional<Window> window = {}) {
    Mask mask;
    mask.causal = causal, mask.window = window;
    return mask;
  };
  for (const char* name : {"open-01-fully-masked-rows", "open-02-first-tile-masked", "open-03-finite-sentinel-wins",
                           "open-05-nan-in-masked-key"})
    add(name, "keep", testing::keep_mask_from(values(name)));
  add("open-04-two-finite-masks-overflow", "added", testing::bias_from(values("open-04-two-finite-masks-overflow")));
  const Json nan = values("open-06-zero-times-minus-inf");
  add("open-06-zero-times-minus-inf", "as loaded", testing::bias_from(nan));
  add("open-06-zero-times-minus-inf", "mended", testing::bias_from(with_zeros_for_nan(nan)));
  const Json a = values("open-07-mask-meaning", "mask_A");
  add("open-07-mask-meaning", "keep", testing::keep_mask_from(a));
  add("open-07-mask-meaning", "drop", testing::keep_mask_from(flipped(a)));
  add("open-07-mask-meaning", "added", testing::bias_from(values("open-07-mask-meaning", "mask_B")));
  add("open-08-decode-causal-alignment", "top-left", causal(Causal::top_left));
  add("open-08-decode-causal-alignment", "bottom-right", causal(Causal::bottom_right));
  add("open-09-more-queries-than-keys", "bottom-right", causal(Causal::bottom_right));
  add("open-10-window-off-by-one", "window", causal(Causal::top_left, Window{2, 0}));
  for (const char* name : {"open-11-ragged-tail", "open-12-odd-head-dims", "open-13-rescale-direction",
                           "open-14-lse-base", "open-15-float16-score-overflow", "open-17-gqa-head-map"})
    add(name, "", {});
  return all;
}

// Its problem; case 15 writes down the rows of K only.
std::shared_ptr<const Problem> problem_of(const LoggedCase& of, DType type) {
  Case log(of.name);
  Json& K = log.json["inputs"]["K"];
  if (!K.contains("values"))
    for (const Json& row : K["formula"]["row_values"])
      K["values"].push_back(std::vector<double>(static_cast<std::size_t>(K["shape"][1].get<int>()), row.get<double>()));
  return log.problem(type, of.mask);
}

// Zeros beyond the columns there are, so that no score changes and O only gains columns; each row `times` times.
Tensor stretched(const Tensor& tensor, std::int64_t cols, std::int64_t times) {
  Tensor wide = make_tensor(tensor.type, tensor.heads, times * tensor.rows, cols);
  for (std::int64_t h = 0; h < tensor.heads; ++h)
    for (std::int64_t r = 0; r < wide.rows; ++r)
      for (std::int64_t c = 0; c < tensor.cols; ++c) set(wide, h, r, c, tensor.at(h, r / times, c));
  return wide;
}
std::int64_t whole_columns(std::int64_t d) { return std::max<std::int64_t>(32, (d + 31) / 32 * 32); }

// The same for tensor cores, whose tiles are 16 rows and keys at least: each row and key 16 times, and the mask with
// them, cell by cell. A row's weights are spread over 16 times the keys, so O stays and LSE grows by ln 16.
constexpr std::int64_t kTimes = 16;
std::shared_ptr<const Problem> for_tensor_cores(const Problem& problem) {
  const Shape shape = problem.shape();
  const Mask& mask = problem.mask;
  Mask wide;
  const Band limits = band(mask, shape.Nq, shape.Nk);
  if (!mask.none() && !mask.bias) {
    KeepMask keep = make_keep_mask(1, kTimes * shape.Nq, kTimes * shape.Nk);
    for (std::int64_t r = 0; r < keep.rows; ++r)
      for (std::int64_t c = 0; c < keep.cols; ++c)
        if (visible(mask, limits, 0, r / kTimes, c / kTimes)) set_keep(keep, 0, r, c);
    wide.keep = std::make_shared<const KeepMask>(std::move(keep));
  }
  if (mask.bias) {
    Bias bias;
    bias.rows = kTimes * shape.Nq, bias.cols = kTimes * shape.Nk;
    for (std::int64_t r = 0; r < bias.rows; ++r)
      for (std::int64_t c = 0; c < bias.cols; ++c)
        bias.f32.push_back(static_cast<float>(mask.bias->at(0, r / kTimes, c / kTimes)));
    wide.bias = std::make_shared<const Bias>(std::move(bias));
  }
  const std::int64_t d = whole_columns(shape.d), dv = whole_columns(shape.dv);
  return make_problem(problem.name, stretched(problem.Q(), d, kTimes), stretched(problem.K(), d, kTimes),
                      stretched(problem.V(), dv, kTimes), problem.scale, std::move(wide));
}

// The same with its own rows, keys and mask: one tile, mostly beyond the end.
std::shared_ptr<const Problem> with_whole_columns(const Problem& problem) {
  const Shape shape = problem.shape();
  return make_problem(problem.name, stretched(problem.Q(), whole_columns(shape.d), 1),
                      stretched(problem.K(), whole_columns(shape.d), 1),
                      stretched(problem.V(), whole_columns(shape.dv), 1), problem.scale, problem.mask);
}

class Cases : public OnGpu {
 protected:
  template <class Check>
  static void each(Check check) {
    for (const LoggedCase& of : logged_cases()) {
      const auto problem = problem_of(of, DType::float32);
      for (const Recipe& recipe : testing::guarded_recipes(2, 3)) {
        SCOPED_TRACE(fmt::format("{} {} {}", of.name, of.reading, testing::text(recipe)));
        check(problem, recipe, Case(of.name).tolerance(DType::float32));
      }
    }
  }
};

TEST_F(Cases, the_kernels_give_what_the_CPU_gives) {
  each([](const std::shared_ptr<const Problem>& problem, const Recipe& recipe, double tolerance) {
    // Kernels know structural masks only; and fewer combinations say as much.
    if (recipe.skip == Skip::all || (recipe.skip == Skip::none && recipe.order == Order::forward)) return;
    GpuRunOptions options;
    options.check.kind = CheckRows::Kind::none, options.repeats = 1;
    const Report found = run_on_gpu(*problem, recipe, options), expected = testing::run(*problem, recipe);
    testing::expect_all_near(found.O, expected.O, tolerance, "O");
    testing::expect_all_near(found.LSE, expected.LSE, tolerance, "LSE");
    EXPECT_EQ(found.nan_rows, expected.nan_rows);
    if (recipe.algorithm != Algorithm::standard) expect_counted(found, moved_as_planes(*problem, recipe));
  });
}

// In float16 and bfloat16, against float64 and against what the CPU makes of the case as it stands.
TEST_F(Cases, tensor_cores_give_what_the_CPU_gives) {
  for (const LoggedCase& of : logged_cases())
    for (const DType type : {DType::float16, DType::bfloat16}) {
      const auto plain = problem_of(of, type);
      for (const bool wide : {true, false}) {
        const auto problem = wide ? for_tensor_cores(*plain) : with_whole_columns(*plain);
        const std::int64_t times = wide ? kTimes : 1;
        for (const Order order : {Order::forward, Order::reverse})
          for (const Skip skip : {Skip::geometry, Skip::none}) {
            Recipe recipe;
            recipe.Br = wide ? 2 * kTimes : 16, recipe.Bc = wide ? 3 * kTimes : 16;
            recipe.order = order, recipe.skip = skip;
            SCOPED_TRACE(fmt::format("{} {} {} {} {}", of.name, of.reading, name(type), wide ? "16-fold" : "one tile",
                                     testing::text(recipe)));
            GpuRunOptions options;
            options.kernel = KernelChoice::mma, options.repeats = 1, options.check.kind = CheckRows::Kind::all;
            const Report found = run_on_gpu(*problem, recipe, options);
            EXPECT_EQ(found.kernel, "flash2_mma");
            ASSERT_TRUE(found.error);
            EXPECT_TRUE(found.error->within()) << found.error->max << " > " << found.error->tolerance;
            EXPECT_EQ(found.nan_rows, testing::run(*problem, recipe).nan_rows);
            expect_counted(found, moved_as_planes(*problem, recipe));
            const Report expected = testing::run(*plain, recipe);
            const Shape shape = problem->shape(), own = plain->shape();
            const double spread = std::log(static_cast<double>(times));
            for (std::int64_t h = 0; h < shape.heads; ++h)
              for (std::int64_t r = 0; r < shape.Nq; ++r) {
                const auto row = static_cast<std::size_t>(h * shape.Nq + r),
                           of_row = static_cast<std::size_t>(h * own.Nq + r / times);
                const std::string what = fmt::format("head {} row {}", h, r);
                const double LSE = expected.LSE[of_row] + spread;
                testing::expect_near(found.LSE[row], LSE, 2e-5 * std::max(1.0, std::abs(LSE)), "LSE of " + what);
                for (std::int64_t e = 0; e < own.dv; ++e)
                  testing::expect_near(
                      found.O[row * static_cast<std::size_t>(shape.dv) + static_cast<std::size_t>(e)],
                      expected.O[of_row * static_cast<std::size_t>(own.dv) + static_cast<std::size_t>(e)],
                      2 * found.error->tolerance, "O of " + what);
              }
          }
      }
    }
}

// Case 20: what the kernels themselves count, in elements.
TEST_F(Cases, open_20_the_block_size_of_the_outer_loop_decides_what_moves) {
  const Case log("open-20-block-size-traffic");
  const auto elements = [](Algorithm algorithm, KernelChoice kernel, std::int64_t Br, std::int64_t Bc) {
    const auto problem = random_problem({1, 1, 1024, 1024, 64, 64, DType::float16}, 1);
    Recipe recipe;
    recipe.algorithm = algorithm, recipe.Br = Br, recipe.Bc = Bc;
    GpuRunOptions options;
    options.check.kind = CheckRows::Kind::none, options.repeats = 1, options.kernel = kernel;
    const Report report = run_on_gpu(*problem, recipe, options);
    Moved sum;
    for (int n = 0; n < kOperands; ++n) {
      const auto operand = static_cast<Operand>(n);
      const bool wide = operand == Operand::m || operand == Operand::l || operand == Operand::LSE ||
                        (operand == Operand::O && algorithm == Algorithm::flash1);
      const Moved bytes = (*report.gpu->counted)[operand];
      sum.read += bytes.read / (wide ? 4 : 2), sum.written += bytes.written / (wide ? 4 : 2);
    }
    return sum;
  };
  const auto expect_moved = [](const Moved& found, const Json& expected) {
    EXPECT_EQ(found.read, expected["reads"].get<std::int64_t>());
    EXPECT_EQ(found.written, expected["writes"].get<std::int64_t>());
  };
  // Sizes of the inner loop, which do not matter; 256 x 16 is the most that fits the shared memory of every GPU.
  const auto others = [](std::int64_t block) {
    return block == 256 ? std::vector<std::int64_t>{16} : std::vector<std::int64_t>{16, 48};
  };
  expect_moved(elements(Algorithm::flash1, KernelChoice::automatic, 64, 128), log.expected()["k_outer_block_k_128"]);
  for (const KernelChoice kernel : {KernelChoice::mma, KernelChoice::simple}) {
    expect_moved(elements(Algorithm::flash2, kernel, 128, 64), log.expected()["q_outer_block_q_128"]);
    for (const Json& row : log.expected()["sweep"])
      for (const std::int64_t Bc : others(row["block"]))
        EXPECT_EQ(elements(Algorithm::flash2, kernel, row["block"], Bc).total(),
                  row["q_outer_total"].get<std::int64_t>())
            << row["block"] << " x " << Bc;
  }
  for (const Json& row : log.expected()["sweep"])
    for (const std::int64_t Br : others(row["block"]))
      EXPECT_EQ(elements(Algorithm::flash1, KernelChoice::automatic, Br, row["block"]).total(),
                row["k_outer_total"].get<std::int64_t>())
          << Br << " x " << row["block"];
}

TEST_F(Cases, stepped_on_the_GPU_they_end_where_the_run_on_the_CPU_ends) {
  each([](const std::shared_ptr<const Problem>& problem, const Recipe& recipe, double tolerance) {
    GpuStepper stepper(problem, recipe);
    const Outputs found = outputs_by_steps(stepper);
    const Report expected = testing::run(*problem, recipe);
    testing::expect_all_near(found.O, expected.O, tolerance, "O");
    testing::expect_all_near(found.LSE, expected.LSE, tolerance, "LSE");
  });
}

}  // namespace
}  // namespace flashscope::gpu
