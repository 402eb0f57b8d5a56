// Sessions on the command line: what a command takes from one, what --save puts into it, and what it must not lose.
#include "app/run_list.h"
#include "engine/files/session_file.h"
#include "tests/app/command_line.h"

namespace flashscope {
namespace {

using SessionCommand = CommandLine;

// What the options do not say is the session's.
TEST_F(SessionCommand, ASessionsRecipeIsTheDefault) {
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

TEST_F(SessionCommand, ASessionIsSavedAndIsAProblem) {
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

TEST_F(SessionCommand, MasksByRuleAreTheSessionsToo) {
  const json saved = run_json(
      "run --random 1 --n 64 --d 8 --heads 2 --lengths 32,20 --softcap 5 --prefix 3 --alibi 0.5,0.25 "
      "--documents 40,24 --causal --device cpu --save r.fscope");
  const json again = run_json("run --input r.fscope --device cpu --save r.fscope");
  EXPECT_EQ(again["conventions"], saved["conventions"]);
  EXPECT_EQ(again["o_checksum"], saved["o_checksum"]);
  const SessionFile session = read_session(folder_ / "r.fscope");
  EXPECT_EQ(session.problem->mask.rules.lengths, (std::vector<std::int64_t>{32, 20}));
  EXPECT_EQ(session.problem->mask.rules.softcap, 5);
  const json one = run_json("diagnose --input r.fscope --head 1 --softcap 7");
  EXPECT_THAT(one["conventions"], HasSubstr("length 20"));
  EXPECT_THAT(one["conventions"], HasSubstr("ALiBi 0.25"));
  EXPECT_THAT(one["conventions"], HasSubstr("softcap 7"));
  EXPECT_THAT(one["conventions"], HasSubstr("documents"));
}

// Options that say something of the command, not of the kernel, are read once.
TEST_F(SessionCommand, AQuestionIsAnsweredOnce) {
  run_json("run --random 1 --n 8 --d 4 --bc 4 --device cpu --save s.fscope");
  const json found = run_json("diagnose --input s.fscope --why 'O[0,1,2];l[0,3]' --bc 2 --mask-apply add");
  EXPECT_EQ(found["why"].size(), 2u);
  EXPECT_EQ(found["recipe"]["bc"], 2);
  EXPECT_EQ(found["recipe"]["mask_apply"], "add");
}

// Equal in shape and conventions, and yet runs of other problems: by scale, by numbers, by what a mask holds.
TEST_F(SessionCommand, OnlyRunsOfTheVeryProblemAreItsOwn) {
  run_json("run --random 1 --n 40 --d 8 --causal --device cpu --save s.fscope");
  run_json("run --input s.fscope --scale 1 --device cpu --save s.fscope");
  SessionFile session = read_session(folder_ / "s.fscope");
  ASSERT_EQ(session.reports.size(), 2u);
  EXPECT_FALSE(session.reports[0].problem);
  EXPECT_EQ(session.reports[1].problem, session.problem);
  RunList runs;
  runs.take(session.reports);
  EXPECT_EQ(runs.last(*session.problem, session.recipe)->saved.report, session.reports[1].report);
  // Back at the first scale the first run is its own again, and the second is not.
  run_json("run --input s.fscope --scale 0.35355339059327373 --device cpu --save s.fscope");
  session = read_session(folder_ / "s.fscope");
  EXPECT_EQ(session.reports[0].problem, session.problem);
  EXPECT_FALSE(session.reports[1].problem);
  EXPECT_EQ(session.reports[2].problem, session.problem);

  // Without a display each report is shown under its own mask: the formula of another one would be wrong.
  run_json("run --input s.fscope --causal bottom-right --window 3,0 --device cpu --save s.fscope");
  const Result shown = run("s.fscope");
  EXPECT_EQ(shown.code, 0) << shown.err;
  const auto report = [&](int n) {
    const std::size_t from = shown.out.find("report " + std::to_string(n) + " of 4");
    return shown.out.substr(from, shown.out.find("report " + std::to_string(n + 1) + " of 4") - from);
  };
  EXPECT_THAT(report(1), HasSubstr("closed form, formula: missing"));
  EXPECT_THAT(report(4), testing::Not(HasSubstr("closed form, formula: missing")));
}

TEST_F(SessionCommand, OneHeadNeverReplacesItsSession) {
  run_json("run --random 1 --n 40 --d 8 --heads 3 --device cpu --save s.fscope");
  const std::string before = contents(folder_ / "s.fscope");
  expect_refused("run --input s.fscope --head 1 --device cpu --save ./s.fscope",
                 "the session itself, of 3 heads, expected another file");
  EXPECT_EQ(contents(folder_ / "s.fscope"), before);
  run_json("run --input s.fscope --head 1 --device cpu --save one.fscope");
  const SessionFile one = read_session(folder_ / "one.fscope");
  EXPECT_EQ(one.problem->shape().heads, 1);
  ASSERT_EQ(one.reports.size(), 2u);  // what was measured of all heads is kept, and is not this head's
  EXPECT_EQ(one.reports[0].report->shape.heads, 3);
  EXPECT_FALSE(one.reports[0].problem);
  EXPECT_EQ(one.reports[1].problem, one.problem);
  run_json("run --input one.fscope --head 0 --device cpu --save one.fscope");  // nothing is lost
  EXPECT_EQ(read_session(folder_ / "one.fscope").reports.size(), 3u);
}

// Heads are numbered as in the file, also where one alone is read.
TEST_F(SessionCommand, AHeadKeepsItsNumber) {
  const json ran = run_json("run --random 1 --n 40 --d 8 --heads 4 --head 2 --device cpu --check all");
  EXPECT_EQ(ran["error_vs_float64"]["worst_head"], 2);

  const std::string sentinel =
      "diagnose --random 1 --n 8 --d 4 --heads 4 --head 2 --causal "
      "--defect finite-sentinel=-0.001";
  const json found = run_json(sentinel)["mask"]["maximum_on_masked"];
  ASSERT_GT(found["first"].size(), 0u);
  EXPECT_EQ(found["first"][0]["head"], 2);
  EXPECT_THAT(run(sentinel).out, HasSubstr("maximum sits on a masked cell: first head 2 row"));

  std::vector<double> bias(4 * 8 * 8, 0.0);
  bias[static_cast<std::size_t>((2 * 8 + 5) * 8 + 1)] = std::nan("");
  bias[static_cast<std::size_t>((2 * 8 + 6) * 8 + 2)] = HUGE_VAL;
  const std::array arrays{OutArray{"bias", ElementType::float32, {4, 8, 8}, bias}};
  write_npz(folder_ / "bias.npz", arrays);
  const std::string with_bias = "diagnose --random 1 --n 8 --d 4 --heads 4 --head 2 --bias bias.npz";
  const json mask = run_json(with_bias, 3)["mask"];
  EXPECT_EQ(mask["first_nan_cells"], json({{2, 5, 1}}));
  EXPECT_EQ(mask["first_plus_inf_cells"], json({{2, 6, 2}}));
  EXPECT_THAT(run(with_bias).out, HasSubstr("head 2 [5, 1]"));
}

}  // namespace
}  // namespace flashscope
