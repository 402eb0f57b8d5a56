// What is said of a measured map: only what its points show.
#include "engine/insight/measured_words.h"

#include <gmock/gmock.h>

#include "engine/insight/chart.h"
#include "tests/measured_points.h"

namespace flashscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Shape kShape{.heads = 16, .kv_heads = 16, .Nq = 4096, .Nk = 4096, .d = 64, .dv = 64, .type = DType::bfloat16};
constexpr std::int64_t kL2 = std::int64_t{60} << 20;

// L2-SM as the formula, DRAM each tensor once, nothing spilled.
std::vector<MeasuredPoint> plane() {
  std::vector<MeasuredPoint> points;
  for (const std::int64_t Br : {32, 64, 128})
    for (const std::int64_t Bc : {64, 128}) {
      MeasuredPoint& point = points.emplace_back(measured_point(asked_point(kShape, Br, Bc)));
      point.gpu->measured->l2_read -= kMoreThanFormula;
    }
  return points;
}
void spill(MeasuredPoint& point, int bytes) { point.gpu->spill_stores = bytes, point.gpu->spill_loads = bytes; }

TEST(MeasuredWords, FlatIsSaidWithWhatIsMoved) {
  const std::vector<MeasuredPoint> points = plane();
  // 2 x 16 x 4096 x 64 x 2 bytes of K and V; 32 row blocks read them at Br 128, 128 at Br 32.
  EXPECT_EQ(dram_text(points, Gauge::dram, kL2),
            "Flat at all 6 points, whatever Br and Bc: Q, K, V, O once, 32 MiB [formula], and at most 0 % more, where "
            "L2-SM goes from 528.2 MiB to 2.016 GiB [measured]. K and V are 16 MiB [formula], the L2 60 MiB: what is "
            "read again is found there.");
  EXPECT_THAT(dram_text(points, Gauge::dram_read, kL2), HasSubstr("Q, K, V once, 24 MiB [formula]"));
  EXPECT_THAT(dram_text(points, Gauge::dram_written, kL2), HasSubstr(": O once, 8 MiB [formula]"));
  EXPECT_EQ(difference_text(points), "L2-SM is the formula's to the byte at all 6 points.");
  EXPECT_THAT(dram_text(points, Gauge::dram, 0), Not(HasSubstr("the L2")));  // its size is not known
}

TEST(MeasuredWords, WhatIsReadAgainIsSaidWhereTheReadsShowIt) {
  std::vector<MeasuredPoint> points = plane();
  for (MeasuredPoint& point : points)
    if (point.recipe.Br <= 64) point.gpu->measured->dram_read *= 4;
  // 120 MiB of 32 at Br up to 64, where K and V fit: the words say both and no cause that is not there.
  EXPECT_THAT(
      dram_text(points, Gauge::dram, kL2),
      AllOf(HasSubstr("Flat at 2 of 6 points"),
            HasSubstr("Not flat at 4, which move 3.25x of that (every Br up to 64): row blocks read K and V from "
                      "DRAM again, which are 16 MiB [formula] against an L2 of 60 MiB.")));
  // More that is written is no reading again.
  for (MeasuredPoint& point : points)
    if (point.recipe.Br <= 64) point.gpu->measured->dram_read /= 4, point.gpu->measured->dram_written *= 4;
  const std::string written = dram_text(points, Gauge::dram, kL2);
  EXPECT_THAT(written, AllOf(HasSubstr("Not flat at 4, which move 1.75x of that (every Br up to 64)."),
                             Not(HasSubstr("from DRAM again"))));
  // Nowhere flat, and K and V that do not fit.
  points = plane();
  for (MeasuredPoint& point : points) point.gpu->measured->dram_read *= point.recipe.Br == 128 ? 2 : 3;
  EXPECT_EQ(dram_text(points, Gauge::dram_read, std::int64_t{8} << 20),
            "Not flat: at each of 6 points 2x to 3x of Q, K, V once, 24 MiB [formula]: row blocks read K and V from "
            "DRAM again, which are 16 MiB [formula] against an L2 of 8 MiB.");
}

TEST(MeasuredWords, SpillsAreNamedWhereTheyTellThePointsApart) {
  std::vector<MeasuredPoint> points = plane();
  for (const std::size_t n : {4u, 5u}) {
    spill(points[n], n == 4 ? 100 : 600);
    points[n].gpu->measured->l2_written *= 200, points[n].gpu->measured->dram_written *= 3;
  }
  const std::string exactly =
      ": these and no others have spilled registers, 200 to 1,200 bytes a thread [reported by the "
      "compiler].";
  EXPECT_THAT(difference_text(points), AllOf(HasSubstr("to the byte at 4 of 6 points. At 2 it is "),
                                             HasSubstr("(every Br from 128 on)" + exactly)));
  EXPECT_THAT(dram_text(points, Gauge::dram, kL2), HasSubstr("(every Br from 128 on)" + exactly));
  spill(points[0], 50);  // one that is flat in spite of it
  EXPECT_THAT(difference_text(points), HasSubstr("all of them with spilled registers"));
  EXPECT_THAT(difference_text(points), HasSubstr("; 1 of the others too."));
  spill(points[0], 0), spill(points[5], 0);
  EXPECT_THAT(difference_text(points), HasSubstr(": 1 of them with spilled registers, 200 bytes a thread"));
  spill(points[4], 0);
  EXPECT_THAT(difference_text(points), Not(HasSubstr("spill")));
}

TEST(MeasuredWords, NothingIsSaidOfWhatWasNotMeasured) {
  std::vector<MeasuredPoint> points = plane();
  for (MeasuredPoint& point : points) point.gpu->measured.reset();
  points.push_back(asked_point(kShape, 256, 256));
  points.back().failed = "does not fit";
  EXPECT_EQ(dram_text(points, Gauge::dram, kL2), "");
  EXPECT_EQ(difference_text(points), "");
  EXPECT_EQ(dram_text({}, Gauge::dram, kL2), "");
  // A little beside the formula everywhere: within a percent, and said so.
  EXPECT_EQ(difference_text(std::vector{measured_point(asked_point(kShape, 128, 64))}),
            "L2-SM is within 0.00074 % of the formula at all 1 points, to the byte at 0.");
}

}  // namespace
}  // namespace flashscope
