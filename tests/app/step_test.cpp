// flashscope step, history and row: states, what is run to, one row over all tiles.
#include "tests/app/command_line.h"

namespace flashscope {
namespace {

TEST_F(CommandLine, StepShowsOneState) {
  const json start = run_json("step --random 1 --n 300 --d 16 --causal --at 0");
  EXPECT_EQ(start["step"], 0);
  EXPECT_TRUE(start["stage"].is_null());
  const json state = run_json("step --random 1 --n 300 --d 16 --causal --at 5");
  EXPECT_EQ(state["stage"], "max");  // load_q load_k scores mask max
  EXPECT_EQ(state["i"], 0);
  EXPECT_EQ(state["j"], 0);
  EXPECT_EQ(state["head"], 0);
  ASSERT_EQ(state["rows"].size(), 64u);
  EXPECT_EQ(state["rows"][7]["row"], 7);
  EXPECT_TRUE(state["rows"][7]["m"].is_number());
  EXPECT_EQ(state["events"].size(), 64u);
  EXPECT_EQ(state["events"][0]["kind"], "first_max");
}

TEST_F(CommandLine, StepUntilAnEvent) {
  const std::string reverse = "--random 1 --n 300 --d 16 --br 64 --bc 100 --causal --order reverse --guard none";
  const json nan = run_json("step --until nan " + reverse);
  const json first = run_json("diagnose " + reverse, 3)["first_nan"];
  EXPECT_EQ(nan["step"], first["step"]);
  EXPECT_EQ(nan["i"], first["i"]);
  EXPECT_EQ(nan["stage"], first["stage"]);
  bool listed = false;
  for (const json& event : nan["events"]) listed = listed || (event["kind"] == "nan" && event["row"] == first["row"]);
  EXPECT_TRUE(listed);

  const json rescale = run_json("step --until rescale --random 1 --n 300 --d 16");
  EXPECT_EQ(rescale["j"], 1);
  const json later = run_json("step --until rescale --random 1 --n 300 --d 16 --at " + rescale["step"].dump());
  EXPECT_GT(later["step"], rescale["step"]);

  const json nothing = run_json("step --until inf --random 1 --n 300 --d 16");
  EXPECT_TRUE(nothing["step"].is_null());
  EXPECT_TRUE(run_json("step --until nan --random 1 --n 64 --d 16")["step"].is_null());
}

TEST_F(CommandLine, StepUntilAPlaceOrAConditionForwardAndBack) {
  const std::string problem = " --random 1 --n 300 --d 16 --causal";
  const json first = run_json("step --until \"alpha < 0.5 and row > 200\"" + problem);
  ASSERT_TRUE(first["step"].is_number());
  EXPECT_EQ(first["stage"], "rescale");
  const std::int64_t row = first["found_row"];
  EXPECT_GT(row, 200);
  const auto line =
      std::find_if(first["rows"].begin(), first["rows"].end(), [&](const json& r) { return r["row"] == row; });
  ASSERT_NE(line, first["rows"].end());
  EXPECT_LT((*line)["alpha"].get<double>(), 0.5);
  const json second = run_json("step --until \"alpha < 0.5 and row > 200\" --from " + first["step"].dump() + problem);
  ASSERT_TRUE(second["step"].is_number());
  EXPECT_EQ(run_json("step --until \"alpha < 0.5 and row > 200\" --back --from " + second["step"].dump() + problem),
            first);
  EXPECT_EQ(run_json("step --until row:250" + problem)["stage"], "load_q");
  EXPECT_EQ(run_json("step --until tile:3,2,accumulate" + problem)["j"], 2);
  EXPECT_EQ(run_json("step --until partial" + problem)["stage"], "mask");
  EXPECT_EQ(run_json("step --until max --back" + problem)["i"], 4);
  EXPECT_LE(run_json("step --until rescale:2" + problem)["step"], first["step"]);
}

TEST_F(CommandLine, AConditionThatMeansNothingIsRefusedWithItsPlace) {
  const auto refused = run("step --random 1 --n 64 --d 16 --until \"alpha < 0.5 and rw > 2\"");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, testing::HasSubstr("--until, character 17: found \"rw\", expected one of m, l, alpha"));
  EXPECT_EQ(run("step --random 1 --n 64 --d 16 --at 3 --back").code, 2);
}

TEST_F(CommandLine, HistoryOfARowAsTableJsonAndCsv) {
  const std::string problem = " --random 1 --n 300 --d 16 --causal --br 64 --bc 50 --row 170";
  const json history = run_json("history --channel 3 --csv row.csv" + problem);
  ASSERT_EQ(history["tiles"].size(), 6u);
  EXPECT_EQ(history["tiles"][0]["m"]["before"], "-inf");
  EXPECT_EQ(history["tiles"][5]["visited"], false);
  for (std::size_t n = 1; n < 6; ++n) {
    for (const char* name : {"m", "l", "o", "o_norm"})
      EXPECT_EQ(history["tiles"][n][name]["before"], history["tiles"][n - 1][name]["after"]) << name;
  }
  const std::string step = history["tiles"][2]["step"].dump();
  const json state = run_json("step --random 1 --n 300 --d 16 --causal --br 64 --bc 50 --at " + step);
  EXPECT_EQ(state["rows"][170 - 128]["m"], history["tiles"][2]["m"]["after"]);
  EXPECT_EQ(state["rows"][170 - 128]["l"], history["tiles"][2]["l"]["after"]);
  std::ifstream csv(folder_ / "row.csv");
  std::string heading, line;
  std::getline(csv, heading);
  EXPECT_EQ(heading, "j,visited,step,tile_max,m_before,m,l_before,l,alpha,rescaled,o_norm_before,o_norm,o3_before,o3");
  int lines = 0;
  while (std::getline(csv, line)) ++lines;
  EXPECT_EQ(lines, 6);
  EXPECT_THAT(run("history" + problem).out, testing::HasSubstr("not visited"));
  EXPECT_EQ(run("history --row 300 --random 1 --n 300 --d 16").code, 2);
}

TEST_F(CommandLine, InfinitiesAreStrings) {
  const json state = run_json("step --random 1 --n 300 --d 16 --br 64 --bc 100 --causal --order reverse --at 16");
  EXPECT_EQ(state["stage"], "max");  // of the first tile of row block 1: rows 64-99 see none of its keys
  bool minus_inf = false;
  for (const json& row : state["rows"]) minus_inf = minus_inf || row["m"] == "-inf";
  EXPECT_TRUE(minus_inf);
}

TEST_F(CommandLine, JsonHasARowALine) {
  const std::string out = run("step --random 1 --n 8 --d 4 --at 5 --json").out;
  EXPECT_THAT(out, testing::ContainsRegex("\n    \\{\"row\": 0, \"m\": [-0-9.e]+, \"l\": 0.0, \"alpha\": null\\},\n"));
  EXPECT_THAT(run("diagnose --random 1 --n 5 --nk 2 --d 4 --causal bottom-right --json").out,
              HasSubstr("\"empty_rows\": [0, 1, 2],"));
}

TEST_F(CommandLine, RowOfTheDocuments) {
  const json figure = golden()["online_softmax_row"];
  const json twelve = run_json("row");
  ASSERT_EQ(twelve["chunks"].size(), 3u);
  for (int n = 0; n < 3; ++n) {
    EXPECT_NEAR(twelve["chunks"][n]["l"].get<double>(), figure["trace"][n]["l"].get<double>(), 1e-15);
  }
  EXPECT_NEAR(twelve["max_error_without_rescale"].get<double>(), figure["max_error_without_rescale"].get<double>(),
              1e-15);
  EXPECT_NEAR(run_json("row --built-in toy")["output"].get<double>(), 50.0 / 3, 1e-14);
}

TEST_F(CommandLine, RowOfOnesOwn) {
  const json row = run_json("row --scores '[-inf, 1; 2 3]' --values '1 2 3 4' --chunk 2");
  ASSERT_EQ(row["chunks"].size(), 2u);
  EXPECT_EQ(row["chunks"][0]["scores"][0], "-inf");
  EXPECT_EQ(row["chunks"][1]["m"], 3.0);
  EXPECT_TRUE(row["output"].is_number());
  EXPECT_EQ(run_json("row --scores -inf,0")["weights"], json::parse("[0.0, 1.0]"));
}

}  // namespace
}  // namespace flashscope
