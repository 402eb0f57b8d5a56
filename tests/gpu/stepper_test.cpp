// Stepping and mapping on the GPU against the engine's trace and scan.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "engine/error.h"
#include "engine/files/problem_file.h"
#include "kernels/host/gpu_stepper.h"
#include "support.h"
#include "tests/gpu/map_samples.h"
#include "tests/gpu/step_run.h"
#include "tests/gpu/step_samples.h"
#include "tests/place.h"

namespace flashscope::gpu {
namespace {

class Stepping : public OnGpu {};

// Bit for bit, but for the logarithm in LSE; forwards, backwards and from anywhere.
TEST_F(Stepping, every_state_is_the_engines) {
  const double tolerance = engine_fuses() ? 0 : 1e-4;
  for (int number = 0; number < sample_count(100) && !HasFailure(); ++number) {
    const StepSample sample = draw_step_sample(number);
    SCOPED_TRACE(sample.text);
    Trace trace(sample.problem, sample.recipe);
    GpuStepper stepper(sample.problem, sample.recipe);
    std::mt19937 random(static_cast<std::uint32_t>(number));
    const std::int64_t steps = trace.schedule().steps();
    std::int64_t K = 0;
    for (int n = 0; n < 40 && !HasFailure(); ++n) {
      K = n % 4 == 0 ? static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(steps + 1))
                     : K + (n < 20 ? 1 : -1);
      K = std::clamp<std::int64_t>(K, 0, steps);
      expect_state(stepper.read(stepper.seek(K)), trace.seek(K), tolerance, std::max(tolerance, 1e-6));
    }
  }
}

TEST_F(Stepping, every_map_is_the_scans) {
  for (int number = 0; number < sample_count(60) && !HasFailure(); ++number) {
    const StepSample sample = draw_step_sample(number);
    SCOPED_TRACE(sample.text);
    Scan scan(sample.problem, sample.recipe, 0, 1);
    scan.wait();
    GpuStepper stepper(sample.problem, sample.recipe);
    for (std::int64_t head = 0; head < sample.problem->shape().heads; ++head)
      for (const std::int64_t side : {2048, 3}) {
        const DeviceMap map = stepper.map(head, {}, side);
        ASSERT_TRUE(map.complete());
        expect_norms(stepper.read_o_norm(map), scan.o_row_norm(head), engine_fuses() ? 1e-6 : 1e-4);
        const ScanMap found = stepper.read(map);
        std::vector<TileCell> cells;
        for (const MapCell& cell : found.cells)
          cells.push_back({cell.largest_score, cell.rescaled_rows, cell.softmax_mass, cell.nan_cells});
        expect_cells(cells, coarse_map(*scan.map(head), found.scale_i, found.scale_j), engine_fuses() ? 1e-5 : 1e-4);
        if (HasFailure()) return;
      }
  }
}

// "The first three minutes": forward no NaN, reverse without a guard half of the rows, with Bc 128 or a guard none.
TEST_F(Stepping, the_first_three_minutes) {
  ProblemFiles files;
  files.input = source_path("assets/codelm_layer1.npz");
  files.causal = Causal::top_left;
  const auto problem = load_problem(files).problem;
  const auto nan_rows = [&](Order order, std::int64_t Bc, Guard guard) {
    Recipe recipe;
    recipe.Br = 128, recipe.Bc = Bc, recipe.order = order, recipe.guard = guard;
    GpuStepper stepper(problem, recipe);
    const Schedule& schedule = stepper.schedule();
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < schedule.Tr(); ++i) {
      const TraceState state = stepper.read(stepper.seek(*schedule.find(2, i, -1, Stage::finish) + 1));
      for (std::int64_t r = 0; r < state.rows; ++r) count += std::isnan(state.O.at(r, 0));
    }
    return count;
  };
  EXPECT_EQ(nan_rows(Order::forward, 64, Guard::none), 0);
  EXPECT_EQ(nan_rows(Order::reverse, 64, Guard::none), 512);
  EXPECT_EQ(nan_rows(Order::reverse, 128, Guard::none), 0);
  EXPECT_EQ(nan_rows(Order::reverse, 64, Guard::clamp), 0);
}

// Long rows: a seek to the end of a row block in several launches, and the map of a whole head; times for the record.
TEST_F(Stepping, a_long_row_block) {
  Mask mask;
  mask.causal = Causal::top_left;
  const auto problem = random_problem({1, 1, 16384, 16384, 64, 64, DType::bfloat16}, 3, {}, mask);
  Recipe recipe;
  recipe.Br = 128, recipe.Bc = 64;
  GpuStepper stepper(problem, recipe);
  Trace trace(problem, recipe);
  const std::int64_t K = *stepper.schedule().find(0, 127, -1, Stage::finish) + 1;
  const auto seconds = [](auto work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  stepper.seek(1);
  const double seek = seconds([&] { stepper.seek(K); });
  const double back = seconds([&] { stepper.seek(K - 1); }), forward = seconds([&] { stepper.seek(K); });
  // From keyframes: a step back, some tiles back, to the middle, and on from there.
  for (const std::int64_t to : {K - 1, K - 40, K - 900, K - 901, K - 2})
    expect_state(stepper.read(stepper.seek(to)), trace.seek(to), engine_fuses() ? 0 : 1e-4, 1e-5);
  ScanMap map;
  stepper.map(0);
  const double mapped = seconds([&] { map = stepper.read(stepper.map(0)); });
  expect_state(stepper.read(stepper.seek(K)), trace.seek(K), engine_fuses() ? 0 : 1e-4, 1e-5);
  double mass = 0;
  for (const MapCell& cell : map.cells) mass += cell.softmax_mass;
  EXPECT_NEAR(mass, 128, 1e-2);  // every row's weights sum to 1
  // What a seek waits for at most while a map is made.
  int pieces = 0;
  double longest = 0;
  stepper.begin_map(0);
  for (bool complete = false; !complete; ++pieces)
    longest = std::max(longest, seconds([&] { complete = stepper.extend_map().complete(); }));
  EXPECT_GT(pieces, 1);
  fmt::print(
      "N 16384: seek through 256 tiles {:.1f} ms, a step back {:.2f} ms, on {:.2f} ms, map of 128 x 256 tiles {:.0f} "
      "ms in {} pieces, "
      "the "
      "longest {:.0f} ms\n",
      1e3 * seek, 1e3 * back, 1e3 * forward, 1e3 * mapped, pieces, 1e3 * longest);
}

// Before the first launch, and between two of the many that this seek is made of.
TEST_F(Stepping, a_seek_can_be_cancelled_and_the_next_one_works) {
  using Clock = std::chrono::steady_clock;
  const auto problem = random_problem({1, 1, 1024, 100000, 128, 128, DType::float32}, 3);
  Recipe recipe;
  recipe.Br = 1024, recipe.Bc = 64;
  GpuStepper stepper(problem, recipe);
  const std::int64_t last = stepper.schedule().steps(), near_begin = 9;
  std::stop_source before;
  before.request_stop();
  EXPECT_THROW(stepper.seek(last, before.get_token()), Cancelled);
  EXPECT_EQ(stepper.read(stepper.seek(near_begin)).K, near_begin);

  const Clock::time_point begin = Clock::now();
  const TraceState expected = stepper.read(stepper.seek(last));
  const Clock::duration whole = Clock::now() - begin;
  GpuStepper anew(problem, recipe);  // without keyframes
  std::stop_source during;
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(whole / 4);
    during.request_stop();
  });
  EXPECT_THROW(anew.seek(last, during.get_token()), Cancelled) << "it went on to the end";
  expect_state(anew.read(anew.seek(last)), expected, 0, 0);
}

}  // namespace
}  // namespace flashscope::gpu
