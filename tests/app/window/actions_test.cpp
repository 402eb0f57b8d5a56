#include <QLineEdit>
#include <QListWidget>
#include <QSettings>
#include <set>

#include "app/window/command_palette.h"
#include "tests/app/window/harness.h"

namespace flashscope::window {
namespace {

TEST(Fuzzy, FindsLettersInOrderAndPrefersWordStarts) {
  EXPECT_LT(fuzzy_score("xyz", "Go: Next rescale"), 0);
  EXPECT_LT(fuzzy_score("elacser", "Go: Next rescale"), 0);
  EXPECT_GE(fuzzy_score("nextres", "Go: Next rescale"), 0);
  EXPECT_GT(fuzzy_score("nr", "Go: Next rescale"), fuzzy_score("nr", "Go: Run everything"));
  EXPECT_GT(fuzzy_score("nan", "Go: Next NaN"), fuzzy_score("nan", "View: Animate transfers"));
}

TEST(TypedPlace, StepsTilesAndRows) {
  EXPECT_EQ(typed_place("1200")->title, "Go to step 1,200");
  EXPECT_EQ(typed_place("1,445,888")->title, "Go to step 1,445,888");
  EXPECT_EQ(typed_place("5,3")->title, "Go to tile (5, 3)");
  EXPECT_EQ(typed_place("tile 5 3")->title, "Go to tile (5, 3)");
  EXPECT_EQ(typed_place("row 372")->title, "Go to row 372");
  EXPECT_FALSE(typed_place("rescale"));
  EXPECT_FALSE(typed_place(""));
  EXPECT_FALSE(typed_place("99999999999999999999"));
}

TEST_F(WindowTest, NoKeyBelongsToTwoCommands) {
  std::map<QString, QString> owners;
  for (const Actions::Entry& entry : window_->actions_table().entries())
    for (const QKeySequence& key : entry.action->shortcuts()) {
      const auto [at, fresh] = owners.emplace(key.toString(), entry.id);
      EXPECT_TRUE(fresh) << key.toString().toStdString() << ": " << at->second.toStdString() << " and "
                         << entry.id.toStdString();
    }
}

TEST_F(WindowTest, TooltipsShowTheKeys) {
  EXPECT_TRUE(window_->actions_table()["go.step"]->toolTip().contains("F10, Right"));
}

TEST_F(WindowTest, KeysAreReboundAndRemembered) {
  auto& actions = const_cast<Actions&>(window_->actions_table());
  actions.set_keys("go.step", {QKeySequence("X")});
  const std::int64_t before = K();
  press(Qt::Key_X);
  EXPECT_EQ(K(), before + 1);
  press(Qt::Key_Right);
  EXPECT_EQ(K(), before + 1);
  close();
  start();
  EXPECT_EQ(window_->actions_table()["go.step"]->shortcuts(), QList<QKeySequence>{QKeySequence("X")});
  EXPECT_EQ(window_->actions_table()["go.back"]->shortcuts().size(), 2);
}

TEST_F(WindowTest, ThePaletteRunsWhatIsTyped) {
  press(Qt::Key_P, Qt::ControlModifier);
  auto* palette = find<CommandPalette>("palette");
  ASSERT_TRUE(palette->isVisible());
  auto* input = palette->findChild<QLineEdit*>();
  QTest::keyClicks(input, "order rev");
  QTest::keyClick(input, Qt::Key_Return);
  ASSERT_TRUE(settle());
  EXPECT_FALSE(palette->isVisible());
  EXPECT_EQ(document().recipe().order, Order::reverse);
  press(Qt::Key_P, Qt::ControlModifier);
  QTest::keyClicks(input, "3,1");
  QTest::keyClick(input, Qt::Key_Return);
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().stage().state->i, 3);
  EXPECT_EQ(document().stage().state->j, 1);
}

TEST_F(WindowTest, OnlyTheStageAndBack) {
  const int before = stage().width();
  press(Qt::Key_F11);
  ASSERT_TRUE(wait_until([&] { return stage().width() == window_->width(); }));
  press(Qt::Key_F11);
  ASSERT_TRUE(wait_until([&] { return stage().width() == before; }));
}

}  // namespace
}  // namespace flashscope::window
