// The Stops panel, the second recipe and the history, as a person works with them.
#include <QAbstractItemView>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QTableView>
#include <QTreeWidget>
#include <fstream>

#include "app/window/docks/history_panel.h"
#include "app/window/docks/stops_panel.h"
#include "app/window/docks/table_fit.h"
#include "app/window/stops.h"
#include "tests/app/window/harness.h"

namespace flashscope::window {
namespace {

class StopsTest : public WindowTest {
 protected:
  QTreeWidget& list() { return *find<QTreeWidget>("stops_list"); }
  QString error() { return find<QLabel>("stop_error")->text(); }
  void write(const QString& text) {
    auto* edit = find<QLineEdit>("stop_text");
    edit->setFocus();
    edit->selectAll();
    QTest::keyClicks(edit, text);
  }
  QTreeWidgetItem* item(const QString& text) {
    const QList<QTreeWidgetItem*> found = list().findItems(text, Qt::MatchExactly);
    return found.isEmpty() ? nullptr : found.front();
  }
};

TEST_F(StopsTest, AConditionIsCheckedAsItIsTypedAndRunTo) {
  trigger("view.stops");
  write("alpha <");
  EXPECT_EQ(error(),
            "character 8: found the end, expected a number, a name such as m, l, alpha, S, P, O or row, a "
            "function, or \"(\"");
  EXPECT_FALSE(find<QPushButton>("stop_add")->isEnabled());
  write("alpha < 0.05 and row > 300");
  EXPECT_TRUE(error().startsWith("stops where this begins to hold"));
  QTest::keyClick(find<QLineEdit>("stop_text"), Qt::Key_Return);
  ASSERT_TRUE(settle());
  ASSERT_TRUE(item("alpha < 0.05 and row > 300"));
  stage().setFocus();
  press(Qt::Key_Home);
  press(Qt::Key_F5);
  const std::int64_t first = K();
  ASSERT_GT(first, 0);
  EXPECT_EQ(document().stage().state->step->stage, Stage::rescale);
  EXPECT_EQ(item("alpha < 0.05 and row > 300")->text(2), "1");
  press(Qt::Key_F5);
  ASSERT_GT(K(), first);
  press(Qt::Key_F5, Qt::ShiftModifier);
  EXPECT_EQ(K(), first);
  // The panel's own buttons, and an example that is clicked.
  find<QPushButton>("stop_next")->click();
  ASSERT_TRUE(settle());
  ASSERT_GT(K(), first);
  find<QPushButton>("stop_back")->click();
  ASSERT_TRUE(settle());
  EXPECT_EQ(K(), first);
  auto* edit = find<QLineEdit>("stop_text");
  edit->clear();
  emit edit->textEdited({});
  ASSERT_TRUE(error().contains("alpha &lt; 0.01"));
  emit find<QLabel>("stop_error")->linkActivated("alpha < 0.01");
  EXPECT_EQ(edit->text(), "alpha < 0.01");
  EXPECT_TRUE(find<QPushButton>("stop_add")->isEnabled());
  EXPECT_GT(edit->width(), find<QWidget>("stops_panel")->width() / 2);
}

TEST_F(StopsTest, StopsAreSwitchedEditedRemovedAndUndone) {
  trigger("view.stops");
  const int before = list().topLevelItemCount();
  ASSERT_TRUE(item("rescale"));
  item("rescale")->setCheckState(0, Qt::Checked);
  ASSERT_TRUE(settle());
  EXPECT_TRUE(window_->actions_table()["stop.rescale"]->isChecked());
  trigger("stop.rescale");
  EXPECT_EQ(item("rescale")->checkState(0), Qt::Unchecked);
  // In place: what means nothing is not taken over.
  list().setCurrentItem(item("rescale"));
  list().editItem(item("rescale"), 0);
  auto* editor = list().findChild<QLineEdit*>("stop_editor");
  ASSERT_TRUE(editor);
  editor->selectAll();
  QTest::keyClicks(editor, "rescale:0.5");
  EXPECT_TRUE(error().contains("a factor of at least 1")) << error().toStdString();
  editor->selectAll();
  QTest::keyClicks(editor, "rescale:100");
  QTest::keyClick(editor, Qt::Key_Return);
  ASSERT_TRUE(wait_until([&] { return item("rescale:100") != nullptr; }));
  EXPECT_FALSE(item("rescale"));
  list().setCurrentItem(item("rescale:100"));
  find<QPushButton>("stop_remove")->click();
  EXPECT_EQ(list().topLevelItemCount(), before - 1);
  find<QPushButton>("stop_undo")->click();
  EXPECT_TRUE(item("rescale:100"));
  find<QPushButton>("stop_undo")->click();
  EXPECT_TRUE(item("rescale"));
  // F9 puts the place into the list, and they are there at the next start.
  document().seek(document().stage().schedule->find(0, 2, 1, Stage::max).value() + 1);
  ASSERT_TRUE(settle());
  stage().setFocus();
  press(Qt::Key_F9);
  EXPECT_TRUE(item("tile:2,1,max"));
  close();
  start();
  trigger("view.stops");
  EXPECT_TRUE(item("tile:2,1,max"));
  EXPECT_EQ(list().topLevelItemCount(), before + 1);
}

// Partial tiles are counted, by the mask report; what is not counted says why.
TEST_F(StopsTest, PartialTilesAreCountedAndWhatIsNotSaysWhy) {
  trigger("view.stops");
  const auto partial = [&](const char* count) { return wait_until([&] { return item("partial")->text(1) == count; }); };
  Mask causal;
  causal.causal = Causal::top_left;
  window_->apply([&](Document& d) {
    d.set_recipe({});
    d.set_problem(random_problem({2, 2, 300, 300, 8, 8, DType::float32}, 1, {}, causal));
  });
  ASSERT_TRUE(settle());
  EXPECT_TRUE(partial("10")) << item("partial")->text(1).toStdString();  // the diagonal of 5 blocks, in both heads
  EXPECT_TRUE(item("partial")->toolTip(1).contains("mask report"));
  window_->apply([](Document& d) { d.set_mask({}); });
  ASSERT_TRUE(settle());
  EXPECT_TRUE(partial("0"));
  write("alpha < 0.05");
  QTest::keyClick(find<QLineEdit>("stop_text"), Qt::Key_Return);
  ASSERT_TRUE(settle());
  EXPECT_TRUE(item("alpha < 0.05")->toolTip(1).contains("only while it is run to"));
}

TEST(Stops, AreKeptAsJsonAndWhatIsNotUnderstoodIsLeftOut) {
  Stops stops = first_stops();
  add(stops, parse_stop("m > 3 and row == 5"));
  enable(stops, 0, false);
  const Stops again = stops_from_json(as_json(stops));
  ASSERT_EQ(again.list.size(), stops.list.size());
  for (std::size_t n = 0; n < stops.list.size(); ++n) {
    EXPECT_EQ(text_of(again.list[n].stop), text_of(stops.list[n].stop));
    EXPECT_EQ(again.list[n].enabled, stops.list[n].enabled);
  }
  const Stops some = stops_from_json(R"([{"stop": "nan"}, {"stop": "later:1"}, 3, {"stop": "inf", "enabled": false}])");
  ASSERT_EQ(some.list.size(), 2u);
  EXPECT_TRUE(some.list[0].enabled);
  EXPECT_FALSE(some.list[1].enabled);
  EXPECT_EQ(stops_from_json("nonsense").list.size(), first_stops().list.size());
}

TEST_F(StopsTest, TwoRecipesAreShownInStepAndTheirDifferenceIsAKeyAway) {
  press(Qt::Key_D);
  EXPECT_TRUE(window_->message().contains("no second recipe"));
  trigger("recipe.order.reverse");
  trigger("beside.guard");
  ASSERT_TRUE(document().beside());
  EXPECT_EQ(document().beside()->guard, Guard::clamp);
  ASSERT_TRUE(document().stage().beside);
  press(Qt::Key_Home);
  press(Qt::Key_D);
  const std::int64_t first = K();
  ASSERT_GT(first, 0);
  EXPECT_GT(document().stage().differences->nan, 0);
  EXPECT_EQ(document().stage().beside->state->K, first);
  press(Qt::Key_D);
  EXPECT_GT(K(), first);
  press(Qt::Key_D, Qt::ShiftModifier);
  EXPECT_EQ(K(), first);
  // Two chips to point at: the same cell of the other is read out too.
  const viz::Scene picture = scene();
  const viz::Rect there = picture.chip_beside[static_cast<int>(viz::ChipBuffer::m)];
  ASSERT_FALSE(there.empty());
  hover({there.centre().x, there.y + 1});
  EXPECT_TRUE(stage().pointed_at().contains("beside it")) << stage().pointed_at().toStdString();
  close();
  start();
  ASSERT_TRUE(document().stage().beside);
  EXPECT_EQ(document().beside()->guard, Guard::clamp);
  trigger("beside.swap");
  EXPECT_EQ(document().recipe().guard, Guard::clamp);
  EXPECT_EQ(document().beside()->guard, Guard::none);
  press(Qt::Key_B, Qt::ShiftModifier);
  EXPECT_FALSE(document().stage().beside);
}

TEST_F(StopsTest, TheHistoryIsATableAndAFileToo) {
  trigger("view.history");
  auto* panel = static_cast<HistoryPanel*>(find<QWidget>("history_panel"));
  ASSERT_TRUE(wait_until([&] { return panel->shown() != nullptr; }));
  auto* channel = find<QLineEdit>("history_channel");
  channel->setFocus();
  QTest::keyClicks(channel, "5");
  QTest::keyClick(channel, Qt::Key_Return);
  ASSERT_TRUE(wait_until([&] { return panel->shown()->channel == 5; }));
  find<QPushButton>("history_table")->click();
  const QAbstractItemModel& model = *find<QTableView>("history_rows")->model();
  ASSERT_EQ(model.rowCount(), document().stage().schedule->Tc());
  EXPECT_EQ(model.headerData(7, Qt::Horizontal).toString(), "O[5]\nbefore, after");
  EXPECT_TRUE(model.index(0, 3).data().toString().startsWith("-inf\n"));  // m, before and after
  EXPECT_EQ(as_text(*find<QTableView>("history_rows"), true).count('\n'), model.rowCount());
  const QString path = folder_.path() + "/row.csv";
  panel->save_csv(path);
  ASSERT_TRUE(wait_until([&] { return window_->message() == "Saved " + path; }));
  std::ifstream file(path.toStdString());
  std::string line;
  std::int64_t lines = 0;
  while (std::getline(file, line)) ++lines;
  EXPECT_EQ(lines, document().stage().schedule->Tc() + 1);
}

}  // namespace
}  // namespace flashscope::window
