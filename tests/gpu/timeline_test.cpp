// What the kernels' blocks write down of themselves: every tile once, on an SM that exists, in an order that can be.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>

#include "support.h"

namespace flashscope::gpu {
namespace {

class TimelineOnGpu : public OnGpu {
 protected:
  static Report run(const Problem& problem, const Recipe& recipe, KernelChoice kernel) {
    GpuRunOptions options;
    options.check.kind = CheckRows::Kind::none, options.repeats = 1, options.timeline = true, options.kernel = kernel;
    return run_on_gpu(problem, recipe, options);
  }
  static std::size_t sms_used(const Timeline& timeline) {
    std::set<int> used;
    for (const Timeline::Span& span : timeline.spans) used.insert(span.sm);
    return used.size();
  }
  // From the start of its first tile to the end of its last, for every row block of every head.
  static std::vector<double> row_block_times(const Timeline& timeline, std::int64_t Tr) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::pair<std::int64_t, std::int64_t>> ends;
    for (const Timeline::Span& span : timeline.spans) {
      const auto [at, is_new] = ends.try_emplace({span.head, span.i}, span.start_ns, span.end_ns);
      at->second = {std::min(at->second.first, span.start_ns), std::max(at->second.second, span.end_ns)};
    }
    std::vector<double> times(static_cast<std::size_t>(Tr), 0);  // summed over the heads
    for (const auto& [block, end] : ends)
      times[static_cast<std::size_t>(block.second)] += static_cast<double>(end.second - end.first);
    return times;
  }
  // Of the last quarter of the row blocks to the first quarter.
  static double last_to_first(const std::vector<double>& times) {
    const auto quarter = static_cast<std::ptrdiff_t>(times.size() / 4);
    return std::accumulate(times.end() - quarter, times.end(), 0.) /
           std::accumulate(times.begin(), times.begin() + quarter, 0.);
  }
  static void expect_sound(const Report& report, const Problem& problem) {
    ASSERT_TRUE(report.gpu && report.gpu->timeline);
    const Timeline& timeline = *report.gpu->timeline;
    EXPECT_EQ(timeline.lost, 0);
    EXPECT_GT(timeline.tick_ns, 0);
    EXPECT_EQ(timeline.sms, report.gpu->sms);
    const Schedule schedule(problem.shape(), problem.mask, report.recipe);
    std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> tiles;
    std::map<std::int64_t, std::pair<int, std::int64_t>> blocks;  // SM and last end
    std::int64_t first = timeline.duration();
    for (const Timeline::Span& span : timeline.spans) {
      EXPECT_GE(span.sm, 0);
      EXPECT_LT(span.sm, timeline.sms);
      EXPECT_LE(span.start_ns, span.end_ns);
      first = std::min(first, span.start_ns);
      if (span.j >= 0) {
        EXPECT_TRUE(schedule.visited(span.head, span.i, span.j));
        EXPECT_TRUE(tiles.insert({span.head, span.i, span.j}).second) << "twice";
      }
      const auto [block, is_new] = blocks.try_emplace(span.block, span.sm, span.end_ns);
      if (is_new) continue;
      EXPECT_EQ(block->second.first, span.sm);
      EXPECT_GE(span.start_ns, block->second.second) << "a block's spans overlap";
      block->second.second = span.end_ns;
    }
    EXPECT_EQ(first, 0);
    if (report.recipe.algorithm != Algorithm::standard) {
      EXPECT_EQ(static_cast<std::int64_t>(tiles.size()), schedule.tiles());
    }
    const auto trace = nlohmann::json::parse(chrome_trace(timeline, report.device, "a run"));
    EXPECT_EQ(trace["traceEvents"].size(), 1u + static_cast<std::size_t>(timeline.sms) + timeline.spans.size());
  }
};

TEST_F(TimelineOnGpu, every_tile_once_and_flash1_idles) {
  Mask causal;
  causal.causal = Causal::top_left;
  const auto problem = random_problem({8, 8, 1024, 1024, 64, 64, DType::bfloat16}, 1, {}, causal);
  Recipe recipe;
  recipe.Br = 64, recipe.Bc = 64;
  for (const KernelChoice kernel : {KernelChoice::mma, KernelChoice::simple}) {
    const Report flash2 = run(*problem, recipe, kernel);
    SCOPED_TRACE(flash2.kernel);
    expect_sound(flash2, *problem);
    EXPECT_GT(sms_used(*flash2.gpu->timeline), 16u);
  }
  recipe.algorithm = Algorithm::flash1;
  for (const Normalise normalise : {Normalise::each, Normalise::end}) {
    recipe.normalise = normalise;
    const Report flash1 = run(*problem, recipe, KernelChoice::automatic);
    expect_sound(flash1, *problem);
    EXPECT_LE(sms_used(*flash1.gpu->timeline), 8u);  // a block a head
  }
  recipe.algorithm = Algorithm::standard, recipe.normalise.reset();
  const Report standard = run(*problem, recipe, KernelChoice::automatic);
  expect_sound(standard, *problem);
  EXPECT_EQ(standard.gpu->timeline->spans.size(), 8u * 1024);
}

// Under a causal mask row block i has i + 1 tiles: 7 times as many tiles in the last quarter as in the
// first. Without a mask all have as many.
TEST_F(TimelineOnGpu, causal_load_grows_with_the_row_block) {
  Mask causal;
  causal.causal = Causal::top_left;
  const Shape shape{8, 8, 4096, 4096, 64, 64, DType::bfloat16};
  for (const KernelChoice kernel : {KernelChoice::mma, KernelChoice::simple}) {
    Recipe recipe;
    recipe.Br = 64, recipe.Bc = 64;
    const Report masked = run(*random_problem(shape, 1, {}, causal), recipe, kernel);
    const Report whole = run(*random_problem(shape, 1), recipe, kernel);
    SCOPED_TRACE(masked.kernel);
    expect_sound(masked, *random_problem(shape, 1, {}, causal));
    const std::vector<double> times = row_block_times(*masked.gpu->timeline, 64);
    const double uneven = last_to_first(times), even = last_to_first(row_block_times(*whole.gpu->timeline, 64));
    fmt::print("{}: last quarter of the row blocks to the first, causal {:.2f}, full {:.2f}\n", masked.kernel, uneven,
               even);
    EXPECT_GT(uneven, 3);
    EXPECT_GT(even, 0.5);
    EXPECT_LT(even, 2);
    // And quarter by quarter.
    for (std::size_t quarter = 1; quarter < 4; ++quarter) {
      const auto sum = [&](std::size_t q) {
        const auto first = times.begin() + static_cast<std::ptrdiff_t>(16 * q);
        return std::accumulate(first, first + 16, 0.);
      };
      EXPECT_GT(sum(quarter), sum(quarter - 1)) << quarter;
    }
  }
}

}  // namespace
}  // namespace flashscope::gpu
