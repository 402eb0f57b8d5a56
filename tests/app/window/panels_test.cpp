#include <QLabel>
#include <QLineEdit>
#include <QTextBrowser>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/window/docks/events_panel.h"
#include "app/window/docks/first_minutes_panel.h"
#include "app/window/docks/history_panel.h"
#include "app/window/docks/row_panel.h"
#include "app/window/text.h"
#include "app/window/theme.h"
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

// A rule that means nothing stays as it was typed, with place, found and expected under it; the others go on.
TEST_F(WindowTest, AWrongRuleStaysAsTypedAndTheMaskInForceToo) {
  const auto problem = random_problem({2, 2, 64, 64, 8, 8, DType::float32}, 1);
  window_->apply([&](Document& d) { d.set_problem(problem); });
  ASSERT_TRUE(settle());
  trigger("view.problem");
  const auto type = [&](const char* name, const char* typed) {
    auto* edit = find<QLineEdit>(name);
    edit->setFocus();
    edit->selectAll();
    QTest::keyClicks(edit, typed);
    QTest::keyClick(edit, Qt::Key_Return);
    ASSERT_TRUE(settle());
  };
  const auto error = [&](const char* name) {
    auto* label = find<QLabel>((std::string(name) + "_error").c_str());
    return label->isVisible() ? label->text().toStdString() : std::string();
  };
  const auto rules = [&]() -> const MaskRules& { return document().problem()->mask.rules; };
  auto* documents = find<QLineEdit>("rule_documents");
  const QColor bad = colours(window_->palette()).bad;
  type("rule_documents", "20,30");
  EXPECT_EQ(documents->text(), "20,30");
  EXPECT_EQ(error("rule_documents"), "documents: found lengths of 50 keys in all, expected 64, all keys");
  EXPECT_EQ(documents->palette().color(QPalette::Text), bad);
  EXPECT_EQ(document().problem(), problem);

  // What is right beside it is taken; stepping and an undo leave what is wrong.
  type("rule_lengths", "40");
  EXPECT_EQ(rules().lengths, std::vector<std::int64_t>{40});
  EXPECT_FALSE(rules().documents);
  press(Qt::Key_F10);
  trigger("edit.undo");
  EXPECT_TRUE(rules().lengths.empty());
  EXPECT_EQ(documents->text(), "20,30");
  EXPECT_FALSE(error("rule_documents").empty());

  type("rule_lengths", "40,x");
  EXPECT_EQ(error("rule_lengths"), "lengths, number 2: found \"x\", expected numbers, separated by commas");
  type("rule_lengths", "1,2,3");
  EXPECT_EQ(error("rule_lengths"), "lengths: found 3 of them, expected one, or one of each of 2 heads");
  type("rule_prefix", "65");
  EXPECT_TRUE(error("rule_prefix").starts_with("prefix: found 65, expected")) << error("rule_prefix");
  type("rule_documents", "20,50");
  EXPECT_EQ(error("rule_documents"),
            "documents, number 2: found a length of 50, expected 0 to 44, what is left of 64 keys");
  EXPECT_TRUE(rules().none());

  type("rule_documents", "20,30,14");
  EXPECT_EQ(error("rule_documents"), "");
  EXPECT_NE(documents->palette().color(QPalette::Text), bad);
  EXPECT_TRUE(rules().documents);
  EXPECT_EQ(find<QLineEdit>("rule_lengths")->text(), "1,2,3");
  find<QLineEdit>("rule_lengths")->clear();
  type("rule_lengths", " ");
  EXPECT_EQ(error("rule_lengths"), "");
  // Of other tensors nothing that was typed is kept.
  window_->apply([&](Document& d) { d.set_problem(random_problem({1, 1, 32, 32, 8, 8, DType::float32}, 1)); });
  ASSERT_TRUE(settle());
  EXPECT_EQ(error("rule_prefix"), "");
  EXPECT_EQ(find<QLineEdit>("rule_prefix")->text(), "");
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
