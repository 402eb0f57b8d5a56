#include "app/window/docks/history_panel.h"

#include <qcustomplot.h>

#include <QEvent>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSaveFile>
#include <QStackedWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "app/window/docks/lse_links.h"
#include "app/window/docks/table_fit.h"
#include "app/window/text.h"
#include "app/window/theme.h"
#include "engine/insight/history_csv.h"

namespace flashscope::window {
namespace {

constexpr std::size_t kMostDots = 128;  // more than that would only be a thick line
constexpr std::array kNames = {"m", "l", "alpha", "|O|"};

double value(const RowHistoryEntry& entry, std::size_t chart, bool channel) {
  switch (chart) {
    case 0:
      return entry.m;
    case 1:
      return entry.l;
    case 2:
      return entry.alpha;
    default:
      return channel ? entry.o : entry.o_norm;
  }
}

// Ticks say the column block, at the places where it is folded in.
class TileTicker : public QCPAxisTicker {
 public:
  std::vector<std::int64_t> j;

 protected:
  double getTickStep(const QCPRange& range) override {
    return std::max(1.0, std::round(QCPAxisTicker::getTickStep(range)));
  }
  QString getTickLabel(double tick, const QLocale&, QChar, int) override {
    const auto at = static_cast<std::int64_t>(std::lround(tick));
    return at >= 0 && at < static_cast<std::int64_t>(j.size()) ? QString::number(j[at]) : QString();
  }
};

}  // namespace

HistoryPanel::HistoryPanel(QWidget* parent) : Panel(parent), saving_(this) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 4, 0, 0);
  auto* top = new QHBoxLayout;
  top->setContentsMargins(8, 0, 8, 0);
  top->addWidget(new QLabel("row"));
  row_edit_ = new QLineEdit;
  row_edit_->setMaximumWidth(fontMetrics().horizontalAdvance("00000000") + 16);
  row_edit_->setValidator(new QRegularExpressionValidator(QRegularExpression("[0-9]{0,13}"), row_edit_));
  row_edit_->setToolTip("The query row; pinning a row on the stage shows it here");
  top->addWidget(row_edit_);
  top->addWidget(new QLabel("O of"));
  channel_edit_ = new QLineEdit;
  channel_edit_->setObjectName("history_channel");
  channel_edit_->setFixedWidth(fontMetrics().horizontalAdvance("norm") + 22);
  channel_edit_->setPlaceholderText("norm");
  channel_edit_->setValidator(new QRegularExpressionValidator(QRegularExpression("[0-9]{0,3}"), channel_edit_));
  channel_edit_->setToolTip("O of this channel; empty: the norm of the row of O");
  top->addWidget(channel_edit_);
  top->addStretch(1);
  const auto button = [&](const char* name, const char* title, const char* tip) {
    auto* made = new QPushButton(title);
    made->setObjectName(name);
    made->setToolTip(tip);
    made->setFocusPolicy(Qt::TabFocus);
    made->setMaximumWidth(made->fontMetrics().horizontalAdvance(title) + 24);
    top->addWidget(made);
    return made;
  };
  as_table_ = button("history_table", "Table", "Charts or a table");
  as_table_->setCheckable(true);
  csv_ = button("history_csv", "CSV...", "Save this history with every digit");
  layout->addLayout(top);
  note_ = new QLabel;
  note_->setWordWrap(true);
  note_->setObjectName("history_note");
  note_->setContentsMargins(8, 0, 8, 0);
  note_->setTextInteractionFlags(Qt::TextBrowserInteraction);
  connect(note_, &QLabel::linkActivated, this, [this](const QString& link) {
    if (const Change to = lse_change(QUrl(link))) emit change(to);
  });
  layout->addWidget(note_);
  connect(row_edit_, &QLineEdit::editingFinished, this, [this] {
    bool ok = false;
    const std::int64_t row = row_edit_->text().toLongLong(&ok);
    if (ok && rows_ > 0 && row != row_) show_row(head_, std::min(row, rows_ - 1), channel_);
  });
  connect(channel_edit_, &QLineEdit::editingFinished, this, [this] {
    bool ok = false;
    std::int64_t channel = channel_edit_->text().toLongLong(&ok);
    channel = ok && channels_ > 0 ? std::min(channel, channels_ - 1) : -1;
    if (row_ >= 0 && channel != channel_) show_row(head_, row_, channel);
  });

  plot_ = new QCustomPlot;
  plot_->setMinimumHeight(220);
  plot_->plotLayout()->clear();
  plot_->plotLayout()->setRowSpacing(2);
  auto* margins = new QCPMarginGroup(plot_);
  for (std::size_t n = 0; n < kNames.size(); ++n) {
    Chart chart;
    chart.rect = new QCPAxisRect(plot_);
    chart.rect->setMarginGroup(QCP::msLeft | QCP::msRight, margins);
    chart.rect->setMinimumMargins({8, 4, 8, 2});
    plot_->plotLayout()->addElement(static_cast<int>(n), 0, chart.rect);
    QCPAxis *x = chart.rect->axis(QCPAxis::atBottom), *y = chart.rect->axis(QCPAxis::atLeft);
    x->setTickLabels(n + 1 == kNames.size());
    if (n + 1 == kNames.size()) x->setLabel("column block j, in the order it is folded in");
    x->ticker()->setTickCount(8);
    y->setLabel(kNames[n]);
    y->ticker()->setTickCount(3);
    x->setTicker(QSharedPointer<TileTicker>::create());
    chart.line = plot_->addGraph(x, y);
    chart.rescaled = plot_->addGraph(x, y);
    chart.rescaled->setLineStyle(QCPGraph::lsNone);
    chart.nan = plot_->addGraph(x, y);
    chart.nan->setLineStyle(QCPGraph::lsNone);
    chart.inf = plot_->addGraph(x, y);
    chart.inf->setLineStyle(QCPGraph::lsNone);
    chart.now = new QCPItemLine(plot_);
    for (QCPItemPosition* position : {chart.now->start, chart.now->end}) {
      position->setAxes(x, y);
      position->setAxisRect(chart.rect);
      position->setTypeY(QCPItemPosition::ptAxisRectRatio);
    }
    chart.now->setClipAxisRect(chart.rect);
    charts_.push_back(chart);
  }
  pages_ = new QStackedWidget;
  pages_->addWidget(plot_);
  table_ = new QTableView;
  table_->setObjectName("history_rows");
  table_->verticalHeader()->hide();
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSelectionMode(QAbstractItemView::SingleSelection);
  table_->verticalHeader()->setDefaultSectionSize(2 * fontMetrics().lineSpacing() + 6);
  make_copyable(table_);
  model_ = new HistoryTable(this);
  table_->setModel(model_);
  fit_ = new TableFit(table_, 1, {2, 0}, fontMetrics().horizontalAdvance("000,000") + 8);  // the step elides
  pages_->addWidget(table_);
  layout->addWidget(pages_, 1);
  connect(as_table_, &QPushButton::toggled, pages_, [this](bool on) { pages_->setCurrentIndex(on ? 1 : 0); });
  connect(csv_, &QPushButton::clicked, this, &HistoryPanel::choose_csv);
  connect(table_, &QTableView::clicked, this,
          [this](const QModelIndex& index) { seek_entry(static_cast<std::size_t>(index.row())); });
  connect(plot_, &QCustomPlot::mousePress, this, [this](QMouseEvent* event) {
    const double at = charts_[0].rect->axis(QCPAxis::atBottom)->pixelToCoord(event->position().x());
    if (at < -0.5) return;
    if (event->button() != Qt::RightButton) return seek_entry(static_cast<std::size_t>(std::lround(at)));
    for (std::size_t n = 0; n < charts_.size(); ++n)
      if (charts_[n].rect->outerRect().contains(event->position().toPoint()))
        ask_why(n, static_cast<std::size_t>(std::lround(at)));
  });
  connect(plot_, &QCustomPlot::mouseMove, this, [this](QMouseEvent* event) {
    const auto at = std::lround(charts_[0].rect->axis(QCPAxis::atBottom)->pixelToCoord(event->position().x()));
    if (!history_ || at < 0 || at >= static_cast<long>(history_->entries.size())) return plot_->setToolTip({});
    const RowHistoryEntry& entry = history_->entries[at];
    plot_->setToolTip(
        entry.visited ? QString("j = %1\ntile maximum %2\nm %3\nl %4\nalpha %5%6\n|O| %7\nclick: go there; right: why?")
                            .arg(entry.j)
                            .arg(number(entry.tile_max), number(entry.m), number(entry.l), number(entry.alpha),
                                 entry.rescaled ? " (rescaled)" : "", number(entry.o_norm))
                      : QString("j = %1\nnot visited").arg(entry.j));
  });
  style();
}

void HistoryPanel::show_row(std::int64_t head, std::int64_t row, std::int64_t channel) {
  head_ = head, row_ = row, channel_ = channel;
  row_edit_->setText(QString::number(row));
  channel_edit_->setText(channel < 0 ? QString() : QString::number(channel));
  emit ask([=](Document& document) { document.request_history(head, row, channel); });
}

void HistoryPanel::choose_csv() {
  const QString name = QString("row-%1.csv").arg(row_);
  const QString path = QFileDialog::getSaveFileName(this, "Save the history", name, "CSV (*.csv)");
  if (!path.isEmpty()) save_csv(path);
}

void HistoryPanel::save_csv(const QString& path) {
  if (!history_) return;
  saving_.start(
      [history = history_, path](const std::stop_token&) {
        QSaveFile file(path);
        if (!file.open(QIODevice::WriteOnly)) throw std::runtime_error("Could not write " + path.toStdString());
        file.write(QByteArray::fromStdString(history_csv(history->entries, history->channel)));
        if (!file.commit()) throw std::runtime_error("Could not write " + path.toStdString());
        return path;
      },
      [this](const QString& saved) { emit failed("Saved " + saved); },
      [this](const QString& why) { emit failed(why); });
}

void HistoryPanel::refresh(const Document& document) {
  const viz::StageData& stage = document.stage();
  if (!stage.schedule || !stage.state) return;
  rows_ = stage.schedule->shape().Nq, channels_ = stage.schedule->shape().dv;
  const std::int64_t pinned = stage.pinned_rows.empty() ? -1 : stage.pinned_rows.back();
  const bool newly_pinned = pinned >= 0 && pinned != last_pinned_;
  last_pinned_ = pinned;
  std::int64_t row = newly_pinned ? pinned : row_;
  if (row < 0 || row >= rows_) row = std::clamp<std::int64_t>(stage.state->row0, 0, rows_ - 1);
  if (schedule_ != stage.schedule || head_ != stage.state->head || row != row_) {
    schedule_ = stage.schedule;
    show_row(stage.state->head, row, std::min(channel_, channels_ - 1));
  }
  if (document.history() != history_ && document.history() && document.history()->row == row_ &&
      document.history()->head == head_ && document.history()->channel == channel_) {
    history_ = document.history();
    model_->show(history_);
    fit_->fit();
    draw();
  }
  if (std::exchange(lse_, stage.lse) != stage.lse && history_) show_note();
  draw_now(document.requested_K());
}

void HistoryPanel::seek_entry(std::size_t n) {
  if (!history_ || n >= history_->entries.size() || !history_->entries[n].visited) return;
  emit change([K = history_->entries[n].step](Document& document) { document.seek(K); });
}

void HistoryPanel::ask_why(std::size_t chart, std::size_t n) {
  if (!history_ || n >= history_->entries.size() || !history_->entries[n].visited) return;
  const RowHistoryEntry& entry = history_->entries[n];
  constexpr std::array kCells = {CellKind::m, CellKind::l, CellKind::alpha, CellKind::O};
  Question question{kCells[chart], history_->head, history_->row, -1, entry.step};
  if (question.of == CellKind::alpha) question.col = entry.j;
  if (question.of == CellKind::O) question.col = std::max<std::int64_t>(0, history_->channel);
  emit why(question);
}

void HistoryPanel::draw() {
  const Colours c = colours(palette());
  const auto& entries = history_->entries;
  const auto count = static_cast<double>(entries.size());
  for (std::size_t n = plot_->itemCount(); n-- > 0;)
    if (auto* span = qobject_cast<QCPItemRect*>(plot_->item(static_cast<int>(n)))) plot_->removeItem(span);
  show_note();
  for (std::size_t n = 0; n < charts_.size(); ++n) {
    Chart& chart = charts_[n];
    QVector<double> x, y, x_rescaled, y_rescaled, x_nan, x_inf;
    double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
    for (std::size_t at = 0; at < entries.size(); ++at) {
      const RowHistoryEntry& entry = entries[at];
      const double v = value(entry, n, history_->channel >= 0);
      x << static_cast<double>(at);
      y << (entry.visited && std::isfinite(v) ? v : std::numeric_limits<double>::quiet_NaN());
      if (!entry.visited) continue;
      if (std::isnan(v)) x_nan << static_cast<double>(at);
      if (std::isinf(v)) x_inf << static_cast<double>(at);
      if (!std::isfinite(v)) continue;
      lowest = std::min(lowest, v), highest = std::max(highest, v);
      if (entry.rescaled) x_rescaled << static_cast<double>(at), y_rescaled << v;
    }
    if (n == 2) lowest = std::min(lowest, 0.0), highest = std::max(highest, 1.0);
    if (!(lowest <= highest)) lowest = 0, highest = 1;
    const double pad = highest > lowest ? 0.12 * (highest - lowest) : std::max(0.5, 0.1 * std::abs(highest));
    QCPAxis *bottom = chart.rect->axis(QCPAxis::atBottom), *left = chart.rect->axis(QCPAxis::atLeft);
    bottom->setRange(-0.5, std::max(0.5, count - 0.5));
    left->setRange(lowest - pad, highest + pad);
    auto ticker = bottom->ticker().dynamicCast<TileTicker>();
    ticker->j.clear();
    for (const RowHistoryEntry& entry : entries) ticker->j.push_back(entry.j);
    if (n + 1 == charts_.size())
      left->setLabel(history_->channel >= 0 ? QString("O[%1]").arg(history_->channel) : QString(kNames[n]));
    chart.line->setScatterSkip(entries.size() > kMostDots ? static_cast<int>(entries.size()) : 0);
    chart.line->setData(x, y, true);
    chart.rescaled->setData(x_rescaled, y_rescaled, true);
    chart.nan->setData(x_nan, QVector<double>(x_nan.size(), lowest), true);
    chart.inf->setData(x_inf, QVector<double>(x_inf.size(), lowest), true);
    // Tiles that are not visited: one grey span for each run of them.
    for (std::size_t at = 0; at < entries.size();) {
      std::size_t end = at;
      while (end < entries.size() && !entries[end].visited) ++end;
      if (end == at) {
        ++at;
        continue;
      }
      auto* span = new QCPItemRect(plot_);
      for (QCPItemPosition* position : {span->topLeft, span->bottomRight}) {
        position->setAxes(bottom, left);
        position->setAxisRect(chart.rect);
        position->setTypeY(QCPItemPosition::ptAxisRectRatio);
      }
      span->setClipAxisRect(chart.rect);
      span->topLeft->setCoords(static_cast<double>(at) - 0.5, 0);
      span->bottomRight->setCoords(static_cast<double>(end) - 0.5, 1);
      span->setPen(Qt::NoPen);
      span->setBrush(QBrush(c.masked, Qt::BDiagPattern));
      at = end;
    }
  }
  plot_->replot(QCustomPlot::rpQueuedReplot);
}

void HistoryPanel::show_note() {
  const Colours c = colours(palette());
  std::int64_t visited = 0, rescales = 0;
  double lse = -std::numeric_limits<double>::infinity();  // of a row into which nothing was folded
  for (const RowHistoryEntry& entry : history_->entries) {
    visited += entry.visited, rescales += entry.rescaled;
    if (entry.visited) lse = entry.m + std::log(entry.l);
  }
  const auto all = static_cast<std::int64_t>(history_->entries.size());
  const QString marks = QString(
                            "<span style='color:%1'>&#9679;</span> rescaled &nbsp; <span style='color:%2'>&#10005;"
                            "</span> NaN &nbsp; <span style='color:%3'>&#9660;</span> infinite &nbsp; hatched: not "
                            "visited")
                            .arg(c.rescale.name(), c.nan.name(), c.dim.name());
  note_->setText(QString("%1 folded in, %2 not visited, %3<br>LSE = %4 = <b>%5</b> (%6)<br>%7")
                     .arg(counted(visited, "tile"), grouped(all - visited), counted(rescales, "rescale"),
                          text(formula(lse_)), number(handed_out(lse_, lse), 7), lse_links(lse_, c), marks));
}

void HistoryPanel::draw_now(std::int64_t K) {
  if (!history_) return;
  // The last tile that is folded in at K.
  double at = -1;
  std::int64_t latest = 0;
  const auto& entries = history_->entries;
  for (std::size_t n = 0; n < entries.size(); ++n)
    if (entries[n].visited && entries[n].step <= K && entries[n].step > latest)
      at = static_cast<double>(n), latest = entries[n].step;
  if (charts_[0].now->visible() == (at >= 0) && charts_[0].now->start->key() == at) return;
  for (Chart& chart : charts_) {
    chart.now->setVisible(at >= 0);
    chart.now->start->setCoords(at, 0);
    chart.now->end->setCoords(at, 1);
  }
  plot_->replot(QCustomPlot::rpQueuedReplot);
}

void HistoryPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) {
    style();
    if (history_) draw();
  }
  Panel::changeEvent(event);
}

void HistoryPanel::style() {
  const Colours c = colours(palette());
  plot_->setBackground(c.base);
  for (Chart& chart : charts_) {
    for (QCPAxis* axis : chart.rect->axes()) {
      axis->setBasePen(QPen(c.border));
      axis->setTickPen(QPen(c.border));
      axis->setSubTickPen(Qt::NoPen);
      axis->setTickLabelColor(c.dim);
      axis->setLabelColor(c.text);
      axis->setTickLabelFont(font());
      axis->setLabelFont(font());
      axis->grid()->setPen(QPen(c.raised));
      axis->grid()->setZeroLinePen(QPen(c.border));
    }
    chart.line->setPen(QPen(c.accent, 1.6));
    chart.line->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, c.accent, 4));
    chart.rescaled->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, c.rescale, 8));
    chart.nan->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCross, QPen(c.nan, 2), {}, 9));
    chart.inf->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssTriangleInverted, c.dim, c.dim, 9));
    chart.now->setPen(QPen(c.rescale, 1.4));
  }
  plot_->replot(QCustomPlot::rpQueuedReplot);
}

}  // namespace flashscope::window
