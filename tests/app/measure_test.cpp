// A sweep that is measured survives whatever its child does: a point that fails has its reason, the others go on, and
// what was measured is not measured again. No GPU is needed: the children are a stand-in with figures made by hand, and
// shell scripts that go wrong.
#include "app/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "engine/error.h"
#include "engine/insight/measurement.h"
#include "kernels/host/errors.h"
#include "tests/app/child_test.h"
#include "tests/measured_points.h"

namespace flashscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Measure : public ChildTest {
 protected:
  void SetUp() override {
    ChildTest::SetUp();
    options_.program = FLASHSCOPE_TEST_CHILD;
    options_.cache = folder_ / "cache";
  }

  // Points by Br and Bc; the stand-in's faults are chosen by Br (see gpu_child_for_tests.cpp).
  std::vector<MeasuredPoint> asked(const std::vector<BlockSizes>& blocks) const {
    std::vector<MeasuredPoint> points;
    for (const BlockSizes& size : blocks) points.push_back(asked_point(shape_, size.Br, size.Bc));
    return points;
  }
  // Every point told once.
  std::map<std::size_t, MeasuredPoint> measure(const std::vector<MeasuredPoint>& points,
                                               const std::stop_token& stop = {}) {
    std::map<std::size_t, MeasuredPoint> told;
    known_ = 0;
    measure_points(points, on_, options_, stop, [&](std::size_t n, const MeasuredPoint& point, bool cached) {
      EXPECT_TRUE(told.emplace(n, point).second) << n;
      known_ += cached;
      if (told_) told_(n);
    });
    return told;
  }

  const Shape shape_{.heads = 2, .kv_heads = 2, .Nq = 512, .Nk = 512, .d = 64, .dv = 64, .type = DType::bfloat16};
  MeasuredOn on_ = measured_on_h200();
  MeasureOptions options_;
  std::size_t known_ = 0;
  std::function<void(std::size_t)> told_;
};

TEST_F(Measure, EveryPointComesBackWithItsFigures) {
  std::vector<BlockSizes> blocks;
  for (std::int64_t Bc = 16; Bc <= 160; Bc += 16) blocks.push_back({64, Bc});
  const std::vector<MeasuredPoint> points = asked(blocks);
  const auto told = measure(points);
  ASSERT_EQ(told.size(), points.size());
  for (const auto& [n, point] : told) {
    const MeasuredPoint expected = measured_point(points[n]);
    ASSERT_TRUE(point.gpu) << point.failed;
    EXPECT_EQ(point.recipe, points[n].recipe);
    EXPECT_EQ(point.gpu->median, expected.gpu->median);
    EXPECT_EQ(point.gpu->repeats, 10);
    EXPECT_EQ(value(point, Gauge::l2_sm), value(expected, Gauge::l2_sm));
    EXPECT_FALSE(point.date.empty());
  }
}

TEST_F(Measure, APointThatFailsHasItsReasonAndTheOthersGoOn) {
  // 16 has no kernel, 32 does not compile, 48 does not fit the device, 80 is an error of the device, 96 a dead process.
  const std::vector<MeasuredPoint> points =
      asked({{16, 64}, {32, 64}, {48, 64}, {64, 64}, {80, 64}, {96, 64}, {96, 32}, {80, 32}, {112, 64}, {128, 64}});
  const auto told = measure(points);
  ASSERT_EQ(told.size(), points.size());
  for (const std::size_t n : {3, 8, 9}) EXPECT_TRUE(told.at(n).gpu) << told.at(n).failed;
  EXPECT_THAT(told.at(0).failed, HasSubstr("expected a kernel"));
  EXPECT_THAT(told.at(1).failed, HasSubstr("error: a \"quoted\" word"));
  EXPECT_THAT(told.at(2).failed, HasSubstr("registers"));
  EXPECT_THAT(told.at(4).failed, HasSubstr("illegal memory access"));
  for (const std::size_t n : {5, 6}) EXPECT_THAT(told.at(n).failed, HasSubstr("signal 11"));
  EXPECT_THAT(told.at(7).failed, HasSubstr("illegal memory access"));
  for (const std::size_t n : {0, 1, 2, 4, 5, 6, 7}) {
    EXPECT_FALSE(told.at(n).gpu);
    EXPECT_EQ(told.at(n).recipe, points[n].recipe);
  }
}

// cuBLAS is not there: only standard attention's points say so, and the process that said it goes on.
TEST_F(Measure, AMissingLibraryIsItsPointsOwnAndNoLostDevice) {
  const std::filesystem::path starts = folder_ / "starts";
  setenv("FLASHSCOPE_TEST_STARTS", starts.c_str(), 1);
  const auto told = measure(asked({{160, 64}, {64, 64}, {160, 32}, {128, 64}, {160, 16}}));
  unsetenv("FLASHSCOPE_TEST_STARTS");
  for (const std::size_t n : {0, 2, 4}) EXPECT_EQ(told.at(n).failed, "cuBLAS is missing: install it");
  for (const std::size_t n : {1, 3}) EXPECT_TRUE(told.at(n).gpu) << told.at(n).failed;
  std::ifstream file(starts);
  std::vector<std::string> processes;
  for (std::string line; std::getline(file, line);) processes.push_back(line);
  EXPECT_EQ(processes.size(), 1u);
}

TEST_F(Measure, APointThatNeverEndsIsGivenUp) {
  options_.silence = std::chrono::seconds(1);
  const auto told = measure(asked({{144, 64}, {64, 64}}));
  EXPECT_TRUE(told.at(1).gpu);
  EXPECT_THAT(told.at(0).failed, HasSubstr("no answer for 1 s"));
}

TEST_F(Measure, WhatIsKnownIsNotMeasuredAgain) {
  const std::vector<MeasuredPoint> points = asked({{64, 64}, {80, 64}, {128, 64}});
  const auto first = measure(points);
  EXPECT_EQ(known_, 0u);
  options_.program = script("exit 9");  // would fail, if it were asked
  const std::vector<MeasuredPoint> good{points[0], points[2]};
  const auto second = measure(good);
  EXPECT_EQ(known_, 2u);
  EXPECT_EQ(second.at(0).gpu->median, first.at(0).gpu->median);
  EXPECT_EQ(second.at(1).date, first.at(2).date);

  // Anything that a figure depends on makes it unknown.
  const auto unknown = [&](auto change) {
    const MeasuredOn on = on_;
    const MeasureOptions options = options_;
    std::vector<MeasuredPoint> one{points[0]};
    change(one[0]);
    EXPECT_THROW(measure(one), gpu::GpuError);
    on_ = on, options_ = options;
  };
  unknown([&](MeasuredPoint&) { on_.device = "NVIDIA H100"; });
  unknown([&](MeasuredPoint&) { on_.driver = "13.1"; });
  unknown([&](MeasuredPoint&) { on_.compiler = "NVRTC 12.8"; });
  unknown([&](MeasuredPoint&) { on_.sources = "other"; });
  unknown([&](MeasuredPoint&) { options_.seed = 2; });
  unknown([&](MeasuredPoint&) { options_.kernel = gpu::KernelChoice::simple; });
  unknown([&](MeasuredPoint& point) { point.shape.Nk = 513; });
  unknown([&](MeasuredPoint& point) { point.mask.causal = Causal::top_left; });
  unknown([&](MeasuredPoint& point) { point.recipe.order = Order::reverse; });
  unknown([&](MeasuredPoint&) { options_.cache.clear(); });
  // A point that failed is tried again; a damaged file counts as absent.
  EXPECT_THROW(measure({points[1]}), gpu::GpuError);
  for (const auto& entry : std::filesystem::directory_iterator(options_.cache)) std::ofstream(entry.path()) << "{";
  EXPECT_THROW(measure(good), gpu::GpuError);
}

TEST_F(Measure, StoppedItGoesOnWhereItEnded) {
  std::vector<BlockSizes> blocks;
  for (std::int64_t Bc = 16; Bc <= 256; Bc += 16) blocks.push_back({64, Bc});
  const std::vector<MeasuredPoint> points = asked(blocks);
  std::stop_source source;
  std::size_t before = 0;
  told_ = [&](std::size_t) {
    if (++before == 5) source.request_stop();
  };
  EXPECT_THROW(measure(points, source.get_token()), Cancelled);
  EXPECT_GE(before, 5u);
  EXPECT_LT(before, points.size());
  told_ = {};
  const auto told = measure(points);
  EXPECT_EQ(told.size(), points.size());
  EXPECT_EQ(known_, before);
}

TEST_F(Measure, PointsWithoutCountersAreNotKept) {
  const std::vector<MeasuredPoint> points = asked({{64, 208}});  // the stand-in has no permission there
  EXPECT_THAT(measure(points).at(0).gpu->not_measured, HasSubstr("permission"));
  measure(points);
  EXPECT_EQ(known_, 0u);
}

TEST_F(Measure, MasksFromFilesAreRefusedPointByPoint) {
  std::vector<MeasuredPoint> points = asked({{64, 64}, {64, 32}});
  points[0].mask.rules.lengths = {100};
  const auto told = measure(points);
  EXPECT_THAT(told.at(0).failed, HasSubstr("flashscope run"));
  EXPECT_TRUE(told.at(1).gpu);
}

TEST_F(Measure, AChildThatDoesNotSpeakIsOneMessage) {
  const auto message = [&](const std::string& body) {
    options_.program = script(body);
    try {
      measure(asked({{64, 64}}));
    } catch (const gpu::GpuError& error) {
      return std::string(error.what());
    } catch (const gpu::Missing& error) {
      return "missing: " + std::string(error.what());
    } catch (const InputError& error) {
      return "input: " + std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message("exit 0"), HasSubstr("before it measured anything"));
  EXPECT_THAT(message("kill -SEGV $$"), HasSubstr("signal 11"));
  EXPECT_THAT(message("echo hello"), HasSubstr("said \"hello\""));
  EXPECT_THAT(message("echo '{\"begin\": 7}'"), HasSubstr("where an answer is expected"));
  EXPECT_THAT(message("echo '{\"point\": 0, \"result\": {}}'"), HasSubstr("where an answer is expected"));
  EXPECT_THAT(message("exec cat /dev/zero"), HasSubstr("where an answer is expected"));
  EXPECT_THAT(message("echo '{\"error\": {\"kind\": \"missing\", \"what\": \"no GPU: buy one\"}}'; exit 4"),
              HasSubstr("missing: no GPU: buy one"));
  EXPECT_THAT(message("echo '{\"error\": {\"kind\": \"input\", \"where\": \"--gpu\", \"found\": \"7\", \"expected\": "
                      "\"one of 0\"}}'; exit 4"),
              AllOf(HasSubstr("input: "), HasSubstr("--gpu"), HasSubstr("one of 0")));
}

// The counters would see a plane's bytes that the formula of causal and window masks does not know.
TEST_F(Measure, OtherMasksThanCausalAndWindowAreRefusedBeforeAProcessStarts) {
  std::vector<MeasuredPoint> points = asked({{64, 64}, {64, 64}, {64, 64}, {64, 64}, {64, 64}, {64, 64}, {64, 64}});
  points[0].mask.causal = Causal::bottom_right, points[0].mask.window = Window{16, 0};
  points[1].mask.rules.alibi = {0.5};
  points[2].mask.rules.softcap = 30;
  points[3].mask.causal = Causal::top_left, points[3].mask.rules.prefix = 8;
  points[4].mask.rules.lengths = {100};
  points[5].mask.keep = std::make_shared<const KeepMask>(make_keep_mask(1, 1, 1));
  Bias bias;
  bias.f32 = {0};
  points[6].mask.bias = std::make_shared<const Bias>(std::move(bias));
  EXPECT_EQ(why_not_measurable(points[0]), "");
  const std::vector<MeasuredPoint> refused(points.begin() + 1, points.end());
  options_.program = "/nowhere";  // nothing is started
  const auto told = measure(refused);
  ASSERT_EQ(told.size(), refused.size());
  for (const auto& [n, point] : told) {
    EXPECT_THAT(point.failed, HasSubstr("a mask from a file or by rule")) << n;
    EXPECT_FALSE(point.gpu) << n;
  }
}

}  // namespace
}  // namespace flashscope
