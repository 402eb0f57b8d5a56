// The explorer of a window, and sweeps in it that were measured elsewhere or by a stand-in of the process that
// measures.
#pragma once

#include <qcustomplot.h>

#include <QComboBox>
#include <QLabel>
#include <QPushButton>
#include <QSpinBox>
#include <QTabWidget>

#include "app/window/explorer/chart_view.h"
#include "app/window/explorer/explorer_controls.h"
#include "app/window/explorer/explorer_window.h"
#include "engine/files/session_file.h"
#include "tests/app/window/harness.h"
#include "tests/measured_points.h"

namespace flashscope::window {

class ExplorerTest : public WindowTest {
 protected:
  void open() {
    trigger("view.explorer");
    ASSERT_TRUE(shown());
    // Else keys are taken as shortcuts of the main window.
    ASSERT_TRUE(wait_until([this] { return explorer().isActiveWindow(); }));
  }
  ExplorerWindow& explorer() { return *find<ExplorerWindow>("explorer"); }
  bool shown() {
    return wait_until([this] { return explorer().isVisible() && explorer().idle(); });
  }
  QString notes() { return explorer().map()->findChild<QLabel*>("notes")->text(); }
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

inline const Shape kMeasured{
    .heads = 16, .kv_heads = 16, .Nq = 4096, .Nk = 4096, .d = 64, .dv = 64, .type = DType::bfloat16};
inline constexpr int kGaugeRow = kMeasures + 1;  // in the choice of colours, after a line

inline MeasuredSweep sweep_of(const std::vector<MeasuredPoint>& points) {
  MeasuredSweep sweep;
  sweep.on = measured_on_h200(), sweep.date = "2026-11-30T13:00:00Z", sweep.version = "0.1.0";
  sweep.points = points;
  return sweep;
}

class MeasuredTest : public ExplorerTest {
 protected:
  // A session without a problem, as `sweep --measure --save` leaves it.
  void open_sweep(const std::vector<MeasuredPoint>& points) {
    SessionFile session;
    session.sweeps.push_back(sweep_of(points));
    const std::filesystem::path path = folder_.filePath("s.fscope").toStdString();
    write_session(path, session);
    start(path);  // as on the command line
    ASSERT_TRUE(wait_until([this] { return document().sweeps().size() == 1; }));
    ASSERT_TRUE(settle());
  }
  void choose_sweep() {
    auto* box = explorer().findChild<QComboBox*>("sweeps");
    emit box->activated(0);
    ASSERT_TRUE(shown());
  }
  QPushButton* button(const char* name) { return explorer().findChild<QPushButton*>(name); }
  void measure_with_the_stand_in() {
    MeasureOptions options;
    options.program = FLASHSCOPE_TEST_CHILD;
    options.silence = std::chrono::seconds(2);  // some of its points never end
    options.cache = folder_.filePath("cache").toStdString();
    explorer().measure_on(measured_on_h200(), options);
  }
  bool measured() {
    const Measuring& measuring = explorer().measuring();
    if (!wait_until([&] { return measuring.state() != Measuring::State::running; })) return false;
    EXPECT_EQ(measuring.failed().toStdString(), "");
    return measuring.state() == Measuring::State::idle && shown();
  }
};

}  // namespace flashscope::window
