// A 1920 x 1080 frame of the grid of N = 65,536 (343,040 tiles) with everything on, until its last pixel
// is there: at rest, while transfers move, at every new step, and while the scan colours the map.
#include <GL/glcorearb.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/viz/naive_stage.h"
#include "viz/offscreen.h"

namespace flashscope::viz {
namespace {

constexpr int kWidth = 1920, kHeight = 1080;

struct Grid {
  test::Run run;
  std::vector<StageData> steps;  // the eight stages of one tile

  Grid() {
    Recipe recipe;
    recipe.Br = 64, recipe.Bc = 196;
    run = test::make_run({1, 1, 65536, 65536, 64, 64, DType::float16}, recipe);
    const std::int64_t first = *run.schedule->find(0, 500, 5, TraceStage::load_k) + 1;
    for (std::int64_t n = 0; n < 8; ++n) {
      steps.push_back(test::naive_stage(run, first + n, static_cast<std::uint64_t>(n + 1)));
      steps.back().pinned_rows = {500 * 64 + 7, 500 * 64 + 31};
    }
  }
};
const Grid& grid() {
  static const Grid one;
  return one;
}

enum class What : std::int64_t { at_rest, moving, stepping, scanning };

void StageFrame(benchmark::State& state) {
  const auto what = static_cast<What>(state.range(0));
  const Grid& g = grid();
  Offscreen offscreen(kWidth, kHeight);
  Stage stage;
  StageOptions options;
  StageInput input;
  input.width = kWidth, input.height = kHeight, input.framebuffer = offscreen.framebuffer();
  InputEvent move;
  move.x = 850, move.y = 620;  // over the score tile: tooltip, row and column are drawn
  std::vector<StageData> steps = g.steps;
  auto map = std::make_shared<ScanMap>(*steps.front().map);
  std::uint64_t version = 100;
  std::size_t at = 7;
  input.events = {move};
  stage.draw(steps[6], options, input);
  for (auto _ : state) {
    input.events = {move};
    if (what == What::moving) {
      input.time += 1e-3;
      at = input.time < 0.5 ? 0 : 6;
      if (input.time > 0.5) input.time = 0, steps[0].state = std::make_shared<TraceState>(*steps[0].state);
    }
    if (what == What::stepping) {
      at = (at + 1) % steps.size();
      steps[at].version = ++version, input.time += 0.1;
    }
    if (what == What::scanning) {
      state.PauseTiming();
      steps[at].map = std::make_shared<ScanMap>(*map), steps[at].version = ++version;
      state.ResumeTiming();
    }
    stage.draw(steps[at], options, input);
    glFinish();
  }
  state.SetLabel(offscreen.renderer());
}
BENCHMARK(StageFrame)
    ->ArgName("0_at_rest_1_moving_2_stepping_3_scanning")
    ->DenseRange(0, 3)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace flashscope::viz
