// The document driven by commands, waiting on states and never on time.
#include "app/document.h"
#include "tests/app/document_problems.h"
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
