// The parent of runs on a GPU survives whatever its child does, says it in one message, and the next run works. No GPU
// is needed: children are a stand-in that runs on the CPU, and shell scripts that go wrong.
#include "app/gpu_child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "engine/error.h"
#include "tests/app/child_test.h"

namespace flashscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class GpuChild : public ChildTest {
 protected:
  void TearDown() override {
    unsetenv("FLASHSCOPE_TEST_FAULT");
    ChildTest::TearDown();
  }

  Report run(const std::filesystem::path& program, const std::stop_token& stop = {}, const Progress& progress = {},
             const std::function<void(const std::string&)>& on_stage = {}) {
    ChildRun options = options_;
    options.program = program;
    return run_in_child(*problem_, recipe_, options, stop, progress, on_stage);
  }
  // The message of the GpuError that it must throw; and a run after it works.
  std::string message_of(const std::filesystem::path& program) {
    std::string message;
    try {
      run(program);
      ADD_FAILURE() << "no error";
    } catch (const gpu::GpuError& error) {
      message = error.what();
    }
    EXPECT_THAT(message, Not(HasSubstr("\n")));
    EXPECT_EQ(run(good_).O, expected_.O);
    return message;
  }

  const std::filesystem::path good_ = FLASHSCOPE_TEST_CHILD;
  std::shared_ptr<const Problem> problem_ =
      random_problem({.heads = 2, .kv_heads = 1, .Nq = 70, .Nk = 70, .d = 16, .dv = 16, .type = DType::float16}, 1);
  Recipe recipe_;
  ChildRun options_;
  Report expected_ = run_on_cpu(*problem_, recipe_, {.threads = 1, .check = {}});
};

TEST_F(GpuChild, BringsTheReportBack) {
  options_.repeats = 7, options_.timeline = true;
  std::int64_t last = 0;
  const Report report = run(good_, {}, [&](std::int64_t done, std::int64_t total) {
    EXPECT_GE(done, 0);
    EXPECT_LE(done, total);
    last = done;
  });
  EXPECT_GT(last, 0);
  EXPECT_EQ(report.O, expected_.O);
  EXPECT_EQ(report.LSE, expected_.LSE);
  EXPECT_EQ(report.traffic.bytes, expected_.traffic.bytes);
  ASSERT_TRUE(report.error);  // the parent's own comparison
  EXPECT_EQ(report.error->max, expected_.error->max);
  EXPECT_EQ(report.error->rows_checked, 140);
  ASSERT_TRUE(report.gpu);
  EXPECT_EQ(report.gpu->repeats, 7);
  EXPECT_EQ(report.gpu->not_measured, "there is no GPU");
  EXPECT_TRUE(report.gpu->timeline);
  options_.check.kind = CheckRows::Kind::none, options_.measure = false;
  const Report unchecked = run(good_);
  EXPECT_FALSE(unchecked.error);
  EXPECT_EQ(unchecked.gpu->not_measured, "not asked for");
}

TEST_F(GpuChild, SaysWhatItDoes) {
  options_.repeats = 2;
  std::vector<std::string> stages;
  std::vector<std::int64_t> shares;  // when each stage began
  std::mutex mutex;                  // the check's threads report too
  std::int64_t now = 0;
  run(
      good_, {},
      [&](std::int64_t done, std::int64_t) {
        const std::lock_guard lock(mutex);
        now = done;
      },
      [&](const std::string& stage) {
        const std::lock_guard lock(mutex);
        stages.push_back(stage), shares.push_back(now);
      });
  EXPECT_EQ(stages,
            (std::vector<std::string>{"writing the problem", "starting", "compiling flash2.cu", "timed launch 1 of 2",
                                      "timed launch 2 of 2", "handing the report over", "comparing with float64"}));
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_LT(shares[3], shares[4]);
}

TEST_F(GpuChild, ErrorsKeepTheirType) {
  setenv("FLASHSCOPE_TEST_FAULT", "input", 1);
  try {
    run(good_);
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "Br: found 3, expected a multiple of 16");
  }
  setenv("FLASHSCOPE_TEST_FAULT", "missing", 1);
  EXPECT_THROW(run(good_), gpu::Missing);
  setenv("FLASHSCOPE_TEST_FAULT", "compile", 1);
  try {
    run(good_);
    ADD_FAILURE();
  } catch (const gpu::CompileError& error) {
    EXPECT_STREQ(error.what(), "flash2.cu(3): error: a \"quoted\" word");
  }
  setenv("FLASHSCOPE_TEST_FAULT", "gpu", 1);
  EXPECT_THROW(run(good_), gpu::GpuError);
  unsetenv("FLASHSCOPE_TEST_FAULT");
  EXPECT_EQ(run(good_).O, expected_.O);
}

TEST_F(GpuChild, ADeadChildIsOneMessage) {
  EXPECT_THAT(message_of(script("kill -SEGV $$")), AllOf(HasSubstr("signal 11"), HasSubstr("nothing else is lost")));
  EXPECT_THAT(message_of(script("kill -KILL $$")), HasSubstr("signal 9"));
  EXPECT_THAT(message_of(script("kill -ABRT $$")), HasSubstr("signal 6"));
  EXPECT_THAT(message_of(script("echo no library of that name >&2; exit 127")),
              AllOf(HasSubstr("code 127"), HasSubstr("no library of that name")));
  EXPECT_THAT(message_of(script("exit 0")), HasSubstr("no result"));
  EXPECT_THAT(message_of(folder_ / "nowhere"), HasSubstr("does not start"));
}

TEST_F(GpuChild, GarbageIsOneMessage) {
  EXPECT_THAT(message_of(script("echo hello")), HasSubstr("said \"hello\" where JSON is expected"));
  EXPECT_THAT(message_of(script("printf '[1]\\n'")), HasSubstr("where JSON is expected"));
  EXPECT_THAT(message_of(script("echo '{\"progress\": \"x\"}'")), HasSubstr("where JSON is expected"));
  EXPECT_THAT(message_of(script("echo '{\"done\": 3}'")), HasSubstr("where JSON is expected"));
  EXPECT_THAT(message_of(script("echo '{\"stage\": 3}'")), HasSubstr("where JSON is expected"));
  EXPECT_THAT(message_of(script("exec cat /dev/zero")), HasSubstr("where JSON is expected"));
  EXPECT_THAT(message_of(script("exec yes '{\"progress\": [1, 2]}'")), HasSubstr("where JSON is expected"));
  EXPECT_THAT(message_of(script("echo '{\"error\": {\"kind\": 3}}'; exit 4")), HasSubstr("unknown"));
  EXPECT_THAT(message_of(script("echo '{\"done\": true}'")), HasSubstr("answer cannot be read"));
  EXPECT_THAT(message_of(script("echo PK > \"$2/answer.fscope\"; echo '{\"done\": true}'")),
              HasSubstr("answer cannot be read"));
  setenv("FLASHSCOPE_TEST_FAULT", "other", 1);
  try {
    run(good_);
    ADD_FAILURE();
  } catch (const gpu::GpuError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the report of another run"));
  }
}

TEST_F(GpuChild, IsEndedOnRequestAndWhenItTakesTooLong) {
  const auto child = script("echo $$ > '" + (folder_ / "pid").string() + "'; exec sleep 1000");
  const auto gone = [&] {
    pid_t pid = 0;
    std::ifstream(folder_ / "pid") >> pid;
    return pid > 0 && kill(pid, 0) != 0;
  };
  std::stop_source source;
  std::jthread later([&] {
    while (!std::filesystem::exists(folder_ / "pid") || std::filesystem::file_size(folder_ / "pid") == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    source.request_stop();
  });
  EXPECT_THROW(run(child, source.get_token()), Cancelled);
  EXPECT_TRUE(gone());
  options_.limit = std::chrono::seconds(1);
  EXPECT_THAT(
      [&] {
        try {
          run(child);
        } catch (const gpu::GpuError& error) {
          return std::string(error.what());
        }
        return std::string();
      }(),
      HasSubstr("after 1 s without a result"));
  EXPECT_TRUE(gone());
  options_.limit = std::chrono::seconds(1800);
  EXPECT_EQ(run(good_).O, expected_.O);
}

TEST_F(GpuChild, WhatCannotFitIsRefusedWithTheFigures) {
  gpu::GpuDevice device;
  device.name = "NVIDIA H200", device.memory_bytes = std::int64_t{141} << 30;
  Shape shape{.heads = 1, .kv_heads = 1, .Nq = 1 << 20, .Nk = 1 << 20, .d = 64, .dv = 64, .type = DType::bfloat16};
  Recipe standard;
  standard.algorithm = Algorithm::standard;
  try {
    check_fits(device_bytes(shape, {}, standard), device);
    ADD_FAILURE();
  } catch (const InputError& error) {
    // O: 2^20 x 64 x 2, LSE: 2^20 x 4, S and P: 2 x 2^40 x 2
    EXPECT_STREQ(
        error.what(),
        "run on the GPU: found 402653184 bytes of Q, K, V and 4398184923136 bytes of outputs, running state, S "
        "and P and 33554432 bytes of cuBLAS's workspace, expected at most 151397597184 bytes, the memory of "
        "NVIDIA H200");
  }
  const auto outputs = [&](const Recipe& recipe) { return device_bytes(shape, {}, recipe).outputs; };
  EXPECT_NO_THROW(check_fits(device_bytes(shape, {}, recipe_), device));
  EXPECT_EQ(outputs(recipe_), (std::int64_t{1} << 20) * (64 * 2 + 4));
  Recipe flash1;
  flash1.algorithm = Algorithm::flash1;
  EXPECT_EQ(outputs(flash1), (std::int64_t{1} << 20) * (64 + 2) * 4);
  flash1.normalise = Normalise::end;
  EXPECT_EQ(outputs(flash1), (std::int64_t{1} << 20) * ((64 + 2) * 4 + 64 * 2 + 4));
  shape.Nq = shape.Nk = std::int64_t{1} << 40;
  EXPECT_THROW(check_fits(device_bytes(shape, {}, standard), device), InputError);
}

}  // namespace
}  // namespace flashscope
