// flashscope diagnose: NaN rows, the first NaN, why a cell is what it is, and the mask report.
#include "tests/app/command_line.h"

namespace flashscope {
namespace {

TEST_F(CommandLine, DiagnoseSaysWhyAndReportsTheMask) {
  const std::string problem = "--random 1 --n 300 --d 16 --br 64 --bc 100 --causal --order reverse --guard none ";
  const json object = run_json("diagnose " + problem + "--why 'O[0,71,3];m[0,5]'", 3);
  const json& why = object["why"];
  ASSERT_EQ(why.size(), 2u);
  EXPECT_EQ(
      why[0]["chain"],
      "O[71, 3] <- l[71] <- P[71, :] <- S - m = (-inf) - (-inf) <- tile (1, 1) has no visible key for this row <- "
      "causal top-left: k 100..199 > q 71");
  EXPECT_EQ(why[0]["cause"], "inf_minus_inf");
  EXPECT_EQ(why[0]["origin"], "masked_tile");
  EXPECT_NE(why[0]["conclusion"].get<std::string>().find("a tile of which the row sees no key"), std::string::npos);
  EXPECT_EQ(why[0]["value"], "nan");
  EXPECT_EQ(why[0]["links"][2]["step"], object["first_nan"]["step"]);  // the tile of the first NaN
  EXPECT_EQ(why[1]["links"].back()["of"], "S");
  EXPECT_TRUE(why[1]["cause"].is_null());
  EXPECT_EQ(object["first_nan"]["why"]["cause"], object["first_nan"]["cause"]);
  EXPECT_EQ(object["mask"]["visible_keys"][0]["min"], 1);
  EXPECT_EQ(object["mask"]["visible_keys"][0]["runs"], json::parse("[[0, 299, 1, 300]]"));
  EXPECT_EQ(object["mask"]["visible_keys"][0]["one_key_row_ranges"], json::parse("[[0, 0]]"));
  EXPECT_EQ(object["mask"]["visible_keys"][0]["median"], 150.5);
  EXPECT_EQ(object["mask"]["tiles"]["visited"], 11);
  EXPECT_EQ(object["other_conventions"][0]["option"], "--causal bottom-right");
  expect_refused("diagnose --why 'O[0,300,3]' " + problem, "row 300");
  expect_refused("diagnose --why nonsense " + problem, "O[head,row,column]");
}

TEST_F(CommandLine, AQuestionUnderHeadIsOfThatHead) {
  const std::string problem = "diagnose --random 1 --n 40 --d 8 --heads 3";
  const auto answers = [&](const std::string& words) {
    std::vector<std::string> found;
    const json object = run_json(problem + words);
    for (const json& one : object["why"])
      found.push_back(one["chain"].get<std::string>() + " of head " + one["links"][0]["head"].dump() + ": " +
                      one["value"].dump());
    return found;
  };
  const std::vector<std::string> all = answers(" --why 'O[2,7,1];l[2,7]'");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THAT(all[0], HasSubstr("O[7, 1] <- P[7, 22] <- S[7, 22] of head 2"));
  EXPECT_EQ(answers(" --head 2 --why 'O[2,7,1];l[2,7]'"), all);
  EXPECT_EQ(answers(" --head 2 --why 'O[7,1];l[7]'"), all);  // there is only one
  expect_refused(problem + " --head 2 --why 'O[0,7,1]'", "\"O[0,7,1]\", of head 0, expected head 2, the only one");
  expect_refused(problem + " --why 'O[7,1]'", "O[head,row,column]");  // which of three?
  EXPECT_EQ(run_json("diagnose --random 1 --n 40 --d 8 --why 'l[7]'")["why"].size(), 1u);
}

// For people: the head in each place where there are several, and NaN spelled so; JSON keeps its strings.
TEST_F(CommandLine, DiagnoseSpellsPlacesAndNaNOneWay) {
  const std::string problem =
      "diagnose --random 1 --n 60 --d 8 --heads 3 --br 16 --bc 20 --causal --order reverse --guard none ";
  const std::string lines = run(problem + "--why 'O[2,17,3]'").out;
  EXPECT_THAT(lines, HasSubstr("why O[2, 17, 3] is NaN:"));
  EXPECT_THAT(lines, HasSubstr("<- l[2, 17] "));
  EXPECT_THAT(lines, testing::Not(testing::ContainsRegex("[^_a-z]nan[^_a-z]")));
  const std::string one = run(problem + "--head 2 --why 'O[17,3]'").out;
  EXPECT_THAT(one, HasSubstr("why O[17, 3] of head 2 is NaN:"));
  const json object = run_json(problem + "--why 'O[2,17,3]'", 3);
  EXPECT_EQ(object["why"][0]["value"], "nan");
  EXPECT_EQ(object["why"][0]["links"][0]["place"], "O[17, 3]");
}

TEST_F(CommandLine, MasksByRule) {
  const std::string shape = "--random 3 --n 64 --d 8 --heads 2 --bc 16 --br 16 ";
  const json all = run_json("run " + shape +
                            "--causal --prefix 8 --lengths 40,64 --documents 20,30,14 --alibi published "
                            "--softcap 20");
  EXPECT_TRUE(all["error_vs_float64"]["within"].get<bool>());
  EXPECT_EQ(all["nan_rows"], 0);
  const json report = run_json("diagnose " + shape + "--documents 20,30,14 --skip all");
  EXPECT_EQ(report["mask"]["visible_keys"][0]["min"], 14);
  EXPECT_EQ(report["mask"]["visible_keys"][0]["max"], 30);
  EXPECT_EQ(report["mask"]["visible_keys"][0]["runs"],
            json::parse("[[0, 19, 20, 20], [20, 49, 30, 30], [50, 63, 14, 14]]"));
  // Documents lie in blocks 0-1, 1-3 and 3: the four row blocks meet 2 + 4 + 3 + 3 of them.
  const std::string count = "count --n 64 --d 8 --br 16 --bc 16 --documents 20,30,14";
  EXPECT_EQ(run_json(count + " --skip all")["tiles_visited"], 12);
  EXPECT_EQ(run_json(count)["tiles_visited"], 16);
  expect_refused("run " + shape + "--documents 20,30", "50 keys");
  expect_refused("run " + shape + "--lengths 1,2,3", "3 of them");
  expect_refused("run " + shape + "--softcap 0", "above 0");
}

TEST_F(CommandLine, DiagnoseListsTheStripesOfReverseCausal) {
  const json object = run_json(
      "diagnose --random 1 --n 300 --d 16 --br 64 --bc 100 --algorithm flash1 --causal --order reverse --guard none",
      3);
  EXPECT_EQ(object["nan_rows"], golden()["reverse_causal_nan"]["rows"]);
  EXPECT_EQ(object["nan_row_ranges"], json::parse("[[64, 99], [192, 199]]"));
  EXPECT_EQ(object["empty_row_ranges"], json::array());
  EXPECT_EQ(object["first_nan"]["cause"], "inf_minus_inf");
  EXPECT_EQ(object["first_nan"]["stage"], "exponentials");
  EXPECT_EQ(object["empty_rows"], json::array());
  EXPECT_TRUE(object["against"].is_null());

  const std::string same = "diagnose --random 1 --n 300 --d 16 --br 64 --bc 100 --causal --order reverse ";
  EXPECT_EQ(run_json(same + "--guard none --skip none", 3)["nan_rows"].size(), 200u);
  for (const char* guard : {"clamp", "skip"}) {
    const json guarded = run_json(same + "--guard " + guard);
    EXPECT_EQ(guarded["nan_rows"], json::array());
    EXPECT_TRUE(guarded["first_nan"].is_null());
  }
}

TEST_F(CommandLine, DiagnoseSeveralHeads) {
  const json object = run_json("diagnose --random 1 --heads 2 --n 10 --nk 6 --d 4 --causal bottom-right");
  EXPECT_EQ(object["nan_rows"], json::parse("[[], []]"));
  EXPECT_EQ(object["empty_rows"], json::parse("[[0, 1, 2, 3], [0, 1, 2, 3]]"));
  EXPECT_EQ(object["empty_row_ranges"], json::parse("[[[0, 3]], [[0, 3]]]"));
  const json one = run_json("diagnose --random 1 --heads 2 --head 1 --n 10 --nk 6 --d 4 --causal bottom-right");
  EXPECT_EQ(one["empty_rows"], json::parse("[0, 1, 2, 3]"));
}

}  // namespace
}  // namespace flashscope
