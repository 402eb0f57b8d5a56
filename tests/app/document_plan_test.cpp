// The document between a change and its plan: what is asked in the meantime, what cannot be planned, what stays.
#include "app/document.h"
#include "tests/app/document_problems.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace flashscope {
namespace {

// Rows and keys for which one tile of everything needs more memory than stepping may take.
std::shared_ptr<const Problem> tall_problem() { return random_problem({1, 1, 16384, 16384, 1, 1, DType::float32}, 3); }

// With two reports of runs under `ran`, whose numbers do not matter here.
SessionFile session_of(const std::shared_ptr<const Problem>& problem, const Recipe& ran, const Recipe& recipe) {
  SessionFile session;
  session.problem = problem, session.recipe = recipe, session.K = 5;
  auto report = std::make_shared<Report>();
  report->shape = problem->shape(), report->recipe = ran;
  session.reports = {make_saved(report, problem, "test"), make_saved(report, problem, "test")};
  return session;
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

}  // namespace
}  // namespace flashscope
