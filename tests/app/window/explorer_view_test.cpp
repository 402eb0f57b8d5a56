// How the explorer is read: text that grows with the window, what is under the pointer or the arrow keys, which recipe
// is which, and what is said of a measured map.
#include <QCheckBox>
#include <QFontInfo>
#include <QTableWidget>

#include "tests/app/window/explorer_harness.h"

namespace flashscope::window {
namespace {

class ViewTest : public MeasuredTest {
 protected:
  PlotPanel* panel() {
    QWidget* page = explorer().tabs()->currentWidget();
    return page->isAncestorOf(explorer().map()) ? explorer().map() : static_cast<PlotPanel*>(page);
  }
  QString values() { return panel()->findChild<QLabel*>("values")->text(); }
  QPointF place(double Br, double Bc) {
    QCustomPlot* plot = explorer().map()->plot();
    return {plot->xAxis->coordToPixel(Bc), plot->yAxis->coordToPixel(Br)};
  }
  void hover(QPointF at) {
    QCustomPlot* plot = explorer().map()->plot();
    QMouseEvent move(QEvent::MouseMove, at, plot->mapToGlobal(at), Qt::NoButton, Qt::NoButton, {});
    QApplication::sendEvent(plot, &move);
  }
  void fit(QSize size, double times) {
    explorer().resize(size);
    ASSERT_TRUE(wait_until([&] {
      return explorer().size() == size && explorer().idle() &&
             std::abs(points(explorer().font()) - times * points(QApplication::font())) < 0.25;
    })) << explorer().width()
        << " x " << explorer().height() << ", " << points(explorer().font()) << " points";
  }
  static double points(const QFont& font) { return QFontInfo(font).pointSizeF(); }
};

TEST_F(ViewTest, TextGrowsWithTheWindowAsTheStagesDoes) {
  open();
  go_to("M");
  fit({1280, 720}, 1);
  const double usual = points(QApplication::font());
  QCustomPlot* plot = panel()->plot();
  auto* slider = control<QSlider>("N slider");
  const auto expect = [&](double times) {
    for (const QFont& font :
         {plot->xAxis->tickLabelFont(), plot->xAxis->labelFont(), plot->yAxis->tickLabelFont(), plot->legend->font(),
          plot->legend->item(0)->font(), panel()->findChild<QLabel*>("heading")->font(),
          panel()->findChild<QLabel*>("notes")->font(), panel()->findChild<QLabel*>("values")->font(),
          control<QSpinBox>("N")->font(), explorer().tabs()->font(),
          explorer().findChild<QTableWidget*>("advice")->font(), explorer().map()->plot()->xAxis->tickLabelFont()})
      EXPECT_NEAR(points(font), times * usual, 0.25);
    EXPECT_TRUE(panel()->findChild<QLabel*>("heading")->font().bold());
    // Whole within the window, and no control below another.
    EXPECT_TRUE(explorer().rect().contains(QRect(panel()->mapTo(&explorer(), QPoint()), panel()->size())));
    EXPECT_LT(slider->geometry().right(), control<QSpinBox>("N")->geometry().left());
  };
  expect(1);
  const double curve = plot->graph(0)->pen().widthF();
  fit({1920, 1080}, 1.5);
  expect(1.5);
  EXPECT_DOUBLE_EQ(plot->graph(0)->pen().widthF(), 1.5 * curve);
  fit({1180, 680}, 1);  // smaller than what the text is made for: the plot gives up the room
  expect(1);
}

TEST_F(ViewTest, ArrowKeysReadAPlotAndEnterOpensARecipe) {
  open();
  QCustomPlot* plot = explorer().map()->plot();
  plot->replot();
  QTest::keyClick(plot, Qt::Key_Right);
  const QString first = values();
  EXPECT_TRUE(first.startsWith("Br ") && first.contains("[formula]")) << first.toStdString();
  QTest::keyClick(plot, Qt::Key_Up);
  QTest::keyClick(plot, Qt::Key_Up);
  const QString second = values();
  EXPECT_NE(second, first);
  QTest::keyClick(plot, Qt::Key_Down, Qt::ShiftModifier);  // a pixel
  QTest::keyClick(plot, Qt::Key_Up, Qt::ShiftModifier);
  EXPECT_EQ(values(), second);
  const QCPRange whole = plot->xAxis->range();
  QTest::keyClick(plot, Qt::Key_Plus);
  EXPECT_NEAR(std::log(plot->xAxis->range().upper / plot->xAxis->range().lower),
              0.8 * std::log(whole.upper / whole.lower), 1e-9);
  QTest::keyClick(plot, Qt::Key_Home);
  EXPECT_EQ(plot->xAxis->range(), whole);
  QTest::keyClick(plot, Qt::Key_Return);
  ASSERT_TRUE(settle());
  const Recipe& recipe = document().recipe();
  EXPECT_TRUE(second.startsWith(QString("Br %1, Bc %2: ").arg(recipe.Br).arg(recipe.Bc))) << second.toStdString();
  go_to("N");
  for (int n = 0; n < 100; ++n) QTest::keyClick(panel()->plot(), Qt::Key_Left);  // and stays within the plot
  EXPECT_TRUE(values().startsWith("256:")) << values().toStdString();
}

TEST_F(ViewTest, TheSteppersAndTheExploredRecipeAreToldApart) {
  open();
  const auto label = [this](const char* whose) { return control<QLabel>(whose)->text(); };
  EXPECT_EQ(label("stepper"), "flash2, 128 x 64");
  EXPECT_EQ(label("explored"), "flash2, 128 x 64");
  EXPECT_TRUE(notes().contains("stepper: flash2, 128 x 64 (ring); explored, here and on the other pages: the same"))
      << notes().toStdString();
  type("N", "4096");  // follows no more
  explorer().controls()->choose_blocks(32, 256);
  ASSERT_TRUE(shown());
  EXPECT_EQ(label("stepper"), "flash2, 128 x 64");
  EXPECT_EQ(label("explored"), "flash2, 32 x 256");
  EXPECT_TRUE(
      notes().contains("stepper: flash2, 128 x 64 (ring); explored, here and on the other pages: flash2, 32 x "
                       "256 (square)"))
      << notes().toStdString();
  QCustomPlot* plot = explorer().map()->plot();
  plot->replot();
  const QImage picture = plot->toPixmap(plot->width(), plot->height(), 1).toImage();
  const auto white = [&](QPointF at) { return picture.pixelColor(at.toPoint()).lightness() > 230; };
  for (const double side : {-8.0, 8.0}) EXPECT_TRUE(white(place(32, 256) + QPointF(side, 0)));
  for (const double side : {-12.0, 12.0}) EXPECT_TRUE(white(place(128, 64) + QPointF(side, 0)));
  go_to("N");
  EXPECT_TRUE(std::any_of(chart().series.begin(), chart().series.end(),
                          [](const ChartSeries& one) { return one.name == "explored: flash2, 32 x 256"; }));
  choose("order", 1);
  go_to("Map");
  EXPECT_TRUE(notes().contains("stepper: flash2, 128 x 64 (another order's map); explored")) << notes().toStdString();
  // What is stepped meanwhile is told here too.
  Recipe recipe = document().recipe();
  recipe.Br = 48;
  window_->apply([recipe](Document& d) { d.set_recipe(recipe); });
  ASSERT_TRUE(settle());
  EXPECT_EQ(label("stepper"), "flash2, 48 x 64");
  EXPECT_EQ(label("explored"), "flash1, 32 x 256");
}

TEST_F(ViewTest, AnOriginStandsOnceInALegend) {
  open();
  go_to("M");
  const auto lines = [this] { return panel()->plot()->legend->itemCount(); };
  // The curves are formula and the guide is none: two lines more than series.
  EXPECT_EQ(lines(), static_cast<int>(chart().series.size()) + 2);
  go_to("N");  // all formula, as the heading says
  EXPECT_EQ(lines(), static_cast<int>(chart().series.size()));
  EXPECT_TRUE(panel()->findChild<QLabel*>("heading")->text().endsWith("[formula]"));
  go_to("Orders");
  EXPECT_FALSE(panel()->plot()->legend->visible());
}

TEST_F(ViewTest, AMeasuredMapSaysWhereItIsFlatAndAPointWhatTheCompilerSaid) {
  std::vector<MeasuredPoint> points;
  for (const std::int64_t Br : {64, 128})
    for (const std::int64_t Bc : {64, 192}) points.push_back(measured_point(asked_point(kMeasured, Br, Bc)));
  for (MeasuredPoint& point : points)
    if (point.recipe.Bc == 192) point.gpu->measured->dram_written *= 5;
  open_sweep(points);
  ASSERT_TRUE(shown());
  choose("colour", kGaugeRow + static_cast<int>(Gauge::dram));
  EXPECT_TRUE(notes().contains("Flat at 2 of 4 points, whatever Br and Bc: Q, K, V, O once, 32 MiB [formula]"))
      << notes().toStdString();
  EXPECT_TRUE(notes().contains("K and V are 16 MiB [formula], the L2 60 MiB"));
  EXPECT_TRUE(notes().contains("these and no others have spilled registers, 32 bytes a thread"));
  choose("colour", kGaugeRow + static_cast<int>(Gauge::difference));
  EXPECT_TRUE(notes().contains("L2-SM is within ")) << notes().toStdString();
  explorer().map()->plot()->replot();
  hover(place(128, 192));
  EXPECT_TRUE(values().contains("160 registers, 32 bytes spilled")) << values().toStdString();
  hover(place(128, 64));
  EXPECT_TRUE(values().contains("96 registers, 0 bytes spilled")) << values().toStdString();
}

}  // namespace
}  // namespace flashscope::window
