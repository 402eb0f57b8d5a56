// The case log through the kernels: what people met in public threads, computed on the GPU as on the CPU.
#include <fmt/format.h>

#include "support.h"
#include "tests/engine/support.h"

namespace flashscope::gpu {
namespace {

struct LoggedCase {
  explicit LoggedCase(const char* of, bool own_mask = false, Causal with = Causal::none, std::optional<Window> in = {})
      : name(of), mask(own_mask), causal(with), window(in) {}
  const char* name;
  bool mask;  // the case's own, a keep mask
  Causal causal;
  std::optional<Window> window;
};

class Cases : public OnGpu, public ::testing::WithParamInterface<LoggedCase> {};

TEST_P(Cases, as_on_the_cpu) {
  const testing::Case log(GetParam().name);
  Mask mask;
  if (GetParam().mask) mask = testing::keep_mask_from(log.json["inputs"]["mask"]["values"]);
  mask.causal = GetParam().causal, mask.window = GetParam().window;
  const auto problem = log.problem(DType::float32, mask);
  for (Recipe recipe : testing::guarded_recipes(2, 3)) {
    if (recipe.skip == Skip::all && GetParam().mask) continue;  // kernels know structural masks only
    if (recipe.skip == Skip::all || (recipe.skip == Skip::none && recipe.order == Order::forward)) continue;
    GpuRunOptions options;
    options.check.kind = CheckRows::Kind::none, options.repeats = 1;
    const std::string what = testing::text(recipe);
    const Report found = run_on_gpu(*problem, recipe, options), expected = testing::run(*problem, recipe);
    testing::expect_all_near(found.O, expected.O, log.tolerance(DType::float32), fmt::format("{} O", what));
    testing::expect_all_near(found.LSE, expected.LSE, log.tolerance(DType::float32), fmt::format("{} LSE", what));
    EXPECT_EQ(found.nan_rows, expected.nan_rows) << what;
    if (recipe.algorithm != Algorithm::standard) expect_counted(found);
  }
}
INSTANTIATE_TEST_SUITE_P(
    Log, Cases,
    ::testing::Values(LoggedCase{"open-01-fully-masked-rows", true}, LoggedCase{"open-02-first-tile-masked", true},
                      LoggedCase{"open-05-nan-in-masked-key", true},
                      LoggedCase{"open-08-decode-causal-alignment", false, Causal::top_left},
                      LoggedCase{"open-08-decode-causal-alignment", false, Causal::bottom_right},
                      LoggedCase{"open-09-more-queries-than-keys", false, Causal::bottom_right},
                      LoggedCase{"open-10-window-off-by-one", false, Causal::top_left, Window{2, 0}},
                      LoggedCase{"open-11-ragged-tail"}, LoggedCase{"open-12-odd-head-dims"},
                      LoggedCase{"open-13-rescale-direction"}, LoggedCase{"open-17-gqa-head-map"}));

}  // namespace
}  // namespace flashscope::gpu
