// Measured sweeps on a GPU: inputs drawn there, figures of a point, and the real program's `sweep --measure`.
#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/insight/measurement.h"
#include "kernels/host/compiler.h"
#include "kernels/host/cuda.h"
#include "kernels/host/point_runner.h"
#include "support.h"
#include "tests/temporary_folder.h"

namespace flashscope::gpu {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

MeasuredPoint asked(std::int64_t Br, std::int64_t Bc, Causal causal = Causal::none) {
  MeasuredPoint point;
  point.shape = {.heads = 16, .kv_heads = 16, .Nq = 4096, .Nk = 4096, .d = 64, .dv = 64, .type = DType::bfloat16};
  point.mask.causal = causal;
  point.recipe.Br = Br, point.recipe.Bc = Bc;
  return point;
}

class SweepOnGpu : public OnGpu {};

TEST_F(SweepOnGpu, InputsAreThoseOfTheSeed) {
  const GpuDevice device = gpu_status().devices.front();
  const Stream stream;
  const Pool pool(device.index);
  for (const DType type : {DType::float32, DType::float16, DType::bfloat16}) {
    const Compiled compiled = compile({"random.cu",
                                       {{"TYPE", type == DType::float32   ? 0
                                                 : type == DType::float16 ? 1
                                                                          : 2}}},
                                      device.architecture);
    const Library library(compiled.cubin.data());
    for (unsigned long long first : {0ull, 3ull, 1ull << 33}) {
      unsigned long long n = 1001, seed = 0x123456789abcdefull;
      const DeviceMemory memory(static_cast<std::int64_t>(n) * size_of(type), pool, stream);
      void* to = memory.as<void>();
      void* parameters[] = {static_cast<void*>(&to), &first, &n, &seed};
      FLASHSCOPE_CUDA(cudaLaunchKernel(library.kernel("random_normals"), dim3(3), dim3(64), parameters, 0, stream));
      stream.wait();
      const std::vector<float> floats = type == DType::float32 ? download<float>(memory, stream) : std::vector<float>();
      const std::vector<std::uint16_t> halves =
          type == DType::float32 ? std::vector<std::uint16_t>() : download<std::uint16_t>(memory, stream);
      for (std::size_t k = 0; k < n; ++k) {
        const double expected = random_normal(seed, first + k);
        const double found = type == DType::float32   ? floats[k]
                             : type == DType::float16 ? half_to_float(halves[k])
                                                      : bfloat16_to_float(halves[k]);
        ASSERT_LE(std::abs(found - expected), ulp(type, expected)) << name(type) << " " << first << " + " << k;
      }
    }
  }
}

// A point's figures are those of a full run; the open counters of the points before do not slow it down.
TEST_F(SweepOnGpu, APointMeasuresWhatAFullRunDoes) {
  std::vector<MeasuredPoint> points;
  {
    PointRunner runner({});  // gone before the full runs: one at a time may read the counters
    const auto measure = [&](const MeasuredPoint& point) { return runner.measure(point, runner.prepare(point)); };
    measure(asked(64, 64));  // opens the counters
    for (const Causal causal : {Causal::none, Causal::top_left}) points.push_back(measure(asked(128, 64, causal)));
  }
  for (const MeasuredPoint& point : points) {
    const Causal causal = point.mask.causal;
    GpuRunOptions options;
    options.check.kind = CheckRows::Kind::none, options.measure = true;
    const auto problem = random_problem(point.shape, 1, {}, point.mask);
    const Report report = run_on_gpu(*problem, point.recipe, options);
    ASSERT_TRUE(point.gpu && report.gpu);
    EXPECT_EQ(point.kernel, report.kernel);
    EXPECT_EQ(point.gpu->registers, report.gpu->registers);
    EXPECT_EQ(point.gpu->blocks_per_sm, report.gpu->blocks_per_sm);
    const double slower = point.gpu->median / report.gpu->median;
    RecordProperty(causal == Causal::none ? "time_ratio_full" : "time_ratio_causal", std::to_string(slower));
    EXPECT_GT(slower, 0.8);
    EXPECT_LT(slower, 1.25);
    if (!counters_may_be_read(*point.gpu)) GTEST_SKIP() << point.gpu->not_measured;
    const Moved formula = report.traffic.bytes.total();
    const auto read = static_cast<double>(formula.read);
    EXPECT_LE(std::abs(point.gpu->measured->l2_read - read), 0.0005 * read);
    EXPECT_LE(std::abs(*value(point, Gauge::dram_read) - report.gpu->measured->dram_read),
              0.02 * report.gpu->measured->dram_read);
  }
}

// Many points through one runner, all algorithms and types: the traffic of each is its own.
TEST_F(SweepOnGpu, PointsDoNotDisturbEachOther) {
  PointRunner runner({});
  for (const DType type : {DType::bfloat16, DType::float32, DType::bfloat16})
    for (const Algorithm algorithm : {Algorithm::flash2, Algorithm::flash1, Algorithm::standard}) {
      MeasuredPoint point = asked(64, 32);
      point.shape.Nq = point.shape.Nk = 1024, point.shape.type = type;
      point.recipe.algorithm = algorithm;
      point = runner.measure(point, runner.prepare(point));
      SCOPED_TRACE(std::string(name(algorithm)) + " " + std::string(name(type)));
      ASSERT_TRUE(point.gpu);
      EXPECT_GT(point.gpu->median, 0);
      if (!counters_may_be_read(*point.gpu)) GTEST_SKIP() << point.gpu->not_measured;
      const Moved formula = counted(Schedule(point.shape, point.mask, point.recipe)).bytes.total();
      const auto read = static_cast<double>(formula.read), written = static_cast<double>(formula.written);
      EXPECT_EQ(*formula_bytes(point), read + written);
      EXPECT_GE(point.gpu->measured->l2_read, 0.9995 * read);
      EXPECT_GE(point.gpu->measured->l2_written, 0.9995 * written);
      if (algorithm == Algorithm::standard) continue;  // a floor there
      const double spilled = most_spilled(*point.gpu, Schedule(point.shape, point.mask, point.recipe).tiles());
      EXPECT_LE(point.gpu->measured->l2_read, 1.0005 * read);
      EXPECT_LE(point.gpu->measured->l2_written, 1.0005 * written + spilled);
    }
}

class SweepProgram : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  }
  void TearDown() override { unsetenv("XDG_CACHE_HOME"); }
  // Standard output, standard error, the exit code. The program is beside this one.
  std::tuple<std::string, std::string, int> run(const std::string& arguments) {
    const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "flashscope";
    const auto read = [](const std::filesystem::path& path) {
      std::FILE* file = std::fopen(path.c_str(), "r");
      std::string text;
      std::array<char, 4096> part;
      for (std::size_t got; (got = std::fread(part.data(), 1, part.size(), file)) > 0;) text.append(part.data(), got);
      std::fclose(file);
      return text;
    };
    const std::string command = "'" + program.string() + "' " + arguments + " >'" + (folder_ / "out").string() +
                                "' 2>'" + (folder_ / "err").string() + "'";
    const int status = std::system(command.c_str());
    return {read(folder_ / "out"), read(folder_ / "err"), WIFEXITED(status) ? WEXITSTATUS(status) : -1};
  }
  TemporaryFolder folder_;
};

constexpr const char* kSweep = "sweep --measure --n 2048 --d 64 --heads 16 --dtype bfloat16 --json ";

TEST_F(SweepProgram, MeasuresOnceAndKeepsIt) {
  const std::string arguments =
      std::string(kSweep) + "--vary br=64,128 --vary bc=32,64 --save " + (folder_ / "s.fscope").string();
  const auto [out, err, code] = run(arguments);
  ASSERT_EQ(code, 0) << err;
  EXPECT_THAT(err, HasSubstr("4 measured, 0 of these known"));
  const json object = json::parse(out);
  bool no_permission = false;
  ASSERT_EQ(object["points"].size(), 4u);
  for (const json& point : object["points"]) {
    const json& measured = point["measured"];
    EXPECT_EQ(measured["kernel"], "flash2_mma");
    EXPECT_GT(measured["tflops"].get<double>(), 10);
    if (!measured["reason"].is_null()) {
      ASSERT_THAT(measured["reason"].get<std::string>(), HasSubstr("permission"));
      no_permission = true;
      continue;
    }
    const auto read = point["bytes"]["read"].get<double>();
    EXPECT_LE(std::abs(measured["traffic"]["l2_sm"]["read"].get<double>() - read), 0.0005 * read);
  }
  const auto [again, said, second] = run(arguments);
  ASSERT_EQ(second, 0) << said;
  if (!no_permission) {
    EXPECT_THAT(said, HasSubstr("4 measured, 4 of these known"));
    EXPECT_EQ(json::parse(again)["points"], object["points"]);
  }
  const auto [saved, note, third] = run("sweep --json --number 1 --from " + (folder_ / "s.fscope").string());
  ASSERT_EQ(third, 0) << note;
  EXPECT_EQ(json::parse(saved)["points"][3]["measured"], object["points"][3]["measured"]);
  if (no_permission) GTEST_SKIP() << "timed, but the counters may not be read";
}

TEST_F(SweepProgram, WhatDoesNotFitSaysSoAndTheOthersAreMeasured) {
  const auto [out, err, code] = run(std::string(kSweep) + "--algorithm flash1 --vary br=64,512 --bc 64");
  ASSERT_EQ(code, 0) << err;
  const json points = json::parse(out)["points"];
  EXPECT_TRUE(points[0]["measured"].contains("seconds"));
  EXPECT_THAT(points[1]["measured"]["failed"].get<std::string>(), HasSubstr("bytes of shared memory"));
}

TEST_F(SweepProgram, APlaneOfBlockSizesIsRefined) {
  const auto [out, err, code] = run("sweep --advise --measure --n 2048 --d 64 --heads 16 --dtype bfloat16 --json");
  ASSERT_EQ(code, 0) << err;
  const json measured = json::parse(out)["measured"];
  ASSERT_GE(measured["advice"].size(), 3u);
  EXPECT_THAT(measured["advice"][0]["why"].get<std::string>(), HasSubstr("fastest"));
}

}  // namespace
}  // namespace flashscope::gpu
