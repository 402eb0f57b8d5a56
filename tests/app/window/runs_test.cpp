#include <QLabel>
#include <QTableWidget>
#include <QTextBrowser>
#include <QToolButton>
#include <QUrl>
#include <limits>

#include "app/window/docks/memory_panel.h"
#include "app/window/docks/runs_panel.h"
#include "app/window/docks/table_fit.h"
#include "app/window/docks/why_panel.h"
#include "app/window/text.h"
#include "tests/app/window/gpu_report.h"
#include "tests/app/window/harness.h"
#include "tests/engine/support.h"

namespace flashscope::window {
namespace {

class RunsTest : public WindowTest {
 protected:
  void SetUp() override {
    WindowTest::SetUp();
    Shape shape{.heads = 2, .kv_heads = 1, .Nq = 150, .Nk = 150, .d = 32, .dv = 32, .type = DType::bfloat16};
    window_->apply([&](Document& d) {
      d.set_recipe({});
      d.set_problem(random_problem(shape, 1));
    });
    ASSERT_TRUE(settle());
  }
  void add_gpu_run(const std::function<void(Report&)>& change = {}) {
    auto report = std::make_shared<Report>(gpu_report(*document().problem(), document().recipe()));
    if (change) change(*report);
    window_->apply([&](Document& d) { d.add_run(report, d.problem()); });
    ASSERT_TRUE(settle());
  }
  QString panel(const char* id) {
    trigger((std::string("view.") + id).c_str());
    return find<QWidget>((std::string(id) + "_panel").c_str())->findChild<QTextBrowser*>()->toPlainText();
  }
  const ParityCheck& compared() {
    EXPECT_TRUE(wait_until([&] { return !window_->parity_check().running(); }));
    return window_->parity_check();
  }
  QToolButton& badge() { return *find<QToolButton>("parity"); }
};

TEST_F(RunsTest, RunsAreKeptShownDeletedAndBroughtBack) {
  trigger("go.run");
  Recipe other;
  other.Br = 32;
  window_->apply([&](Document& d) { d.set_recipe(other); });
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().report(), nullptr);  // nothing was run under this recipe
  trigger("go.run");
  trigger("view.runs");
  ASSERT_EQ(document().runs().all().size(), 2u);
  const RunPointer first = document().runs().all()[0], second = document().runs().all()[1];
  EXPECT_EQ(document().shown_run(), second);
  auto* runs = static_cast<RunsPanel*>(find<QWidget>("runs_panel"));
  auto* table = find<QTableWidget>("runs");
  ASSERT_EQ(table->rowCount(), 2);

  runs->select({0});
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().shown_run(), first);
  EXPECT_TRUE(panel("traffic").contains("not what is on the stage"));
  trigger("view.runs");
  runs->select({0, 1});  // compared: shown as before
  const QString comparison = find<QTextBrowser>("comparison")->toPlainText();
  EXPECT_TRUE(comparison.contains("64 x 64") && comparison.contains("32 x 64")) << comparison.toStdString();

  runs->select({0});
  ASSERT_TRUE(settle());
  runs->delete_selected();
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().runs().all(), std::vector<RunPointer>{second});
  EXPECT_EQ(document().shown_run(), second);
  trigger("edit.undo");
  EXPECT_EQ(document().runs().all(), (std::vector<RunPointer>{first, second}));
  EXPECT_EQ(document().recipe(), other);
  trigger("edit.redo");
  EXPECT_EQ(document().runs().all(), std::vector<RunPointer>{second});
  trigger("edit.undo");
  trigger("edit.undo");  // the recipe; its own run is shown again
  EXPECT_EQ(document().recipe(), Recipe{});
  EXPECT_EQ(document().shown_run(), first);

  runs->select({1});
  ASSERT_TRUE(settle());
  runs->go_there();
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().recipe(), other);
  EXPECT_EQ(document().shown_run(), second);
}

TEST_F(RunsTest, TheBadgeTellsWhatAgrees) {
  EXPECT_TRUE(badge().text().contains("stepped only"));
  trigger("go.run");
  ASSERT_TRUE(compared().result());
  EXPECT_TRUE(badge().text().startsWith("stepped = CPU: ")) << badge().text().toStdString();
  EXPECT_TRUE(badge().toolTip().contains("There is no run on a GPU"));
  add_gpu_run();
  ASSERT_TRUE(compared().result());
  EXPECT_TRUE(badge().text().startsWith("stepped = CPU = GPU: ")) << badge().text().toStdString();
  add_gpu_run([](Report& report) { report.O[7] = std::numeric_limits<double>::quiet_NaN(); });
  ASSERT_TRUE(compared().result());
  EXPECT_EQ(compared().result()->one_sided(), 1);
  EXPECT_TRUE(parity_words(compared()).bad);
  EXPECT_TRUE(badge().text().contains(QString::fromUtf8("≠ GPU"))) << badge().text().toStdString();
  EXPECT_TRUE(badge().text().contains("1 row not finite on one side"));
  Recipe other;
  other.Bc = 32;
  window_->apply([&](Document& d) { d.set_recipe(other); });
  ASSERT_TRUE(settle());
  EXPECT_TRUE(badge().text().contains("stepped only"));
}

// A run of a GPU without a guard: its NaN rows are listed, and a click traces one by the chain of the steps.
TEST_F(RunsTest, ANanOfTheGpuIsTracedByTheSameChain) {
  const flashscope::testing::Case log("open-02-first-tile-masked");
  Recipe recipe;
  recipe.Br = 2, recipe.Bc = 4, recipe.guard = Guard::none;
  window_->apply([&](Document& d) {
    d.set_problem(
        log.problem(DType::float32, flashscope::testing::keep_mask_from(log.json["inputs"]["mask"]["values"])));
    d.set_recipe(recipe);
  });
  ASSERT_TRUE(settle());
  add_gpu_run();
  auto* runs = static_cast<RunsPanel*>(find<QWidget>("runs_panel"));
  trigger("view.runs");
  ASSERT_TRUE(wait_until([&] { return runs->nans() != nullptr; }));
  EXPECT_TRUE(runs->nans()->same());
  auto* text = find<QTextBrowser>("comparison");
  EXPECT_TRUE(text->toPlainText().contains("4 rows NaN here only")) << text->toPlainText().toStdString();
  EXPECT_TRUE(text->toPlainText().contains("its chain is this run's"));
  // From another recipe: a click goes to the run's own and asks there.
  Recipe guarded = recipe;
  guarded.guard = Guard::clamp;
  window_->apply([&](Document& d) { d.set_recipe(guarded); });
  ASSERT_TRUE(settle());
  runs->select({0});
  ASSERT_TRUE(settle());
  QMetaObject::invokeMethod(text, "anchorClicked", Q_ARG(QUrl, QUrl("nan:0/2")));
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().recipe(), recipe);
  auto* why = static_cast<WhyPanel*>(find<QWidget>("why_panel"));
  ASSERT_TRUE(wait_until([&] { return !why->busy() && why->answer() && why->answer()->cause; }));
  EXPECT_TRUE(why->isVisible());
  EXPECT_EQ(why->answer()->links.front().row, 2);
  EXPECT_EQ(why->answer()->origin, Origin::masked_tile);
  const auto chain = [&] { return find<QTextBrowser>("why_text")->toPlainText(); };
  EXPECT_TRUE(chain().contains("NaN on NVIDIA H200 too")) << chain().toStdString();
  // A NaN that the steps do not have is said to be another.
  window_->apply([&](Document& d) { d.set_recipe(guarded); });
  ASSERT_TRUE(settle());
  add_gpu_run([](Report& report) { report.O[0] = std::numeric_limits<double>::quiet_NaN(); });
  why->ask_about({CellKind::O, 0, 0, 0, {}});
  ASSERT_TRUE(wait_until([&] { return !why->busy() && chain().contains("does not explain it"); }));
}

TEST_F(RunsTest, TheTrafficDockPutsMeasuredBesideFormula) {
  // The problem that the recorded figures belong to; its numbers do not matter here.
  Shape shape{.heads = 16, .kv_heads = 16, .Nq = 4096, .Nk = 4096, .d = 64, .dv = 64, .type = DType::bfloat16};
  Recipe recipe;
  recipe.Br = 128;
  const Shape small{.heads = 1, .kv_heads = 1, .Nq = 8, .Nk = 8, .d = 64, .dv = 64, .type = DType::bfloat16};
  Report recorded = gpu_report(*random_problem(small, 1), {});
  recorded.shape = shape, recorded.recipe = recipe;
  recorded.traffic = counted(Schedule(shape, {}, recipe));
  SessionFile session;
  session.reports.push_back(make_saved(std::make_shared<const Report>(recorded), random_problem(small, 1), "test"));
  session.reports.back().problem.reset();
  window_->apply([&](Document& d) { d.set_session(session); });
  window_->apply([&](Document& d) { d.show_run(0); });
  ASSERT_TRUE(settle());
  const QString traffic = panel("traffic");
  EXPECT_EQ(traffic.count("545,259,520"), 3) << traffic.toStdString();  // ledger, L2 - SM cold and warm
  EXPECT_TRUE(traffic.contains("25,206,016"));
  EXPECT_TRUE(traffic.contains("+40,192 (+0.16 %)"));
  EXPECT_TRUE(traffic.contains("kernel missing: not counted in this run"));
  const QString kernel = panel("kernel");
  for (const char* words : {"168", "104.5", "512", "116 SMs idle", "3.88 a SM", "34.2 %", "of the sheet's"})
    EXPECT_TRUE(kernel.contains(words)) << words << '\n' << kernel.toStdString();
}

// Steps and run agree, and both are NaN in some rows: said so everywhere, and the error is that of the other rows.
TEST_F(RunsTest, NanRowsAreToldApartFromTheError) {
  Recipe recipe;
  recipe.Br = 64, recipe.Bc = 100, recipe.order = Order::reverse, recipe.guard = Guard::none;
  Mask causal;
  causal.causal = Causal::top_left;
  window_->apply([&](Document& d) { d.set_recipe_and_mask(recipe, causal); });
  ASSERT_TRUE(settle());
  trigger("go.run");
  const Report& report = *document().report();
  ASSERT_EQ(report.nan_row_count, 2 * 36);  // rows 64..99 of a head see nothing of their first tile, keys 100..149
  ASSERT_EQ(report.error->nan_mismatch, report.nan_row_count);
  ASSERT_LE(report.error->max, report.error->tolerance);
  ASSERT_TRUE(compared().result());
  EXPECT_EQ(badge().text(), "stepped = CPU, 72 rows NaN");
  EXPECT_TRUE(parity_words(compared()).good && parity_words(compared()).nan);
  EXPECT_TRUE(badge().toolTip().contains("72 rows of 300 are NaN on every side")) << badge().toolTip().toStdString();
  const QString told = "72 rows NaN here only; of the other 228 the largest error against float64 ";
  for (const char* id : {"traffic", "runs"}) {
    const QString words = panel(id);
    EXPECT_TRUE(words.contains(told)) << id << ": " << words.toStdString();
    EXPECT_TRUE(words.contains("within the tolerance")) << id;
  }
  const auto* table = find<QTableWidget>("runs");
  QStringList row;
  for (int n = 0; n < table->columnCount(); ++n) row << table->item(0, n)->text();
  EXPECT_TRUE(row.contains("72 NaN")) << row.join('|').toStdString();
  EXPECT_EQ(as_text(*table, true).count('\n'), 1);  // the header and one run
  EXPECT_FALSE(as_text(*table, true).contains("yes"));
}

TEST_F(RunsTest, TheKernelDockCountsBlocksWithoutAGpu) {
  const QString kernel = panel("kernel");
  EXPECT_TRUE(kernel.contains("130 SMs idle")) << kernel.toStdString();  // flash1: 2 heads on 132 SMs
  EXPECT_TRUE(kernel.contains("126 SMs idle"));                          // flash2: 2 x 3 row blocks
  EXPECT_TRUE(kernel.contains("registers, time and counters: missing"));
}

TEST_F(RunsTest, MemoryIsByFormulaUntilItIsMeasured) {
  trigger("view.memory");
  auto* panel = static_cast<MemoryPanel*>(find<QWidget>("memory_panel"));
  const Footprint standard = footprint(document().problem()->shape(), Algorithm::standard);
  const std::vector<MemoryGroup>& groups = panel->view().groups();
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_TRUE(groups[0].title.startsWith("flash2"));
  EXPECT_TRUE(groups[0].source.startsWith("formula"));
  EXPECT_TRUE(groups[1].title.startsWith("standard"));
  EXPECT_EQ(groups[1].beyond, static_cast<double>(standard.bytes[3] + standard.extra()));
  trigger("go.run");
  EXPECT_TRUE(panel->view().groups()[0].source.contains("CPU"));
  EXPECT_EQ(panel->view().groups()[0].beyond, static_cast<double>(document().report()->peak_bytes));
  add_gpu_run();
  EXPECT_TRUE(panel->view().groups()[0].source.contains("H200"));
  EXPECT_EQ(panel->view().groups()[0].beyond, 8'650'752);
  // What measuring took is no bar of the algorithm, and cuBLAS's workspace stands apart from the tensors.
  EXPECT_EQ(panel->view().groups()[0].measuring, 176);
  Recipe plain;
  plain.algorithm = Algorithm::standard;
  window_->apply([&](Document& d) { d.set_recipe(plain); });
  ASSERT_TRUE(settle());
  add_gpu_run([](Report& report) { report.gpu->peak_run_bytes = 40'000'000; });
  const MemoryGroup& measured = panel->view().groups()[0];
  EXPECT_TRUE(measured.title.startsWith("standard"));
  EXPECT_EQ(measured.beyond, 40'000'000);
  EXPECT_EQ(measured.workspace, kProductsWorkspaceBytes);
  for (const MemoryGroup& group : panel->view().groups())
    for (const MemoryBar& bar : group.bars) EXPECT_NE(bar.what, "measuring");
  const QString note = find<QLabel>("memory_note")->text();
  EXPECT_EQ(note.count("Measuring took"), 1) << note.toStdString();
  EXPECT_TRUE(note.contains("32.0 MiB") && note.contains("no tensor of the algorithm")) << note.toStdString();
  EXPECT_TRUE(note.contains(number((40'000'000.0 - kProductsWorkspaceBytes) / 8'650'752, 3))) << note.toStdString();
}

TEST_F(RunsTest, WithoutAGpuTheSwitchSaysWhy) {
  QAction* gpu = window_->actions_table()["run.gpu"];
  ASSERT_TRUE(wait_until([&] { return window_->gpus_known(); }));
  if (gpu->isEnabled()) GTEST_SKIP() << "there is a GPU here";
  EXPECT_GT(gpu->toolTip().size(), QString("GPU (...)").size());
  EXPECT_TRUE(window_->actions_table()["run.cpu"]->isChecked());
}

TEST_F(RunsTest, SteppingGoesOnWhereTheGpuCannot) {
  ASSERT_TRUE(wait_until([&] { return window_->gpus_known(); }));
  if (window_->actions_table()["step.gpu"]->isEnabled()) GTEST_SKIP() << "there is a GPU here";
  window_->apply([](Document& d) { d.seek(40); });
  ASSERT_TRUE(settle());
  const TraceState before = *document().stage().state;
  window_->apply([](Document& d) { d.step_on(0); });
  ASSERT_TRUE(wait_until([&] { return !document().gpu_failed().empty(); }));
  ASSERT_TRUE(settle());
  EXPECT_TRUE(window_->message().contains("The CPU steps")) << window_->message().toStdString();
  EXPECT_EQ(document().stepping_device(), -1);
  EXPECT_EQ(document().stepped_by(), "CPU");
  EXPECT_EQ(document().device_state(), nullptr);
  EXPECT_EQ(document().stage().state->K, 40);
  EXPECT_TRUE(same(document().stage().state->O, before.O));
  press(Qt::Key_Right);
  EXPECT_EQ(document().stage().state->K, 41);
}

}  // namespace
}  // namespace flashscope::window
