// The gallery and the comparison with another kernel's output, in the window.
#include <QAbstractButton>
#include <QComboBox>
#include <QLabel>
#include <QListWidget>
#include <QTextBrowser>
#include <QUrl>

#include "app/window/docks/compare_panel.h"
#include "app/window/docks/error_map.h"
#include "app/window/docks/gallery_panel.h"
#include "app/window/docks/numerics_panel.h"
#include "app/window/text.h"
#include "engine/attention/cpu_runner.h"
#include "engine/files/tensor_file.h"
#include "tests/app/window/harness.h"

namespace flashscope::window {
namespace {

class GalleryTest : public WindowTest {
 protected:
  void SetUp() override {
    WindowTest::SetUp();
    trigger("view.gallery");
    panel_ = static_cast<GalleryPanel*>(find<QWidget>("gallery_panel"));
    list_ = panel_->findChild<QListWidget*>("entries");
  }
  void choose(const char* name) {
    for (int n = 0; n < list_->count(); ++n)
      if (list_->item(n)->data(Qt::UserRole).toString() == name) list_->setCurrentRow(n);
  }
  void click(const char* button) {
    panel_->findChild<QAbstractButton*>(button)->click();
    ASSERT_TRUE(wait_until([&] { return panel_->idle(); }));
    ASSERT_TRUE(settle());
  }
  GalleryPanel* panel_ = nullptr;
  QListWidget* list_ = nullptr;
};

// One click: the mistake and the right run in step, at the first step at which they differ.
TEST_F(GalleryTest, EveryEntryOpensBothRunsSideBySideWhereTheyPart) {
  for (const GalleryEntry& entry : gallery()) {
    SCOPED_TRACE(entry.name);
    choose(std::string(entry.name).c_str());
    click("open_both");
    const GalleryPair pair = *panel_->pair();
    const auto& stage = document().stage();
    EXPECT_EQ(document().problem(), pair.problem);
    EXPECT_EQ(document().recipe(), pair.recipe);
    ASSERT_TRUE(stage.beside) << window_->message().toStdString();
    EXPECT_EQ(stage.beside->schedule->recipe(), pair.right);
    EXPECT_EQ(stage.beside->problem, pair.right_problem);
    const auto first = first_difference(pair);
    EXPECT_EQ(K(), first ? first->step : stage.schedule->steps());
    if (!first) continue;
    ASSERT_TRUE(stage.differences);
    EXPECT_TRUE(stage.differences->count > 0 || !stage.differences->inputs.empty() || first->quantity == "step")
        << text(*first) << ", compared " << stage.differences->compared << "; " << stage.differences->reason;
  }
  // With other tensors the second run is gone.
  trigger("edit.undo");
  window_->apply([](Document& d) { d.set_problem(demo_problem()); });
  ASSERT_TRUE(settle());
  EXPECT_FALSE(document().beside());
}

TEST_F(GalleryTest, AConventionsSecondRunIsOfItsOwnProblem) {
  choose("causal-alignment");
  click("open_both");
  ASSERT_TRUE(document().stage().beside);
  EXPECT_EQ(document().problem()->mask.causal, Causal::bottom_right);
  EXPECT_EQ(document().stage().beside->problem->mask.causal, Causal::top_left);
  const std::int64_t first = K();
  stage().setFocus();
  press(Qt::Key_Home);
  press(Qt::Key_D);
  EXPECT_EQ(K(), first);
  trigger("beside.swap");
  EXPECT_EQ(document().problem()->mask.causal, Causal::top_left);
  EXPECT_EQ(document().stage().beside->problem->mask.causal, Causal::bottom_right);
  EXPECT_EQ(K(), first);
  trigger("beside.off");
  EXPECT_FALSE(document().stage().beside);
}

TEST_F(GalleryTest, AnEntryOpensEitherRunWhereTheyPart) {
  GalleryPanel* panel = panel_;
  ASSERT_EQ(list_->count(), static_cast<int>(gallery().size()) + 3);  // and a heading for each kind
  choose("no-rescale-o");
  ASSERT_TRUE(wait_until([&] { return panel->idle(); }));
  const QString shown = panel->findChild<QTextBrowser*>()->toPlainText();
  EXPECT_TRUE(shown.contains("step 15, rescale of tile (0, 1): O of row 0 is 10, not 5")) << shown.toStdString();
  panel->findChild<QAbstractButton*>("open_mistake")->click();
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().recipe().defect, Defect::no_rescale_o);
  EXPECT_EQ(K(), 15);
  EXPECT_EQ(document().stage().state->O.at(0, 0), 10);
  panel->findChild<QAbstractButton*>("open_right")->click();
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().recipe().defect, Defect::none);
  EXPECT_EQ(K(), 15);
  EXPECT_LE(std::abs(document().stage().state->O.at(0, 0) - 5), 1e-5);
  trigger("edit.undo");
  trigger("edit.undo");  // one step for each run
  EXPECT_EQ(document().problem()->shape().Nq, 1024);
}

TEST_F(WindowTest, AWrongOutputIsMappedExplainedAndGoneTo) {
  trigger("view.compare");
  auto* panel = static_cast<ComparePanel*>(find<QWidget>("compare_panel"));
  const auto problem = random_problem({2, 2, 200, 200, 16, 8, DType::float32}, 5);
  window_->apply([&](Document& d) { d.set_problem(problem), d.set_recipe(Recipe{}); });
  ASSERT_TRUE(settle());
  Recipe made;
  set_defect(made, "no-rescale");
  made.Bc = 32;
  const Report report = run_on_cpu(*problem, made);
  const std::filesystem::path file = folder_.filePath("theirs.npy").toStdString();
  write_npy(file, {"", ElementType::float32, {2, 200, 8}, report.O});
  panel->load(file);
  ASSERT_TRUE(wait_until([&] { return panel->idle(); }));
  ASSERT_NE(panel->comparison(), nullptr);
  EXPECT_GT(panel->comparison()->total().wrong, 100);
  ASSERT_FALSE(panel->explanations().empty());
  EXPECT_EQ(panel->explanations()[0].name, "no-rescale");
  EXPECT_EQ(panel->explanations()[0].recipe.Bc, 32);

  // What its colours mean, and no colour that does not occur.
  const QString legend = find<QLabel>("error_map_legend")->text();
  EXPECT_TRUE(find<QLabel>("error_map_legend")->isVisible());
  EXPECT_TRUE(legend.contains("wrong, from the tolerance " + number(panel->comparison()->tolerance, 2) + " to " +
                              number(panel->comparison()->max_error, 2)))
      << legend.toStdString();
  EXPECT_TRUE(legend.contains("right")) << legend.toStdString();
  EXPECT_FALSE(legend.contains("NaN") || legend.contains("Inf")) << legend.toStdString();

  // The map: a click goes to the row under it.
  auto* map = panel->findChild<ErrorMap*>();
  const QPoint at(map->width() - 30, map->height() / 2);
  const auto [head, row] = map->place(at);
  EXPECT_EQ(head, 1);
  EXPECT_LE(std::abs(row - 100), 25);
  QTest::mouseClick(map, Qt::LeftButton, {}, at);
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().stage().state->head, 1);
  EXPECT_EQ(document().stage().state->i, row / 64);

  // The run that reproduces it.
  panel->findChild<QAbstractButton*>("open")->click();
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().recipe().defect, Defect::no_rescale);
  EXPECT_EQ(document().recipe().Bc, 32);
  EXPECT_EQ(document().beside(), Recipe{});  // the right one, in step

  // A file that does not fit leaves what is shown and says why.
  write_npy(file, {"", ElementType::float32, {2, 8, 200}, report.O});
  panel->load(file);
  ASSERT_TRUE(wait_until([&] { return panel->idle(); }));
  EXPECT_TRUE(wait_until([&] { return window_->message().contains("(2, 200, 8)"); }));
  EXPECT_GT(panel->comparison()->total().wrong, 100);
}

// LSE in base 2: read as what it is after one click, and right then.
TEST_F(WindowTest, TheConventionOfLseIsAClickAway) {
  trigger("view.compare");
  auto* panel = static_cast<ComparePanel*>(find<QWidget>("compare_panel"));
  const auto problem = random_problem({1, 1, 90, 90, 16, 8, DType::float32}, 5);
  window_->apply([&](Document& d) { d.set_problem(problem), d.set_recipe(Recipe{}); });
  ASSERT_TRUE(settle());
  Report report = run_on_cpu(*problem, Recipe{});
  for (double& lse : report.LSE) lse = handed_out({true, false, false}, lse);
  const std::filesystem::path file = folder_.filePath("theirs.npz").toStdString();
  const OutArray arrays[] = {{"o", ElementType::float32, {1, 90, 8}, report.O},
                             {"lse", ElementType::float32, {1, 90}, report.LSE}};
  write_npz(file, arrays);
  panel->load(file);
  ASSERT_TRUE(wait_until([&] { return panel->idle(); }));
  ASSERT_TRUE(panel->comparison() && panel->comparison()->lse);
  EXPECT_GT(panel->comparison()->lse->wrong, 80);
  ASSERT_FALSE(panel->explanations().empty());
  EXPECT_EQ(panel->explanations()[0].name, "lse-base2");
  auto* text = panel->findChild<QTextBrowser*>();
  EXPECT_TRUE(text->toPlainText().contains("read as natural log; take base 2")) << text->toPlainText().toStdString();
  QMetaObject::invokeMethod(text, "anchorClicked", Q_ARG(QUrl, QUrl("lse:base2")));
  ASSERT_TRUE(wait_until([&] { return panel->idle(); }));
  EXPECT_TRUE(panel->comparison()->right());
  EXPECT_EQ(panel->comparison()->lse->read_as, (LseConvention{true, false, false}));
  // The same convention everywhere, and at the next start.
  EXPECT_NE(document().stage().conventions.find("LSE base 2"), std::string::npos);
  trigger("view.history");
  const QString history = find<QLabel>("history_note")->text();
  EXPECT_TRUE(wait_until([&] { return find<QLabel>("history_note")->text().contains("(m + ln l) / ln 2"); }))
      << history.toStdString();
  close();
  start();
  EXPECT_TRUE(document().stage().lse.base2);
}

TEST_F(WindowTest, NumericsAreChosenAndTheirErrorIsShown) {
  trigger("view.numerics");
  auto* panel = static_cast<NumericsPanel*>(find<QWidget>("numerics_panel"));
  const auto problem = random_problem({2, 2, 96, 96, 32, 8, DType::float16}, 5);
  window_->apply([&](Document& d) { d.set_problem(problem), d.set_recipe(Recipe{}); });
  ASSERT_TRUE(settle());
  ASSERT_TRUE(wait_until([&] { return panel->idle() && panel->sources().size() == 2; }));
  const double plain = panel->sources()[0].max;
  EXPECT_GT(plain, 0);
  auto* type = find<QComboBox>("P type");
  type->setCurrentIndex(2);
  emit type->activated(2);
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().recipe().numerics.P, DType::bfloat16);
  ASSERT_TRUE(wait_until([&] { return panel->idle() && panel->sources().size() == 3; }));
  EXPECT_GT(panel->sources()[0].max, 100 * plain);
  EXPECT_EQ(panel->sources()[2].name, "P bfloat16");
  panel->go_to_row(70);
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().stage().state->i, 1);
  auto* preset = find<QComboBox>("Numerics");
  emit preset->activated(1);
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().recipe().numerics, tensor_core_numerics(DType::float16));
  EXPECT_EQ(preset->currentIndex(), 1);
}

}  // namespace
}  // namespace flashscope::window
