// flashscope run: the full kernel, its answer and its report.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "engine/files/tensor_file.h"
#include "tests/app/command_line.h"

namespace flashscope {
namespace {

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
  EXPECT_EQ(error["nan_here_only"], 44);
  EXPECT_EQ(error["nan_float64_only"], 0);
  EXPECT_EQ(error["nan_both"], 0);
  EXPECT_LE(error["max"].get<double>(), error["tolerance"].get<double>());
  EXPECT_TRUE(error["max_within"].get<bool>());
  EXPECT_FALSE(error["within"].get<bool>());
  EXPECT_FALSE(defect["error_vs_float64"]["max_within"].get<bool>());
  const std::string lines = run("run --random 1 --n 300 --d 16 --bc 100 --causal --order reverse --guard none").out;
  EXPECT_THAT(lines, HasSubstr("in the rows that are not NaN, tolerance"));
  EXPECT_THAT(lines, testing::ContainsRegex("NaN MISMATCH +44 +of the checked rows: 44 rows NaN here only"));
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
    const std::string option = std::string(wanted).substr(0, std::string(wanted).find(' '));
    const std::string whose = option == "--device"   ? ""
                              : option == "--kernel" ? "--kernel simple|mma needs a GPU: "
                                                     : option + " needs a GPU: ";
    EXPECT_EQ(result.err, "flashscope run: " + whose + why + "\n");
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
