// flashscope count: traffic, tiles and blocks of a shape, without arithmetic.
#include <chrono>
#include <cmath>

#include "engine/files/tensor_file.h"
#include "tests/app/command_line.h"

namespace flashscope {
namespace {

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
  // What the mask reads is no loss by skipping: no tile is skipped.
  const json& saving = geometry["saving"];
  EXPECT_EQ(saving["by_skipping"], 0);
  EXPECT_EQ(saving["mask_reads"], 16);
  EXPECT_EQ(saving["run"], saving["unmasked"].get<int>() + 16);
}

TEST_F(CommandLine, TextLabelsItsNumbers) {
  const Result result = run("count --algorithm flash1 --n 4096 --d 64 --sram 50000");
  EXPECT_EQ(result.code, 0);
  for (const char* part : {"17,383,424", "counted", "formula", "source units", "kernel units", "guard clamp"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
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

}  // namespace
}  // namespace flashscope
