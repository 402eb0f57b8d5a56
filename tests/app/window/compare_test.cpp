// The gallery and the comparison with another kernel's output, in the window.
#include <QAbstractButton>
#include <QComboBox>
#include <QListWidget>
#include <QTextBrowser>

#include "app/window/docks/compare_panel.h"
#include "app/window/docks/error_map.h"
#include "app/window/docks/gallery_panel.h"
#include "app/window/docks/numerics_panel.h"
#include "engine/attention/cpu_runner.h"
#include "engine/files/tensor_file.h"
#include "tests/app/window/harness.h"

namespace flashscope::window {
namespace {

TEST_F(WindowTest, AGalleryEntryOpensBothRunsWhereTheyPart) {
  trigger("view.gallery");
  auto* panel = static_cast<GalleryPanel*>(find<QWidget>("gallery_panel"));
  auto* list = panel->findChild<QListWidget*>("entries");
  ASSERT_EQ(list->count(), static_cast<int>(gallery().size()) + 3);  // and a heading for each kind
  for (int n = 0; n < list->count(); ++n)
    if (list->item(n)->data(Qt::UserRole).toString() == "no-rescale-o") list->setCurrentRow(n);
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

  // A file that does not fit leaves what is shown and says why.
  write_npy(file, {"", ElementType::float32, {2, 8, 200}, report.O});
  panel->load(file);
  ASSERT_TRUE(wait_until([&] { return panel->idle(); }));
  EXPECT_TRUE(wait_until([&] { return window_->message().contains("(2, 200, 8)"); }));
  EXPECT_GT(panel->comparison()->total().wrong, 100);
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
