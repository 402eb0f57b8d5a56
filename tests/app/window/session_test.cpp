#include <QMessageBox>
#include <QMimeData>
#include <QPushButton>
#include <QTableWidget>

#include "tests/app/window/gpu_report.h"
#include "tests/app/window/harness.h"

namespace flashscope::window {
namespace {

class SessionTest : public WindowTest {
 protected:
  void set_up_runs() {
    Shape shape{.heads = 2, .kv_heads = 1, .Nq = 150, .Nk = 150, .d = 32, .dv = 32, .type = DType::bfloat16};
    Mask mask;
    mask.causal = Causal::top_left;
    recipe_.Br = 48, recipe_.Bc = 32, recipe_.order = Order::reverse;
    window_->apply([&](Document& d) {
      d.set_recipe(recipe_);
      d.set_problem(random_problem(shape, 5, {}, mask));
    });
    ASSERT_TRUE(settle());
    trigger("go.run");
    auto report = std::make_shared<Report>(gpu_report(*document().problem(), recipe_));
    report->gpu->timeline = simulated_timeline(132, 2, 4);
    window_->apply([&](Document& d) { d.add_run(report, d.problem()); });
    window_->apply([](Document& d) { d.pin_row(17, true); });
    window_->apply([](Document& d) { d.seek(123); });
    ASSERT_TRUE(settle());
  }
  std::filesystem::path file() { return std::filesystem::path(folder_.filePath("mine.fscope").toStdString()); }
  void save() {
    window_->save_session_file(file());
    ASSERT_TRUE(settle());
    ASSERT_TRUE(std::filesystem::exists(file())) << window_->message().toStdString();
  }
  void expect_all_of_it() {
    ASSERT_TRUE(wait_until([&] { return document().runs().all().size() == 2; }));
    ASSERT_TRUE(settle());
    EXPECT_EQ(document().recipe(), recipe_);
    EXPECT_EQ(document().problem()->mask.causal, Causal::top_left);
    EXPECT_EQ(K(), 123);
    EXPECT_EQ(document().stage().pinned_rows, std::vector<std::int64_t>{17});
    ASSERT_TRUE(document().last_run(false));
    ASSERT_TRUE(document().last_run(true));
    EXPECT_EQ(document().shown_run(), document().last_run(true));
    EXPECT_EQ(document().shown_run()->report().gpu->timeline->spans.size(), 2u * (1 + 2 + 3 + 4));
    if (!find<QTableWidget>("runs")->isVisible()) trigger("view.runs");  // a dock is filled when it comes into view
    EXPECT_TRUE(wait_until([&] { return find<QTableWidget>("runs")->rowCount() == 2; }));
    ASSERT_TRUE(wait_until([&] { return window_->parity_check().result().has_value(); }));
    EXPECT_TRUE(window_->parity_check().result()->equal());
    EXPECT_FALSE(window_->isWindowModified());
    EXPECT_TRUE(window_->windowTitle().startsWith("mine.fscope"));
  }
  QMessageBox* question() { return find<QMessageBox>("would_lose"); }
  Recipe recipe_;
};

TEST_F(SessionTest, ASavedSessionOpensWithAllOfIt) {
  set_up_runs();
  EXPECT_TRUE(window_->isWindowModified());
  save();
  EXPECT_FALSE(window_->isWindowModified());
  EXPECT_TRUE(window_->windowTitle().startsWith("mine.fscope"));
  trigger("edit.undo");  // back to the demo: no longer what is in the file
  EXPECT_TRUE(window_->isWindowModified());
  close();
  start(file());  // as on the command line
  expect_all_of_it();
  close();
  start();  // and as it was open last time
  expect_all_of_it();
}

TEST_F(SessionTest, ADroppedSessionReplacesWhatIsOpen) {
  set_up_runs();
  save();
  trigger("file.demo");
  EXPECT_EQ(document().runs().all().size(), 2u);  // still kept, though of another problem
  QMimeData data;
  data.setUrls({QUrl::fromLocalFile(QString::fromStdString(file().string()))});
  QDragEnterEvent enter({10, 10}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(window_.get(), &enter);
  QDropEvent drop({10, 10}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(window_.get(), &drop);
  ASSERT_TRUE(wait_until([&] { return window_->windowTitle().startsWith("mine.fscope"); }));
  expect_all_of_it();
}

TEST_F(SessionTest, ASessionThatCannotBePlannedLeavesTheOpenOne) {
  set_up_runs();
  save();
  const auto problem = document().problem();
  SessionFile bad;  // one row block of it needs more memory than stepping may take
  bad.problem = random_problem({1, 1, 16384, 16384, 1, 1, DType::float32}, 3);
  bad.recipe.Br = bad.recipe.Bc = 16384;
  const std::filesystem::path path = folder_.filePath("bad.fscope").toStdString();
  write_session(path, bad);
  window_->open_path(path);
  ASSERT_TRUE(wait_until([&] { return window_->message().contains("Br 16384"); })) << window_->message().toStdString();
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().problem(), problem);
  EXPECT_TRUE(window_->windowTitle().startsWith("mine.fscope"));
  EXPECT_FALSE(window_->isWindowModified());
  trigger("file.save");  // into its own file, what it is of
  EXPECT_EQ(read_session(path).problem->shape().Nq, 16384);
  expect_all_of_it();
}

TEST_F(SessionTest, AsksOnlyWhereAMeasurementWouldBeLost) {
  trigger("go.run");  // on the CPU: made again in a moment
  EXPECT_FALSE(window_->isWindowModified());
  set_up_runs();
  EXPECT_FALSE(window_->close());
  ASSERT_TRUE(question());
  question()->button(QMessageBox::Cancel)->click();
  ASSERT_TRUE(wait_until([&] { return !question(); }));
  EXPECT_TRUE(window_->isVisible());
  EXPECT_EQ(document().runs().all().size(), 3u);
  EXPECT_FALSE(window_->close());
  question()->button(QMessageBox::Discard)->click();
  ASSERT_TRUE(wait_until([&] { return !window_->isVisible(); }));
}

TEST_F(SessionTest, SavingFromTheQuestionGoesOn) {
  set_up_runs();
  save();
  auto report = std::make_shared<Report>(gpu_report(*document().problem(), document().recipe()));
  window_->apply([&](Document& d) { d.add_run(report, d.problem()); });
  EXPECT_TRUE(window_->isWindowModified());
  EXPECT_FALSE(window_->close());
  ASSERT_TRUE(question());
  question()->button(QMessageBox::Save)->click();
  ASSERT_TRUE(wait_until([&] { return !window_->isVisible(); }));
  EXPECT_EQ(read_session(file()).reports.size(), 3u);
}

TEST_F(SessionTest, ASaveThatFailsSaysSoAndLosesNothing) {
  set_up_runs();
  window_->save_session_file("/nowhere/mine.fscope");
  ASSERT_TRUE(wait_until([&] { return window_->message().contains("/nowhere"); })) << window_->message().toStdString();
  EXPECT_TRUE(window_->isWindowModified());
  EXPECT_EQ(document().runs().all().size(), 2u);
}

}  // namespace
}  // namespace flashscope::window
