// A window of its own settings, driven by events. Waits are for a state, never for a time; the deadline
// only ends a test that hangs.
#pragma once

#include <gtest/gtest.h>

#include <QApplication>
#include <QElapsedTimer>
#include <QMouseEvent>
#include <QSettings>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>
#include <functional>
#include <memory>

#include "app/window/main_window.h"
#include "app/window/overlay_bar.h"
#include "app/window/stage_widget.h"
#include "viz/scene.h"

namespace flashscope::window {

class WindowTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(folder_.isValid());
    QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, folder_.path());
    start();
  }
  void TearDown() override { window_.reset(); }

  // A start of the program with the settings of this test.
  void start(const WindowStart& what = {}, QSize size = {1280, 720}) {
    window_.reset();
    window_ = std::make_unique<MainWindow>(what);
    find<OverlayBar>("overlay")->set_notice_time(3'600'000);  // tests read them, however slow the machine is
    window_->resize(size);
    window_->show();
    window_->activateWindow();
    ASSERT_TRUE(QTest::qWaitForWindowActive(window_.get(), 30'000));
    ASSERT_TRUE(settle());
  }
  void close() { ASSERT_TRUE(window_->close()); }

  static bool wait_until(const std::function<bool()>& reached) {
    QElapsedTimer clock;
    clock.start();
    QTimer heartbeat;  // looks again also where no event comes
    heartbeat.start(5);
    while (!reached()) {
      if (clock.elapsed() > 60'000) return false;
      QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
    }
    return true;
  }
  // Until nothing is under way and the screen shows it.
  bool settle() {
    return wait_until([this] {
      QCoreApplication::sendPostedEvents();
      return window_->idle() && stage().drawn_version() == document().stage().version;
    });
  }

  Document& document() { return window_->document(); }
  StageWidget& stage() { return *window_->findChild<StageWidget*>("stage"); }
  std::int64_t K() { return document().requested_K(); }
  template <class Widget>
  Widget* find(const char* name) {
    return window_->findChild<Widget*>(name);
  }
  void trigger(const char* id) {
    QAction* action = window_->actions_table()[id];
    ASSERT_NE(action, nullptr) << id;
    action->trigger();
    ASSERT_TRUE(settle());
  }
  void press(Qt::Key key, Qt::KeyboardModifiers modifiers = {}) {
    QTest::keyClick(window_.get(), key, modifiers);
    ASSERT_TRUE(settle());
  }

  // ---- the stage, by what can be pointed at
  viz::Scene scene() {
    viz::SceneInput input;
    input.width = static_cast<float>(stage().width()), input.height = static_cast<float>(stage().height());
    input.ranges = viz::finite_ranges(document().stage());
    return viz::make_scene(document().stage(), stage().options(), input);
  }
  // The middle of the first thing of that sort.
  QPointF middle(viz::Target target) {
    const viz::Scene picture = scene();
    for (const viz::Hit& hit : picture.hits)
      if (hit.target == target) return {hit.rect.centre().x, hit.rect.centre().y};
    ADD_FAILURE() << "nothing to point at";
    return {};
  }
  void mouse(QEvent::Type type, QPointF at, Qt::MouseButton button = Qt::NoButton) {
    QMouseEvent event(type, at, stage().mapToGlobal(at), button,
                      type == QEvent::MouseButtonPress ? button : Qt::NoButton, Qt::NoModifier);
    QApplication::sendEvent(&stage(), &event);
  }
  void hover(QPointF at) {
    const std::uint64_t frames = stage().frames();
    mouse(QEvent::MouseMove, at);
    ASSERT_TRUE(wait_until([&] { return stage().frames() > frames; }));
    ASSERT_TRUE(settle());
  }
  void click(QPointF at) {
    hover(at);
    const std::uint64_t frames = stage().frames();
    mouse(QEvent::MouseButtonPress, at, Qt::LeftButton);
    mouse(QEvent::MouseButtonRelease, at, Qt::LeftButton);
    ASSERT_TRUE(wait_until([&] { return stage().frames() > frames + 1; }));
    ASSERT_TRUE(settle());
  }

  QTemporaryDir folder_;
  std::unique_ptr<MainWindow> window_;
};

inline bool same(const Matrix& a, const Matrix& b) {
  return a.rows == b.rows && a.cols == b.cols &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(),
                    [](double x, double y) { return std::memcmp(&x, &y, sizeof x) == 0; });
}

}  // namespace flashscope::window
