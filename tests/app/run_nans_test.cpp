// `diagnose` of a session: the NaN rows of the runs in it, a GPU's among them, each by its chain.
#include <cmath>
#include <functional>

#include "engine/attention/cpu_runner.h"
#include "engine/files/session_file.h"
#include "tests/app/command_line.h"
#include "tests/engine/support.h"

namespace flashscope {
namespace {

class RunNansTest : public CommandLine {
 protected:
  // Case 02 without a guard, as a run on a GPU leaves it: the numbers are the engine's.
  std::string session(const std::function<void(Report&)>& change = {}) {
    const flashscope::testing::Case log("open-02-first-tile-masked");
    const auto problem =
        log.problem(DType::float32, flashscope::testing::keep_mask_from(log.json["inputs"]["mask"]["values"]));
    SessionFile session;
    session.problem = problem;
    Recipe recipe;
    recipe.Br = 2, recipe.Bc = 4, recipe.guard = Guard::none;
    auto report = std::make_shared<Report>(flashscope::testing::run(*problem, recipe));
    report->device = "NVIDIA H200", report->kernel = "flash2_simple";
    report->gpu.emplace().repeats = 1;
    if (change) change(*report);
    report->nan_rows.clear(), report->nan_row_count = 0;
    CheckRows none;
    none.kind = CheckRows::Kind::none;
    complete(*report, *problem, none, 1);
    session.reports.push_back(make_saved(report, problem, "test"));
    write_session(folder_ / "gpu.fscope", session);
    return "diagnose --input gpu.fscope";
  }
};

TEST_F(RunNansTest, ANanOfTheGpuIsTracedByTheSameChain) {
  // The session's own recipe has a guard: nothing is NaN under it, and the run's NaN is found all the same.
  const std::string command = session();
  const json found = run_json(command, 3);
  EXPECT_EQ(found["nan_rows"], json::array());
  ASSERT_EQ(found["runs"].size(), 1u);
  const json& one = found["runs"][0];
  EXPECT_EQ(one["device"], "NVIDIA H200");
  EXPECT_EQ(one["nan_rows"], json({0, 1, 2, 3}));
  EXPECT_EQ(one["same_as_computed"], true);
  EXPECT_EQ(one["why"]["cause"], "inf_minus_inf");
  EXPECT_EQ(one["why"]["chain"],
            "O[0, 0] <- l[0] <- P[0, :] <- S - m = (-inf) - (-inf) <- tile (0, 0) has no visible key for this row <- "
            "keep mask: k 0..3 are 0 for q 0");
  const Result text = run(command);
  EXPECT_THAT(text.out, HasSubstr("run on NVIDIA H200"));
  EXPECT_THAT(text.out, HasSubstr("the engine has the same 4 rows as NaN: its chain is this run's"));
}

TEST_F(RunNansTest, ANanThatTheEngineDoesNotHaveIsSaidToBeAnother) {
  const json found = run_json(session([](Report& report) {
                                report.recipe.Bc = 5;
                                for (double& o : report.O) o = 1;
                                report.O[2 * report.shape.dv] = std::nan("");
                              }),
                              3);
  const json& one = found["runs"][0];
  EXPECT_EQ(one["nan_rows"], json({2}));
  EXPECT_EQ(one["same_as_computed"], false);
  EXPECT_EQ(one["only_in_run"], json({2}));
  EXPECT_TRUE(one["why"]["cause"].is_null());
}

}  // namespace
}  // namespace flashscope
