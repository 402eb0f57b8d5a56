#include <QTextBrowser>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/window/docks/events_panel.h"
#include "app/window/docks/first_minutes_panel.h"
#include "app/window/docks/history_panel.h"
#include "app/window/docks/row_panel.h"
#include "app/window/text.h"
#include "engine/error.h"
#include "tests/app/window/harness.h"
#include "tests/place.h"

namespace flashscope::window {
namespace {

nlohmann::json golden(const char* file) {
  std::ifstream stream(source_path(std::string("tests/data/") + file));
  return nlohmann::json::parse(stream);
}

TEST_F(WindowTest, TheFiveLinesShowTheGoldenNumbersAndSetTheirRecipe) {
  auto* panel = static_cast<FirstMinutesPanel*>(find<QWidget>("minutes_panel"));
  ASSERT_TRUE(wait_until([&] { return panel->complete(); }));
  const nlohmann::json runs = golden("first_demo.json")["runs"];
  ASSERT_EQ(panel->lines().size(), runs.size());
  for (std::size_t n = 0; n < runs.size(); ++n) {
    MinuteLine& line = *panel->lines()[n];
    const FirstMinuteNumbers& numbers = *line.numbers();
    EXPECT_EQ(numbers.nan_rows, runs[n]["nan_rows"]) << n;
    EXPECT_EQ(numbers.rescales, runs[n]["rescales"]) << n;
    EXPECT_EQ(numbers.tiles_visited, runs[n]["tiles_visited"]) << n;
    EXPECT_EQ(numbers.bytes, runs[n]["bytes"]) << n;
    EXPECT_EQ(numbers.first_nan.has_value(), runs[n].contains("first_nan")) << n;

    QTest::mouseClick(&line, Qt::LeftButton, {}, line.rect().center());
    ASSERT_TRUE(settle());
    EXPECT_TRUE(line.current());
    const Recipe& recipe = document().recipe();
    EXPECT_EQ(recipe.Br, runs[n]["Br"]);
    EXPECT_EQ(recipe.Bc, runs[n]["Bc"]);
    EXPECT_EQ(name(recipe.order), runs[n]["order"].get<std::string>());
    EXPECT_EQ(name(recipe.guard), runs[n]["guard"].get<std::string>());
    if (runs[n].contains("first_nan")) {
      const TraceState& state = *document().stage().state;
      const nlohmann::json& first = runs[n]["first_nan"];
      EXPECT_EQ(state.step->i, first["i"]);
      EXPECT_EQ(state.step->j, first["j"]);
      EXPECT_EQ(name(state.step->stage), first["stage"].get<std::string>());
      EXPECT_EQ(state.events.front().kind, EventKind::nan);
      EXPECT_EQ(state.events.front().row, first["row"]);
    }
  }
  // The last one was run as a whole, and every row of it is right.
  ASSERT_NE(document().report(), nullptr);
  EXPECT_TRUE(document().report()->error->within());
  EXPECT_EQ(document().report()->nan_row_count, 0);
}

TEST_F(WindowTest, TheLinesComeBackToTheDemo) {
  Shape shape{.heads = 1, .kv_heads = 1, .Nq = 96, .Nk = 96, .d = 16, .dv = 16, .type = DType::float32};
  window_->apply([&](Document& d) { d.set_problem(random_problem(shape, 1)); });
  ASSERT_TRUE(settle());
  auto* panel = static_cast<FirstMinutesPanel*>(find<QWidget>("minutes_panel"));
  for (const MinuteLine* line : panel->lines()) EXPECT_FALSE(line->current());
  panel->lines()[3]->click();
  ASSERT_TRUE(settle());
  EXPECT_EQ(document().stage().problem->shape().Nq, 1024);
  EXPECT_EQ(document().recipe().Br, 64);
  trigger("edit.undo");  // one step, back to what was open
  EXPECT_EQ(document().problem()->shape().Nq, 96);
}

TEST_F(WindowTest, EventsAreCountedFilteredAndGoneTo) {
  trigger("view.events");
  ASSERT_TRUE(wait_until([&] { return document().stage().totals.complete; }));
  ASSERT_TRUE(settle());
  EventsView& view = static_cast<EventsPanel*>(find<QWidget>("events_panel"))->view();
  ASSERT_TRUE(wait_until([&] { return view.count() == 3734 && view.event_at(0); }));
  view.choose(3733);  // not on the screen: asked for when it is scrolled to
  ASSERT_TRUE(wait_until([&] { return view.event_at(3733) != nullptr; }));
  view.choose(3733);
  ASSERT_TRUE(settle());
  const Event last = *view.event_at(3733);
  EXPECT_EQ(last.kind, EventKind::rescale);
  EXPECT_EQ(K(), last.step);
  EXPECT_EQ(document().stage().state->i, last.i);
  ASSERT_LE(view.event_at(3732)->step, last.step);
  find<QAbstractButton>("kind_rescale")->click();
  EXPECT_EQ(view.count(), 0);
}

TEST_F(WindowTest, RowHistoryIsTheTracesAndGoesToItsTile) {
  trigger("view.history");
  auto* panel = static_cast<HistoryPanel*>(find<QWidget>("history_panel"));
  window_->apply([](Document& d) { d.pin_row(700, true); });
  ASSERT_TRUE(wait_until([&] { return panel->shown() && panel->shown()->row == 700; }));
  const auto& entries = panel->shown()->entries;
  ASSERT_EQ(entries.size(), 16u);
  std::vector<RowHistoryEntry> visited;
  for (const RowHistoryEntry& entry : entries)
    if (entry.visited) visited.push_back(entry);
  ASSERT_EQ(visited.size(), 12u);  // rows 640-767 see keys up to 767
  panel->seek_entry(5);
  ASSERT_TRUE(settle());
  const TraceState& state = *document().stage().state;
  EXPECT_EQ(state.K, entries[5].step);
  EXPECT_EQ(state.m[700 - state.row0], entries[5].m);
  EXPECT_EQ(state.l[700 - state.row0], entries[5].l);
  panel->seek_entry(15);  // not visited: nowhere to go
  ASSERT_TRUE(settle());
  EXPECT_EQ(K(), entries[5].step);
}

TEST_F(WindowTest, TrafficShowsFormulaCountedAndWhatIsMissing) {
  trigger("view.traffic");
  const QString shown = find<QWidget>("traffic_panel")->findChild<QTextBrowser*>()->toPlainText();
  EXPECT_TRUE(shown.contains("1,445,888")) << shown.toStdString();
  EXPECT_TRUE(shown.contains("formula = counted"));
  EXPECT_TRUE(shown.contains("L2 - SM, DRAM missing: only a GPU's counters measure these bytes"))
      << shown.toStdString();
  trigger("go.run");
  const QString after = find<QWidget>("traffic_panel")->findChild<QTextBrowser*>()->toPlainText();
  EXPECT_TRUE(after.contains("within the tolerance")) << after.toStdString();
  EXPECT_TRUE(after.contains("the run was on the CPU"));
}

TEST_F(WindowTest, ProblemSaysWhatIsThere) {
  trigger("view.problem");
  auto* found = find<QTextBrowser>("found");
  ASSERT_TRUE(wait_until([&] { return found->toPlainText().contains("no empty rows"); }));
  EXPECT_TRUE(found->toPlainText().contains("(1, 1024, 64)"));
  EXPECT_TRUE(found->toPlainText().contains("float16"));
  const TensorSummary q = summarise(document().problem()->Q());
  EXPECT_TRUE(found->toPlainText().contains(number(q.min, 3) + " .. " + number(q.max, 3)));
}

TEST_F(WindowTest, OneRowIsTheSourcesRow) {
  trigger("view.row");
  auto* panel = static_cast<RowPanel*>(find<QWidget>("row_panel"));
  panel->show_built_in("twelve");
  const BuiltInRow& row = built_in_rows().front();
  const RowDemo expected = run_row(row.scores, row.values, row.chunk);
  ASSERT_EQ(panel->demo().chunks.size(), 3u);
  EXPECT_LE(std::abs(panel->demo().LSE - expected.LSE), 1e-5);  // the panel's scores are text with six digits
  EXPECT_LE(panel->demo().max_error, 1e-12);
  EXPECT_GE(panel->demo().max_error_without_rescale, 1e-3);
}

TEST(TypedNumbers, TakesWhatPeoplePaste) {
  EXPECT_EQ(typed_numbers("[1, -2.5e1;\n3]\t4"), (std::vector<double>{1, -25, 3, 4}));
  const std::vector<double> special = typed_numbers("-inf inf NaN");
  ASSERT_EQ(special.size(), 3u);
  EXPECT_TRUE(std::isinf(special[0]) && special[0] < 0 && std::isinf(special[1]) && std::isnan(special[2]));
  EXPECT_THROW(typed_numbers("1 two 3"), InputError);
}

}  // namespace
}  // namespace flashscope::window
