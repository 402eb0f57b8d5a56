// The document driven by commands, waiting on states and never on time.
#include "app/document.h"
#include "tests/place.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace flashscope {
namespace {

std::shared_ptr<const Problem> small_problem() {
  Mask causal;
  causal.causal = Causal::top_left;
  return random_problem({2, 1, 200, 200, 16, 16, DType::float32}, 3, {}, causal);
}

Recipe small_recipe(std::int64_t Br, std::int64_t Bc) {
  Recipe recipe;
  recipe.Br = Br, recipe.Bc = Bc;
  return recipe;
}

TEST(Document, steps_forward_and_back) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  document.set_problem(small_problem());
  document.wait_idle();
  EXPECT_EQ(document.requested_K(), 0);
  document.step(5);
  document.wait_idle();
  ASSERT_TRUE(document.stage().state);
  EXPECT_EQ(document.stage().state->K, 5);
  document.step(-2);
  document.wait_idle();
  EXPECT_EQ(document.stage().state->K, 3);
  EXPECT_EQ(document.stage().state->step->stage, Stage::scores);
  document.step(-100);
  document.wait_idle();
  EXPECT_EQ(document.stage().state->K, 0);
}

// The step that is shown until another problem is planned is of the one before: its head may be none of the new one's.
TEST(Document, the_head_is_one_of_its_problem) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  EXPECT_EQ(document.head(), 0);
  document.set_problem(small_problem());
  document.wait_idle();
  document.step_head(1);
  document.wait_idle();
  EXPECT_EQ(document.head(), 1);
  document.set_problem(random_problem({1, 1, 20, 20, 16, 16, DType::float32}, 3, {}, {}));
  ASSERT_EQ(document.stage().state->head, 1);  // nothing is taken over before poll()
  EXPECT_EQ(document.head(), 0);
  document.wait_idle();
  EXPECT_EQ(document.head(), 0);
}

TEST(Document, changing_Br_keeps_the_place) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  document.set_problem(small_problem());
  document.wait_idle();
  const auto K = document.stage().schedule->find(1, 4, 6, Stage::rescale);  // rows 128.., keys 96..
  ASSERT_TRUE(K);
  document.seek(*K + 1);
  document.wait_idle();
  document.set_recipe(small_recipe(64, 16));
  document.wait_idle();
  const auto state = document.stage().state;
  EXPECT_EQ(state->head, 1);
  EXPECT_EQ(state->i, 2);
  EXPECT_EQ(state->j, 6);
  EXPECT_EQ(state->step->stage, Stage::rescale);
  EXPECT_EQ(document.requested_K(), state->K);
  // And back by undo, to the same place.
  ASSERT_TRUE(document.can_undo());
  document.undo();
  document.wait_idle();
  EXPECT_EQ(document.recipe().Br, 32);
  EXPECT_EQ(document.stage().state->row0, 128);
  EXPECT_EQ(document.stage().state->j, 6);
  document.redo();
  document.wait_idle();
  EXPECT_EQ(document.recipe().Br, 64);
}

TEST(Document, undo_goes_back_to_the_step_that_was_left) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  document.set_problem(small_problem());
  document.wait_idle();
  const std::int64_t left = document.stage().schedule->find(1, 4, 6, Stage::rescale).value() + 1;
  document.seek(left);
  document.wait_idle();
  document.set_recipe(small_recipe(64, 16));
  document.wait_idle();
  document.seek(7);  // somewhere else in between
  document.wait_idle();
  document.undo();
  document.wait_idle();
  EXPECT_EQ(document.recipe().Br, 32);
  EXPECT_EQ(document.requested_K(), left);
  EXPECT_EQ(document.stage().state->K, left);
  document.redo();
  document.wait_idle();
  EXPECT_EQ(document.recipe().Br, 64);
  EXPECT_EQ(document.stage().state->K, 7);

  // A step that is taken before the plan is there is one from that place.
  document.undo();
  document.step(1);
  document.wait_idle();
  EXPECT_EQ(document.stage().state->K, left + 1);

  // Two at once, and from another problem: its place is no place here.
  document.set_recipe(small_recipe(16, 16));
  document.wait_idle();
  document.seek(3);
  document.wait_idle();
  document.set_problem(small_problem());
  document.wait_idle();
  EXPECT_EQ(document.stage().state->K, 0);
  document.undo();
  document.wait_idle();
  EXPECT_EQ(document.recipe().Br, 16);
  EXPECT_EQ(document.stage().state->K, 3);
  document.redo();
  document.undo();
  document.undo();
  document.wait_idle();
  EXPECT_EQ(document.recipe().Br, 32);
  EXPECT_EQ(document.stage().state->K, left + 1);
}

TEST(Document, what_is_asked_while_a_plan_is_made_keeps_the_place) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  document.set_problem(small_problem());
  document.wait_idle();
  document.seek(*document.stage().schedule->find(1, 4, 6, Stage::rescale) + 1);
  document.wait_idle();
  for (std::int64_t Br : {64, 16, 64, 32}) {
    document.set_recipe(small_recipe(Br, 16));
    document.step(1);
    // The plan is made, but its result has not been polled yet.
    for (std::int64_t row = 128; row < 133; ++row) {
      document.hover_row(row);
      std::this_thread::yield();
    }
    document.step(-1);
    document.wait_idle();
    const auto state = document.stage().state;
    EXPECT_EQ(state->head, 1);
    EXPECT_EQ(state->row0, 128);
    EXPECT_EQ(state->j, 6);
    EXPECT_EQ(state->step->stage, Stage::rescale);
  }
}

TEST(Document, what_is_asked_for_while_a_plan_is_made_waits_for_it) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  document.set_problem(small_problem());  // nothing is planned yet
  document.seek(40);
  document.seek(30);
  document.step(2);
  document.request_history(0, 50, 3);
  document.wait_idle();
  EXPECT_EQ(document.stage().state->K, 32);
  ASSERT_TRUE(document.history());
  EXPECT_EQ(document.history()->row, 50);
  EXPECT_EQ(document.history()->channel, 3);
  document.set_recipe(small_recipe(64, 16));
  document.find(EventKind::rescale, true);
  document.wait_idle();
  EXPECT_EQ(document.recipe().Br, 64);
  EXPECT_EQ(document.stage().state->step->stage, Stage::rescale);
}

TEST(Document, runs_to_the_nearest_of_its_stops) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  document.set_problem(small_problem());
  std::vector<std::string> heard;
  const std::vector<Stop> stops = {parse_stop("tile:1,0,max"), parse_stop("alpha < 0.5 and row > 100")};
  const auto note = [&](const Found& found) { heard.push_back(text_of(stops[found.stop])); };
  document.run_to(stops, true, note);
  document.wait_idle();
  const std::int64_t first = document.requested_K();
  EXPECT_EQ(document.stage().state->step->stage, Stage::max);
  document.run_to(stops, true, note);
  document.wait_idle();
  EXPECT_EQ(document.stage().state->step->stage, Stage::rescale);
  EXPECT_GE(document.stage().state->row0 + 31, 100);
  document.run_to(stops, false, note);
  document.wait_idle();
  EXPECT_EQ(document.requested_K(), first);
  EXPECT_EQ(heard, (std::vector<std::string>{"tile:1,0,max", "alpha < 0.5 and row > 100", "tile:1,0,max"}));
  document.run_to({parse_stop("nan")}, true, note);
  document.wait_idle();
  EXPECT_EQ(document.message(), "No NaN after this step");
  EXPECT_EQ(heard.size(), 3u);
}

TEST(Document, keeps_a_second_recipe_in_step_by_place) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  document.set_problem(small_problem());
  Recipe wrong = small_recipe(32, 16);
  wrong.defect = Defect::no_rescale_o;
  document.set_beside(wrong);
  document.wait_idle();
  ASSERT_TRUE(document.stage().beside);
  for (const std::int64_t K : {0, 5, 40, 77}) {
    document.seek(K);
    document.wait_idle();
    EXPECT_EQ(document.stage().beside->state->K, K);
    EXPECT_EQ(document.stage().beside->schedule->recipe(), wrong);
  }
  document.seek(0);
  document.find_difference(true);
  document.wait_idle();
  const auto& stage = document.stage();
  EXPECT_EQ(stage.state->step->stage, Stage::rescale);
  ASSERT_TRUE(stage.differences);
  EXPECT_GT(stage.differences->count, 0);
  const std::int64_t first = stage.state->K;
  document.find_difference(true);
  document.wait_idle();
  EXPECT_GT(document.requested_K(), first);
  document.find_difference(false);
  document.wait_idle();
  EXPECT_EQ(document.requested_K(), first);
  // The first recipe changes, the second one stays; a change of Br keeps both at the place.
  document.set_recipe(small_recipe(64, 16));
  document.wait_idle();
  EXPECT_EQ(document.stage().beside->schedule->recipe(), wrong);
  EXPECT_EQ(document.stage().beside->state->j, document.stage().state->j);
  EXPECT_FALSE(document.can_undo() && document.recipe().Br == 32);
  document.set_beside({});
  document.wait_idle();
  EXPECT_FALSE(document.stage().beside);
  EXPECT_FALSE(document.stage().differences);
}

TEST(Document, found_belongs_to_its_problem) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  document.set_problem(small_problem(), {"the first"});
  document.wait_idle();
  document.set_problem(small_problem(), {"the second"});
  document.wait_idle();
  EXPECT_EQ(document.found(), std::vector<std::string>{"the second"});
  document.undo();
  document.wait_idle();
  EXPECT_EQ(document.found(), std::vector<std::string>{"the first"});
  document.redo();
  document.wait_idle();
  EXPECT_EQ(document.found(), std::vector<std::string>{"the second"});
}

// Rows and keys for which one tile of everything needs more memory than stepping may take.
std::shared_ptr<const Problem> tall_problem() { return random_problem({1, 1, 16384, 16384, 1, 1, DType::float32}, 3); }

TEST(Document, a_first_problem_that_cannot_be_planned_waits_for_other_settings) {
  Document document;
  document.set_recipe(small_recipe(16384, 16384));
  document.set_problem(tall_problem(), {"too large"});
  document.wait_idle();
  EXPECT_NE(document.message().find("Br 16384"), std::string::npos) << document.message();
  document.clear_message();
  document.step(1);
  document.seek(3);
  document.hover_row(2);
  document.wait_idle();
  EXPECT_EQ(document.message(), "");  // nothing tries again by itself
  EXPECT_FALSE(document.stage().state);
  document.set_recipe(small_recipe(512, 512));
  document.seek(3);
  document.wait_idle();
  ASSERT_TRUE(document.stage().state);
  EXPECT_EQ(document.stage().state->K, 3);
  // One that is opened after it and fails leaves what was found.
  document.set_problem(tall_problem(), {"another"});
  document.set_recipe(small_recipe(16384, 16384));
  document.wait_idle();
  EXPECT_EQ(document.found(), std::vector<std::string>{"too large"});
  EXPECT_EQ(document.recipe().Br, 512);
}

TEST(Document, settings_that_cannot_be_planned_leave_undo_and_redo_as_they_were) {
  Document document;
  document.set_recipe(small_recipe(512, 512));
  document.set_problem(tall_problem());
  document.wait_idle();
  document.seek(9);
  document.wait_idle();
  document.set_recipe(small_recipe(16384, 16384));
  document.wait_idle();
  EXPECT_NE(document.message().find("Br 16384"), std::string::npos) << document.message();
  EXPECT_EQ(document.recipe().Br, 512);
  EXPECT_EQ(document.stage().state->K, 9);
  EXPECT_FALSE(document.can_undo());
  // A change before one that fails is not planned either; both are taken back.
  document.set_recipe(small_recipe(256, 512));
  document.set_recipe(small_recipe(16384, 16384));
  document.wait_idle();
  EXPECT_EQ(document.recipe().Br, 512);
  EXPECT_EQ(document.requested_K(), 9);
  EXPECT_FALSE(document.can_undo());
  document.seek(11);
  document.wait_idle();
  EXPECT_EQ(document.stage().state->K, 11);
  EXPECT_EQ(document.stage().schedule->recipe().Br, 512);
  // Undo to settings that cannot be planned.
  document.set_recipe(small_recipe(16384, 16384));
  document.set_recipe(small_recipe(1024, 512));
  document.wait_idle();
  ASSERT_EQ(document.recipe().Br, 1024);
  ASSERT_EQ(document.stage().schedule->recipe().Br, 1024);
  document.undo();
  document.wait_idle();
  EXPECT_EQ(document.recipe().Br, 1024);
  EXPECT_TRUE(document.can_undo());
  EXPECT_FALSE(document.can_redo());
}

// With two reports of runs under `ran`, whose numbers do not matter here.
SessionFile session_of(const std::shared_ptr<const Problem>& problem, const Recipe& ran, const Recipe& recipe) {
  SessionFile session;
  session.problem = problem, session.recipe = recipe, session.K = 5;
  auto report = std::make_shared<Report>();
  report->shape = problem->shape(), report->recipe = ran;
  session.reports = {make_saved(report, problem, "test"), make_saved(report, problem, "test")};
  return session;
}

TEST(Document, a_session_that_cannot_be_planned_leaves_what_was_open) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  const auto problem = small_problem();
  document.set_problem(problem);
  document.run_full();
  document.seek(7);
  document.wait_idle();
  const RunList runs = document.runs();
  ASSERT_EQ(runs.all().size(), 1u);
  document.mark_saved(document.session());
  int taken = 0;
  const SessionFile good = session_of(small_problem(), small_recipe(32, 16), small_recipe(32, 16));
  SessionFile bad = session_of(tall_problem(), small_recipe(512, 512), small_recipe(16384, 16384));

  document.set_session(bad, [&] { ++taken; });
  EXPECT_EQ(document.session().problem, problem);  // what is saved meanwhile is what is open
  document.wait_idle();
  EXPECT_NE(document.message().find("Br 16384"), std::string::npos) << document.message();
  EXPECT_EQ(taken, 0);
  EXPECT_EQ(document.problem(), problem);
  EXPECT_EQ(document.runs().all(), runs.all());
  EXPECT_FALSE(document.modified());
  EXPECT_EQ(document.stage().state->K, 7);
  document.step(1);
  document.wait_idle();
  EXPECT_EQ(document.stage().state->K, 8);  // and not at the place of the session

  // What changes the settings on the way comes after the session, and fails or is taken with it.
  document.set_session(good, [&] { ++taken; });
  document.set_recipe(small_recipe(64, 16));
  document.wait_idle();
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(document.recipe().Br, 64);
  EXPECT_EQ(document.problem()->q, good.problem->q);
  EXPECT_EQ(document.runs().all().size(), 2u);
  EXPECT_TRUE(document.modified());
  // Another problem instead of it: its runs never come.
  document.set_session(bad, [&] { ++taken; });
  document.set_problem(problem);
  document.set_recipe(small_recipe(32, 16));
  document.wait_idle();
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(document.problem(), problem);
  EXPECT_EQ(document.runs().all().size(), 2u);

  document.set_session(good, [&] { ++taken; });
  document.wait_idle();
  EXPECT_EQ(taken, 2);
  EXPECT_EQ(document.requested_K(), 5);
  EXPECT_FALSE(document.modified());
  EXPECT_FALSE(document.can_undo());
  EXPECT_TRUE(document.report());
  bad.problem.reset();  // of reports only: nothing to plan
  document.set_session(bad, [&] { ++taken; });
  EXPECT_EQ(taken, 3);
}

TEST(Document, a_first_session_that_cannot_be_planned_is_open_all_the_same) {
  Document document;
  const SessionFile bad = session_of(tall_problem(), small_recipe(512, 512), small_recipe(16384, 16384));
  document.set_session(bad);
  document.wait_idle();
  EXPECT_EQ(document.runs().all().size(), 2u);
  document.set_recipe(small_recipe(512, 512));
  document.wait_idle();
  EXPECT_TRUE(document.stage().state);
  EXPECT_TRUE(document.report());
}

TEST(Document, a_late_refusal_of_a_second_recipe_leaves_the_next_one) {
  std::atomic<int> heard = 0;
  Document document([&] { ++heard; });
  document.set_recipe(small_recipe(512, 512));
  document.set_problem(tall_problem());
  document.wait_idle();
  for (int n = 0; n < 3; ++n) {
    const int before = heard;
    document.set_beside(small_recipe(16384, 16384));
    while (heard == before) std::this_thread::yield();  // the refusal waits to be polled; or, rarely, the scan's news
    document.set_beside(small_recipe(256, 512));
    document.poll();
    EXPECT_EQ(document.beside(), small_recipe(256, 512));
    document.wait_idle();
    ASSERT_TRUE(document.stage().beside);
    EXPECT_EQ(document.stage().beside->schedule->recipe().Br, 256);
  }
}

TEST(Document, goes_back_a_tile_from_the_finishes_of_flash1) {
  Document document;
  Recipe recipe = small_recipe(2, 64);
  recipe.algorithm = Algorithm::flash1;
  document.set_recipe(recipe);
  document.set_problem(small_problem());
  document.wait_idle();
  document.seek(*document.stage().schedule->find(0, 99, -1, Stage::finish) + 1);
  document.step_tile(-1);
  document.wait_idle();
  EXPECT_EQ(document.stage().state->head, 0);
  EXPECT_EQ(document.stage().state->i, 99);
  EXPECT_EQ(document.stage().state->j, 3);
  document.seek(*document.stage().schedule->find(0, 5, -1, Stage::finish) + 1);
  document.step_tile(1);
  document.wait_idle();
  EXPECT_EQ(document.stage().state->head, 1);
  EXPECT_EQ(document.stage().state->j, 0);
}

TEST(Document, closes_while_its_workers_call_back) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> calls = 0;
    Document document([&calls] { ++calls; });
    document.set_problem(small_problem());
    document.poll();
    document.run_full();
    if (round % 2) document.set_recipe(small_recipe(16 + round, 16));
  }
}

TEST(Document, bad_settings_say_why_and_change_nothing) {
  Document document;
  document.set_problem(small_problem());
  document.set_recipe(small_recipe(64, 64));
  document.wait_idle();
  document.seek(7);
  document.wait_idle();
  Recipe bad = document.recipe();
  bad.Br = 0;
  document.set_recipe(bad);
  document.wait_idle();
  EXPECT_NE(document.message().find("Br"), std::string::npos) << document.message();
  EXPECT_EQ(document.recipe().Br, 64);
  EXPECT_EQ(document.stage().state->K, 7);
}

TEST(Document, a_file_that_cannot_be_opened_loses_nothing) {
  Document document;
  document.set_problem(small_problem());
  document.wait_idle();
  const auto before = document.problem();
  ProblemFiles files;
  files.input = "there/is/no/such/file.npz";
  document.open(files);
  document.wait_idle();
  EXPECT_NE(document.message().find("file.npz"), std::string::npos) << document.message();
  EXPECT_EQ(document.problem(), before);
}

TEST(Document, finds_the_next_and_previous_event_and_shows_it) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  document.set_problem(small_problem());
  document.wait_idle();
  document.find(EventKind::rescale, true);
  document.wait_idle();
  const std::int64_t first = document.stage().state->K;
  ASSERT_GT(first, 0);
  EXPECT_EQ(document.stage().state->step->stage, Stage::rescale);
  document.find(EventKind::rescale, true);
  document.wait_idle();
  EXPECT_GT(document.stage().state->K, first);
  document.find(EventKind::rescale, false);
  document.wait_idle();
  EXPECT_EQ(document.stage().state->K, first);
  document.find(EventKind::nan, true);
  document.wait_idle();
  EXPECT_EQ(document.stage().state->K, first);
  EXPECT_FALSE(document.message().empty());
}

TEST(Document, the_events_list_agrees_with_the_totals) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  document.set_problem(small_problem());
  document.wait_idle();
  const auto scan = document.scan();
  std::const_pointer_cast<Scan>(scan)->wait();
  const unsigned rescales = 1u << static_cast<unsigned>(EventKind::rescale);
  const std::int64_t count = scan->event_count(rescales);
  EXPECT_EQ(count, scan->totals().rescale);
  ASSERT_GT(count, 20);
  document.request_events(rescales, count - 10, 10);
  document.wait_idle();
  ASSERT_TRUE(document.events());
  ASSERT_EQ(document.events()->events.size(), 10u);
  for (const Event& event : document.events()->events) {
    EXPECT_EQ(event.kind, EventKind::rescale);
    EXPECT_GT(event.step, 0);
    EXPECT_LT(event.alpha, 1);
  }
}

TEST(Document, pinned_rows_are_checked) {
  Document document;
  document.set_recipe(small_recipe(32, 16));
  document.set_problem(small_problem());
  document.wait_idle();
  document.seek_tile(3, 2);
  document.wait_idle();
  document.seek(*document.stage().schedule->find(0, 3, 2, Stage::accumulate) + 1);
  document.pin_row(100, true);
  document.wait_idle();
  ASSERT_TRUE(document.stage().check);
  EXPECT_EQ(document.stage().check_row, 100);
  EXPECT_LE(std::abs(document.stage().check->sum_p_over_l - 1), 1e-5);
}

TEST(Demo, the_first_three_minutes_show_the_golden_numbers) {
  std::ifstream file(source_path("tests/data/first_demo.json"));
  const auto golden = nlohmann::json::parse(file);
  const auto problem = demo_problem();
  const auto lines = first_three_minutes();
  ASSERT_EQ(lines.size(), golden["runs"].size());
  for (std::size_t n = 0; n < lines.size(); ++n) {
    const auto& run = golden["runs"][n];
    const FirstMinuteNumbers numbers = compute(*problem, lines[n]);
    EXPECT_EQ(lines[n].recipe.Br, run["Br"]);
    EXPECT_EQ(lines[n].recipe.Bc, run["Bc"]);
    EXPECT_EQ(numbers.nan_rows, run["nan_rows"]) << n;
    EXPECT_EQ(numbers.rescales, run["rescales"]) << n;
    EXPECT_EQ(numbers.tiles_visited, run["tiles_visited"]) << n;
    EXPECT_EQ(numbers.bytes, run["bytes"]) << n;
    EXPECT_EQ(numbers.first_nan.has_value(), run.contains("first_nan")) << n;
    if (numbers.first_nan) {
      EXPECT_EQ(*numbers.first_nan, "tile (0, 1), row 0: (-inf) - (-inf)");
    }
  }
}

// What a run on a GPU says of itself is shown while it runs.
TEST(DocumentRuns, TheStageOfARunOnAGpu) {
  const TemporaryFolder folder;
  const auto child = folder / "child";
  std::ofstream(child)
      << "#!/bin/sh\necho '{\"progress\": [1, 4], \"stage\": \"timed launch 3 of 20\"}'\nexec sleep 600\n";
  std::filesystem::permissions(child, std::filesystem::perms::owner_all);
  setenv("FLASHSCOPE_GPU_CHILD", child.c_str(), 1);
  Document document;
  document.set_problem(random_problem({1, 1, 64, 64, 16, 16, DType::float32}, 1));
  document.wait_idle();
  document.run_full({.gpu = true, .device = 0});
  JobStatus job;
  while (!(job = document.job()).what.empty() && job.stage != "timed launch 3 of 20") {
    document.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(job.what, "Running flash2 on the GPU");
  EXPECT_EQ(job.stage, "timed launch 3 of 20");
  document.cancel_job();
  document.wait_idle();
  EXPECT_EQ(document.job().stage, "");
  unsetenv("FLASHSCOPE_GPU_CHILD");
}

}  // namespace
}  // namespace flashscope
