// The case log through the kernels: what people met in public threads, computed and stepped on the GPU as on the CPU.
#include <fmt/format.h>

#include "support.h"
#include "tests/engine/support.h"
#include "tests/gpu/step_run.h"

namespace flashscope::gpu {
namespace {

struct LoggedCase {
  const char* name;
  bool mask = false;  // the case's own, a keep mask
  Causal causal = Causal::none;
  std::optional<Window> window;
};

const LoggedCase kCases[] = {{"open-01-fully-masked-rows", true, Causal::none, {}},
                             {"open-02-first-tile-masked", true, Causal::none, {}},
                             {"open-05-nan-in-masked-key", true, Causal::none, {}},
                             {"open-08-decode-causal-alignment", false, Causal::top_left, {}},
                             {"open-08-decode-causal-alignment", false, Causal::bottom_right, {}},
                             {"open-09-more-queries-than-keys", false, Causal::bottom_right, {}},
                             {"open-10-window-off-by-one", false, Causal::top_left, Window{2, 0}},
                             {"open-11-ragged-tail", false, Causal::none, {}},
                             {"open-12-odd-head-dims", false, Causal::none, {}},
                             {"open-13-rescale-direction", false, Causal::none, {}},
                             {"open-17-gqa-head-map", false, Causal::none, {}}};

class Cases : public OnGpu {
 protected:
  template <class Check>
  static void each(Check check) {
    for (const LoggedCase& of : kCases) {
      const testing::Case log(of.name);
      Mask mask;
      if (of.mask) mask = testing::keep_mask_from(log.json["inputs"]["mask"]["values"]);
      mask.causal = of.causal, mask.window = of.window;
      const auto problem = log.problem(DType::float32, mask);
      for (const Recipe& recipe : testing::guarded_recipes(2, 3)) {
        SCOPED_TRACE(fmt::format("{} {}", of.name, testing::text(recipe)));
        check(problem, recipe, log.tolerance(DType::float32));
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
    if (recipe.algorithm != Algorithm::standard) expect_counted(found);
  });
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
