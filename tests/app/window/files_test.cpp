#include <QComboBox>
#include <QMenu>
#include <QMimeData>
#include <QProgressBar>
#include <QPushButton>
#include <atomic>
#include <fstream>
#include <thread>

#include "app/window/open_dialog.h"
#include "tests/app/window/harness.h"
#include "tests/place.h"

namespace flashscope::window {
namespace {

std::filesystem::path data_file(const char* name) { return std::filesystem::path(source_path("tests/data")) / name; }

ArrayInfo array(const char* name, std::vector<std::int64_t> shape) {
  ArrayInfo info;
  info.name = name;
  info.shape = std::move(shape);
  return info;
}

TEST_F(WindowTest, OpensAFileAndTellsWhatWasFound) {
  window_->open_path(data_file("codelm_layer3.npz"));
  ASSERT_TRUE(wait_until([&] { return document().problem()->shape().heads == 4; }));
  ASSERT_TRUE(settle());
  EXPECT_FALSE(document().found().empty());
  EXPECT_TRUE(find<QWidget>("problem_panel")->isVisible());
  EXPECT_TRUE(window_->windowTitle().contains("codelm_layer3"));
  EXPECT_EQ(document().recipe(), Recipe{});  // not the demo's, which has no guard
  trigger("go.next_head");
  EXPECT_EQ(document().stage().state->head, 1);
}

TEST_F(WindowTest, AFailedOpenLosesNothing) {
  document().seek(77);
  ASSERT_TRUE(settle());
  const std::shared_ptr<const Problem> before = document().problem();
  const auto path = std::filesystem::path(folder_.path().toStdString()) / "broken.npz";
  std::ofstream(path) << "not an archive";
  window_->open_path(path);
  ASSERT_TRUE(wait_until([&] { return !window_->message().isEmpty(); }));
  EXPECT_TRUE(window_->message().contains("broken.npz")) << window_->message().toStdString();
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().problem(), before);
  EXPECT_EQ(K(), 77);
  EXPECT_EQ(document().stage().state->K, 77);
  press(Qt::Key_Right);
  EXPECT_EQ(K(), 78);
}

TEST_F(WindowTest, ABadFileAtTheStartIsToldAndLeavesTheDemo) {
  const auto path = std::filesystem::path(folder_.path().toStdString()) / "broken.npz";
  std::ofstream(path) << "not an archive";
  start(path);
  EXPECT_TRUE(window_->message().contains("broken.npz")) << window_->message().toStdString();
  EXPECT_EQ(document().problem()->name, demo_problem()->name);
}

// As the command line asks for it: the file, or another problem, under a recipe.
TEST_F(WindowTest, StartsOnAFileUnderARecipe) {
  Recipe recipe;
  recipe.Br = 96, recipe.order = Order::reverse, recipe.guard = Guard::none;
  WindowStart what = data_file("codelm_layer3.npz");
  what.recipe = [&](const Shape& shape) {
    EXPECT_EQ(shape.heads, 4);
    return recipe;
  };
  start(what);
  ASSERT_TRUE(wait_until([&] { return document().problem()->shape().heads == 4 && document().recipe() == recipe; }));
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().stage().schedule->recipe(), recipe);
  // What is opened next is not under it.
  window_->open_path(data_file("tile_max.npz"));
  ASSERT_TRUE(wait_until([&] { return document().problem()->shape().heads == 1; }));
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().problem()->name, "tile_max.npz");

  what = {};
  what.files.emplace().input = data_file("codelm_layer3.npz");
  what.files->head = 2, what.files->causal = Causal::bottom_right;
  what.recipe = [](const Shape&) -> Recipe { throw InputError("--br", "too many", "fewer"); };
  start(what);
  ASSERT_TRUE(wait_until([&] { return document().problem()->mask.causal == Causal::bottom_right; }));
  ASSERT_TRUE(wait_until([&] { return window_->message().contains("--br: found too many"); }));
  EXPECT_EQ(document().problem()->shape().heads, 1);
}

TEST_F(WindowTest, StartsOnARandomProblemAndTheDemoUnderARecipe) {
  Recipe recipe;
  recipe.Br = recipe.Bc = 8, recipe.guard = Guard::none;
  WindowStart what;
  what.recipe = [&](const Shape&) { return recipe; };
  what.make = [](const std::stop_token&, const Progress&) {
    return random_problem({1, 1, 24, 24, 8, 8, DType::float32}, 1);
  };
  start(what);
  EXPECT_EQ(document().problem()->name, "random 1");
  EXPECT_TRUE(find<QWidget>("problem_panel")->isVisible());
  EXPECT_EQ(document().recipe(), recipe);
  EXPECT_EQ(document().stage().state->steps, 3 * (1 + 3 * 8 + 2));
  // In no file: the next start is not its recipe on the demo.
  close();
  start();
  EXPECT_EQ(document().problem()->name, demo_problem()->name);
  EXPECT_EQ(document().recipe(), demo_recipe());

  what.make = nullptr;
  start(what);
  EXPECT_EQ(document().problem()->name, demo_problem()->name);
  EXPECT_EQ(document().recipe(), recipe);
}

// What is opened while a random problem is still drawn stays; that problem does not come.
TEST_F(WindowTest, WhatIsOpenedMeanwhileStopsTheDrawing) {
  std::atomic<bool> stopped = false;
  WindowStart what;
  what.recipe = [](const Shape&) { return Recipe{}; };
  what.make = [&](const std::stop_token& stop, const Progress& progress) {
    progress(25, 100);
    while (!stop.stop_requested()) std::this_thread::yield();
    stopped = true;
    return random_problem({1, 1, 24, 24, 8, 8, DType::float32}, 1);
  };
  window_.reset();
  window_ = std::make_unique<MainWindow>(what);
  window_->resize(1280, 720);
  window_->show();
  const auto cancel = [&] {
    for (QPushButton* button : find<QWidget>("overlay")->findChildren<QPushButton*>())
      if (button->isVisible()) return button;
    return static_cast<QPushButton*>(nullptr);
  };
  ASSERT_TRUE(wait_until([&] { return cancel() != nullptr; }));  // told, and can be cancelled
  EXPECT_FALSE(window_->idle());
  const auto* bar = find<QWidget>("overlay")->findChild<QProgressBar*>();
  EXPECT_TRUE(wait_until([&] { return bar->value() == 250 && bar->maximum() == 1000; })) << bar->value();
  window_->open_path(data_file("codelm_layer3.npz"));
  ASSERT_TRUE(wait_until([&] { return stopped && document().problem()->shape().heads == 4; }));
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().problem()->name, "codelm_layer3.npz");
  EXPECT_EQ(cancel(), nullptr);

  stopped = false;
  window_ = std::make_unique<MainWindow>(what);
  window_->resize(1280, 720);
  window_->show();
  ASSERT_TRUE(wait_until([&] { return cancel() != nullptr; }));
  QTest::mouseClick(cancel(), Qt::LeftButton);
  ASSERT_TRUE(wait_until([&] { return stopped.load(); }));
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().problem()->name, demo_problem()->name);
}

TEST_F(WindowTest, RecentFilesAreNamesWithTheWholePathInTheTip) {
  window_->open_path(data_file("codelm_layer3.npz"));
  ASSERT_TRUE(wait_until([&] { return document().problem()->shape().heads == 4; }));
  ASSERT_TRUE(settle());
  QAction* recent = nullptr;
  for (const QMenu* menu : window_->findChildren<QMenu*>())
    if (menu->title() == "&Recent files") recent = menu->actions().value(0);
  ASSERT_NE(recent, nullptr);
  EXPECT_TRUE(recent->text().startsWith("codelm_layer3.npz ")) << recent->text().toStdString();
  EXPECT_EQ(recent->toolTip().toStdString(), std::filesystem::absolute(data_file("codelm_layer3.npz")).string());
}

TEST_F(WindowTest, WhatIsRememberedOpensFromAnotherFolderToo) {
  const std::filesystem::path folder = folder_.path().toStdString(), here = std::filesystem::current_path();
  std::filesystem::copy_file(data_file("codelm_layer3.npz"), folder / "mine.npz");
  std::filesystem::current_path(folder);
  window_->open_path("mine.npz");
  ASSERT_TRUE(wait_until([&] { return document().problem()->shape().heads == 4; }));
  ASSERT_TRUE(settle());
  close();
  std::filesystem::current_path(here);
  start();
  ASSERT_TRUE(wait_until([&] { return document().problem()->shape().heads == 4; }));
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().problem()->name, "mine.npz");
}

TEST_F(WindowTest, DroppedFileIsOpened) {
  QMimeData data;
  data.setUrls({QUrl::fromLocalFile(QString::fromStdString(data_file("codelm_layer3.npz").string()))});
  QDragEnterEvent enter({10, 10}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(window_.get(), &enter);
  EXPECT_TRUE(enter.isAccepted());
  QDropEvent drop({10, 10}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(window_.get(), &drop);
  ASSERT_TRUE(wait_until([&] { return document().problem()->shape().heads == 4; }));
  ASSERT_TRUE(settle());
}

TEST_F(WindowTest, TheNextStartIsWhereTheLastOneEnded) {
  window_->open_path(data_file("codelm_layer3.npz"));
  ASSERT_TRUE(wait_until([&] { return document().problem()->shape().heads == 4; }));
  ASSERT_TRUE(settle());
  Recipe recipe;
  recipe.algorithm = Algorithm::flash1;
  recipe.Br = 96, recipe.Bc = 48, recipe.order = Order::reverse, recipe.defect = Defect::no_rescale;
  window_->apply([&](Document& d) { d.set_recipe(recipe); });
  ASSERT_TRUE(settle());
  document().seek(321);
  ASSERT_TRUE(settle());
  trigger("view.dark");
  close();
  start();
  ASSERT_TRUE(wait_until([&] { return document().problem()->shape().heads == 4 && document().recipe() == recipe; }));
  ASSERT_TRUE(settle());
  EXPECT_EQ(K(), 321);
  EXPECT_FALSE(stage().options().dark);
}

TEST_F(WindowTest, AFileThatIsGoneLeavesTheDemo) {
  const auto copy = std::filesystem::path(folder_.path().toStdString()) / "mine.npz";
  std::filesystem::copy_file(data_file("codelm_layer3.npz"), copy);
  window_->open_path(copy);
  ASSERT_TRUE(wait_until([&] { return document().problem()->shape().heads == 4; }));
  ASSERT_TRUE(settle());
  close();
  std::filesystem::remove(copy);
  start();
  ASSERT_TRUE(wait_until([&] { return !window_->message().isEmpty(); }));
  EXPECT_TRUE(window_->message().contains("mine.npz")) << window_->message().toStdString();
  EXPECT_EQ(document().problem()->name, demo_problem()->name);
}

TEST(OpenDialog, MapsNamesThatAFileDoesNotTell) {
  FileReport report;
  report.format = "npz";
  report.arrays = {array("query", {2, 8, 4}), array("key", {2, 8, 4}), array("x", {2, 8, 4})};
  report.roles = {{"q", "query"}, {"k", "key"}};
  EXPECT_FALSE(is_clear(report));
  OpenDialog dialog("file.npz", report, nullptr);
  auto* open = dialog.findChildren<QPushButton*>().front();
  for (QPushButton* button : dialog.findChildren<QPushButton*>())
    if (button->text().contains("Open")) open = button;
  EXPECT_FALSE(open->isEnabled());
  auto* v = dialog.findChild<QComboBox*>("v");
  v->setCurrentIndex(v->findData("x"));
  EXPECT_TRUE(open->isEnabled());
  const ProblemFiles files = dialog.files();
  EXPECT_EQ(files.input, "file.npz");
  EXPECT_EQ(files.names.at("q"), "query");
  EXPECT_EQ(files.names.at("v"), "x");
  report.roles["v"] = "x";
  EXPECT_TRUE(is_clear(report));
  report.batches = 2;
  EXPECT_FALSE(is_clear(report));
}

TEST(OpenDialog, AsksWhereRowsLookLikeHeads) {
  FileReport report;
  report.format = "npz";
  report.arrays = {array("q", {512, 4, 64})};
  report.roles = {{"q", "q"}, {"k", "q"}, {"v", "q"}};
  EXPECT_FALSE(is_clear(report));
  report.layout = Layout::nhd;
  EXPECT_TRUE(is_clear(report));
}

}  // namespace
}  // namespace flashscope::window
