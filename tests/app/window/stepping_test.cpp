#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSlider>
#include <QSpinBox>

#include "app/window/stops.h"
#include "tests/app/window/harness.h"

namespace flashscope::window {
namespace {

TEST_F(WindowTest, FirstStartShowsTheDemoAtItsFirstRescale) {
  EXPECT_EQ(document().problem()->name, demo_problem()->name);
  EXPECT_EQ(document().recipe(), demo_recipe());
  EXPECT_FALSE(document().can_undo());
  ASSERT_FALSE(document().stage().state->events.empty());
  EXPECT_EQ(document().stage().state->events.front().kind, EventKind::rescale);
  EXPECT_TRUE(find<QWidget>("minutes_panel")->isVisible());
}

TEST_F(WindowTest, KeysStepBothWaysToTheSameBits) {
  press(Qt::Key_Home);
  EXPECT_EQ(K(), 0);
  std::vector<std::shared_ptr<const TraceState>> forward;
  for (int n = 0; n < 20; ++n) {
    press(n % 2 ? Qt::Key_Right : Qt::Key_F10);
    ASSERT_EQ(K(), n + 1);
    forward.push_back(document().stage().state);
  }
  for (int n = 19; n > 0; --n) {
    if (n % 2)
      press(Qt::Key_Left);
    else
      press(Qt::Key_F10, Qt::ShiftModifier);
    ASSERT_EQ(K(), n);
    const TraceState &now = *document().stage().state, &then = *forward[n - 1];
    EXPECT_EQ(now.step, then.step);
    EXPECT_TRUE(same(now.O, then.O) && same(now.P, then.P) && same(now.S, then.S)) << n;
    EXPECT_EQ(now.m, then.m);
    EXPECT_EQ(now.l, then.l);
  }
}

TEST_F(WindowTest, KeysGoByTileToTheEndsAndReset) {
  document().seek(document().stage().schedule->find(0, 2, 1, Stage::max).value() + 1);
  ASSERT_TRUE(settle());
  press(Qt::Key_Down);
  EXPECT_EQ(document().stage().state->step->j, 2);
  EXPECT_EQ(document().stage().state->step->stage, Stage::max);
  press(Qt::Key_Up);
  EXPECT_EQ(document().stage().state->step->j, 1);
  press(Qt::Key_End);
  EXPECT_EQ(K(), document().stage().schedule->steps());
  press(Qt::Key_R);
  EXPECT_EQ(K(), 0);
}

// As a person types: what is set by the program would be put back by the next refresh.
void type(QLineEdit& edit, const QString& text) {
  edit.setFocus();
  edit.selectAll();
  QTest::keyClicks(&edit, text);
}

TEST_F(WindowTest, StepIsTypedWithAllItsDigits) {
  auto* edit = find<QLineEdit>("step");
  type(*edit, "1,23");
  QTest::keyClick(edit, Qt::Key_Return);
  ASSERT_TRUE(settle());
  EXPECT_EQ(K(), 123);
  type(*edit, "999999999999");
  QTest::keyClick(edit, Qt::Key_Return);
  ASSERT_TRUE(settle());
  EXPECT_EQ(K(), document().stage().schedule->steps());
}

TEST_F(WindowTest, PlainKeysBelongToTheFieldThatHasTheFocus) {
  auto* edit = find<QLineEdit>("step");
  const std::int64_t before = K();
  type(*edit, "45");
  QTest::keyClick(edit, Qt::Key_Left);
  ASSERT_TRUE(settle());
  EXPECT_EQ(K(), before);
  EXPECT_EQ(edit->cursorPosition(), 1);
  press(Qt::Key_Escape);
  EXPECT_TRUE(stage().hasFocus());
}

TEST_F(WindowTest, PlayWalksToTheEndAndStops) {
  const std::int64_t steps = document().stage().schedule->steps();
  document().seek(steps - 3);
  ASSERT_TRUE(settle());
  QTest::keyClick(window_.get(), Qt::Key_Space);
  ASSERT_TRUE(wait_until([&] { return K() == steps; }));
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().stage().state->K, steps);
}

TEST_F(WindowTest, ChangingBrKeepsThePlace) {
  trigger("view.recipe");
  document().seek(document().stage().schedule->find(0, 3, 2, Stage::exponentials).value() + 1);
  ASSERT_TRUE(settle());
  auto* box = find<QSpinBox>("Br");
  ASSERT_EQ(box->value(), 128);
  box->setValue(64);
  ASSERT_TRUE(settle());
  const TraceState& state = *document().stage().state;
  EXPECT_EQ(document().recipe().Br, 64);
  EXPECT_EQ(document().stage().schedule->recipe().Br, 64);
  EXPECT_EQ(state.step->stage, Stage::exponentials);
  EXPECT_EQ(state.row0, 3 * 128);  // the first row of the block of before
  EXPECT_EQ(state.col0, 2 * 64);
  trigger("edit.undo");
  EXPECT_EQ(document().recipe().Br, 128);
  EXPECT_EQ(box->value(), 128);
  EXPECT_EQ(document().stage().state->row0, 3 * 128);
  trigger("edit.redo");
  EXPECT_EQ(document().recipe().Br, 64);
}

TEST_F(WindowTest, DraggedSliderIsOneUndoStep) {
  trigger("view.recipe");
  QSlider* slider = find<QWidget>("recipe_panel")->findChildren<QSlider*>().front();
  emit slider->sliderPressed();
  for (const int position : {48, 44, 40, 36}) {
    slider->setValue(position);
    ASSERT_TRUE(settle());
  }
  emit slider->sliderReleased();
  EXPECT_EQ(document().recipe().Br, 23);  // 2^(36/8)
  trigger("edit.undo");
  EXPECT_EQ(document().recipe().Br, 128);
  EXPECT_FALSE(document().can_undo());
}

TEST_F(WindowTest, RefusedRecipeChangesNothingAndSaysWhy) {
  Recipe recipe = document().recipe();
  recipe.defect = Defect::no_final_divide;
  recipe.normalise = Normalise::each;
  const Recipe before = document().recipe();
  window_->apply([&](Document& d) { d.set_recipe(recipe); });
  EXPECT_EQ(document().recipe(), before);
  EXPECT_TRUE(window_->message().contains("no-final-divide")) << window_->message().toStdString();
  press(Qt::Key_Escape);
  EXPECT_TRUE(window_->message().isEmpty());
}

TEST_F(WindowTest, NextAndPreviousRescaleAndNoNan) {
  press(Qt::Key_Home);
  press(Qt::Key_E);
  const std::int64_t first = K();
  press(Qt::Key_E);
  EXPECT_GT(K(), first);
  press(Qt::Key_E, Qt::ShiftModifier);
  EXPECT_EQ(K(), first);
  press(Qt::Key_N);
  EXPECT_EQ(K(), first);
  EXPECT_TRUE(window_->message().contains("nan", Qt::CaseInsensitive));
}

TEST_F(WindowTest, RunsToAStopSetByHandAndToEvents) {
  const Schedule& schedule = *document().stage().schedule;
  const std::int64_t here = schedule.find(0, 2, 1, Stage::max).value() + 1;
  document().seek(here);
  ASSERT_TRUE(settle());
  press(Qt::Key_F9);
  EXPECT_TRUE(window_->message().startsWith("Stop set at i 2, j 1: max"));
  press(Qt::Key_Home);
  press(Qt::Key_F5);
  EXPECT_EQ(K(), here);
  press(Qt::Key_F5);  // the demo has no NaN, and no other stop
  EXPECT_EQ(K(), here);
  EXPECT_TRUE(window_->message().contains("No stop after"));
  press(Qt::Key_End);
  press(Qt::Key_F5, Qt::ShiftModifier);
  EXPECT_EQ(K(), here);
  // Rescales as well: the first of them comes before the place.
  trigger("stop.rescale");
  press(Qt::Key_Home);
  press(Qt::Key_F5);
  EXPECT_GT(K(), 0);
  EXPECT_LT(K(), here);
  EXPECT_EQ(document().stage().state->events.front().kind, EventKind::rescale);
}

TEST_F(WindowTest, ALongSearchIsShownAndCancelled) {
  Shape shape{.heads = 1, .kv_heads = 1, .Nq = 32768, .Nk = 32768, .d = 64, .dv = 64, .type = DType::float32};
  const std::shared_ptr<const Problem> large = random_problem(shape, 7);
  window_->apply([&](Document& d) { d.set_problem(large); });
  ASSERT_TRUE(settle());
  QTest::keyClick(window_.get(), Qt::Key_N);
  auto* cancel = find<QWidget>("overlay")->findChild<QPushButton*>();
  ASSERT_TRUE(wait_until([&] { return cancel->isVisible(); }));
  EXPECT_FALSE(document().job().what.empty());
  cancel->click();
  EXPECT_TRUE(document().job().what.empty());
  ASSERT_TRUE(settle());
  EXPECT_FALSE(cancel->isVisible());
  EXPECT_EQ(K(), 0);
  press(Qt::Key_Right);
  EXPECT_EQ(K(), 1);
}

TEST_F(WindowTest, TheWindowDoesNotWaitForALongSearch) {
  Shape shape{.heads = 1, .kv_heads = 1, .Nq = 32768, .Nk = 32768, .d = 64, .dv = 64, .type = DType::float32};
  const std::shared_ptr<const Problem> large = random_problem(shape, 7);
  window_->apply([&](Document& d) { d.set_problem(large); });
  ASSERT_TRUE(settle());
  press(Qt::Key_F9);  // no tile at the start: a notice, no stop
  EXPECT_TRUE(window_->message().contains("belongs to none"));
  QTest::keyClick(window_.get(), Qt::Key_F5);  // the stop at NaN, of which there is none
  ASSERT_TRUE(wait_until([&] { return find<QWidget>("overlay")->findChild<QPushButton*>()->isVisible(); }));
  press(Qt::Key_Right);  // another command: the search is given up
  EXPECT_EQ(K(), 1);
  EXPECT_TRUE(window_->idle());
}

}  // namespace
}  // namespace flashscope::window
