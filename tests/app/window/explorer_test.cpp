#include <qcustomplot.h>

#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QFile>
#include <QLabel>
#include <QMimeData>
#include <QPushButton>
#include <QSlider>
#include <QSpinBox>
#include <QTabWidget>
#include <QTableWidget>
#include <QToolButton>
#include <QWheelEvent>

#include "app/window/docks/mask_panel.h"
#include "app/window/explorer/measured_cells.h"
#include "engine/attention/closed_form.h"
#include "tests/app/window/explorer_harness.h"
#include "tests/app/window/gpu_report.h"

namespace flashscope::window {
namespace {

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
  EXPECT_TRUE(map().stepped());
  EXPECT_EQ(map().stepper, document().recipe());
  EXPECT_TRUE(notes().contains("stepper: flash2, 128 x 64 (ring)")) << notes().toStdString();
  EXPECT_FALSE(explorer().formula_map()->isVisible());
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
  EXPECT_EQ(map().stepper.Br, clicked->Br);
  EXPECT_EQ(map().stepper.Bc, clicked->Bc);
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
  EXPECT_FALSE(map().stepped());  // it steps flash2
  EXPECT_TRUE(notes().contains("stepper: flash2, 128 x 64 (another order's map)")) << notes().toStdString();
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
  EXPECT_TRUE(notes().contains("Hatched: does not fit T4, more than 64 KiB of shared memory a block"))
      << notes().toStdString();
  auto* shared = control<QDoubleSpinBox>("shared");
  shared->selectAll();
  QTest::keyClicks(shared, "227");
  QTest::keyClick(shared, Qt::Key_Return);
  ASSERT_TRUE(shown());
  EXPECT_EQ(map().device->name, "T4, what-if");
  EXPECT_LT(broken(), before);
}

TEST_F(ExplorerTest, ADeviceOfOnesOwnHasTheFiguresThatAreEntered) {
  open();
  choose("device", 13);
  ASSERT_TRUE(map().device);
  EXPECT_EQ(map().device->name, "custom");
  EXPECT_TRUE(std::all_of(map().map.limits.begin(), map().map.limits.end(), [](Limit l) { return l == Limit::none; }));
  go_to("Roofline");
  EXPECT_TRUE(chart().series.empty());
  const auto enter = [this](const char* box, const char* figure) {
    auto* spin = control<QDoubleSpinBox>(box);
    spin->selectAll();
    QTest::keyClicks(spin, figure);
    QTest::keyClick(spin, Qt::Key_Return);
    ASSERT_TRUE(shown());
  };
  choose("type", 3);
  enter("bandwidth", "2000");
  enter("peak", "300");
  ASSERT_FALSE(chart().marks.empty());
  EXPECT_EQ(chart().marks.at(0).at, 150);
  go_to("Map");
  enter("shared", "48");
  EXPECT_TRUE(std::any_of(map().map.limits.begin(), map().map.limits.end(), [](Limit l) { return l != Limit::none; }));
  EXPECT_EQ((*map().device)[Quantity::bandwidth]->source, "entered");
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
  auto* view = static_cast<ChartView*>(explorer().tabs()->currentWidget());
  EXPECT_FALSE(view->plot()->axisRect()->rect().intersects(view->plot()->legend->rect()));  // it hides no data
  choose("units", 1);
  EXPECT_EQ(chart().y.unit, ChartUnit::bytes);
}

TEST_F(ExplorerTest, AChartIsReadZoomedAndCopied) {
  open();
  type("N", "4096");
  go_to("M");
  auto* view = static_cast<ChartView*>(explorer().tabs()->currentWidget());
  QCustomPlot* plot = view->plot();
  plot->replot();
  const QPointF at(plot->xAxis->coordToPixel(50000), plot->yAxis->range().center());
  const QPointF middle(at.x(), plot->axisRect()->center().y());
  QMouseEvent move(QEvent::MouseMove, middle, plot->mapToGlobal(middle), Qt::NoButton, Qt::NoButton, {});
  QApplication::sendEvent(plot, &move);
  const QString values = view->findChild<QLabel*>("values")->text();
  EXPECT_TRUE(values.contains("flash1, paper's rule") && values.contains("[formula]")) << values.toStdString();
  const QCPRange whole = plot->xAxis->range();
  QWheelEvent wheel(middle, plot->mapToGlobal(middle), {}, {0, 120}, Qt::NoButton, {}, Qt::NoScrollPhase, false);
  QApplication::sendEvent(plot, &wheel);
  EXPECT_LT(plot->xAxis->range().upper / plot->xAxis->range().lower, whole.upper / whole.lower);
  QTest::mouseDClick(plot, Qt::LeftButton, {}, middle.toPoint());
  EXPECT_EQ(plot->xAxis->range(), whole);
  for (auto* one : view->findChildren<QToolButton*>())
    if (one->text() == "Copy") one->click();
  const QMimeData* copied = QApplication::clipboard()->mimeData();
  EXPECT_TRUE(copied->hasImage());
  EXPECT_EQ(copied->text(), view->csv_text());
  EXPECT_GT(view->picture().height(), 2 * plot->height());  // heading and notes too
}

TEST_F(ExplorerTest, AdviceOpensInTheStepper) {
  open();
  go_to("Advice");
  auto* table = explorer().findChild<QTableWidget*>("advice");
  ASSERT_GE(table->rowCount(), 5);
  EXPECT_EQ(table->item(0, 0)->text(), "least traffic");  // nothing was measured, so that none is the best
  auto* note = explorer().findChild<QLabel*>("advice_note");
  EXPECT_TRUE(note->text().startsWith("Least traffic (not the fastest)")) << note->text().toStdString();
  EXPECT_FALSE(table->item(0, 7)->text().isEmpty());
  EXPECT_EQ(table->item(0, 4)->text(), "not measured");
  emit table->cellDoubleClicked(0, 0);
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().recipe().Br, table->item(0, 1)->text().toLongLong());
  EXPECT_EQ(document().recipe().Bc, table->item(0, 2)->text().toLongLong());
  go_to("Hardware");
  auto* hardware = explorer().findChild<QTableWidget*>("hardware");
  ASSERT_GT(hardware->rowCount(), kQuantities);
  for (int row = 2; row < hardware->rowCount(); ++row) EXPECT_FALSE(hardware->item(row, 2)->text().isEmpty());
}

// ---- what a GPU measured

TEST_F(MeasuredTest, ASessionsPointsAreAMapOfTheirOwn) {
  std::vector<MeasuredPoint> points;
  for (const std::int64_t Br : {64, 128, 256})
    for (const std::int64_t Bc : {32, 64, 128}) points.push_back(measured_point(asked_point(kMeasured, Br, Bc)));
  points.push_back(asked_point(kMeasured, 256, 256));
  points.back().failed = "327,680 bytes of shared memory";
  open_sweep(points);
  open();
  choose_sweep();
  EXPECT_EQ(map().problem->shape, kMeasured);
  for (int n = 0; n < kGauges; ++n) {
    choose("colour", kGaugeRow + n);
    EXPECT_EQ(map().gauge, static_cast<Gauge>(n));
    EXPECT_EQ(map().points.size(), points.size());
  }
  choose("colour", kGaugeRow + static_cast<int>(Gauge::difference));
  QCustomPlot* plot = explorer().map()->plot();
  plot->replot();
  const auto at = [&](double Br, double Bc) {
    return QPointF(plot->xAxis->coordToPixel(Bc), plot->yAxis->coordToPixel(Br));
  };
  const auto found = explorer().map()->cell_at(at(130, 66));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->Br, 128);
  EXPECT_EQ(found->Bc, 64);
  QMouseEvent move(QEvent::MouseMove, at(250, 250), plot->mapToGlobal(at(250, 250)), Qt::NoButton, Qt::NoButton, {});
  QApplication::sendEvent(plot, &move);
  auto* values = explorer().map()->findChild<QLabel*>("values");
  EXPECT_TRUE(values->text().contains("327,680 bytes of shared memory")) << values->text().toStdString();
  // A point's own colour on the picture is that of its figure.
  choose("colour", kGaugeRow + static_cast<int>(Gauge::seconds));
  const auto blocks_of = [&](const MeasuredPoint& point) {
    return at(static_cast<double>(point.recipe.Br), static_cast<double>(point.recipe.Bc));
  };
  plot->replot();
  const QImage picture = plot->toPixmap(plot->width(), plot->height(), 1).toImage();
  double least = 1, most = 0;
  for (const MeasuredPoint& point : points)
    if (point.gpu) least = std::min(least, point.gpu->median), most = std::max(most, point.gpu->median);
  QCPColorGradient gradient = viridis();
  for (const MeasuredPoint& point : points) {
    if (!point.gpu) continue;
    const QPoint beside = blocks_of(point).toPoint() + QPoint(-7, 0);  // the dot itself is white
    const QColor wanted = QColor::fromRgb(gradient.color(point.gpu->median, {least, most}, true));
    const QColor drawn = picture.pixelColor(beside);
    if (point.recipe.Br == 128 && point.recipe.Bc == 64) continue;  // below the stepper's ring and the star
    EXPECT_LE(std::abs(wanted.red() - drawn.red()) + std::abs(wanted.green() - drawn.green()) +
                  std::abs(wanted.blue() - drawn.blue()),
              6)
        << point.recipe.Br << " x " << point.recipe.Bc;
  }

  // The formula's map stands beside it, in the same plane and by the same scale of colours.
  choose("colour", kGaugeRow + static_cast<int>(Gauge::l2_sm));
  EXPECT_TRUE(explorer().formula_map()->isVisible());
  const MapData& formula = explorer().formula_map()->data();
  EXPECT_FALSE(formula.gauge);
  EXPECT_EQ(formula.selection.measure, Measure::bytes);
  EXPECT_EQ(formula.Br, map().Br);
  EXPECT_EQ(formula.Bc, map().Bc);
  ASSERT_TRUE(map().colours);
  EXPECT_EQ(formula.colours, map().colours);
  EXPECT_TRUE(
      wait_until([&] { return explorer().formula_map()->plot()->height() == explorer().map()->plot()->height(); }));

  const QString csv = explorer().map()->csv_text();
  EXPECT_TRUE(csv.contains("measured on NVIDIA H200")) << csv.toStdString();
  EXPECT_TRUE(csv.contains(",553914368,")) << csv.toStdString();  // 128 x 64, L2-SM

  // Of another problem nothing was measured.
  type("N", "2048");
  EXPECT_TRUE(map().points.empty());
  auto* notes = explorer().map()->findChild<QLabel*>("notes");
  EXPECT_TRUE(notes->text().contains("Nothing was measured"));
}

TEST_F(MeasuredTest, PointsStandOnTheCurvesTheRooflineAndTheAdvice) {
  std::vector<MeasuredPoint> points;
  for (std::int64_t N = 1024; N <= 16384; N *= 2) {
    MeasuredPoint asked = asked_point(kMeasured, 128, 64);
    asked.shape.Nq = asked.shape.Nk = N;
    points.push_back(measured_point(asked));
  }
  points.push_back(measured_point(asked_point(kMeasured, 64, 64)));
  open_sweep(points);
  open();
  choose_sweep();
  choose("units", 1);
  go_to("N");
  const auto series = [this](const std::string& name) -> const ChartSeries* {
    for (const ChartSeries& one : chart().series)
      if (one.name == name) return &one;
    return nullptr;
  };
  ASSERT_TRUE(series("flash2, 128 x 64: L2 to SM"));
  EXPECT_EQ(series("flash2, 128 x 64: L2 to SM")->x, (std::vector<double>{1024, 2048, 4096, 8192, 16384}));
  EXPECT_EQ(series("flash2, 128 x 64: L2 to SM")->origin, "measured");
  ASSERT_TRUE(series("flash2, 128 x 64: DRAM"));
  EXPECT_TRUE(std::any_of(chart().marks.begin(), chart().marks.end(), [](const ChartMark& mark) {
    return mark.label.find("K and V fill the L2 of H200, 60 MiB [formula]") != mark.label.npos && mark.at == 15360;
  }));
  choose("colour", kGaugeRow + static_cast<int>(Gauge::seconds));
  EXPECT_EQ(chart().name, "measured-against-n");
  EXPECT_EQ(chart().y.unit, ChartUnit::seconds);
  type("N", "4096");
  go_to("Roofline");
  EXPECT_TRUE(series("flash2, 128 x 64, DRAM's bytes"));
  go_to("Advice");
  auto* table = explorer().findChild<QTableWidget*>("advice");
  EXPECT_EQ(table->item(0, 0)->text(), "measured best");
  EXPECT_EQ(table->item(0, 1)->text(), "128");
  EXPECT_EQ(table->item(1, 0)->text(), "measured next");
  EXPECT_TRUE(table->item(1, 7)->text().contains("more L2-SM traffic"));
  EXPECT_EQ(table->item(2, 0)->text(), "least traffic");
}

TEST_F(MeasuredTest, ASessionOfSweepsOpensWhereItsPointsAre) {
  std::vector<MeasuredPoint> points;
  for (std::int64_t N = 1024; N <= 16384; N *= 2) {
    MeasuredPoint asked = asked_point(kMeasured, 128, 64);
    asked.shape.Nq = asked.shape.Nk = N;
    points.push_back(measured_point(asked));
  }
  open_sweep(points);
  ASSERT_TRUE(shown());  // by itself
  EXPECT_EQ(explorer().tabs()->tabText(explorer().tabs()->currentIndex()), "N");
  EXPECT_EQ(chart().y.unit, ChartUnit::bytes);
  EXPECT_TRUE(std::any_of(chart().series.begin(), chart().series.end(),
                          [](const ChartSeries& one) { return one.name == "flash2, 128 x 64: DRAM"; }));
  EXPECT_TRUE(window_->message().contains("1 measured sweep")) << window_->message().toStdString();
}

TEST_F(MeasuredTest, SweepsOfAnOpenedSessionAreSavedWithIt) {
  SessionFile session;
  session.problem = random_problem({.Nq = 64, .Nk = 64, .d = 16, .dv = 16}, 3);
  session.sweeps = {sweep_of({measured_point(asked_point(kMeasured, 128, 64))}),
                    sweep_of({measured_point(asked_point(kMeasured, 64, 64))})};
  session.sweeps[1].date = "2026-11-30T14:00:00Z";
  const std::filesystem::path path = folder_.filePath("s.fscope").toStdString();
  write_session(path, session);
  start(path);
  ASSERT_TRUE(wait_until([this] { return document().sweeps().size() == 2; }));
  ASSERT_TRUE(settle());
  Recipe recipe = document().recipe();
  recipe.Br = 16;
  window_->apply([recipe](Document& d) { d.set_recipe(recipe); });
  ASSERT_TRUE(settle());
  EXPECT_TRUE(document().modified());
  trigger("file.save");  // Ctrl+S
  ASSERT_TRUE(wait_until([&] { return !document().modified(); }));
  const SessionFile saved = read_session(path);
  EXPECT_EQ(saved.recipe.Br, 16);
  ASSERT_EQ(saved.sweeps.size(), 2u);
  for (std::size_t n = 0; n < 2; ++n) {
    EXPECT_EQ(saved.sweeps[n].on, session.sweeps[n].on);
    EXPECT_EQ(saved.sweeps[n].date, session.sweeps[n].date);
    ASSERT_EQ(saved.sweeps[n].points.size(), 1u);
    const MeasuredPoint &kept = saved.sweeps[n].points[0], &was = session.sweeps[n].points[0];
    EXPECT_EQ(kept.recipe, was.recipe);
    ASSERT_TRUE(kept.gpu && kept.gpu->measured);
    EXPECT_EQ(kept.gpu->median, was.gpu->median);
    EXPECT_EQ(kept.gpu->measured->l2_read, was.gpu->measured->l2_read);
  }
}

TEST_F(MeasuredTest, TheRooflineHasEveryAlgorithmThatWasMeasured) {
  const Shape shape{.heads = 2, .kv_heads = 2, .Nq = 128, .Nk = 128, .d = 32, .dv = 32, .type = DType::bfloat16};
  MeasuredPoint flash1 = asked_point(shape, 32, 32);
  flash1.recipe.algorithm = Algorithm::flash1;
  MeasuredPoint slow = measured_point(asked_point(shape, 16, 16)), fast = measured_point(asked_point(shape, 112, 80));
  open_sweep({measured_point(flash1), slow, fast});
  const auto problem = random_problem(shape, 3);
  window_->apply([&](Document& d) { d.set_problem(problem); });
  ASSERT_TRUE(settle());
  Recipe standard;
  standard.algorithm = Algorithm::standard;
  window_->apply([&](Document& d) { d.add_run(std::make_shared<Report>(gpu_report(*problem, standard)), problem); });
  open();
  control<QCheckBox>("follow")->setChecked(true);
  go_to("Roofline");
  const auto x_of = [this](const std::string& name) {
    for (const ChartSeries& one : chart().series)
      if (one.name == name) return one.origin == "measured" ? one.x.at(0) : -1.0;
    ADD_FAILURE() << name;
    return std::nan("");
  };
  const double flops = 4.0 * 128 * 128 * 32 * 2;
  EXPECT_DOUBLE_EQ(x_of("standard, DRAM's bytes"), flops / (25'206'016.0 + 8'390'000.0));
  EXPECT_DOUBLE_EQ(x_of("flash2, 112 x 80, L2-SM's bytes"),  // the fastest: the stepper's is not among the points
                   flops / (fast.gpu->measured->l2_read + fast.gpu->measured->l2_written));
  x_of("flash1, 32 x 32, DRAM's bytes");
}

TEST_F(MeasuredTest, APlaneIsMeasuredPausedAndSaved) {
  open();
  type("N", "512");
  choose("type", 3);
  measure_with_the_stand_in();
  ASSERT_TRUE(button("measure")->isEnabled());
  button("measure")->click();
  EXPECT_EQ(explorer().measuring().state(), Measuring::State::running);
  ASSERT_TRUE(wait_until([this] { return explorer().measuring().measured() > 0; }));
  if (explorer().measuring().state() == Measuring::State::running) {
    button("pause")->click();
    EXPECT_EQ(explorer().measuring().state(), Measuring::State::paused);
    EXPECT_EQ(button("pause")->text(), "Resume");
    button("pause")->click();
  }
  ASSERT_TRUE(measured());
  EXPECT_EQ(explorer().measuring().failed(), "");
  EXPECT_TRUE(map().gauge);
  const std::vector<MeasuredPoint>& points = explorer().measuring().sweep()->points;
  EXPECT_EQ(map().points.size(), points.size());
  const auto fastest = std::min_element(points.begin(), points.end(), [](const auto& a, const auto& b) {
    return (a.gpu ? a.gpu->median : 1) < (b.gpu ? b.gpu->median : 1);
  });
  EXPECT_EQ(fastest->recipe.Br, kFastest.Br);
  EXPECT_EQ(fastest->recipe.Bc, kFastest.Bc);
  ASSERT_EQ(document().sweeps().size(), 1u);
  EXPECT_TRUE(document().modified());
  const std::filesystem::path path = folder_.filePath("mine.fscope").toStdString();
  window_->save_session_file(path);
  ASSERT_TRUE(settle());
  const SessionFile saved = read_session(path);
  ASSERT_EQ(saved.sweeps.size(), 1u);
  EXPECT_EQ(saved.sweeps[0].points.size(), points.size());
}

TEST_F(MeasuredTest, WithoutAGpuItSaysWhy) {
  open();
  ASSERT_TRUE(wait_until(
      [this] { return button("measure")->isEnabled() || button("measure")->toolTip() != "looking for a GPU"; }));
  if (button("measure")->isEnabled()) GTEST_SKIP() << "there is one";
  EXPECT_TRUE(button("measure")->toolTip().contains("NVIDIA")) << button("measure")->toolTip().toStdString();
  EXPECT_EQ(explorer().findChild<QLabel*>("measuring")->toolTip(), button("measure")->toolTip());
}

TEST_F(ExplorerTest, AClickTakesTheExploredProblemToo) {
  open();
  type("N", "700");
  type("d", "32");
  choose("causal", 2);
  choose("order", 1);
  QCustomPlot* plot = explorer().map()->plot();
  plot->replot();
  const QPointF at(plot->xAxis->coordToPixel(64), plot->yAxis->coordToPixel(32));
  const auto clicked = explorer().map()->cell_at(QPointF(at.toPoint()));
  ASSERT_TRUE(clicked);
  const auto before = document().problem();
  QTest::mouseClick(plot, Qt::LeftButton, {}, at.toPoint());
  ASSERT_TRUE(wait_until([&] { return document().problem() != before; }));
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().problem()->shape().Nq, 700);
  EXPECT_EQ(document().problem()->shape().d, 32);
  EXPECT_EQ(document().problem()->mask.causal, Causal::bottom_right);
  EXPECT_EQ(document().recipe().algorithm, Algorithm::flash1);
  EXPECT_EQ(document().recipe().Br, clicked->Br);
  EXPECT_EQ(document().recipe().Bc, clicked->Bc);
  document().undo();  // one step
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().problem(), before);

  // Tensors of a file stay.
  auto own = std::make_shared<Problem>(*random_problem(before->shape(), 3));
  own->name = "mine.npz";
  window_->apply([&](Document& d) { d.set_problem(own); });
  ASSERT_TRUE(settle());
  QTest::mouseClick(plot, Qt::LeftButton, {}, at.toPoint());
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().problem()->q, own->q);
  EXPECT_EQ(document().recipe().algorithm, Algorithm::flash1);
  EXPECT_TRUE(window_->message().contains("tensors of a file")) << window_->message().toStdString();
}

// Random tensors are of no file, also where one that could not be read was asked for before.
TEST_F(ExplorerTest, WhatAClickDrawsIsOfNoFile) {
  WindowStart what;
  what.files.emplace().q = folder_.path().toStdString() + "/q.npy";
  start(what);
  ASSERT_TRUE(wait_until([&] { return window_->message().contains("q.npy"); }));
  open();
  type("N", "700");
  QCustomPlot* plot = explorer().map()->plot();
  plot->replot();
  const QPointF at(plot->xAxis->coordToPixel(64), plot->yAxis->coordToPixel(32));
  QTest::mouseClick(plot, Qt::LeftButton, {}, at.toPoint());
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().problem()->name, "random 1");
  emit find<MaskPanel>("mask_panel")->other_layout();
  EXPECT_TRUE(window_->message().contains("were not read from one")) << window_->message().toStdString();
}

}  // namespace
}  // namespace flashscope::window
