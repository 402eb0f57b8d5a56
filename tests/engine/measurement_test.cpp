// Figures of measured points, the plan of what to measure, and advice by measurement.
#include "engine/insight/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/measured_points.h"

namespace flashscope {
namespace {

using ::testing::HasSubstr;

const Shape kShape{.heads = 16, .kv_heads = 16, .Nq = 4096, .Nk = 4096, .d = 64, .dv = 64, .type = DType::bfloat16};

TEST(Measurement, FiguresOfAPoint) {
  const MeasuredPoint point = measured_point(asked_point(kShape, 128, 64));
  // The run that kernels/README.md tells of: 545,259,520 bytes read, 8,650,752 written.
  EXPECT_EQ(formula_bytes(point), 545'259'520.0 + 8'650'752);
  EXPECT_EQ(value(point, Gauge::l2_sm_read), 545'259'520 + kMoreThanFormula);
  EXPECT_EQ(value(point, Gauge::l2_sm), 545'259'520 + 8'650'752 + kMoreThanFormula);
  EXPECT_EQ(value(point, Gauge::difference), kMoreThanFormula);
  EXPECT_EQ(value(point, Gauge::dram_read), 25'165'824);
  EXPECT_EQ(value(point, Gauge::dram), 25'165'824 + 8'388'608);
  EXPECT_EQ(value(point, Gauge::seconds), point.gpu->median);
  EXPECT_EQ(value(point, Gauge::registers), 96);
  EXPECT_EQ(value(point, Gauge::spills), 0);
  EXPECT_EQ(value(point, Gauge::occupancy), 12.5);
  EXPECT_EQ(value(measured_point(asked_point(kShape, 128, 192)), Gauge::spills), 32);

  MeasuredPoint uncounted = point;
  uncounted.gpu->measured.reset();
  for (const Gauge gauge : {Gauge::l2_sm, Gauge::dram, Gauge::occupancy, Gauge::difference})
    EXPECT_FALSE(value(uncounted, gauge));
  EXPECT_TRUE(value(uncounted, Gauge::tflops));
  MeasuredPoint failed = asked_point(kShape, 128, 64);
  for (int n = 0; n < kGauges; ++n) {
    const auto gauge = static_cast<Gauge>(n);
    EXPECT_FALSE(value(failed, gauge));
    EXPECT_FALSE(title(gauge).empty());
    EXPECT_FALSE(how(gauge).empty());
    EXPECT_THAT(std::string(how(gauge)) + std::string(origin(gauge)),
                ::testing::AnyOf(HasSubstr("measured"), HasSubstr("compiler")));
  }
}

bool allowed(const BlockSizes& size, const Shape& shape) {
  return size.Br % 16 == 0 && size.Bc % 16 == 0 && size.Br >= 16 && size.Bc >= 16 && size.Br <= 256 && size.Bc <= 256 &&
         size.Br < shape.Nq + 16 && size.Bc < shape.Nk + 16;
}

// As it is measured: the coarse plane, then beside the best until nothing is left to ask.
std::vector<MeasuredPoint> measured_plane(const Shape& shape, std::size_t most = 300) {
  std::vector<MeasuredPoint> points;
  for (const BlockSizes& size : coarse_blocks(shape))
    points.push_back(measured_point(asked_point(shape, size.Br, size.Bc)));
  while (true) {
    const std::vector<BlockSizes> more = finer_blocks(points, shape, most);
    if (more.empty()) return points;
    for (const BlockSizes& size : more) points.push_back(measured_point(asked_point(shape, size.Br, size.Bc)));
  }
}

TEST(Measurement, ThePlaneIsRefinedUntilTheBestIsSurrounded) {
  const std::vector<MeasuredPoint> points = measured_plane(kShape);
  std::set<std::pair<std::int64_t, std::int64_t>> sizes;
  for (const MeasuredPoint& point : points) {
    EXPECT_TRUE(allowed({point.recipe.Br, point.recipe.Bc}, kShape)) << point.recipe.Br << " x " << point.recipe.Bc;
    EXPECT_TRUE(sizes.emplace(point.recipe.Br, point.recipe.Bc).second) << "twice";
  }
  EXPECT_GT(points.size(), 64u);
  EXPECT_LT(points.size(), 200u);  // not the whole plane of 256
  EXPECT_FALSE(coarse_blocks(kShape).size() > 64);
  const MeasuredAdviceList list = advise_measured(points, measured_on_h200());
  ASSERT_EQ(list.best.size(), 5u);
  const Recipe& best = points[list.best[0].point].recipe;
  EXPECT_EQ(best.Br, kFastest.Br);  // neither is in the coarse plane
  EXPECT_EQ(best.Bc, kFastest.Bc);
  for (const std::int64_t r : {-16, 0, 16})
    for (const std::int64_t c : {-16, 0, 16}) EXPECT_TRUE(sizes.contains({best.Br + r, best.Bc + c})) << r << " " << c;
}

TEST(Measurement, ThePlaneKeepsToTheProblemAndToItsBudget) {
  Shape small = kShape;
  small.Nq = 40, small.Nk = 100;
  for (const MeasuredPoint& point : measured_plane(small)) {
    EXPECT_LE(point.recipe.Br, 48);
    EXPECT_LE(point.recipe.Bc, 112);
  }
  EXPECT_EQ(measured_plane(kShape, 70).size(), 70u);
  std::vector<MeasuredPoint> failed;
  for (const BlockSizes& size : coarse_blocks(kShape)) {
    failed.push_back(asked_point(kShape, size.Br, size.Bc));
    failed.back().failed = "does not fit";
  }
  EXPECT_TRUE(finer_blocks(failed, kShape).empty());
}

TEST(Measurement, AdviceSaysWhy) {
  std::vector<MeasuredPoint> points;
  points.push_back(measured_point(asked_point(kShape, 128, 64)));
  points.push_back(measured_point(asked_point(kShape, 64, 64)));  // twice the traffic
  points.push_back(asked_point(kShape, 256, 256));
  points.back().failed = "shared memory";
  points.push_back(measured_point(asked_point(kShape, 128, 192)));  // spills
  const MeasuredAdviceList list = advise_measured(points, measured_on_h200());
  ASSERT_EQ(list.best.size(), 3u);
  EXPECT_EQ(list.measured, 3u);
  EXPECT_EQ(list.failed, 1u);
  EXPECT_EQ(list.best[0].point, 0u);
  EXPECT_THAT(list.best[0].why, HasSubstr("fastest"));
  EXPECT_EQ(list.best[1].point, 1u);
  EXPECT_THAT(list.best[1].why, AllOf(HasSubstr("slower"), HasSubstr("more L2-SM traffic")));
  EXPECT_EQ(list.best[2].point, 3u);
  EXPECT_THAT(list.best[2].why, HasSubstr("spills 12 bytes"));
  EXPECT_THAT(list.note, HasSubstr("NVIDIA H200"));
  EXPECT_TRUE(advise_measured({}, measured_on_h200()).best.empty());
  EXPECT_THAT(list.note, HasSubstr("3 block sizes were measured, 1 failed"));
  EXPECT_THAT(advise_measured(std::span(points).first(1), measured_on_h200()).note,
              HasSubstr("1 block size was measured, 0 failed"));
}

TEST(Measurement, AdviceNamesWhatDiffersWhereNothingStandsOut) {
  std::vector<MeasuredPoint> points{measured_point(asked_point(kShape, 128, 64)),
                                    measured_point(asked_point(kShape, 128, 128))};
  points[1].gpu->measured->dram_read +=
      0.01 * (points[1].gpu->measured->dram_read + points[1].gpu->measured->dram_written);
  const auto why = [&] { return advise_measured(points, measured_on_h200()).best.at(1).why; };
  EXPECT_THAT(why(),
              HasSubstr("slower: no figure stands out: 1 % more DRAM traffic, 128 registers a thread in place of 96"));
  EXPECT_THAT(why(), testing::Not(HasSubstr("counters were not read")));
  points[1].gpu->measured.reset();
  EXPECT_THAT(why(),
              HasSubstr("no figure stands out: 128 registers a thread in place of 96; the counters were not read"));
  points[1] = points[0], points[1].gpu->median *= 1.1;
  EXPECT_THAT(why(), HasSubstr("10 % slower: the figures that were read are the same"));
}

TEST(Measurement, WhereTheL2Ends) {
  // One head of d = 64 in bfloat16: K and V take 256 bytes a row.
  Shape one = kShape;
  one.heads = one.kv_heads = 1;
  EXPECT_EQ(rows_that_fill(60.0 * (1 << 20), one), 245'760);
  EXPECT_EQ(rows_that_fill(60.0 * (1 << 20), kShape), 15'360);
}

}  // namespace
}  // namespace flashscope
