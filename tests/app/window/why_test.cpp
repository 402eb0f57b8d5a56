// "Why?" and the mask report, as they are used: on the cases that people met.
#include <QDockWidget>
#include <QLineEdit>
#include <QPushButton>
#include <QTextBrowser>
#include <QToolButton>
#include <QUrl>
#include <algorithm>
#include <thread>

#include "app/window/docks/mask_panel.h"
#include "app/window/docks/why_panel.h"
#include "tests/app/window/harness.h"
#include "tests/engine/support.h"

namespace flashscope::window {
namespace {

using flashscope::testing::Case;
using flashscope::testing::keep_mask_from;

class WhyTest : public WindowTest {
 protected:
  void open_case(const char* name, std::int64_t Br, std::int64_t Bc, Guard guard) {
    const Case log(name);
    document().set_problem(log.problem(DType::float32, keep_mask_from(log.json["inputs"]["mask"]["values"])));
    Recipe recipe;
    recipe.Br = Br, recipe.Bc = Bc, recipe.guard = guard;
    document().set_recipe(recipe);
    ASSERT_TRUE(settle());
  }
  WhyPanel& why() { return *static_cast<WhyPanel*>(find<QWidget>("why_panel")); }
  MaskPanel& mask() { return *static_cast<MaskPanel*>(find<QWidget>("mask_panel")); }
  bool answered() {
    return wait_until([&] { return !why().busy() && why().answer(); }) && settle();
  }
  bool reported() {
    return wait_until([&] { return !mask().busy() && !mask().conventions().empty(); }) && settle();
  }
  // The middle of cell (0, 0) of a buffer on the chip.
  QPointF cell_of(viz::ChipBuffer buffer) {
    const viz::Scene picture = scene();
    for (const viz::Hit& hit : picture.hits)
      if (hit.target == viz::Target::chip_cell && hit.what == static_cast<int>(buffer))
        return {hit.rect.x + hit.rect.w / (2 * hit.cols), hit.rect.y + hit.rect.h / (2 * hit.rows)};
    ADD_FAILURE() << "not on the chip";
    return {};
  }
  std::size_t convention(const std::string& name) {
    const auto& list = mask().conventions();
    return static_cast<std::size_t>(
        std::find_if(list.begin(), list.end(), [&](const Convention& one) { return one.name == name; }) - list.begin());
  }
};

// The best of all demonstrations: the NaN is the tiling's. With Bc = 5 it is gone, and the chain has said why.
TEST_F(WhyTest, ChangingTheBlockSizeTakesTheNanAwayAndTheChainSaysWhy) {
  open_case("open-02-first-tile-masked", 2, 4, Guard::none);
  document().seek(*document().stage().schedule->find(0, 0, -1, Stage::finish) + 1);
  ASSERT_TRUE(settle());
  click(cell_of(viz::ChipBuffer::O));
  ASSERT_TRUE(answered());
  EXPECT_TRUE(why().isVisible());
  EXPECT_EQ(why().answer()->cause, Cause::inf_minus_inf);
  EXPECT_EQ(one_line(*why().answer()),
            "O[0, 0] <- l[0] <- P[0, :] <- S - m = (-inf) - (-inf) <- tile (0, 0) has no visible key for this row <- "
            "keep mask: k 0..3 are 0 for q 0");
  EXPECT_TRUE(find<QTextBrowser>("why_text")->toPlainText().contains("tile (0, 0) has no visible key"));

  // A link goes to its step.
  const std::int64_t step = why().answer()->links[2].step;
  QMetaObject::invokeMethod(find<QTextBrowser>("why_text"), "anchorClicked",
                            Q_ARG(QUrl, QUrl(QString("step:%1").arg(step))));
  ASSERT_TRUE(settle());
  EXPECT_EQ(K(), step);
  EXPECT_EQ(document().stage().state->step->stage, Stage::exponentials);
  press(Qt::Key_End);

  Recipe recipe = document().recipe();
  recipe.Bc = 5;
  window_->apply([&](Document& d) { d.set_recipe(recipe); });
  ASSERT_TRUE(settle());
  ASSERT_TRUE(answered());
  EXPECT_FALSE(why().answer()->cause);
  EXPECT_TRUE(std::isfinite(why().answer()->links.front().value));
  EXPECT_TRUE(find<QTextBrowser>("why_text")->toPlainText().contains("before the change NaN"))
      << find<QTextBrowser>("why_text")->toPlainText().toStdString();
}

TEST_F(WhyTest, ACellCanBeTypedAndTheFirstNanAskedFor) {
  trigger("view.why");
  auto* cell = find<QLineEdit>("why_cell");
  cell->setFocus();
  QTest::keyClicks(cell, "m[0,500]");
  QTest::keyClick(cell, Qt::Key_Return);
  ASSERT_TRUE(answered());
  EXPECT_EQ(why().answer()->links.front().of, CellKind::m);
  EXPECT_EQ(why().answer()->links.back().of, CellKind::S);

  Recipe recipe = document().recipe();
  recipe.order = Order::reverse;
  window_->apply([&](Document& d) { d.set_recipe(recipe); });
  ASSERT_TRUE(settle());
  QTest::mouseClick(find<QPushButton>("why_first_nan"), Qt::LeftButton);
  ASSERT_TRUE(wait_until([&] { return !why().busy() && why().answer() && why().answer()->cause; }));
  EXPECT_EQ(one_line(*why().answer()),
            "O[0, 0] <- l[0] <- P[0, :] <- S - m = (-inf) - (-inf) <- tile (0, 1) has no visible key for this row <- "
            "causal top-left: k 64..127 > q 0");

  QTest::keyClicks(cell, "nonsense");
  QTest::keyClick(cell, Qt::Key_Return);
  EXPECT_TRUE(window_->message().contains("why")) << window_->message().toStdString();
}

// Places are written as questions are: with the head, where there are several. NaN is spelled so everywhere.
TEST_F(WhyTest, TheChainNamesTheHead) {
  Mask causal;
  causal.causal = Causal::top_left;
  Recipe recipe;
  recipe.Br = 16, recipe.Bc = 20, recipe.order = Order::reverse, recipe.guard = Guard::none;
  window_->apply([&](Document& d) {
    d.set_problem(random_problem({4, 2, 60, 60, 8, 8, DType::float32}, 3, {}, causal));
    d.set_recipe(recipe);
  });
  ASSERT_TRUE(settle());
  trigger("view.why");
  why().ask_about(parse_question("O[2,17,3]"));
  ASSERT_TRUE(answered());
  const QString text = find<QTextBrowser>("why_text")->toPlainText();
  for (const char* place : {"O[2, 17, 3] = NaN", "l[2, 17] = NaN", "P[2, 17, :] = NaN"})
    EXPECT_TRUE(text.contains(place)) << place << '\n' << text.toStdString();
  EXPECT_TRUE(text.contains("x NaN + NaN = NaN")) << text.toStdString();
  EXPECT_FALSE(text.contains("nan")) << text.toStdString();
  recipe.guard = Guard::clamp;
  window_->apply([&](Document& d) { d.set_recipe(recipe); });
  ASSERT_TRUE(settle());
  ASSERT_TRUE(answered());
  EXPECT_TRUE(find<QTextBrowser>("why_text")->toPlainText().contains("NaN: O[2, 17, 3]"))
      << find<QTextBrowser>("why_text")->toPlainText().toStdString();
}

TEST_F(WhyTest, TheMaskReportFollowsAndTheOtherConventionIsAClick) {
  trigger("view.mask");
  open_case("open-01-fully-masked-rows", 2, 4, Guard::clamp);
  ASSERT_TRUE(reported());
  const auto says = [&](const std::string& words) {
    return std::any_of(mask().lines().begin(), mask().lines().end(),
                       [&](const MaskLine& line) { return line.text.find(words) != std::string::npos; });
  };
  ASSERT_TRUE(wait_until([&] { return says("2 empty rows: 2, 5"); }));
  mask().take_other(convention("empty rows"));
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().recipe().empty_row, EmptyRow::nan);
  ASSERT_TRUE(reported());
  EXPECT_TRUE(find<QTextBrowser>("mask_text")->toPlainText().contains("rows that see no key"));
  mask().take_other(convention("keep or drop"));
  ASSERT_TRUE(wait_until([&] { return says("visible keys a row: 3 to 8"); }));  // 8 less 1, 2, 0, 4, 5, 0
  EXPECT_EQ(visible_keys(document().problem()->mask, 6, 8, 0, 2), 8);
  EXPECT_TRUE(document().can_undo());
  const QString before = find<QTextBrowser>("mask_text")->toPlainText();
  mask().take_other(convention("LSE base"));
  EXPECT_NE(find<QTextBrowser>("mask_text")->toPlainText(), before);
  mask().take_other(convention("LSE sign"));
  EXPECT_EQ(document().stage().lse, (LseConvention{true, true, false}));
  EXPECT_TRUE(find<QTextBrowser>("mask_text")->toPlainText().contains("base 2, negative"));
}

// A convention is a whole mask or recipe: those of the problem before, or of a recipe that was cancelled, are gone.
TEST_F(WhyTest, NothingOfAnotherProblemOrRecipeIsOffered) {
  trigger("view.mask");
  Mask causal;
  causal.causal = Causal::top_left;
  window_->apply([&](Document& d) {
    d.set_problem(random_problem({1, 1, 40, 60, 8, 8, DType::float32}, 1, {}, causal));
  });
  ASSERT_TRUE(settle());
  ASSERT_TRUE(reported());
  const std::size_t alignment = convention("causal alignment");
  ASSERT_LT(alignment, mask().conventions().size());
  auto* text = find<QTextBrowser>("mask_text");
  ASSERT_TRUE(text->toPlainText().contains("tiles visited"));

  // No event is delivered from here on: what the panel has is what it keeps while it computes.
  const auto planned = [&](const std::function<bool()>& there) {
    while (!there()) document().poll(), std::this_thread::yield();
    mask().refresh(document());
  };
  Recipe recipe = document().recipe();
  recipe.Br = 7;
  document().set_recipe(recipe);
  planned([&] { return document().stage().schedule->recipe() == recipe; });
  emit text->anchorClicked(QUrl("cancel:"));
  EXPECT_TRUE(text->toPlainText().contains("rows that see no key"));
  EXPECT_FALSE(text->toPlainText().contains("tiles visited"));
  EXPECT_EQ(convention("empty rows"), mask().conventions().size());

  const auto other = random_problem({1, 1, 40, 60, 8, 8, DType::float32}, 2);
  document().set_problem(other);
  planned([&] { return document().stage().problem == other; });
  EXPECT_EQ(convention("causal alignment"), mask().conventions().size());
  EXPECT_LT(convention("LSE base"), mask().conventions().size());
  ASSERT_TRUE(reported());
  EXPECT_EQ(document().problem(), other);
}

// Found on load and after each change, with the panel closed: a badge says so and takes no focus.
TEST_F(WhyTest, ASeriousMaskIsToldWhereThePanelIsHidden) {
  find<QDockWidget>("mask")->hide();
  auto* badge = find<QToolButton>("mask_badge");
  EXPECT_FALSE(badge->isVisible());
  stage().setFocus();
  const Case log("open-06-zero-times-minus-inf");
  window_->apply([&](Document& d) {
    d.set_problem(log.problem(DType::float32, flashscope::testing::bias_from(log.json["inputs"]["mask"]["values"])));
  });
  ASSERT_TRUE(wait_until([&] { return badge->isVisible(); }));
  EXPECT_EQ(badge->text(), "Mask: 2 faults");
  EXPECT_TRUE(badge->toolTip().contains("10 NaN cells in the mask")) << badge->toolTip().toStdString();
  EXPECT_TRUE(stage().hasFocus());
  EXPECT_FALSE(mask().isVisible());
  badge->click();
  EXPECT_TRUE(wait_until([&] { return mask().isVisible(); }));
  EXPECT_TRUE(wait_until([&] { return find<QTextBrowser>("mask_text")->toPlainText().contains("10 NaN cells"); }));
  window_->apply([](Document& d) { d.set_mask({}); });
  EXPECT_TRUE(wait_until([&] { return !badge->isVisible(); }));
}

}  // namespace
}  // namespace flashscope::window
