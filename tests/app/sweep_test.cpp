// flashscope sweep: every traffic table of the documents, the product of options, and the files it writes.
#include "engine/files/session_file.h"
#include "tests/app/command_line.h"
#include "tests/measured_points.h"

namespace flashscope {
namespace {

class SweepCommand : public CommandLine {
 protected:
  std::vector<json> points(const std::string& arguments) {
    return run_json("sweep " + arguments)["points"].get<std::vector<json>>();
  }
};

TEST_F(SweepCommand, TrafficAgainstTheBudget) {
  const std::vector<json> found =
      points("--n 4096 --d 64 --algorithm flash1 --vary sram=12500,25000,50000,100000,200000");
  const json table = golden()["traffic_vs_M"];
  ASSERT_EQ(found.size(), table.size());
  const std::vector<std::int64_t> documents{67960832, 34242560, 17383424, 9355264, 5341184};
  for (std::size_t n = 0; n < found.size(); ++n) {
    const json& point = found[n];
    EXPECT_EQ(point["elements"]["total"], documents[n]);
    EXPECT_EQ(point["elements"]["total"], table[n]["flash1_elements"]);
    EXPECT_EQ(point["formula"]["total"], table[n]["flash1_elements"]);
    EXPECT_EQ(point["recipe"]["sram"], table[n]["M"]);
    EXPECT_EQ(point["recipe"]["bc"], table[n]["Bc"]);
    // The documents' MiB are those elements at 2 bytes each.
    EXPECT_EQ(point["elements"]["total"].get<double>() * 2 / (1 << 20), table[n]["flash1_MiB"].get<double>());
    EXPECT_EQ(point["vary"]["sram"], std::to_string(table[n]["M"].get<std::int64_t>()));
  }
}

TEST_F(SweepCommand, TrafficAgainstNAlgorithmAndMask) {
  const json table = golden()["traffic"];
  const std::vector<json> found = points(
      "--d 64 --sram 50000 --vary n=300,512,1000,1024,2048,4096,8192 --vary causal=none,top-left "
      "--vary algorithm=standard,flash1,flash2");
  ASSERT_EQ(found.size(), table.size() * 3);
  for (std::size_t n = 0; n < table.size(); ++n) {  // the first --vary is the slowest
    const json& row = table[n];
    for (std::size_t a = 0; a < 3; ++a) {
      const json& point = found[3 * n + a];
      const std::string algorithm = point["recipe"]["algorithm"];
      EXPECT_EQ(point["shape"]["n"], row["N"]);
      EXPECT_EQ(point["elements"]["total"], row[algorithm + "_elements"]) << row;
      EXPECT_EQ(point["formula"]["total"], row[algorithm + "_elements"]) << row;
      if (algorithm == "standard") continue;
      EXPECT_EQ(point["tiles_visited"], row["tiles_visited"]);
      EXPECT_EQ(point["matmul_flops"], row["matmul_flops"]);
    }
  }
}

TEST_F(SweepCommand, BlockSizesOfTheFirstPaper) {
  const json table = golden()["block_sizes"];
  const std::vector<json> found = points("--n 4096 --vary sram=12500:200000:*2 --vary d=64,128");
  ASSERT_EQ(found.size(), table.size());
  for (std::size_t n = 0; n < found.size(); ++n) {
    EXPECT_EQ(found[n]["recipe"]["sram"], table[n]["M"]);
    EXPECT_EQ(found[n]["shape"]["d"], table[n]["d"]);
    EXPECT_EQ(found[n]["recipe"]["br"], table[n]["Br"]);
    EXPECT_EQ(found[n]["recipe"]["bc"], table[n]["Bc"]);
  }
}

TEST_F(SweepCommand, BreakEvenIsBetweenTwoBudgets) {
  const json expected = golden()["break_even_M"];
  const std::int64_t M = expected["M"];
  const std::vector<json> found =
      points("--n 4096 --d 64 --algorithm flash1 --vary sram=" + std::to_string(M - 1) + "," + std::to_string(M));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_GT(found[0]["elements"]["total"], expected["standard"]);
  EXPECT_EQ(found[1]["elements"]["total"], expected["flash1"]);
  EXPECT_LE(found[1]["elements"]["total"], expected["standard"]);
  EXPECT_EQ(found[1]["saving"]["standard"], expected["standard"]);
}

// The documents' table beside what it is compared with: standard attention, the least, and where tiling pays.
TEST_F(SweepCommand, BudgetsStandBesideTheirBounds) {
  const std::string sweep = "sweep --n 4096 --d 64 --algorithm flash1 --vary sram=12500:200000:*2 ";
  const Result text = run(sweep + "--csv m.csv --chart m.svg");
  EXPECT_EQ(text.code, 0) << text.err;
  const std::string bounds =
      "standard attention moves 68,157,440 elements, Q, K, V and O once (the I/O minimum) are 1,048,576";
  const std::string even = "flash1 breaks even with standard attention at M = 12,289 elements, Br 49, Bc 49";
  // Br = Bc = 49: (49 + 49) 128 + 49 x 49. At 50,000 the tiles fit.
  const std::string over =
      "tiles of Q, K, V, O and S exceed their M: M = 12,500: 14,945 elements, 120 %; M = 25,000: 27,008 elements, 108 "
      "% "
      "(the rule gives Q, K, V and O a quarter of M each";
  for (const std::string& line : {bounds, even, over}) {
    EXPECT_THAT(text.out, HasSubstr(line));
    EXPECT_THAT(contents(folder_ / "m.csv"), HasSubstr("\n# " + line));
  }
  const std::string picture = contents(folder_ / "m.svg");
  EXPECT_THAT(picture, HasSubstr(">standard attention<"));
  EXPECT_THAT(picture, HasSubstr(">Q, K, V, O once: the<"));
  EXPECT_THAT(picture, HasSubstr(">flash1 breaks even: M = 12,289 [formula]<"));
  const json object = run_json(sweep);
  EXPECT_EQ(object["break_even"]["flash1"]["elements"], golden()["break_even_M"]["M"]);
  EXPECT_FALSE(object["break_even"].contains("flash2"));
  EXPECT_EQ(object["points"][0]["budget"]["tiles_elements"], 14'945);
  EXPECT_TRUE(object["points"][0]["budget"]["over"]);
  EXPECT_FALSE(object["points"][2]["budget"]["over"]);
  EXPECT_FALSE(run_json("sweep --n 64 --d 16 --vary br=16,32").contains("break_even"));
}

TEST_F(SweepCommand, FootprintsOfTheDocuments) {
  const json table = golden()["score_matrix_bytes"];
  const std::vector<json> found = points("--d 64 --dtype float16 --algorithm standard --vary n=1024,4096,16384,65536");
  ASSERT_EQ(found.size(), table.size());
  for (std::size_t n = 0; n < found.size(); ++n) {
    const json& bytes = found[n]["footprint_bytes"];
    EXPECT_EQ(bytes["S"], table[n]["S"]);
    EXPECT_EQ(bytes["extra"], table[n]["S_plus_P"]);
    EXPECT_EQ(bytes["total"].get<std::int64_t>() - bytes["extra"].get<std::int64_t>(), table[n]["qkvo"]);
  }
  const json interview = golden()["interview_bytes"];
  const std::vector<json> one =
      points("--n 8192 --d 128 --dtype float16 --device-sheet \"H100 SXM\" --vary algorithm=standard");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0]["bytes"]["total"], interview["materializing_total"]);
  EXPECT_EQ(one[0]["minimum"]["bytes"]["total"], interview["io_minimum"]);
  EXPECT_EQ(one[0]["matmul_flops"], interview["matmul_flops"]);
  // S and P beyond the L2: there all of that traffic crosses to DRAM.
  EXPECT_DOUBLE_EQ(one[0]["sheet"]["no_l2_hit_seconds"].get<double>(),
                   interview["floor_seconds_at_3.35TBps"].get<double>());
  EXPECT_DOUBLE_EQ(one[0]["sheet"]["floor_seconds"].get<double>(),
                   interview["matmul_flops"].get<double>() / 989.5e12);  // more than 8 MiB at 3.35 TB/s
  EXPECT_EQ(one[0]["sheet"]["floor_by"], "peak");
}

// What an H200 measured of 16 heads, N = 4096, d = 64, bfloat16: the L2 serves what tiles read again, so that the
// traffic over DRAM's bandwidth is no floor of the time.
TEST_F(SweepCommand, NoMeasuredTimeIsBelowTheFloor) {
  const json object = run_json("sweep --from " + source_path("tests/data/plane_h200.fscope") + " --device-sheet H200");
  int measured = 0, beaten = 0;
  for (const json& point : object["points"]) {
    const json& seconds = point["measured"]["seconds"];
    if (seconds.is_null()) continue;
    ++measured;
    EXPECT_LT(point["sheet"]["floor_seconds"].get<double>(), seconds["fastest"].get<double>()) << point["vary"];
    EXPECT_EQ(point["sheet"]["floor_seconds"], object["points"][0]["sheet"]["floor_seconds"]);  // whatever the blocks
    beaten += seconds["median"] < point["sheet"]["no_l2_hit_seconds"];
  }
  EXPECT_EQ(measured, 91);
  EXPECT_EQ(beaten, 17);
  const Result text = run("sweep --n 4096 --d 64 --heads 16 --dtype bfloat16 --vary br=16,128 --device-sheet H200");
  EXPECT_THAT(text.out,
              HasSubstr("no_l2_hit_us: counted bytes / DRAM bandwidth of the sheet: if nothing hit in the L2"));
  EXPECT_THAT(text.out, HasSubstr(" 69.4"));  // 68.7 GFLOP at 989.5 TFLOP/s
}

TEST_F(SweepCommand, APointIsWhatCountGives) {
  const std::string recipe = "--n 300 --d 32 --causal --algorithm flash1 --br 48 --heads 2";
  const json alone = run_json("count --bc 100 " + recipe);
  const std::vector<json> found = points("--vary bc=50:100:50 " + recipe);
  ASSERT_EQ(found.size(), 2u);
  for (const auto& [key, value] : alone.items()) EXPECT_EQ(found[1][key], value) << key;
  EXPECT_NE(found[0]["elements"], found[1]["elements"]);
}

TEST_F(SweepCommand, ADevicesLimitAloneMakesAPointInfeasible) {
  const std::string recipe = "--n 4096 --d 128 --dtype float16 --vary bc=128,512";
  for (const json& point : points(recipe + " --br 128")) EXPECT_FALSE(point.contains("sheet"));
  const std::vector<json> found = points(recipe + " --br 128 --device-sheet a100-40gb");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0]["sheet"]["fits"]);
  EXPECT_TRUE(found[0]["sheet"]["reason"].is_null());
  EXPECT_FALSE(found[1]["sheet"]["fits"]);
  EXPECT_THAT(found[1]["sheet"]["reason"].get<std::string>(), testing::HasSubstr("shared memory"));
  EXPECT_EQ(found[1]["sheet"]["name"], "A100 40GB");
}

// sram_bytes holds O too, which flash2 keeps in registers: what is compared has a column of its own.
TEST_F(SweepCommand, FitsSaysWhatItComparesAndWarnsOfRegisters) {
  const std::string problem = "--n 4096 --d 64 --heads 16 --dtype bfloat16 --device-sheet H200 ";
  const std::vector<json> found = points(problem + "--br 512 --vary bc=48,256");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1]["sram_bytes"]["total"], 268'288);
  EXPECT_EQ(found[1]["sheet"]["shared_bytes"], 131'072);
  EXPECT_EQ(found[1]["sheet"]["shared_bytes_limit"], 232'448);
  EXPECT_TRUE(found[1]["sheet"]["fits"]);
  EXPECT_THAT(found[1]["sheet"]["warning"].get<std::string>(), HasSubstr("163,840 registers a block"));
  EXPECT_TRUE(found[0]["sheet"]["warning"].is_null());
  const Result text = run("sweep " + problem + "--br 512 --vary bc=48,256");
  EXPECT_THAT(text.out, HasSubstr("  yes, but S and O take 163,840 registers a block, an SM of H200 has 65,536"));
  EXPECT_THAT(text.out,
              HasSubstr("fits: limits of the sheet H200: shared_bytes with 232,448, threads a block with 1,024"));
  EXPECT_THAT(text.out, HasSubstr("  131,072  "));
}

TEST_F(SweepCommand, TableCsvAndChartSayWhereNumbersComeFrom) {
  const Result result =
      run("sweep --n 4096 --d 64 --vary algorithm=flash1,flash2 --vary sram=12500:200000:*2 --csv s.csv --chart s.svg");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, testing::HasSubstr("17,383,424"));
  EXPECT_THAT(result.out, testing::HasSubstr("elements: counted"));

  const std::string table = contents(folder_ / "s.csv");
  EXPECT_THAT(table, testing::HasSubstr("# elements: counted: read + written\n"));
  EXPECT_THAT(table, testing::HasSubstr("# formula: formula"));
  std::istringstream lines(table);
  int rows = 0;
  for (std::string line; std::getline(lines, line);) rows += line[0] != '#';
  EXPECT_EQ(rows, 1 + 10);
  EXPECT_THAT(table, testing::HasSubstr("\nalgorithm,sram,br,bc,tiles,read,written,elements,formula,bytes,"));
  EXPECT_THAT(table, testing::HasSubstr("\nflash1,50000,64,196,1344,"));

  // The points differ: what varies and what is fixed is said of all of them.
  const std::string varied = "algorithm flash1, flash2; sram 12500 to 200000 (5 values); with that also Br, Bc";
  EXPECT_THAT(result.out, testing::HasSubstr("varied: " + varied));
  EXPECT_THAT(result.out, testing::HasSubstr("fixed:  forward, 1 head, N 4,096 x 4,096, d 64, float32\n"));
  EXPECT_THAT(table, testing::HasSubstr("# varied: " + varied));

  const std::string picture = contents(folder_ / "s.svg");
  EXPECT_THAT(picture, testing::HasSubstr(">HBM traffic against sram<"));
  EXPECT_THAT(picture, testing::HasSubstr(">Fixed: forward, 1 head, N 4,096 x 4,096, d 64, float32;"));
  EXPECT_TRUE(picture.starts_with("<svg "));
  EXPECT_TRUE(picture.ends_with("</svg>\n"));
  EXPECT_THAT(picture, testing::HasSubstr(">algorithm flash1<"));
  EXPECT_THAT(picture, testing::HasSubstr(">counted<"));
}

TEST_F(SweepCommand, AdviceNamesTheBestAndWhy) {
  const std::string problem = "--n 4096 --d 64 --dtype float16 --causal --device-sheet H200 ";
  const json object = run_json("sweep --advise " + problem);
  ASSERT_EQ(object["advice"].size(), 5u);
  std::int64_t last = 0;
  for (const json& one : object["advice"]) {
    EXPECT_GE(one["bytes"]["total"], last);
    last = one["bytes"]["total"];
    EXPECT_FALSE(one["why"].get<std::string>().empty());
  }
  const json& best = object["advice"][0];
  const json alone = run_json("count --n 4096 --d 64 --dtype float16 --causal --br " + best["recipe"]["br"].dump() +
                              " --bc " + best["recipe"]["bc"].dump());
  EXPECT_EQ(alone["bytes"]["total"], best["bytes"]["total"]);
  const Result text = run("sweep --advise " + problem);
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("Least traffic by formula (not the fastest):"));
  EXPECT_THAT(text.out, HasSubstr("limits of H200"));
  EXPECT_EQ(text.out.find("best"), text.out.npos);
  expect_refused("sweep --advise --n 8 --d 4", "--device-sheet");
  expect_refused("sweep --advise --vary br=1 --n 8 --d 4 --device-sheet H200", "--vary");
  expect_refused("sweep --advise --algorithm standard --n 8 --d 4 --device-sheet H200", "standard");
}

// A sweep that a GPU measured, as `--save` leaves it.
class MeasuredSweepCommand : public SweepCommand {
 protected:
  void SetUp() override {
    SweepCommand::SetUp();
    const Shape shape{.heads = 16, .kv_heads = 16, .Nq = 4096, .Nk = 4096, .d = 64, .dv = 64, .type = DType::bfloat16};
    sweep_.on = measured_on_h200(), sweep_.date = "2026-11-30T13:00:00Z", sweep_.version = "0.1.0", sweep_.seed = 7;
    for (const std::int64_t Br : {64, 128})
      for (const std::int64_t Bc : {64, 128}) sweep_.points.push_back(measured_point(asked_point(shape, Br, Bc)));
    sweep_.points.push_back(asked_point(shape, 256, 256));
    sweep_.points.back().failed = "327,680 bytes of shared memory, at most 232,448";
    SessionFile session;
    session.sweeps.push_back(sweep_);
    write_session(folder_ / "s.fscope", session);
  }
  MeasuredSweep sweep_;
};

TEST_F(MeasuredSweepCommand, IsReadWithoutAGpu) {
  const json object = run_json("sweep --from s.fscope");
  EXPECT_EQ(object["measured_on"]["name"], "NVIDIA H200");
  EXPECT_EQ(object["measured_on"]["date"], "2026-11-30T13:00:00Z");
  ASSERT_EQ(object["points"].size(), 5u);
  for (std::size_t n = 0; n < 4; ++n) {
    const json &point = object["points"][n], &measured = point["measured"];
    EXPECT_EQ(point["vary"]["br"], std::to_string(sweep_.points[n].recipe.Br));
    EXPECT_EQ(measured["seconds"]["median"], sweep_.points[n].gpu->median);
    EXPECT_EQ(measured["traffic"]["l2_sm"]["read"].get<double>(),
              point["bytes"]["read"].get<double>() + kMoreThanFormula);
    EXPECT_EQ(measured["traffic"]["l2_sm_less_formula"], kMoreThanFormula);
    EXPECT_EQ(measured["traffic"]["cache"], "cold");
    EXPECT_TRUE(measured["reason"].is_null());
  }
  EXPECT_EQ(object["points"][4]["measured"]["failed"], sweep_.points[4].failed);
  const Result text = run("sweep --from s.fscope --csv s.csv --chart s.svg");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("measured on NVIDIA H200 (sm_90a), driver for CUDA 13.0, NVRTC 13.0"));
  EXPECT_THAT(text.out, HasSubstr("327,680 bytes of shared memory"));
  EXPECT_THAT(text.out, HasSubstr("553,914,368"));  // 128 x 64: the formula's 545,259,520 + 8,650,752, and 4,096
  const std::string table = contents(folder_ / "s.csv");
  EXPECT_THAT(table, HasSubstr("# bytes: counted: kernel units\n"));
  EXPECT_THAT(table, HasSubstr("# l2_sm_read: bytes, measured by l1tex__m_xbar2l1tex_read_bytes.sum"));
  EXPECT_THAT(table, HasSubstr("# dram_read: bytes, measured by dram__bytes_read.sum"));
  EXPECT_THAT(table, HasSubstr("# dram_written: bytes, measured by dram__bytes_write.sum"));
  EXPECT_THAT(table, HasSubstr("L2 and DRAM cold"));
  EXPECT_THAT(table, HasSubstr("# registers: reported by the compiler\n"));
  EXPECT_THAT(table, HasSubstr(",545263616,8650752,"));
  EXPECT_THAT(table, HasSubstr("\"327,680 bytes of shared memory, at most 232,448\""));
  const std::string picture = contents(folder_ / "s.svg");
  EXPECT_THAT(picture, HasSubstr(">measured<"));
  EXPECT_THAT(picture, HasSubstr("NVIDIA H200"));
}

// Where DRAM leaves its floor is found in whatever order the lengths stand.
TEST_F(MeasuredSweepCommand, TheFloorIsLeftAtTheSmallestLength) {
  Shape shape = sweep_.points[0].shape;
  sweep_.points.clear();
  for (const std::int64_t N : {16384, 2048, 8192, 4096}) {
    shape.Nq = shape.Nk = N;
    sweep_.points.push_back(measured_point(asked_point(shape, 128, 64)));
    if (N >= 8192) sweep_.points.back().gpu->measured->dram_read *= 2;
  }
  SessionFile session;
  session.sweeps.push_back(sweep_);
  write_session(folder_ / "n.fscope", session);
  const Result text = run("sweep --from n.fscope --chart n.svg");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(contents(folder_ / "n.svg"), HasSubstr("That ends by N = 8,192"));
}

TEST_F(MeasuredSweepCommand, AdviceComesFromAMeasuredSweepToo) {
  const json object = run_json("sweep --advise --from s.fscope");
  EXPECT_EQ(object["sheet"], "H200");  // that of the device which measured
  EXPECT_EQ(object["advice"][0]["recipe"]["algorithm"], "flash2");
  ASSERT_EQ(object["measured"]["advice"].size(), 4u);
  EXPECT_EQ(object["measured"]["advice"][0]["recipe"]["br"], 128);  // nearest to the fastest of them
  EXPECT_EQ(object["measured"]["advice"][0]["recipe"]["bc"], 64);
  const Result text = run("sweep --advise --from s.fscope");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("Br and Bc for flash2, forward, normalise end; 16 heads of 4,096 x 4,096"));
  EXPECT_THAT(text.out, HasSubstr("4 block sizes were measured, 1 failed"));
  // What was measured comes first.
  const std::size_t measured = text.out.find("\nFastest, measured:\n"), formula = text.out.find("\nLeast traffic by ");
  EXPECT_LT(measured, formula);
  EXPECT_NE(formula, text.out.npos);
  expect_refused("sweep --advise --from s.fscope --n 8", "--n: found 8, expected what was measured: 4096");
}

// The plane that an H200 measured: the fastest block sizes do not move the least.
TEST_F(SweepCommand, TheFastestIsMeasuredAndNotTheLeastTraffic) {
  const std::string plane = source_path("tests/data/plane_h200.fscope");
  const json object = run_json("sweep --advise --from " + plane);
  const json& fastest = object["measured"]["advice"][0]["recipe"];
  EXPECT_EQ(fastest["br"], 128);
  EXPECT_EQ(fastest["bc"], 128);
  for (const json& one : object["advice"]) {
    EXPECT_LT(one["recipe"]["br"].get<int>() * (one["recipe"]["bc"].get<int>() + 64), 65'536);
    EXPECT_NE(one["recipe"], fastest);
  }
  EXPECT_EQ(object["advice_is"], "least traffic by formula, not the fastest");
}

// 11 x 3 series would fill the legend over the notes: it tells what it leaves out.
TEST_F(SweepCommand, AChartDrawsAsManyLinesAsItsLegendHolds) {
  const Result text =
      run("sweep --from " + source_path("tests/data/plane_h200.fscope") + " --chart plane.svg --csv plane.csv");
  EXPECT_EQ(text.code, 0) << text.err;
  const std::string picture = contents(folder_ / "plane.svg");
  const auto count = [&](const std::string& word) {
    std::size_t found = 0;
    for (std::size_t at = picture.find(word); at != picture.npos; at = picture.find(word, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count(", HBM traffic<"), 4u);
  EXPECT_THAT(picture, HasSubstr("4 of 11 lines are drawn"));
  EXPECT_THAT(picture, HasSubstr(">br 16, HBM traffic<"));
  EXPECT_THAT(picture, HasSubstr(">br 256, HBM traffic<"));
}

// Several lengths are several problems: none of them is taken silently.
TEST_F(MeasuredSweepCommand, AdviceIsAboutOneLength) {
  Shape shape = sweep_.points[0].shape;
  sweep_.points.clear();
  for (const std::int64_t N : {1024, 4096}) {
    shape.Nq = shape.Nk = N;
    sweep_.points.push_back(measured_point(asked_point(shape, 128, 64)));
  }
  SessionFile session;
  session.sweeps.push_back(sweep_);
  write_session(folder_ / "n.fscope", session);
  expect_refused("sweep --advise --from n.fscope", "--n says which (1024, 4096)");
  const Result text = run("sweep --advise --from n.fscope --n 4096");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("16 heads of 4,096 x 4,096"));
  EXPECT_THAT(text.out, HasSubstr("1 block size was measured, 0 failed"));
}

TEST_F(MeasuredSweepCommand, WithoutADisplayASessionsSweepsAreShown) {
  const Result result = run("s.fscope");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("sweep 1 of 1"));
  EXPECT_THAT(result.out, HasSubstr("measured on NVIDIA H200"));
}

TEST_F(MeasuredSweepCommand, WhatCannotBeReadIsRefused) {
  expect_refused("sweep --from nowhere.fscope", "no such file");
  expect_refused("sweep --from s.fscope --number 2", "1 to 1");
  expect_refused("sweep --from s.fscope --vary br=1", "--from");
  SessionFile session;
  write_session(folder_ / "empty.fscope", session);
  expect_refused("sweep --from empty.fscope", "without a measured sweep");
}

TEST_F(SweepCommand, MeasuringNeedsAGpu) {
  const json devices = run_json("devices");
  if (devices["gpu_usable"]) GTEST_SKIP() << "there is one";
  for (const char* how : {"--vary br=64,128", "", "--advise"}) {
    const Result result = run(std::string("sweep --measure --n 256 --d 64 --dtype float16 ") + how);
    EXPECT_EQ(result.code, 4) << how;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "flashscope sweep: " + devices["missing"][0].get<std::string>() + "\n");
  }
  expect_refused("sweep --n 8 --d 4 --vary br=1 --save s.fscope", "--measure");
  expect_refused("sweep --n 8 --d 4 --vary br=1 --kernel mma", "--measure");
  expect_refused("sweep --n 8 --d 4 --vary kernel=mma,simple", "one of ");
}

TEST_F(SweepCommand, BadInputIsRefused) {
  expect_refused("sweep --n 8 --d 4", "--vary");
  expect_refused("sweep --n 8 --d 4 --vary", "--vary");
  expect_refused("sweep --n 8 --d 4 --vary br", "NAME=VALUES");
  expect_refused("sweep --n 8 --d 4 --vary br=", "a:b:step");
  expect_refused("sweep --n 8 --d 4 --vary br=1:8", "a:b:step");
  expect_refused("sweep --n 8 --d 4 --vary br=8:1:1", "whole number from 8");
  expect_refused("sweep --n 8 --d 4 --vary br=1:8:*1", "whole number from 2");
  expect_refused("sweep --n 8 --d 4 --vary br=1,2 --vary br=3", "given twice");
  expect_refused("sweep --n 8 --d 4 --vary br=64,32,64", "--vary br: found 64 twice");
  expect_refused("sweep --n 8 --d 4 --vary br=16:64:16,32", "32 twice");
  expect_refused("sweep --n 8 --d 4 --vary json=1", "one of ");
  expect_refused("sweep --n 8 --d 4 --vary sram=100 --br 4", "--sram");
  expect_refused("sweep --n 8 --d 4 --vary n=1:1099511627776:1", "million");
  expect_refused("sweep --n 8 --d 4 --vary d=64,300", "--d: found");
  expect_refused("sweep --n 8 --d 4 --vary br=1,2 --device-sheet abacus", "RTX 4090");
  expect_refused("sweep --n 8 --d 4 --vary algorithm=flash1 --chart x.svg", "numbers");
  expect_refused("sweep --n 8 --d 4 --vary br=1 --csv /nowhere/x.csv", "/nowhere/x.csv");
  expect_refused("sweep --n 8 --d 4 --vary br=1 --chart x.png", "x.png, expected a name that ends in .svg");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.png"));
  expect_refused("sweep --n 8 --d 4 --vary br=1 --csv - --json", "one of them");
  expect_refused("sweep --n 8 --d 4 --vary br=1 --csv - --chart -", "one of them");
  expect_refused("sweep --advise --n 64 --d 16 --device-sheet H200 --csv x.csv", "--csv");
  expect_refused("sweep --n 8 --d 4 --vary br=1 --device-sheet H100", "did you mean H100 SXM or H100 PCIe?");
}

// A name of one dash is standard output, and then nothing else is printed there.
TEST_F(SweepCommand, CsvAndChartGoToStandardOutputToo) {
  const std::string sweep = "sweep --n 64 --d 16 --vary br=16,32 ";
  run(sweep + "--csv a.csv --chart a.svg");
  EXPECT_EQ(run(sweep + "--csv -").out, contents(folder_ / "a.csv"));
  EXPECT_EQ(run(sweep + "--chart -").out, contents(folder_ / "a.svg"));
  EXPECT_THAT(contents(folder_ / "a.csv"), HasSubstr("\n16,"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "-"));
}

// A mask by rule is one more thing that varies, and has a plane for each head.
TEST_F(SweepCommand, MasksByRule) {
  const std::string shape = " --n 256 --d 16 --br 32 --bc 32 --skip all";
  const json points = run_json("sweep --vary lengths=64,128,256" + shape)["points"];
  ASSERT_EQ(points.size(), 3u);
  for (int n = 0; n < 3; ++n)
    EXPECT_EQ(points[n]["elements"], run_json("count --lengths " + std::to_string(64 << n) + shape)["elements"]) << n;
  EXPECT_LT(points[0]["elements"]["total"], points[2]["elements"]["total"]);
  // (2 heads x 128 x 128 cells less 128 x (64 + 128) visible ones) x 2 (d + dv)
  const json two = run_json("sweep --n 128 --d 16 --heads 2 --lengths 64,128 --vary bc=32");
  EXPECT_EQ(two["points"][0]["masked_flops"], (2 * 128 * 128 - 128 * (64 + 128)) * 64);
}

}  // namespace
}  // namespace flashscope
