// What the kernels' blocks write down of themselves: every tile once, on an SM that exists, in an order that can be.
#include <map>
#include <nlohmann/json.hpp>
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
    const auto trace = nlohmann::json::parse(chrome_trace(timeline, report.device));
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

}  // namespace
}  // namespace flashscope::gpu
