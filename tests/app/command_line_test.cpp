// The real binary, driven as people drive it: JSON on standard output, messages on standard error, exit codes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "engine/files/session_file.h"
#include "engine/files/tensor_file.h"
#include "tests/app/command_line.h"

namespace flashscope {
namespace {

// ---- count

TEST_F(CommandLine, CountOfTheFirstPapersBlocks) {
  const json object = run_json("count --algorithm flash1 --n 4096 --d 64 --sram 50000");
  EXPECT_EQ(object["elements"]["total"], 17383424);
  EXPECT_EQ(object["formula"]["total"], 17383424);
  EXPECT_EQ(object["tiles_visited"], 1344);
  EXPECT_EQ(object["matmul_flops"], 4294967296);
  EXPECT_EQ(object["recipe"]["br"], 64);
  EXPECT_EQ(object["recipe"]["bc"], 196);
  EXPECT_EQ(object["init"]["total"], 4096 * 66);
  EXPECT_EQ(object["minimum"]["total"], 4 * 4096 * 64);
  EXPECT_EQ(object["sram_bytes"]["total"], object["sram_bytes"]["qkv"].get<int>() +
                                               object["sram_bytes"]["state"].get<int>() +
                                               object["sram_bytes"]["scores"].get<int>());
  std::int64_t sum = 0;
  for (const auto& [name, moved] : object["elements"]["by_tensor"].items()) {
    sum += moved["read"].get<std::int64_t>() + moved["written"].get<std::int64_t>();
  }
  EXPECT_EQ(sum, 17383424);
}

TEST_F(CommandLine, CountsOfTheDocuments) {
  const json rows = golden()["traffic"];
  ASSERT_EQ(rows.size(), 14u);
  for (const json& row : rows) {
    if (row["N"] > 1024) continue;
    for (const char* algorithm : {"standard", "flash1", "flash2"}) {
      const json object = run_json(std::string("count --sram 50000 --algorithm ") + algorithm + " --n " +
                                   row["N"].dump() + " --d " + row["d"].dump() + (row["causal"] ? " --causal" : ""));
      EXPECT_EQ(object["elements"]["total"], row[std::string(algorithm) + "_elements"]) << row;
      EXPECT_EQ(object["formula"], (json{{"read", object["elements"]["read"]},
                                         {"written", object["elements"]["written"]},
                                         {"total", object["elements"]["total"]}}));
    }
  }
}

TEST_F(CommandLine, CountOfAMillionRows) {
  const auto start = std::chrono::steady_clock::now();
  const json object =
      run_json("count --n 1048576 --d 64 --causal --br 128 --bc 64 --dtype float16 --heads 4 --kv-heads 2");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));  // finite; the benchmark has the figure
  EXPECT_EQ(object["elements"]["total"], object["formula"]["total"]);
  EXPECT_EQ(object["tiles_visited"], std::int64_t{4} * (8192LL * 8193));
}

TEST_F(CommandLine, CountWithoutAClosedFormSaysWhy) {
  write_npy(
      folder_ / "bias.npy",
      {"", ElementType::float32, {1, 8}, std::vector<double>{0, 0, 0, 0, -INFINITY, -INFINITY, -INFINITY, -INFINITY}});
  const json all = run_json("count --n 8 --d 4 --br 4 --bc 4 --bias bias.npy --skip all");
  EXPECT_TRUE(all["formula"].is_null());
  EXPECT_THAT(all["reason"].get<std::string>(), HasSubstr("no closed form"));
  EXPECT_EQ(all["tiles_visited"], 2);
  const json geometry = run_json("count --n 8 --d 4 --br 4 --bc 4 --bias bias.npy");
  EXPECT_EQ(geometry["tiles_visited"], 4);
  EXPECT_EQ(geometry["formula"]["total"], geometry["elements"]["total"]);
  EXPECT_EQ(geometry["elements"]["by_tensor"]["bias"]["read"], 4 * 4);  // a row of 4 for each of 4 tiles
}

TEST_F(CommandLine, TextLabelsItsNumbers) {
  const Result result = run("count --algorithm flash1 --n 4096 --d 64 --sram 50000");
  EXPECT_EQ(result.code, 0);
  for (const char* part : {"17,383,424", "counted", "formula", "source units", "kernel units", "guard clamp"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
}

// ---- diagnose

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
  EXPECT_EQ(why[0]["value"], "nan");
  EXPECT_EQ(why[0]["links"][2]["step"], object["first_nan"]["step"]);  // the tile of the first NaN
  EXPECT_EQ(why[1]["links"].back()["of"], "S");
  EXPECT_TRUE(why[1]["cause"].is_null());
  EXPECT_EQ(object["first_nan"]["why"]["cause"], object["first_nan"]["cause"]);
  EXPECT_EQ(object["mask"]["visible_keys"][0]["min"], 1);
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
  const json one = run_json("diagnose --random 1 --heads 2 --head 1 --n 10 --nk 6 --d 4 --causal bottom-right");
  EXPECT_EQ(one["empty_rows"], json::parse("[0, 1, 2, 3]"));
}

// ---- run

TEST_F(CommandLine, RunChecksAgainstFloat64) {
  const json object = run_json("run --random 1 --n 300 --d 16 --heads 4 --kv-heads 2 --causal --check all --out o.npz");
  EXPECT_EQ(object["nan_rows"], 0);
  EXPECT_EQ(object["error_vs_float64"]["rows_checked"], 1200);
  EXPECT_EQ(object["error_vs_float64"]["rows"], 1200);
  EXPECT_LE(object["error_vs_float64"]["max"].get<double>(), 1e-5);
  EXPECT_TRUE(object["traffic"]["measured"].is_null());
  EXPECT_TRUE(object["traffic"]["reason"].is_string());
  const json counted = run_json("count --n 300 --d 16 --heads 4 --kv-heads 2 --causal");
  EXPECT_EQ(object["traffic"]["counted"]["elements"], counted["elements"]);
  EXPECT_GT(object["memory"]["peak_bytes"].get<std::int64_t>(), 0);

  const TensorFile file = TensorFile::open(folder_ / "o.npz");
  ASSERT_NE(file.find("o"), nullptr);
  ASSERT_NE(file.find("lse"), nullptr);
  EXPECT_EQ(file.find("o")->shape, (std::vector<std::int64_t>{4, 300, 16}));
  EXPECT_EQ(file.find("lse")->shape, (std::vector<std::int64_t>{4, 300}));
  EXPECT_EQ(file.find("o")->type, ElementType::float32);
  double sum = 0;
  const Array o = file.read("o");
  for (std::int64_t n = 0; n < o.info.elements(); ++n) sum += o.at(n);
  EXPECT_NEAR(sum, object["o_checksum"]["sum"].get<double>(), 1e-6);
}

TEST_F(CommandLine, RunComparesWithTheFilesOwnAnswer) {
  const json object = run_json("run --causal --input '" + source_path("assets/codelm_layer1.npz") + "'");
  EXPECT_LE(object["o_in_file"]["max"].get<double>(), 1e-5);
  EXPECT_LE(object["lse_in_file"]["max"].get<double>(), 1e-5);
  EXPECT_EQ(object["o_in_file"]["mismatches"], 0);
  const json uncausal = run_json("run --input '" + source_path("assets/codelm_layer1.npz") + "'");
  EXPECT_GT(uncausal["o_in_file"]["max"].get<double>(), 0.1);
}

TEST_F(CommandLine, RunOfOneHeadIsThatHead) {
  const json all = run_json("run --random 5 --n 40 --d 8 --heads 2 --out all.npz");
  run_json("run --random 5 --n 40 --d 8 --heads 2 --head 1 --out one.npz");
  const Array every = TensorFile::open(folder_ / "all.npz").read("o");
  const Array one = TensorFile::open(folder_ / "one.npz").read("o");
  ASSERT_EQ(one.info.elements(), 40 * 8);
  for (std::int64_t n = 0; n < one.info.elements(); ++n) ASSERT_EQ(one.at(n), every.at(40 * 8 + n));
}

TEST_F(CommandLine, RunReportsMismatchAndNan) {
  const json defect = run_json("run --random 1 --n 300 --d 16 --defect no-rescale", 3);
  EXPECT_FALSE(defect["error_vs_float64"]["within"].get<bool>());
  const json nan = run_json("run --random 1 --n 300 --d 16 --bc 100 --causal --order reverse --guard none", 3);
  EXPECT_EQ(nan["nan_rows"], 44);
  // The other rows are right: NaN rows are not an error of 1e-7.
  const json& error = nan["error_vs_float64"];
  EXPECT_EQ(error["nan_mismatch"], 44);
  EXPECT_LE(error["max"].get<double>(), error["tolerance"].get<double>());
  EXPECT_TRUE(error["max_within"].get<bool>());
  EXPECT_FALSE(error["within"].get<bool>());
  EXPECT_FALSE(defect["error_vs_float64"]["max_within"].get<bool>());
  const std::string lines = run("run --random 1 --n 300 --d 16 --bc 100 --causal --order reverse --guard none").out;
  EXPECT_THAT(lines, HasSubstr("in the rows that are not NaN, tolerance"));
  EXPECT_THAT(lines, testing::ContainsRegex("WRONGLY NaN +44 +of the checked rows"));
  EXPECT_THAT(lines, testing::Not(HasSubstr("EXCEEDED")));
  const json hidden = run_json("run --random 1 --n 300 --d 16 --bc 300 --defect no-rescale");
  EXPECT_THAT(hidden["defect_cannot_show"].get<std::string>(), HasSubstr("one tile"));
}

TEST_F(CommandLine, CheckNoneChecksNothing) {
  EXPECT_TRUE(run_json("run --random 1 --n 64 --d 16 --check none")["error_vs_float64"].is_null());
  const int checked = run_json("run --random 1 --n 640 --d 16 --check 8")["error_vs_float64"]["rows_checked"];
  EXPECT_GE(checked, 2);  // first and last
  EXPECT_LE(checked, 8);
}

TEST_F(CommandLine, EveryInstructionSetGivesTheAnswer) {
  const json devices = run_json("devices");
  ASSERT_FALSE(devices["cpu"]["isas"].empty());
  EXPECT_EQ(devices["cpu"]["isa"], devices["cpu"]["isas"][0]);
  // A GPU that can be used, or one line for each piece that is missing.
  ASSERT_TRUE(devices["gpu_usable"].is_boolean());
  EXPECT_EQ(devices["gpu_usable"].get<bool>(), devices["missing"].empty() && !devices["gpus"].empty());
  for (const json& isa : devices["cpu"]["isas"]) {
    const json object = run_json("run --random 1 --n 130 --d 16 --causal --isa " + isa.get<std::string>());
    EXPECT_THAT(object["kernel"].get<std::string>(), HasSubstr(isa.get<std::string>()));
  }
}

// CI's own state: no device that can be used.
TEST_F(CommandLine, WithoutAGpuItSaysWhyAndWhatToDo) {
  const json devices = run("devices --json").parsed();
  EXPECT_EQ(devices["gpus"], json::array());
  EXPECT_FALSE(devices["gpu_usable"].get<bool>());
  ASSERT_FALSE(devices["missing"].empty());
  const std::string why = devices["missing"][0];
  EXPECT_THAT(run("devices").out, HasSubstr(why));
  EXPECT_THAT(why, testing::ContainsRegex("install|check nvidia-smi"));

  const std::string problem = " --random 1 --n 40 --d 8";
  for (const char* wanted : {"--device cuda", "--measure", "--kernel simple", "--timeline t.json"}) {
    SCOPED_TRACE(wanted);
    const Result result = run("run " + std::string(wanted) + problem);
    EXPECT_EQ(result.code, 4);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "flashscope run: " + why + "\n");
  }
  const Result automatic = run("run --json" + problem);
  EXPECT_EQ(automatic.code, 0);
  EXPECT_EQ(automatic.err, "flashscope run: on the CPU: " + why + "\n");
  EXPECT_THAT(automatic.parsed()["device"].get<std::string>(), testing::StartsWith("CPU"));
  EXPECT_EQ(run("run --device cpu --json" + problem).err, "");
}

TEST_F(CommandLine, RunShowsEverySourceOfTraffic) {
  const json object = run_json("run --device cpu --random 1 --n 256 --d 16 --heads 2 --algorithm flash1 --bc 32");
  const json& traffic = object["traffic"];
  EXPECT_EQ(traffic["formula"]["bytes"]["total"], traffic["counted"]["bytes"]["total"]);
  std::vector<std::string> sources;
  for (const json& line : traffic["sources"]) {
    sources.push_back(line["origin"].get<std::string>() + " " + line["source"].get<std::string>());
    EXPECT_EQ(line["bytes"].is_null(), line.contains("reason")) << line;
  }
  EXPECT_EQ(sources, (std::vector<std::string>{"formula closed form", "counted ledger", "counted kernel",
                                               "measured L2 - SM", "measured DRAM"}));
  EXPECT_EQ(traffic["sources"][1]["difference"]["read"]["bytes"], 0);
  const Result text = run("run --device cpu --random 1 --n 256 --d 16");
  for (const char* part : {"closed form", "formula", "counted", "L2 - SM, measured: missing", "thread blocks"})
    EXPECT_THAT(text.out, HasSubstr(part));
}

// H blocks for flash1 against H x Tr for flash2, beside the SMs of a GPU's sheet.
TEST_F(CommandLine, BlocksStandBesideTheSms) {
  const std::string shape = " --n 4096 --d 64 --heads 16 --br 128 --bc 64 --dtype bfloat16 --device-sheet H200";
  const json one = run_json("count --algorithm flash1" + shape)["thread_blocks"];
  EXPECT_EQ(one["launched"], 16);
  EXPECT_EQ(one["sms"], 132);
  EXPECT_EQ(one["idle_sms"], 116);
  EXPECT_EQ(one["source"], "sheet: H200");
  const json two = run_json("count --algorithm flash2" + shape)["thread_blocks"];
  EXPECT_EQ(two["launched"], 16 * 32);
  EXPECT_EQ(two["idle_sms"], 0);
  EXPECT_THAT(run("count --algorithm flash1" + shape).out,
              HasSubstr("16 thread blocks on a GPU, one a head: K, V outside; 132 SMs (sheet: H200), 116 idle"));
  const std::string small = "run --device cpu --random 1 --n 256 --d 16 --heads 2 --br 100";
  EXPECT_THAT(run("count --n 8 --d 8").out, HasSubstr(" thread block on a GPU"));
  EXPECT_EQ(run_json(small)["thread_blocks"]["launched"], 2 * 3);
  EXPECT_TRUE(run_json(small)["thread_blocks"]["sms"].is_null());
  EXPECT_EQ(run_json(small + " --device-sheet h200")["thread_blocks"]["idle_sms"], 126);
  EXPECT_THAT(run(small + " --device-sheet h200").out, HasSubstr("126 idle"));
  expect_refused("count --n 8 --d 4 --device-sheet abacus", "abacus");
}

// What the options do not say is the session's.
TEST_F(CommandLine, ASessionsRecipeIsTheDefault) {
  run_json(
      "run --device cpu --random 5 --n 70 --d 8 --algorithm flash1 --br 7 --bc 9 --guard none --mask-apply add "
      "--save s.fscope");
  const json same = run_json("run --device cpu --input s.fscope")["recipe"];
  EXPECT_EQ(same["algorithm"], "flash1");
  EXPECT_EQ(same["br"], 7);
  EXPECT_EQ(same["mask_apply"], "add");
  const json other = run_json("run --device cpu --input s.fscope --bc 64 --guard clamp --mask-apply select")["recipe"];
  EXPECT_EQ(other["algorithm"], "flash1");
  EXPECT_EQ(other["br"], 7);
  EXPECT_EQ(other["bc"], 64);  // given, though it is the default
  EXPECT_EQ(other["guard"], "clamp");
  EXPECT_EQ(other["mask_apply"], "select");
  EXPECT_EQ(run_json("step --input s.fscope --at 1")["stage"], "load_kv");  // of flash1
  run_json("run --device cpu --input s.fscope --sram 400 --save sram.fscope");
  const json budget = run_json("run --device cpu --input sram.fscope")["recipe"];
  EXPECT_EQ(budget["sram"], 400);
  const json sizes = run_json("run --device cpu --input sram.fscope --br 5")["recipe"];
  EXPECT_TRUE(sizes["sram"].is_null());
  EXPECT_EQ(sizes["br"], 5);
  EXPECT_EQ(sizes["bc"], budget["bc"]);
}

TEST_F(CommandLine, ASessionIsSavedAndIsAProblem) {
  const json first = run_json(
      "run --device cpu --random 5 --n 70 --d 8 --heads 4 --kv-heads 2 --causal --scale 0.5 "
      "--dtype float16 --bc 32 --save s.fscope");
  const json again = run_json("run --device cpu --input s.fscope --bc 32 --save s.fscope");
  for (const char* key : {"problem", "shape", "conventions", "o_checksum", "error_vs_float64", "traffic"})
    EXPECT_EQ(again[key], first[key]) << key;
  const SessionFile session = read_session(folder_ / "s.fscope");
  ASSERT_EQ(session.reports.size(), 2u);  // the first and the second
  EXPECT_EQ(session.reports[0].report->O, session.reports[1].report->O);
  EXPECT_EQ(session.recipe.Bc, 32);
  EXPECT_EQ(session.problem->name, "random 5");
  EXPECT_EQ(session.reports[0].version, run("--version").out.substr(11, session.reports[0].version.size()));
  EXPECT_THAT(session.reports[0].date, testing::MatchesRegex("....-..-..T..:..:..Z"));
  // Every command that takes a problem takes a session.
  EXPECT_EQ(run_json("diagnose --input s.fscope")["nan_rows"].size(), 4u);
  EXPECT_EQ(run_json("step --input s.fscope --head 3 --at 5")["stage"], "max");
  EXPECT_EQ(run_json("run --device cpu --input s.fscope --head 1")["shape"]["heads"], 1);
  expect_refused("run --device cpu --input s.fscope --n 5", "--n");
}

// ---- step

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

TEST_F(CommandLine, RenderRefusesASecondRecipeThatMeansNothing) {
  const std::string problem = "render --random 1 --n 64 --d 16 --at 5 --no-scan --out p.png --beside ";
  for (const char* words : {"guard", "guard=maybe", "bc=0", "colour=red"}) EXPECT_EQ(run(problem + words).code, 2);
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
  EXPECT_THAT(run("diagnose --random 1 --n 4 --d 4 --causal --json").out, HasSubstr("\"per_row\": [1, 2, 3, 4]"));
}

// ---- row

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

// ---- what is refused

TEST_F(CommandLine, BadInputExitsTwoWithOneMessage) {
  expect_refused("count", "--n N and --d D are needed");
  expect_refused("count --n 0 --d 4", "--n: found \"0\", expected a whole number from 1");
  expect_refused("count --n 4x --d 4", "--n: found \"4x\"");
  expect_refused("count --n 010x --d 4", "--n");
  expect_refused("count --n 99999999999999999999 --d 4", "--n: found");
  expect_refused("count --n -5 --d 4", "--n: found \"-5\"");
  expect_refused("count --n 8 --d 300", "--d: found \"300\", expected a whole number from 1 to 256");
  expect_refused("count --n 8 --d 4 --heads 4 --kv-heads 3", "3");
  expect_refused("count --n 8 --d 4 --br 0", "--br");
  expect_refused("count --n 8 --d 4 --sram 100 --br 4", "--sram");
  expect_refused("count --n 8 --d 4 --causal sideways", "top-left or bottom-right");
  expect_refused("count --n 8 --d 4 --window 3", "--window: found \"3\"");
  expect_refused("count --n 8 --d 4 --window -1,3", "--window: found \"-1\"");
  expect_refused("count --n 8 --d 4 --algorithm flash9", "one of standard|flash1|flash2");
  expect_refused("count --n 8 --d 4 --dtype int8", "float64|float32|float16|bfloat16");
  expect_refused("count --n 8 --d 4 --mask nowhere.npy", "nowhere.npy");
  expect_refused("count --n 8 --d 4 --n 9", "--n");
  expect_refused("count --n 1000000000000 --d 64", "counts below 2^63");
  expect_refused("count --n 8 --d 4 --frobnicate", "--frobnicate");
  expect_refused("count --n", "--n");
  expect_refused("run", "a problem is needed");
  expect_refused("run --random 1", "--n N and --d D are needed");
  expect_refused("run --random 1 --n 8 --d 4 --input x.npz", "exclude each other");
  expect_refused("run --input nowhere.npz", "nowhere.npz");
  expect_refused("run --input nowhere.npz --n 4", "--n");
  expect_refused("run --q q.npy", "--q, --k and --v go together");
  expect_refused("run --random 1 --n 8 --d 4 --head 1", "--head: found 1, expected 0 to 0");
  expect_refused("run --random 1 --n 8 --d 4 --scale nan", "--scale");
  expect_refused("run --random 1 --n 8 --d 4 --check some", "--check");
  expect_refused("run --random 1 --n 8 --d 4 --layout nhd", "--layout");
  expect_refused("run --random 1 --n 100000000 --d 64", "--memory");
  expect_refused("run --random 1 --n 8 --d 4 --isa ABACUS", "ABACUS");
  expect_refused("run --random 1 --n 8 --d 4 --defect no-final-divide --normalise each", "normalise end");
  expect_refused("run --random 1 --n 8 --d 4 --device cpu --out /nowhere/o.npz", "/nowhere/o.npz");
  expect_refused("run --random 1 --n 8 --d 4 --device cpu --save /nowhere/s.fscope", "/nowhere/s.fscope");
  expect_refused("run --random 1 --n 8 --d 4 --device tpu", "one of auto|cpu|cuda");
  expect_refused("run --random 1 --n 8 --d 4 --device cpu --measure", "--measure: only on a GPU");
  expect_refused("run --random 1 --n 8 --d 4 --device cpu --kernel mma", "--kernel simple|mma: only on a GPU");
  expect_refused("run --random 1 --n 8 --d 4 --device cpu --timeline t.json", "--timeline: only on a GPU");
  expect_refused("run --random 1 --n 8 --d 4 --measure --no-measure", "exclude each other");
  expect_refused("step --random 1 --n 8 --d 4 --at 1 --kernel simple", "only `flashscope run` starts");
  expect_refused("step --random 1 --n 8 --d 4", "--at K or --until WHAT is needed");
  expect_refused("step --random 1 --n 8 --d 4 --at 1000", "--at: found 1000, expected 0 to 11");
  expect_refused("step --random 1 --n 8 --d 4 --until doom",
                 "found \"doom\", expected nan, inf, rescale:X, max, masked");
  expect_refused("render --random 1 --n 8 --d 4 --out x.png", "--at K is needed");
  expect_refused("render --random 1 --n 8 --d 4 --at 1", "--out FILE.png is needed");
  expect_refused("render --random 1 --n 8 --d 4 --at 12 --out x.png", "--at: found 12, expected 0 to 11");
  expect_refused("render --random 1 --n 8 --d 4 --at 1 --out x.png --size 100", "--size: found \"100\"");
  expect_refused("render --random 1 --n 8 --d 4 --at 1 --out x.png --size 1x100", "--size: found \"1\"");
  expect_refused("render --random 1 --n 8 --d 4 --at 1 --out /nowhere/x.png", "/nowhere/x.png");
  expect_refused("row --scores 1,x", "\"x\" as number 2");
  expect_refused("row --scores 1,2 --values 1", "values");
  expect_refused("row --chunk 0", "--chunk");
  expect_refused("nothing-of-the-sort", "no such file, and no command of that name");
  expect_refused("--frobnicate", "--frobnicate");
}

TEST_F(CommandLine, HelpAndVersion) {
  const Result help = run("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* command : {"count", "run", "step", "diagnose", "render", "row", "devices"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const Result one = run(std::string(command) + " --help");
    EXPECT_EQ(one.code, 0);
    EXPECT_THAT(one.out, HasSubstr("--json"));
    EXPECT_EQ(one.err, "");
  }
  const Result version = run("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, testing::StartsWith("flashscope "));
}

// ---- pictures

std::pair<int, int> png_size(const std::string& png) {
  if (png.size() < 24 || png.substr(1, 3) != "PNG") return {0, 0};
  const auto word = [&](std::size_t at) {
    int value = 0;
    for (std::size_t n = 0; n < 4; ++n) value = value << 8 | static_cast<unsigned char>(png[at + n]);
    return value;
  };
  return {word(16), word(20)};
}

TEST_F(CommandLine, RenderDrawsTwoDifferentStepsAndTheSameOneTwice) {
  const std::string problem = " --random 1 --n 512 --d 64 --causal --size 960x540";
  const json first = run_json("render --at 100 --out a.png" + problem);
  EXPECT_EQ(first["step"], 100);
  EXPECT_EQ(first["width"], 960);
  EXPECT_TRUE(first["renderer"].is_string());
  run_json("render --at 101 --out b.png" + problem);
  run_json("render --at 100 --out again.png" + problem);
  run_json("render --at 100 --theme light --out light.png" + problem);
  const std::string picture = contents(folder_ / "a.png");
  EXPECT_EQ(png_size(picture), std::pair(960, 540));
  EXPECT_EQ(picture, contents(folder_ / "again.png"));
  EXPECT_NE(picture, contents(folder_ / "b.png"));
  EXPECT_NE(picture, contents(folder_ / "light.png"));
}

TEST_F(CommandLine, WithoutADisplayTheDemoIsRenderedAndReported) {
  const Result result = run("");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out.substr(0, result.out.find('\n')), HasSubstr("window"));
  EXPECT_EQ(png_size(contents(folder_ / "flashscope-demo.png")), std::pair(1280, 720));
  EXPECT_THAT(result.out, HasSubstr("rescales 3,734"));
  EXPECT_THAT(result.out, HasSubstr("NaN rows 512 of 1,024"));
  EXPECT_THAT(result.out, HasSubstr("tile (0, 1), row 0"));
  EXPECT_THAT(result.out, HasSubstr("2,494,464 bytes"));
  EXPECT_THAT(result.out, HasSubstr("  5. "));
}

TEST_F(CommandLine, WithoutADisplayAFileIsRenderedToo) {
  const Result result = run("'" + source_path("assets/codelm_layer1.npz") + "'");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(png_size(contents(folder_ / "flashscope-codelm_layer1.png")), std::pair(1280, 720));
}

TEST_F(CommandLine, WithoutADisplayASessionShowsItsReports) {
  for (const char* algorithm : {"flash1", "flash2"})
    run_json(std::string("run --device cpu --save s.fscope --algorithm ") + algorithm +
             (algorithm[5] == '1' ? " --random 1 --n 100 --d 8 --causal" : " --input s.fscope"));
  const Result result = run("s.fscope");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(png_size(contents(folder_ / "flashscope-s.png")), std::pair(1280, 720));
  for (const char* part : {"report 1 of 2", "report 2 of 2", "random 1: flash1", "random 1: flash2", "made 20", "CPU, ",
                           "causal top-left", "L2 - SM, measured: missing"})
    EXPECT_THAT(result.out, HasSubstr(part));
}

// ---- Ctrl+C

TEST_F(CommandLine, CtrlCCancels) {
  const std::string program = program_path();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const int null = ::open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO), dup2(null, STDERR_FILENO);
    execl(program.c_str(), program.c_str(), "run", "--random", "1", "--n", "200000", "--d", "64", "--check", "none",
          nullptr);
    _exit(99);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
}

}  // namespace
}  // namespace flashscope
