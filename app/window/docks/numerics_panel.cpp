#include "app/window/docks/numerics_panel.h"

#include <qcustomplot.h>

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QSplitter>
#include <QTextBrowser>
#include <QVBoxLayout>
#include <cmath>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

constexpr double kAtOnce = 2e9;  // FLOP of one head up to which a change computes without being asked

double flops(const Shape& shape) {
  return 2.0 * static_cast<double>(shape.Nq) * static_cast<double>(shape.Nk) * static_cast<double>(shape.d + shape.dv);
}

}  // namespace

NumericsPanel::NumericsPanel(QWidget* parent) : Panel(parent) {
  note_ = new QLabel;
  note_->setWordWrap(true);
  compute_ = new QPushButton("Compute");
  compute_->setObjectName("compute");
  compute_->setToolTip("Runs the head on the stage once for each choice, and in float64");
  auto* top = new QHBoxLayout;
  top->addWidget(note_, 1);
  top->addWidget(compute_);
  top->setContentsMargins(8, 4, 8, 0);
  plot_ = new QCustomPlot;
  plot_->setMinimumHeight(160);
  plot_->xAxis->setLabel("row");
  plot_->yAxis->setLabel("largest |O - float64|");
  plot_->yAxis->setScaleType(QCPAxis::stLogarithmic);
  plot_->yAxis->setTicker(QSharedPointer<QCPAxisTickerLog>(new QCPAxisTickerLog));
  plot_->yAxis->setNumberFormat("eb");
  plot_->yAxis->setNumberPrecision(0);
  plot_->legend->setVisible(true);
  plot_->axisRect()->insetLayout()->setInsetAlignment(0, Qt::AlignTop | Qt::AlignRight);
  text_ = new QTextBrowser;
  text_->setFrameShape(QFrame::NoFrame);
  text_->setMinimumHeight(80);
  auto* split = new QSplitter(Qt::Vertical);
  split->addWidget(plot_);
  split->addWidget(text_);
  split->setChildrenCollapsible(false);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addLayout(top);
  layout->addWidget(split, 1);
  connect(compute_, &QPushButton::clicked, this, &NumericsPanel::compute);
  connect(plot_, &QCustomPlot::mousePress, this,
          [this](QMouseEvent* event) { go_to_row(std::lround(plot_->xAxis->pixelToCoord(event->position().x()))); });
}

void NumericsPanel::go_to_row(std::int64_t row) {
  if (!problem_ || row < 0 || row >= problem_->shape().Nq) return;
  emit change([head = head_, row](Document& document) {
    document.seek_row(head, row);
    document.pin_row(row, true);
  });
}

void NumericsPanel::refresh(const Document& document) {
  const auto& stage = document.stage();
  const std::int64_t head = stage.state ? stage.state->head : 0;
  const std::int64_t row = stage.pinned_rows.empty() ? -1 : stage.pinned_rows.front();
  const bool same = problem_ == document.problem() && recipe_ == document.recipe() && head_ == head && row_ == row;
  if (same) return;
  problem_ = document.problem(), recipe_ = document.recipe(), head_ = head, row_ = row;
  work_.cancel();
  if (flops(problem_->shape()) <= kAtOnce) return compute();
  result_ = {};
  draw();
}

void NumericsPanel::compute() {
  if (!problem_) return;
  work_.start(
      [problem = problem_, recipe = recipe_, head = head_, row = row_](const std::stop_token& stop) {
        Result result{error_sources(*problem, recipe, head, stop), {}, head, row};
        if (row < 0) result.row = result.sources.front().worst_row;
        result.tiles = row_errors(*problem, recipe, head, result.row);
        return result;
      },
      [this](Result result) {
        result_ = std::move(result);
        draw();
      },
      [this](const QString& message) { emit failed(message); });
  draw();
}

void NumericsPanel::draw() {
  const Colours c = colours(palette());
  const std::string what = numerics_text(recipe_.numerics);
  note_->setText(what.empty() ? "Numerics: default, nothing is rounded beyond the arithmetic"
                              : "Numerics: " + text(what));
  compute_->setEnabled(!work_.running());
  compute_->setText(work_.running() ? "Computing" : "Compute");
  plot_->setBackground(c.base);
  for (QCPAxis* axis : {plot_->xAxis, plot_->yAxis}) {
    axis->setBasePen(c.dim), axis->setTickPen(c.dim), axis->setSubTickPen(c.border);
    axis->setTickLabelColor(c.text), axis->setLabelColor(c.text);
    axis->grid()->setPen(QPen(c.border, 1, Qt::DotLine));
  }
  plot_->legend->setBrush(c.base), plot_->legend->setBorderPen(c.border), plot_->legend->setTextColor(c.text);
  plot_->clearGraphs();
  const QColor palette_of[] = {c.text, c.dim, c.accent, c.rescale, c.good, c.inf};
  double least = 1, most = 0;
  std::size_t n = 0;
  for (const ErrorSource& source : result_.sources) {
    QCPGraph* graph = plot_->addGraph();
    graph->setName(text(source.name));
    graph->setPen(QPen(palette_of[n % std::size(palette_of)], n == 0 ? 2 : 1));
    ++n;
    for (std::size_t row = 0; row < source.row_error.size(); ++row) {
      const double error = source.row_error[row];
      const bool shown = std::isfinite(error) && error > 0;
      graph->addData(static_cast<double>(row), shown ? error : std::nan(""));
      if (shown) least = std::min(least, error), most = std::max(most, error);
    }
  }
  const auto rows = problem_ ? static_cast<double>(problem_->shape().Nq) : 1;
  plot_->xAxis->setRange(-0.5, std::max(1.0, rows - 0.5));
  if (most > 0) plot_->yAxis->setRange(least / 2, most * 4);
  plot_->replot(QCustomPlot::rpQueuedReplot);

  QString html;
  if (!result_.sources.empty()) {
    html = "<table cellspacing='0' cellpadding='2'>";
    for (const ErrorSource& source : result_.sources)
      html += QString(
                  "<tr><td>%1&nbsp;&nbsp;</td><td align='right'>%2&nbsp;&nbsp;</td><td style='color:%3'>in row "
                  "%4%5</td></tr>")
                  .arg(text(source.name), number(source.max, 3), c.dim.name(), QString::number(source.worst_row),
                       source.not_finite > 0 ? QString(", <span style='color:%1'>%2 rows not finite</span>")
                                                   .arg(c.nan.name(), grouped(source.not_finite))
                                             : QString());
    html += "</table>";
    const auto entered = std::max_element(result_.tiles.begin(), result_.tiles.end(),
                                          [](const TileError& a, const TileError& b) { return a.score < b.score; });
    const auto overflow =
        std::find_if(result_.tiles.begin(), result_.tiles.end(), [](const TileError& t) { return t.overflow; });
    if (!result_.tiles.empty()) {
      html += QString(
                  "<p style='margin:6px 0 0 0'>Row %1: the scores are furthest off in column block %2, by %3; O / l "
                  "ends %4 off.")
                  .arg(result_.row)
                  .arg(entered->j)
                  .arg(number(entered->score, 3), number(result_.tiles.back().output, 3));
      if (overflow != result_.tiles.end())
        html += QString(" <span style='color:%1'>A score overflows in column block %2.</span>")
                    .arg(c.inf.name())
                    .arg(overflow->j);
      html += "</p>";
    }
  } else if (problem_ && !work_.running()) {
    html = QString("<p style='color:%1'>A head of this size takes a while: press Compute.</p>").arg(c.dim.name());
  }
  text_->setHtml(html);
}

void NumericsPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) draw();
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
