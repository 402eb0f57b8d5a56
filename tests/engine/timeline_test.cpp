#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/attention/gpu_figures.h"

namespace flashscope {
namespace {

TEST(Timeline, chrome_trace_has_a_row_for_every_sm_and_the_tile_of_every_span) {
  Timeline timeline;
  timeline.sms = 3, timeline.tick_ns = 32, timeline.lost = 7;
  timeline.spans = {{0, 5, 1, 2, 3, 0, 1504}, {2, 6, 0, 4, -1, 1000, 2032}};
  EXPECT_EQ(timeline.duration(), 2032);
  const nlohmann::json trace = nlohmann::json::parse(chrome_trace(timeline, "a \"GPU\"", "flash2, \"N\" 8"));
  EXPECT_EQ(trace["otherData"]["lost_spans"], 7);
  EXPECT_EQ(trace["otherData"]["run"], "flash2, \"N\" 8");
  const nlohmann::json& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 1 + 3 + 2u);
  EXPECT_EQ(events[0]["args"]["name"], "a \"GPU\"");
  EXPECT_EQ(events[2]["args"]["name"], "SM 1");  // idle, and shown
  EXPECT_EQ(events[2]["tid"], 1);
  const nlohmann::json& first = events[4];
  EXPECT_EQ(first["ph"], "X");
  EXPECT_EQ(first["tid"], 0);
  EXPECT_DOUBLE_EQ(first["ts"], 0);
  EXPECT_DOUBLE_EQ(first["dur"], 1.504);
  EXPECT_EQ(first["args"], (nlohmann::json{{"head", 1}, {"i", 2}, {"j", 3}, {"block", 5}}));
  EXPECT_EQ(events[5]["name"], "(4, -)");
}

}  // namespace
}  // namespace flashscope
