#include <qcustomplot.h>

#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QFile>
#include <QSlider>
#include <QSpinBox>
#include <QTabWidget>
#include <QTableWidget>

#include "app/window/explorer/chart_view.h"
#include "app/window/explorer/explorer_controls.h"
#include "app/window/explorer/explorer_window.h"
#include "engine/attention/closed_form.h"
#include "tests/app/window/harness.h"

namespace flashscope::window {
namespace {

class ExplorerTest : public WindowTest {
 protected:
  void open() {
    trigger("view.explorer");
    ASSERT_TRUE(shown());
  }
  ExplorerWindow& explorer() { return *find<ExplorerWindow>("explorer"); }
  bool shown() {
    return wait_until([this] { return explorer().isVisible() && explorer().idle(); });
  }
  const MapData& map() { return explorer().map()->data(); }
  template <class Widget>
  Widget* control(const char* name) {
    return explorer().controls()->findChild<Widget*>(name);
  }
  void type(const char* box, const QString& number) {
    auto* spin = control<QSpinBox>(box);
    ASSERT_NE(spin, nullptr) << box;
    spin->selectAll();
    QTest::keyClicks(spin, number);
    QTest::keyClick(spin, Qt::Key_Return);
    ASSERT_TRUE(shown());
  }
  void choose(const char* box, int index) {
    auto* combo = control<QComboBox>(box);
    ASSERT_NE(combo, nullptr) << box;
    combo->setCurrentIndex(index);
    emit combo->activated(index);
    ASSERT_TRUE(shown());
  }
  void go_to(const QString& title) {
    QTabWidget* tabs = explorer().tabs();
    for (int n = 0; n < tabs->count(); ++n)
      if (tabs->tabText(n) == title) tabs->setCurrentIndex(n);
    ASSERT_EQ(tabs->tabText(tabs->currentIndex()), title);
    ASSERT_TRUE(shown());
  }
  const Chart& chart() { return static_cast<ChartView*>(explorer().tabs()->currentWidget())->chart(); }
};

TEST_F(ExplorerTest, TheMapHoldsTheClosedFormsOfTheSteppersProblem) {
  open();
  const Shape shape = document().problem()->shape();
  EXPECT_EQ(map().problem->shape, shape);
  EXPECT_EQ(map().map.values.size(), 200u * 200u);
  Recipe recipe = document().recipe();
  for (const auto& [row, col] : {std::pair<std::size_t, std::size_t>{0, 0}, {199, 0}, {77, 140}, {199, 199}}) {
    recipe.Br = map().map.Br[row], recipe.Bc = map().map.Bc[col];
    EXPECT_EQ(map().map.at(row, col),
              static_cast<double>(closed_form(shape, document().problem()->mask, recipe).elements.total().total()));
  }
  ASSERT_TRUE(map().stepper);
  EXPECT_EQ(map().stepper->Br, document().recipe().Br);
  EXPECT_EQ(map().stepper->Bc, document().recipe().Bc);
}

TEST_F(ExplorerTest, AClickOpensThatRecipeInTheStepper) {
  open();
  QCustomPlot* plot = explorer().map()->plot();
  ASSERT_TRUE(wait_until([&] { return plot->axisRect()->width() > 50; }));
  plot->replot();
  const QPointF at(plot->xAxis->coordToPixel(100), plot->yAxis->coordToPixel(50));
  const auto clicked = explorer().map()->cell_at(QPointF(at.toPoint()));  // the click may move the axes
  ASSERT_TRUE(clicked);
  QTest::mouseClick(plot, Qt::LeftButton, {}, at.toPoint());
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().recipe().Br, clicked->Br);
  EXPECT_EQ(document().recipe().Bc, clicked->Bc);
  ASSERT_TRUE(shown());
  EXPECT_EQ(map().stepper->Br, clicked->Br);
  document().undo();
  ASSERT_TRUE(settle());
}

TEST_F(ExplorerTest, WhatIsChangedHereIsExploredAndTheStepperKeepsItsOwn) {
  open();
  const Recipe recipe = document().recipe();
  type("N", "4096");
  EXPECT_EQ(map().problem->shape.Nq, 4096);
  EXPECT_FALSE(control<QCheckBox>("follow")->isChecked());
  choose("type", 3);
  EXPECT_EQ(map().problem->shape.type, DType::bfloat16);
  choose("causal", 0);
  EXPECT_TRUE(map().problem->mask.none());
  choose("order", 1);
  EXPECT_EQ(map().recipe.algorithm, Algorithm::flash1);
  EXPECT_FALSE(map().stepper);  // it steps flash2
  EXPECT_EQ(document().recipe(), recipe);
  EXPECT_EQ(document().problem()->shape().Nq, 1024);
  control<QSlider>("N slider")->setValue(8 * 13);
  ASSERT_TRUE(shown());
  EXPECT_EQ(map().problem->shape.Nq, 8192);
  control<QCheckBox>("follow")->setChecked(true);
  ASSERT_TRUE(shown());
  EXPECT_EQ(map().problem->shape, document().problem()->shape());
}

TEST_F(ExplorerTest, OnlyADeviceMakesCellsInfeasible) {
  open();
  choose("device", 0);
  EXPECT_TRUE(map().map.limits.empty());
  choose("device", 12);  // T4
  ASSERT_TRUE(map().device);
  EXPECT_EQ(map().device->name, "T4");
  const auto broken = [this] {
    return std::count_if(map().map.limits.begin(), map().map.limits.end(), [](Limit l) { return l != Limit::none; });
  };
  const auto before = broken();
  EXPECT_GT(before, 0);
  auto* shared = control<QDoubleSpinBox>("shared");
  shared->selectAll();
  QTest::keyClicks(shared, "227");
  QTest::keyClick(shared, Qt::Key_Return);
  ASSERT_TRUE(shown());
  EXPECT_EQ(map().device->name, "T4, what-if");
  EXPECT_LT(broken(), before);
}

TEST_F(ExplorerTest, EveryChartIsDrawnAndExported) {
  open();
  type("N", "4096");
  choose("causal", 0);
  for (const char* title : {"N", "M", "d", "Roofline", "Orders", "Unfused", "Saving", "Footprint"}) {
    go_to(title);
    EXPECT_FALSE(chart().series.empty()) << title;
    auto* view = static_cast<ChartView*>(explorer().tabs()->currentWidget());
    EXPECT_EQ(view->plot()->plottableCount(), static_cast<int>(chart().series.size())) << title;
    for (const char* ending : {".png", ".svg", ".csv"}) {
      const QString path = folder_.filePath(QString(title) + ending);
      EXPECT_EQ(view->save(path), "") << title;
      EXPECT_GT(QFile(path).size(), 300) << path.toStdString();
    }
    EXPECT_FALSE(view->save("/nowhere/x.png").isEmpty());
  }
  go_to("M");
  EXPECT_EQ(chart().marks.at(0).at, 12289);
  choose("units", 1);
  EXPECT_EQ(chart().y.unit, ChartUnit::bytes);
}

TEST_F(ExplorerTest, AdviceOpensInTheStepper) {
  open();
  go_to("Advice");
  auto* table = explorer().findChild<QTableWidget*>("advice");
  ASSERT_GE(table->rowCount(), 5);
  EXPECT_EQ(table->item(0, 0)->text(), "best");
  EXPECT_FALSE(table->item(0, 6)->text().isEmpty());
  emit table->cellDoubleClicked(0, 0);
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().recipe().Br, table->item(0, 1)->text().toLongLong());
  EXPECT_EQ(document().recipe().Bc, table->item(0, 2)->text().toLongLong());
  go_to("Hardware");
  auto* hardware = explorer().findChild<QTableWidget*>("hardware");
  ASSERT_GT(hardware->rowCount(), kQuantities);
  for (int row = 2; row < hardware->rowCount(); ++row) EXPECT_FALSE(hardware->item(row, 2)->text().isEmpty());
}

}  // namespace
}  // namespace flashscope::window
