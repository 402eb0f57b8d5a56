#include <QComboBox>
#include <QLabel>
#include <QMouseEvent>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "app/window/docks/timeline_panel.h"
#include "tests/app/window/gpu_report.h"
#include "tests/app/window/harness.h"

namespace flashscope::window {
namespace {

TEST(TimelineRows, LanesAreBlocksSideBySide) {
  const Timeline timeline = simulated_timeline(8, 3, 6);
  const TimelineRows rows = timeline_rows(timeline);
  EXPECT_EQ(rows.busy_sms, 4);
  EXPECT_EQ(rows.heads, 3);
  EXPECT_EQ(rows.rows, 6);
  EXPECT_EQ(rows.columns, 6);
  EXPECT_EQ(rows.duration, timeline.duration());
  ASSERT_EQ(rows.first.size(), 9u);
  EXPECT_EQ(rows.first.back(), timeline.spans.size());
  for (std::size_t sm = 0; sm < 8; ++sm) {
    EXPECT_EQ(rows.lanes[sm], sm < 4 ? 2 : 1) << sm;
    EXPECT_EQ(rows.first[sm] == rows.first[sm + 1], sm >= 4) << sm;
    for (std::size_t a = rows.first[sm]; a < rows.first[sm + 1]; ++a) {
      EXPECT_EQ(timeline.spans[a].sm, static_cast<int>(sm));
      for (std::size_t b = a + 1; b < rows.first[sm + 1]; ++b)  // those that share a lane never overlap
        if (rows.lane[a] == rows.lane[b]) {
          ASSERT_GE(timeline.spans[b].start_ns, timeline.spans[a].end_ns) << a << ' ' << b;
        }
    }
  }
  EXPECT_GT(rows.busy, 0.3);
  EXPECT_LE(rows.busy, 0.5);  // four of eight
}

TEST(TimelineRows, TellHowUnevenTheLoadIs) {
  Timeline timeline;
  timeline.sms = 3;
  timeline.spans = {{0, 0, 0, 0, 0, 0, 300}, {2, 1, 0, 1, 0, 0, 60}, {2, 2, 0, 2, 0, 40, 100}};  // 40 to 60: two blocks
  const TimelineRows rows = timeline_rows(timeline);
  EXPECT_DOUBLE_EQ(rows.uneven, 300 / 200.);  // 300 and 100 ns, of the two SMs that work
  EXPECT_DOUBLE_EQ(rows.busy, 400. / 900);
  EXPECT_EQ(timeline_rows(Timeline{}).uneven, 0);
}

class TimelineTest : public WindowTest {
 protected:
  void SetUp() override {
    WindowTest::SetUp();
    auto report = std::make_shared<Report>(gpu_report(*document().problem(), document().recipe()));
    report->gpu->timeline = simulated_timeline(132, 16, 32);
    report_ = report;
    window_->apply([&](Document& d) { d.add_run(report_, d.problem()); });
    trigger("view.timeline");
    ASSERT_TRUE(settle());
  }
  TimelinePanel& panel() { return *static_cast<TimelinePanel*>(find<QWidget>("timeline_panel")); }
  std::shared_ptr<const Report> report_;
};

TEST_F(TimelineTest, ShowsIdleSmsAndTilesUnderThePointer) {
  EXPECT_TRUE(find<QLabel>("timeline_note")->text().contains("128 of 132 SMs"))
      << find<QLabel>("timeline_note")->text().toStdString();
  TimelineView& view = panel().view();
  const Timeline& timeline = *report_->gpu->timeline;
  EXPECT_EQ(view.to_ns(), static_cast<double>(timeline.duration()));
  const Timeline::Span& wanted = timeline.spans[timeline.spans.size() / 2];
  view.zoom(20, static_cast<double>(wanted.start_ns + wanted.end_ns) / 2);
  EXPECT_LE(std::abs(view.to_ns() - view.from_ns() - static_cast<double>(timeline.duration()) / 20), 1);
  EXPECT_EQ(view.span_at(view.middle_of(wanted)), &wanted);
  view.show_all();
  EXPECT_EQ(view.from_ns(), 0);
  view.zoom(0.1, 0);  // not beyond everything
  EXPECT_EQ(view.to_ns(), static_cast<double>(timeline.duration()));
}

TEST(TimelineAxis, LeavesEachLabelItsPlace) {
  for (const double pixels : {120.0, 270.0, 300.0, 1500.0})
    for (double ns = 900; ns < 2e9; ns *= 1.31) {
      const double step = tick_step(ns, pixels, 90), first = step / std::pow(10, std::floor(std::log10(step * 1.001)));
      EXPECT_GE(step / ns * pixels, 90 * 0.999) << ns << ", " << pixels;
      EXPECT_LE(step / ns * pixels, 2.5 * 90 * 1.001) << ns << ", " << pixels;
      EXPECT_LE(std::min({std::abs(first - 1), std::abs(first - 2), std::abs(first - 5)}), 1e-6) << step;
    }
  EXPECT_DOUBLE_EQ(tick_step(1'784'800, 270, 90), 1'000'000);
}

TEST_F(TimelineTest, ZoomsInSmsToo) {
  TimelineView& view = panel().view();
  const Timeline& timeline = *report_->gpu->timeline;
  EXPECT_EQ(view.to_sm(), 132);
  const Timeline::Span& wanted = timeline.spans[timeline.spans.size() / 2];
  const QPointF at = view.middle_of(wanted);
  for (int n = 0; n < 8; ++n) {
    QWheelEvent wheel(at, view.mapToGlobal(at), {}, {0, 120}, Qt::NoButton, Qt::ControlModifier, Qt::NoScrollPhase,
                      false);
    QCoreApplication::sendEvent(&view, &wheel);
  }
  EXPECT_NEAR(view.to_sm() - view.from_sm(), 132 / std::pow(1.25, 8), 1e-6);
  EXPECT_EQ(view.to_ns(), static_cast<double>(timeline.duration()));
  EXPECT_LT((view.middle_of(wanted) - at).manhattanLength(), 2);  // it stays under the pointer
  EXPECT_EQ(view.span_at(view.middle_of(wanted)), &wanted);
  const double from = view.from_sm();
  QTest::mousePress(&view, Qt::LeftButton, {}, at.toPoint());
  QMouseEvent move(QEvent::MouseMove, at + QPointF(0, 40), view.mapToGlobal(at + QPointF(0, 40)), Qt::NoButton,
                   Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&view, &move);
  QTest::mouseRelease(&view, Qt::LeftButton, {}, (at + QPointF(0, 40)).toPoint());
  EXPECT_LT(view.from_sm(), from);
  view.zoom_sms(1000, 5.5);  // no nearer than one
  EXPECT_EQ(view.to_sm() - view.from_sm(), 1);
  view.show_all();
  EXPECT_EQ(view.from_sm(), 0);
  EXPECT_EQ(view.to_sm(), 132);
}

TEST_F(TimelineTest, ColoursTellHeadsAndBlocksApart) {
  TimelineView& view = panel().view();
  const Timeline& timeline = *report_->gpu->timeline;
  const QImage whole = view.picture({2000, 1200});
  std::set<QRgb> colours;
  for (int x = 100; x < 1900; x += 3)
    for (int y = 100; y < 1100; ++y) colours.insert(whole.pixel(x, y));
  EXPECT_GE(colours.size(), 8u);  // seven heads' colours, and the idle SMs
  // Under one head's colour all of its blocks look alike; by row block they do not.
  const auto at = [&](const Timeline::Span& span) {
    const QImage image = view.grab().toImage();
    return image.pixel((view.middle_of(span) * image.devicePixelRatio()).toPoint());
  };
  const TimelineRows& rows = view.rows();
  std::size_t a = rows.first[0], b = a;
  while (b < rows.first[1] && (rows.lane[b] != rows.lane[a] || timeline.spans[b].i == timeline.spans[a].i)) ++b;
  ASSERT_LT(b, rows.first[1]);
  find<QComboBox>("timeline_colour")->setCurrentIndex(1);
  EXPECT_NE(at(timeline.spans[a]), at(timeline.spans[b]));
}

TEST_F(TimelineTest, ExportsATraceAndAPicture) {
  const QString trace = folder_.filePath("trace.json"), picture = folder_.filePath("timeline.png");
  panel().export_trace(trace);
  ASSERT_TRUE(wait_until([&] { return window_->message().contains("trace.json"); }));
  std::ifstream stream(trace.toStdString());
  const nlohmann::json json = nlohmann::json::parse(stream);
  const auto spans = std::count_if(json["traceEvents"].begin(), json["traceEvents"].end(),
                                   [](const auto& event) { return event["ph"] == "X"; });
  EXPECT_EQ(spans, static_cast<std::ptrdiff_t>(report_->gpu->timeline->spans.size()));
  panel().export_picture(picture);
  ASSERT_TRUE(wait_until([&] { return window_->message().contains("timeline.png"); }));
  EXPECT_EQ(QImage(picture).size(), QSize(1920, 1080));
  panel().export_picture("/nowhere/timeline.png");
  ASSERT_TRUE(wait_until([&] { return window_->message().contains("Could not write"); }));
}

TEST_F(TimelineTest, ARunWithoutOneSaysSo) {
  trigger("go.run");
  EXPECT_TRUE(find<QLabel>("timeline_note")->text().contains("on the CPU"));
  EXPECT_FALSE(panel().view().isVisible());
}

}  // namespace
}  // namespace flashscope::window
