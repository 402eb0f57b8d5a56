// Messages over the stage, and the row that a search is about.
#include <QComboBox>
#include <QSpinBox>

#include "app/window/overlay_bar.h"
#include "engine/insight/search.h"
#include "harness.h"
#include "viz/formula_line.h"

namespace flashscope::window {
namespace {

TEST_F(WindowTest, ANoticePassesAndAnErrorStays) {
  auto* overlay = find<OverlayBar>("overlay");
  overlay->set_notice_time(1);
  window_->fail("it could not be done");
  QTest::qWait(30);
  EXPECT_EQ(window_->message(), "it could not be done");
  window_->notice("it is done");
  EXPECT_EQ(window_->message(), "it is done");
  EXPECT_TRUE(wait_until([&] { return window_->message().isEmpty(); }));
  EXPECT_FALSE(overlay->isVisible());
  // The document's: a search without a result passes, a refused recipe stays.
  press(Qt::Key_Home);
  overlay->set_notice_time(3'600'000);  // it is seen before it passes
  QTest::keyClick(window_.get(), Qt::Key_N);
  EXPECT_TRUE(wait_until([&] { return document().message().find("No ") == 0; }));
  overlay->set_notice_time(1);
  EXPECT_TRUE(wait_until([&] { return document().message().empty() && window_->message().isEmpty(); }));
  Recipe recipe = document().recipe();
  recipe.defect = Defect::no_final_divide, recipe.normalise = Normalise::each;
  window_->apply([&](Document& d) { d.set_recipe(recipe); });
  QTest::qWait(30);
  EXPECT_FALSE(window_->message().isEmpty());
}

TEST_F(WindowTest, AMessageCoversNeitherTheStepsNorTheFormula) {
  for (const QSize size : {QSize(1280, 720), QSize(1920, 1080)}) {
    window_->resize(size);
    ASSERT_TRUE(settle());
    window_->fail("a message");
    window_->fail(QString("a message of several lines ").repeated(8));
    auto* overlay = find<OverlayBar>("overlay");
    ASSERT_TRUE(overlay->isVisible());
    const QRect bar = overlay->geometry();
    EXPECT_TRUE(stage().rect().contains(bar));
    EXPECT_GT(bar.top(), stage().height() / 3);
    const viz::Scene picture = scene();
    for (const viz::Hit& hit : picture.hits)
      if (hit.target == viz::Target::stage || hit.target == viz::Target::strip) {
        EXPECT_FALSE(bar.intersects(QRectF(hit.rect.x, hit.rect.y, hit.rect.w, hit.rect.h).toRect()));
      }
  }
}

TEST_F(WindowTest, TheRowThatAStopIsAboutIsTheOneTold) {
  trigger("view.row");
  auto* box = find<QSpinBox>("picked_row");
  document().pin_row(130, true);
  document().run_to({parse_stop("m > -100 and row == 300")}, true);
  ASSERT_TRUE(wait_until([&] { return K() > 0; }));
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().stage().state->i, 2);
  EXPECT_EQ(document().stage().found_row, 300);
  EXPECT_EQ(document().stage().check_row, 300);
  EXPECT_EQ(viz::focus_row(document().stage(), -1), 300);
  EXPECT_EQ(box->value(), 300);
  press(Qt::Key_Right);  // it is followed on
  EXPECT_EQ(viz::focus_row(document().stage(), -1), 300);
  document().pin_row(290, true);  // until another one is asked for
  ASSERT_TRUE(settle());
  EXPECT_EQ(viz::focus_row(document().stage(), -1), 290);
}

}  // namespace
}  // namespace flashscope::window
