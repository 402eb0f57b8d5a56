// The real binary on a GPU: what `flashscope run --device cuda` reports of each algorithm, and that it survives a
// fault.
#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/gpu_child.h"
#include "engine/files/session_file.h"
#include "support.h"
#include "tests/temporary_folder.h"

namespace flashscope::gpu {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Beside this one, wherever both were carried.
std::filesystem::path program(const char* name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

class RunOnGpu : public OnGpu {
 protected:
  // Standard output and standard error together; the exit code.
  std::pair<std::string, int> run(const std::string& arguments) {
    const std::string command = "'" + program("flashscope").string() + "' " + arguments;
    std::FILE* pipe = popen(command.c_str(), "r");
    std::string out;
    std::array<char, 4096> part;
    for (std::size_t got; (got = std::fread(part.data(), 1, part.size(), pipe)) > 0;) out.append(part.data(), got);
    const int status = pclose(pipe);
    return {out, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
  }
  json report(const std::string& arguments) {
    const auto [out, code] = run(arguments + " --device cuda --json");
    EXPECT_EQ(code, 0) << arguments << "\n" << out;
    json object = json::parse(out, nullptr, false);
    EXPECT_TRUE(object.is_object()) << arguments << "\n" << out;
    return object;
  }
  // False, and the test is skipped, where the counters may not be read.
  bool measured(const json& object) {
    const json& traffic = object.at("traffic");
    if (!traffic.at("measured").is_null()) return true;
    EXPECT_THAT(traffic.at("reason").get<std::string>(), HasSubstr("permission"));
    return false;
  }
  static void expect_share(const json& found, double expected, double tolerance, const char* what) {
    ASSERT_TRUE(found.is_number()) << what;
    EXPECT_LE(std::abs(found.get<double>() - expected), tolerance * expected) << what << ": " << found;
  }

  TemporaryFolder folder_;
};

constexpr const char* kShape = "run --random 1 --n 4096 --d 64 --heads 16 --dtype bfloat16 --br 128 --bc 64";

TEST_F(RunOnGpu, Flash2MovesTheFormulaAndNoMore) {
  const json object = report(std::string(kShape) + " --algorithm flash2");
  const json &traffic = object["traffic"], &memory = object["memory"];
  EXPECT_EQ(traffic["formula"]["bytes"]["read"], 545259520);
  EXPECT_EQ(traffic["formula"]["bytes"]["written"], 8650752);
  for (const char* way : {"read", "written"}) {
    EXPECT_EQ(traffic["counted"]["bytes"][way], traffic["formula"]["bytes"][way]);
    EXPECT_EQ(traffic["counted"]["in_kernel"][way], traffic["formula"]["bytes"][way]);
  }
  EXPECT_EQ(traffic["counted"]["in_kernel"]["by_tensor"], traffic["counted"]["bytes"]["by_tensor"]);
  // O and LSE, to the byte.
  EXPECT_EQ(memory["expected_bytes"], 16 * 4096 * (64 * 2 + 4));
  EXPECT_EQ(memory["peak_bytes"], memory["expected_bytes"]);
  EXPECT_EQ(memory["tensor_bytes"], 25165824);
  EXPECT_TRUE(object["error_vs_float64"]["within"]);
  EXPECT_EQ(object["nan_rows"], 0);
  EXPECT_EQ(object["launch"]["blocks"], 16 * 32);
  EXPECT_GT(object["launch"]["registers"], 0);
  EXPECT_GT(object["launch"]["blocks_per_sm"], 0);
  EXPECT_GT(object["time"]["median"], 0.0);
  EXPECT_LE(object["time"]["fastest"], object["time"]["median"]);
  EXPECT_GT(object["time"]["tflops"], 1.0);
  if (!measured(object)) GTEST_SKIP() << traffic["reason"];
  expect_share(traffic["measured"]["l2_sm"]["read"], 545259520, 0.0005, "L2 to SM");
  expect_share(traffic["measured"]["dram"]["read"], 25165824, 0.02, "DRAM read against Q, K, V");
  EXPECT_EQ(object["launch"]["spill_store_bytes"], 0);  // so nothing but O and LSE is stored
  expect_share(traffic["measured"]["l2_sm"]["written"], 8650752, 0.0005, "SM to L2");
  EXPECT_THAT(traffic["measured"]["caches"].get<std::string>(), HasSubstr("cold"));
  // Warm, the SMs ask for the same; Q, K, V are in the L2, where O stays too.
  const json& warm = traffic["measured_warm"];
  ASSERT_FALSE(warm.is_null());
  EXPECT_THAT(warm["caches"].get<std::string>(), HasSubstr("warm"));
  expect_share(warm["l2_sm"]["read"], 545259520, 0.0005, "L2 to SM, warm");
  EXPECT_LT(warm["dram"]["read"].get<double>(), traffic["measured"]["dram"]["read"].get<double>());
  EXPECT_EQ(object["time"]["input_caches"], "cold");
}

TEST_F(RunOnGpu, StandardMovesAndKeepsNByN) {
  const json object = report(std::string(kShape) + " --algorithm standard");
  const double plane = 16.0 * 4096 * 4096 * 2;  // S of all heads, bytes
  EXPECT_GE(object["memory"]["peak_bytes"], 2 * plane);
  EXPECT_GE(object["traffic"]["formula"]["bytes"]["total"], 4 * plane);
  EXPECT_TRUE(object["traffic"]["counted"]["in_kernel"].is_null());
  EXPECT_TRUE(object["error_vs_float64"]["within"]);
  if (!measured(object)) GTEST_SKIP() << object["traffic"]["reason"];
  const json& found = object["traffic"]["measured"];
  EXPECT_GE(found["l2_sm"]["read"], object["traffic"]["formula"]["bytes"]["read"]);
  EXPECT_GE(found["dram"]["total"], 0.8 * 4 * plane);
  bool again = false;
  for (const json& line : object["traffic"]["sources"])
    again = again || line["source"].get<std::string>().find("re-reads") != std::string::npos;
  EXPECT_TRUE(again) << "the products' re-reads are a line of their own";
}

TEST_F(RunOnGpu, Flash1WritesAgainAndLeavesSmsIdle) {
  const std::string shape = "run --random 1 --n 1024 --d 64 --heads 16 --dtype bfloat16 --br 64 --bc 64";
  const json one = report(shape + " --algorithm flash1"), two = report(shape + " --algorithm flash2");
  EXPECT_EQ(one["launch"]["blocks"], 16);
  EXPECT_EQ(one["launch"]["idle_sms"], one["launch"]["sms"].get<int>() - 16);
  EXPECT_EQ(two["launch"]["blocks"], 16 * 16);
  EXPECT_TRUE(one["error_vs_float64"]["within"]);
  EXPECT_EQ(one["traffic"]["counted"]["in_kernel"]["written"], one["traffic"]["formula"]["bytes"]["written"]);
  EXPECT_GT(one["traffic"]["formula"]["bytes"]["written"],
            10 * two["traffic"]["formula"]["bytes"]["written"].get<std::int64_t>());
  if (!measured(one)) GTEST_SKIP() << one["traffic"]["reason"];
  expect_share(one["traffic"]["measured"]["l2_sm"]["written"],
               one["traffic"]["formula"]["bytes"]["written"].get<double>(), 0.0005, "SM to L2");
  expect_share(one["traffic"]["measured"]["l2_sm"]["read"], one["traffic"]["formula"]["bytes"]["read"].get<double>(),
               0.0005, "L2 to SM");
}

TEST_F(RunOnGpu, SaysWhatItDoesNotMeasure) {
  const json object = report("run --random 1 --n 256 --d 64 --dtype float16 --no-measure --kernel simple");
  EXPECT_TRUE(object["traffic"]["measured"].is_null());
  EXPECT_EQ(object["traffic"]["reason"], "not asked for");
  EXPECT_EQ(object["kernel"], "flash2_simple");
}

TEST_F(RunOnGpu, WhatCannotFitIsRefusedBeforeItStarts) {
  const auto [out, code] =
      run("run --random 1 --n 1048576 --d 64 --dtype bfloat16 --algorithm standard --device cuda 2>&1");
  EXPECT_EQ(code, 2);
  EXPECT_THAT(out, HasSubstr("4398184923136 bytes of outputs, running state, S and P"));
  const auto [simple, simple_code] = run("run --random 1 --n 64 --d 64 --kernel mma --device cuda 2>&1");
  EXPECT_EQ(simple_code, 2);
  EXPECT_THAT(simple, HasSubstr("tensor cores need float16 or bfloat16"));
}

TEST_F(RunOnGpu, ASessionKeepsTheReport) {
  const std::string path = (folder_ / "s.fscope").string();
  report("run --random 1 --n 512 --d 64 --heads 2 --dtype bfloat16 --causal --save '" + path + "'");
  const SessionFile session = read_session(path);
  ASSERT_EQ(session.reports.size(), 1u);
  const Report& saved = *session.reports[0].report;
  ASSERT_TRUE(saved.gpu && saved.gpu->counted);
  EXPECT_EQ(session.problem->mask.causal, Causal::top_left);
  EXPECT_EQ(saved.device, gpu::gpu_status().devices[0].name);
  expect_counted(saved);
  // Run again from the session, the other algorithm: both reports are in the new one.
  report("run --input '" + path + "' --algorithm flash1 --save '" + path + "'");
  EXPECT_EQ(read_session(path).reports.size(), 2u);
}

// The kernel's own NaN, without a guard: `diagnose` of the session traces its rows.
TEST_F(RunOnGpu, ANanOfTheKernelIsTracedFromTheSession) {
  const std::string path = (folder_ / "nan.fscope").string();
  const auto [out, code] = run(
      "run --random 1 --n 300 --d 64 --br 64 --bc 100 --causal --order reverse --guard none --device cuda --no-measure "
      "--save '" +
      path + "' --json");
  EXPECT_EQ(code, 3) << out;
  const auto [text, found] = run("diagnose --input '" + path + "' --json");
  EXPECT_EQ(found, 3);
  const json object = json::parse(text, nullptr, false);
  ASSERT_TRUE(object.is_object()) << text;
  ASSERT_EQ(object["runs"].size(), 1u);
  const json& of_run = object["runs"][0];
  EXPECT_EQ(of_run["device"], gpu::gpu_status().devices[0].name);
  EXPECT_EQ(of_run["nan_rows"].size(), 44u);
  EXPECT_EQ(of_run["nan_rows"], object["nan_rows"]);
  EXPECT_EQ(of_run["same_as_computed"], true);
  EXPECT_EQ(of_run["why"]["cause"], "inf_minus_inf");
  EXPECT_THAT(of_run["why"]["chain"].get<std::string>(), HasSubstr("no visible key for this row"));
}

TEST_F(RunOnGpu, AnIllegalAddressInTheChildLeavesTheParentWorking) {
  const auto problem =
      random_problem({.heads = 2, .kv_heads = 2, .Nq = 128, .Nk = 128, .d = 64, .dv = 64, .type = DType::bfloat16}, 1);
  ChildRun options;
  options.measure = false, options.program = program("illegal_address");
  try {
    run_in_child(*problem, {}, options);
    ADD_FAILURE() << "no fault";
  } catch (const GpuError& error) {
    EXPECT_THAT(error.what(), HasSubstr("illegal memory access"));
  }
  options.program = program("flashscope");
  const Report report = run_in_child(*problem, {}, options);
  ASSERT_TRUE(report.error);
  EXPECT_TRUE(report.error->within());
  // And this process itself can still use the device.
  GpuRunOptions here;
  here.repeats = 1;
  EXPECT_EQ(run_on_gpu(*problem, {}, here).O, report.O);
}

}  // namespace
}  // namespace flashscope::gpu
