#include "app/window/docks/runs_panel.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QShortcut>
#include <QTableWidget>
#include <QTextBrowser>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "app/window/docks/html_panel.h"
#include "app/window/docks/run_words.h"
#include "app/window/docks/table_fit.h"
#include "app/window/text.h"

namespace flashscope::window {
namespace {

enum Column { kMark, kRecipe, kDevice, kTime, kTflops, kAnswer, kWhen };
constexpr std::array kHeads = {"", "recipe", "device", "time", "TFLOP/s", "O", "when"};
constexpr int kMostCompared = 4;

QString time_text(const Report& report) {
  const double ms = report.seconds * 1e3;
  return ms < 1 ? QString::number(ms * 1e3, 'f', 1) + QString::fromUtf8(" µs") : QString::number(ms, 'f', 2) + " ms";
}

// One figure of a run, and what it is compared by; NaN where it has none.
struct Row {
  const char* label;
  std::function<double(const Report&)> value;
  std::function<QString(double)> shown;
};

QString bytes_shown(double bytes) { return grouped(std::llround(bytes)); }

std::vector<Row> rows() {
  const double none = std::nan("");
  const auto hardware = [none](double HardwareFigures::*figure) {
    return [none, figure](const Report& r) { return r.gpu && r.gpu->measured ? (*r.gpu->measured).*figure : none; };
  };
  const auto warm = [none](double HardwareFigures::*figure) {
    return [none, figure](const Report& r) {
      return r.gpu && r.gpu->measured_warm ? (*r.gpu->measured_warm).*figure : none;
    };
  };
  return {
      {"time, measured", [](const Report& r) { return r.seconds; },
       [](double s) { return QString::number(s * 1e3, 'g', 5) + "&nbsp;ms"; }},
      {"TFLOP/s, measured", [none](const Report& r) { return r.gpu ? r.gpu->tflops() : none; },
       [](double t) { return QString::number(t, 'f', 1); }},
      {"bytes, counted", [](const Report& r) { return static_cast<double>(r.traffic.bytes.total().total()); },
       bytes_shown},
      {"bytes, counted in the kernel",
       [none](const Report& r) {
         return r.gpu && r.gpu->counted ? static_cast<double>(r.gpu->counted->total().total()) : none;
       },
       bytes_shown},
      {"L2 to SM, measured cold", hardware(&HardwareFigures::l2_read), bytes_shown},
      {"SM to L2, measured cold", hardware(&HardwareFigures::l2_written), bytes_shown},
      {"DRAM read, measured cold", hardware(&HardwareFigures::dram_read), bytes_shown},
      {"DRAM written, measured cold", hardware(&HardwareFigures::dram_written), bytes_shown},
      {"L2 to SM, measured warm", warm(&HardwareFigures::l2_read), bytes_shown},
      {"DRAM read, measured warm", warm(&HardwareFigures::dram_read), bytes_shown},
      {"DRAM written, measured warm", warm(&HardwareFigures::dram_written), bytes_shown},
      {"memory beyond Q, K, V, measured", [](const Report& r) { return static_cast<double>(r.peak_bytes); },
       bytes_shown},
      {"largest error against float64, NaN rows apart",
       [none](const Report& r) { return r.error ? r.error->max : none; }, [](double e) { return number(e, 3); }},
      {"NaN rows", [](const Report& r) { return static_cast<double>(r.nan_row_count); }, bytes_shown},
  };
}

}  // namespace

RunsPanel::RunsPanel(QWidget* parent) : Panel(parent), looking_(this) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 4, 0, 0);
  layout->setSpacing(4);
  empty_ = new QLabel("No full run is kept yet. Ctrl+R runs everything; File > Open opens a session with runs.");
  empty_->setWordWrap(true);
  empty_->setContentsMargins(8, 4, 8, 4);
  layout->addWidget(empty_);

  table_ = new QTableWidget(0, static_cast<int>(kHeads.size()));
  table_->setObjectName("runs");
  table_->setAccessibleName("Full runs");
  QStringList heads;
  for (const char* head : kHeads) heads << head;
  table_->setHorizontalHeaderLabels(heads);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setFrameShape(QFrame::NoFrame);
  table_->setShowGrid(false);
  table_->setWordWrap(false);
  table_->setAlternatingRowColors(true);
  table_->verticalHeader()->hide();
  fit_ = new TableFit(table_, kDevice, {kTflops, kWhen, kTime}, 70);
  make_copyable(table_);
  table_->horizontalHeader()->setHighlightSections(false);
  table_->setToolTip("Select one run to show its figures everywhere, several (Ctrl, Shift) to compare them");
  layout->addWidget(table_, 2);
  connect(table_, &QTableWidget::itemSelectionChanged, this, [this] {
    if (filling_) return;
    const std::vector<int> rows = selected();
    compare();
    if (rows.size() == 1)
      emit change([n = static_cast<std::size_t>(rows[0])](Document& document) { document.show_run(n); });
  });
  connect(table_, &QTableWidget::itemDoubleClicked, this, &RunsPanel::go_there);

  auto* buttons = new QHBoxLayout;
  buttons->setContentsMargins(8, 0, 8, 0);
  const auto button = [&](const QString& words, const QString& tip, void (RunsPanel::*does)()) {
    auto* made = new QToolButton;
    made->setText(words);
    made->setToolTip(tip);
    made->setFocusPolicy(Qt::TabFocus);
    connect(made, &QToolButton::clicked, this, does);
    buttons->addWidget(made);
    return made;
  };
  go_ = button("Go there", "Open the problem, mask and recipe of this run (double click)", &RunsPanel::go_there);
  delete_ =
      button("Delete", "Remove the selected runs; Edit > Undo brings them back (Del)", &RunsPanel::delete_selected);
  buttons->addStretch(1);
  layout->addLayout(buttons);
  auto* key = new QShortcut(QKeySequence::Delete, table_);
  key->setContext(Qt::WidgetShortcut);
  connect(key, &QShortcut::activated, this, &RunsPanel::delete_selected);

  comparison_ = new QTextBrowser;
  comparison_->setObjectName("comparison");
  comparison_->setFrameShape(QFrame::NoFrame);
  comparison_->setOpenLinks(false);
  connect(comparison_, &QTextBrowser::anchorClicked, this, [this](const QUrl& url) {
    const QStringList place = url.path().split('/');
    if (url.scheme() == "nan" && place.size() == 2) ask_why(place[0].toLongLong(), place[1].toLongLong());
  });
  layout->addWidget(comparison_, 3);
}

std::vector<int> RunsPanel::selected() const {
  std::vector<int> rows;
  for (const QModelIndex& index : table_->selectionModel()->selectedRows()) rows.push_back(index.row());
  std::sort(rows.begin(), rows.end());
  return rows;
}

void RunsPanel::select(const std::vector<int>& rows) {
  QItemSelection chosen;
  for (const int row : rows)
    chosen.select(table_->model()->index(row, 0), table_->model()->index(row, table_->columnCount() - 1));
  table_->selectionModel()->select(chosen, QItemSelectionModel::ClearAndSelect);
}

void RunsPanel::refresh(const Document& document) {
  const RunPointer run = document.shown_run();
  if (stale_ || document.runs().all() != shown_ || run != marked_) fill(document);
}

void RunsPanel::fill(const Document& document) {
  filling_ = true;
  std::vector<RunPointer> kept;  // what was selected stays so
  for (const int row : selected())
    if (row < static_cast<int>(shown_.size())) kept.push_back(shown_[static_cast<std::size_t>(row)]);
  shown_ = document.runs().all();
  marked_ = document.shown_run();
  const Colours c = colours(palette());
  table_->setRowCount(static_cast<int>(shown_.size()));
  std::vector<int> again;
  for (int row = 0; row < static_cast<int>(shown_.size()); ++row) {
    const RunPointer& run = shown_[static_cast<std::size_t>(row)];
    const Report& report = run->report();
    const bool marked = run == marked_;
    const QString when = text(run->saved.date).replace('T', ' ').remove('Z');
    const RunVerdict verdict = verdict_of(report);
    const QString cells[] = {marked ? QString::fromUtf8("●") : QString(),
                             run_brief(report),
                             text(report.device),
                             time_text(report),
                             report.gpu ? QString::number(report.gpu->tflops(), 'f', 1) : dash(),
                             verdict.brief,
                             when.section(' ', 1)};
    const QString tip = QString("%1 UTC\n%2, %3\n%4\n%5, time measured%6\n%7\n%8\n%9%10")
                            .arg(when, text(report.device), text(report.kernel), run_brief(report), time_text(report),
                                 report.gpu ? QString(", %1 TFLOP/s").arg(report.gpu->tflops(), 0, 'f', 1) : QString(),
                                 verdict.full, text(run->saved.conventions),
                                 run->problem() ? text(run->problem()->name) : QString("of another problem"),
                                 marked ? "\nshown in the panels" : "");
    for (int column = 0; column < table_->columnCount(); ++column) {
      auto* item = new QTableWidgetItem(cells[column]);
      item->setToolTip(tip);
      if (column == kTime || column == kTflops || column == kWhen)
        item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
      if (!run->problem()) item->setForeground(c.dim);
      if (column == kMark) item->setForeground(c.accent);
      if (column == kAnswer && report.error)
        item->setForeground(verdict.kind == RunVerdict::Kind::right ? c.good : c.nan);
      table_->setItem(row, column, item);
    }
    if (std::find(kept.begin(), kept.end(), run) != kept.end()) again.push_back(row);
  }
  select(again);
  fit_->fit();
  table_->setVisible(!shown_.empty());
  comparison_->setVisible(!shown_.empty());
  empty_->setVisible(shown_.empty());
  filling_ = stale_ = false;
  html_.clear();
  compare();
}

void RunsPanel::compare() {
  std::vector<RunPointer> runs;
  for (const int row : selected()) runs.push_back(shown_[static_cast<std::size_t>(row)]);
  go_->setEnabled(runs.size() == 1);
  delete_->setEnabled(!runs.empty());
  if (runs.empty() && marked_) runs.push_back(marked_);
  const std::size_t left_out = runs.size() > kMostCompared ? runs.size() - kMostCompared : 0;
  runs.resize(runs.size() - left_out);
  const Colours c = colours(palette());
  QString html;
  if (!runs.empty()) {
    QStringList heads{""};
    for (const RunPointer& run : runs) {
      const Report& report = run->report();
      heads << run_brief(report)
                       .replace(' ', "&nbsp;")
                       .replace("flash1&nbsp;", "flash1<br>")
                       .replace("flash2&nbsp;", "flash2<br>") +
                   "<br>" + text(report.device).toHtmlEscaped();
    }
    Table table(c, heads);
    for (const Row& row : rows()) {
      const bool beside = runs.size() == 1;
      if (!beside) table.over(row.label);
      QStringList cells{beside ? row.label : ""};
      const double first = row.value(runs[0]->report());
      for (std::size_t n = 0; n < runs.size(); ++n) {
        const double value = row.value(runs[n]->report());
        QString cell = std::isnan(value) ? dash() : row.shown(value);
        if (n > 0 && !std::isnan(value) && first > 0)
          cell += QString("<br><span style='color:%1'>x&nbsp;%2</span>").arg(c.dim.name(), number(value / first, 3));
        cells << cell;
      }
      table.row(cells);
    }
    html = table.html();
    QStringList notes;
    for (const RunPointer& run : runs) {
      const Report& report = run->report();
      if (report.gpu && !report.gpu->measured)
        notes << "Counters missing: " +
                     text(report.gpu->not_measured.empty() ? "not measured in this run" : report.gpu->not_measured)
                         .toHtmlEscaped();
      else if (!report.gpu)
        notes << "A run on the CPU has no hardware counters for this traffic.";
    }
    notes.removeDuplicates();
    if (left_out > 0) notes << QString("%1 more selected, not shown.").arg(left_out);
    // What is wrong with a run comes before its figures.
    if (runs.size() == 1) html = answer_html(runs[0], c) + html;
    if (!notes.empty()) html += paragraph(notes.join("<br>"), c.dim);
  }
  if (runs.size() == 1) look_for_nans(runs[0]);
  if (html == html_) return;
  html_ = html;
  comparison_->setHtml(html);
}

void RunsPanel::delete_selected() {
  const std::vector<int> rows = selected();
  if (rows.empty()) return;
  const std::vector<std::size_t> which(rows.begin(), rows.end());
  emit change([which](Document& document) { document.delete_runs(which); });
}

RunPointer RunsPanel::shown_alone() const {
  const std::vector<int> rows = selected();
  if (rows.empty()) return marked_;
  return rows.size() == 1 ? shown_[static_cast<std::size_t>(rows[0])] : RunPointer();
}

// Whether the engine has the same rows as NaN: then its chains are this run's.
void RunsPanel::look_for_nans(const RunPointer& run) {
  if (run == nans_of_) return;
  nans_of_ = run;
  nans_.reset(), nans_failed_.clear();
  looking_.cancel();
  if (!run->problem() || run->report().nan_row_count == 0) return;
  looking_.start([run](const std::stop_token& stop) { return nans_of_run(run->problem(), run->report(), 0, stop); },
                 [this](RunNans nans) {
                   nans_ = std::move(nans);
                   compare();
                 },
                 [this](const QString& why_not) {
                   nans_failed_ = why_not;
                   compare();
                 });
}

QString RunsPanel::answer_html(const RunPointer& run, const Colours& c) const {
  constexpr int kMostRanges = 40;
  const Report& report = run->report();
  const RunVerdict verdict = verdict_of(report);
  if (report.nan_row_count == 0)
    return paragraph(verdict.full, verdict.kind == RunVerdict::Kind::right         ? c.good
                                   : verdict.kind == RunVerdict::Kind::not_checked ? c.dim
                                                                                   : c.nan);
  QString html =
      QString("<p style='margin:4px 0'><b style='color:%1'>%2</b>")
          .arg(c.nan.name(), QString("%1 of %2 rows of O are NaN")
                                 .arg(grouped(report.nan_row_count), grouped(report.shape.heads * report.shape.Nq)));
  if (!run->problem()) return html + " in this run of another problem</p>";
  html += "<br>" + verdict.full;
  html += QString("<br><span style='color:%1'>%2</span>")
              .arg(c.dim.name(), nans_ && nans_of_ == run  ? text(flashscope::text(*nans_)).toHtmlEscaped()
                                 : !nans_failed_.isEmpty() ? nans_failed_.toHtmlEscaped()
                                                           : QString("comparing with the engine's own ..."));
  int ranges = 0;
  for (std::size_t h = 0; h < report.nan_rows.size(); ++h) {
    const auto& rows = report.nan_rows[h];
    QStringList links;
    for (std::size_t n = 0; n < rows.size();) {
      std::size_t end = n + 1;
      while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
      const QString last = end == n + 1 ? QString() : " to " + grouped(rows[end - 1]);
      if (++ranges <= kMostRanges)
        links << QString("<a href='nan:%1/%2' style='color:%3'>%4</a>")
                     .arg(h)
                     .arg(rows[n])
                     .arg(c.accent.name(), grouped(rows[n]) + last);
      n = end;
    }
    if (!links.empty()) html += QString("<br>head %1: why row %2").arg(h).arg(links.join(", "));
  }
  if (ranges > kMostRanges) html += QString("<br>and %1 more").arg(ranges - kMostRanges);
  return html + "</p>";
}

void RunsPanel::ask_why(std::int64_t head, std::int64_t row) {
  const RunPointer run = shown_alone();
  if (!run || !run->problem()) return;
  go_to(run);
  emit why(nan_cell(run->report(), head, row));
}

void RunsPanel::go_there() {
  if (selected().size() == 1) go_to(shown_alone());
}

void RunsPanel::go_to(const RunPointer& run) {
  emit change([run](Document& document) {
    document.join_changes(true);
    if (run->problem() && !same_problem(*run->problem(), *document.problem())) document.set_problem(run->problem());
    document.set_recipe(run->report().recipe);
    document.join_changes(false);
  });
}

void RunsPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) stale_ = true;
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
