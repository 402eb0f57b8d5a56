#include "app/window/docks/numerics_panel.h"

#include <qcustomplot.h>

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QSplitter>
#include <QTextBrowser>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "app/window/docks/html_panel.h"
#include "app/window/text.h"
#include "app/window/theme.h"
#include "engine/insight/nan_rows.h"

namespace flashscope::window {
namespace {

constexpr double kAtOnce = 2e9;          // FLOP of one head up to which a change computes without being asked
constexpr std::int64_t kMostBins = 160;  // of rows: as many as the eye tells apart in a dock

double flops(const Shape& shape) {
  return 2.0 * static_cast<double>(shape.Nq) * static_cast<double>(shape.Nk) * static_cast<double>(shape.d + shape.dv);
}

std::int64_t rows_a_bin(std::int64_t rows) { return std::max<std::int64_t>(1, (rows + kMostBins - 1) / kMostBins); }

QString source_name(const ErrorSource& source, bool alone) {
  if (source.name == "together") return alone ? "this recipe" : "this recipe, all together";
  return text(source.name) + " alone";
}

// As the legend has room for: the table has the whole name.
QString legend_name(const ErrorSource& source) {
  return source.name == "together" ? "this recipe" : text(source.name).section(" with ", 0, 0);
}

// Whole decades around what is drawn, two at least.
class Decades {
 public:
  void take(double value) { least_ = std::min(least_, value), most_ = std::max(most_, value); }
  bool empty() const { return most_ <= 0; }
  void apply(QCPAxis* axis) const {
    double low = empty() ? -8 : std::floor(std::log10(least_)), high = empty() ? -6 : std::ceil(std::log10(most_));
    if (high - low < 2) high = low + 2;
    axis->setRange(std::pow(10, low), std::pow(10, high));
  }

 private:
  double least_ = 1e300, most_ = 0;
};

void style_axes(QCPAxisRect* rect, const Colours& c, const QFont& font) {
  for (QCPAxis* axis : rect->axes()) {
    axis->setBasePen(c.dim), axis->setTickPen(c.dim), axis->setSubTickPen(c.border);
    axis->setTickLabelColor(c.text), axis->setLabelColor(c.text);
    axis->setTickLabelFont(font), axis->setLabelFont(font);
    axis->grid()->setPen(QPen(c.border, 1, Qt::DotLine));
  }
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
  plot_->setMinimumHeight(230);
  plot_->setAutoAddPlottableToLegend(false);
  plot_->plotLayout()->clear();
  plot_->plotLayout()->setRowSpacing(0);
  auto* margins = new QCPMarginGroup(plot_);
  int line = 0;
  const auto add = [&](QCPAxisRect*& rect, QCPLegend*& legend, const QString& x, const QString& y) {
    legend = new QCPLegend;  // above its chart, not in it
    plot_->plotLayout()->addElement(line, 0, legend);
    legend->setLayer("legend");
    legend->setFillOrder(QCPLegend::foColumnsFirst);
    legend->setWrap(2);
    legend->setBorderPen(Qt::NoPen);
    legend->setMargins({4, 2, 4, 0});
    legend->setRowSpacing(0), legend->setColumnSpacing(12);
    legend->setIconSize(16, 10);
    plot_->plotLayout()->setRowStretchFactor(line++, 0.001);
    rect = new QCPAxisRect(plot_);
    rect->setMarginGroup(QCP::msLeft | QCP::msRight, margins);
    rect->setMinimumMargins({8, 10, 10, 2});
    plot_->plotLayout()->addElement(line++, 0, rect);
    QCPAxis *bottom = rect->axis(QCPAxis::atBottom), *left = rect->axis(QCPAxis::atLeft);
    bottom->setLabel(x), left->setLabel(y);
    bottom->setLabelPadding(1), left->setLabelPadding(2);
    left->setScaleType(QCPAxis::stLogarithmic);
    left->setTicker(QSharedPointer<QCPAxisTickerLog>(new QCPAxisTickerLog));
    left->setNumberFormat("eb");
    left->setNumberPrecision(0);
  };
  add(by_row_, row_legend_, "row", "error");
  add(by_tile_, tile_legend_, "column block j", "error");
  auto ticks = QSharedPointer<QCPAxisTickerText>::create();
  by_tile_->axis(QCPAxis::atBottom)->setTicker(ticks);
  text_ = new QTextBrowser;
  text_->setObjectName("numerics_text");
  text_->setFrameShape(QFrame::NoFrame);
  text_->setMinimumHeight(70);
  auto* split = new QSplitter(Qt::Vertical);
  split->addWidget(plot_);
  split->addWidget(text_);
  split->setChildrenCollapsible(false);
  split->setStretchFactor(0, 5), split->setStretchFactor(1, 1);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addLayout(top);
  layout->addWidget(split, 1);
  connect(compute_, &QPushButton::clicked, this, &NumericsPanel::compute);
  connect(plot_, &QCustomPlot::mousePress, this, [this](QMouseEvent* event) {
    if (!by_row_->rect().contains(event->position().toPoint())) return;
    go_to_row(row_at(by_row_->axis(QCPAxis::atBottom)->pixelToCoord(event->position().x())));
  });
  connect(plot_, &QCustomPlot::mouseMove, this, [this](QMouseEvent* event) {
    const QPoint at = event->position().toPoint();
    const std::int64_t row =
        by_row_->rect().contains(at) ? row_at(by_row_->axis(QCPAxis::atBottom)->pixelToCoord(at.x())) : -1;
    if (row < 0) return plot_->setToolTip({});
    QStringList lines{QString("row %1").arg(row)};
    for (const ErrorSource* source : shown())
      lines << source_name(*source, shown().size() == 1) + ": " +
                   number(source->row_error[static_cast<std::size_t>(row)], 3);
    plot_->setToolTip(lines.join('\n') + "\nclick: go there");
  });
}

std::vector<const ErrorSource*> NumericsPanel::shown() const {
  std::vector<const ErrorSource*> list;
  for (const ErrorSource& source : result_.sources) {
    const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    const bool again = !list.empty() && std::ranges::equal(source.row_error, list.front()->row_error, same);
    if (list.empty() || result_.sources.size() > 2 || !again) list.push_back(&source);
  }
  return list;
}

std::int64_t NumericsPanel::row_at(double x) const {
  if (result_.sources.empty()) return -1;
  const std::vector<double>& errors = result_.sources.front().row_error;
  const auto rows = static_cast<std::int64_t>(errors.size()), bin = rows_a_bin(rows);
  const auto row = static_cast<std::int64_t>(std::floor(x + 0.5));
  if (row < 0 || row >= rows) return -1;
  std::int64_t worst = row / bin * bin;
  for (std::int64_t r = worst; r < std::min(rows, (row / bin + 1) * bin); ++r)
    if (!std::isfinite(errors[r]) || errors[r] > errors[worst]) {
      worst = r;
      if (!std::isfinite(errors[r])) break;
    }
  return worst;
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
  // Until the problem is planned, pinned rows are those of the one before.
  if (stage.problem != document.problem()) return;
  const std::int64_t head = document.head(), row = stage.pinned_rows.empty() ? -1 : stage.pinned_rows.front();
  const bool same = problem_ == document.problem() && recipe_ == document.recipe() && head_ == head && row_ == row;
  if (same) return;
  if (problem_ != document.problem()) result_ = {};
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
  plot_->clearPlottables();
  for (QCPAxisRect* rect : {by_row_, by_tile_}) style_axes(rect, c, font());
  for (QCPLegend* legend : {row_legend_, tile_legend_}) {
    legend->clearItems();
    legend->setBrush(c.base), legend->setTextColor(c.text), legend->setFont(font());
  }
  draw_rows();
  draw_tiles();
  plot_->replot(QCustomPlot::rpQueuedReplot);
  text_->setHtml(words());
}

void NumericsPanel::draw_rows() {
  const Colours c = colours(palette());
  const auto sources = shown();
  const auto rows = sources.empty() ? std::int64_t{1} : static_cast<std::int64_t>(sources.front()->row_error.size());
  const std::int64_t bin = rows_a_bin(rows);
  QCPAxis *bottom = by_row_->axis(QCPAxis::atBottom), *left = by_row_->axis(QCPAxis::atLeft);
  bottom->setLabel(bin == 1 ? QString("row (its largest |O - float64|)")
                            : QString("row (the largest |O - float64| of each %1)").arg(bin));
  bottom->setRange(-0.5, std::max(1.0, static_cast<double>(rows) - 0.5));
  const auto add = [&](const QString& name, const QPen& pen) {
    QCPGraph* graph = plot_->addGraph(bottom, left);
    graph->setName(name);
    graph->setPen(pen);
    graph->setLineStyle(QCPGraph::lsStepCenter);
    row_legend_->addItem(new QCPPlottableLegendItem(row_legend_, graph));
    return graph;
  };
  const QColor inks[] = {c.text, c.accent, c.rescale, c.good, c.inf, c.dim};
  Decades range;
  QVector<double> not_finite;
  for (std::size_t n = 0; n < sources.size(); ++n) {
    QCPGraph* graph = add(legend_name(*sources[n]), QPen(inks[n % std::size(inks)], n == 0 ? 2 : 1.4));
    for (std::int64_t first = 0; first < rows; first += bin) {
      double largest = std::nan("");
      bool lost = false;
      const std::int64_t end = std::min(rows, first + bin);
      for (std::int64_t row = first; row < end; ++row) {
        const double error = sources[n]->row_error[static_cast<std::size_t>(row)];
        lost = lost || !std::isfinite(error);
        if (std::isfinite(error) && error > 0 && !(error <= largest)) largest = error;
      }
      const double at = static_cast<double>(first) + static_cast<double>(end - first - 1) / 2;
      graph->addData(at, largest);
      if (largest > 0) range.take(largest);
      if (n == 0 && lost) not_finite << at;
    }
  }
  range.apply(left);
  if (!not_finite.empty()) {
    QCPGraph* graph = add("not finite", QPen(c.nan));
    graph->setLineStyle(QCPGraph::lsNone);
    graph->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssSquare, c.nan, c.nan, 5));
    graph->setData(not_finite, QVector<double>(not_finite.size(), left->range().lower * 1.25), true);
  }
}

void NumericsPanel::draw_tiles() {
  const Colours c = colours(palette());
  QCPAxis *bottom = by_tile_->axis(QCPAxis::atBottom), *left = by_tile_->axis(QCPAxis::atLeft);
  bottom->setLabel(QString("row %1, by column block j").arg(result_.row));
  const auto add = [&](const QString& name, const QColor& ink) {
    QCPGraph* graph = plot_->addGraph(bottom, left);
    graph->setName(name);
    graph->setPen(QPen(ink, 1.6));
    graph->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, ink, 5));
    tile_legend_->addItem(new QCPPlottableLegendItem(tile_legend_, graph));
    return graph;
  };
  QCPGraph *scores = add("scores of the tile", c.accent), *output = add("O / l so far", c.text);
  Decades range;
  auto ticks = bottom->ticker().dynamicCast<QCPAxisTickerText>();
  ticks->clear();
  const auto count = static_cast<std::int64_t>(result_.tiles.size());
  const std::int64_t every = std::max<std::int64_t>(1, (count + 11) / 12);
  for (std::int64_t n = 0; n < count; ++n) {
    const TileError& tile = result_.tiles[static_cast<std::size_t>(n)];
    const auto x = static_cast<double>(n);
    if (n % every == 0) ticks->addTick(x, QString::number(tile.j));
    for (const auto& [graph, error] : {std::pair{scores, tile.score}, std::pair{output, tile.output}}) {
      const bool drawn = std::isfinite(error) && error > 0;
      graph->addData(x, drawn ? error : std::nan(""));
      if (drawn) range.take(error);
    }
  }
  range.apply(left);
  bottom->setRange(-0.5, std::max(0.5, static_cast<double>(count) - 0.5));
}

QString NumericsPanel::words() const {
  const Colours c = colours(palette());
  if (result_.sources.empty())
    return problem_ && !work_.running() ? paragraph("A head of this size takes a while: press Compute.", c.dim)
                                        : QString();
  const auto sources = shown();
  Table table(c, {"largest |O - float64| of a row", "", "row", "not finite"});
  for (const ErrorSource* source : sources) {
    const bool any = source->not_finite < static_cast<std::int64_t>(source->row_error.size());
    table.row({source_name(*source, sources.size() == 1), any ? number(source->max, 3) : dash(),
               any ? grouped(source->worst_row) : dash(), grouped(source->not_finite)},
              source->not_finite > 0 ? c.nan : c.text);
  }
  QString html = table.html();
  for (const ErrorSource* source : sources)
    if (source->nan.total() > 0)
      html += paragraph(
          QString("%1: %2.").arg(source_name(*source, sources.size() == 1), text(flashscope::text(source->nan))),
          source->nan.here + source->nan.there > 0 ? c.nan : c.dim);
  if (result_.tiles.empty()) return html;
  const auto overflow =
      std::find_if(result_.tiles.begin(), result_.tiles.end(), [](const TileError& t) { return t.overflow; });
  if (overflow != result_.tiles.end())
    html += paragraph(QString("A score overflows in column block %1.").arg(grouped(overflow->j)), c.inf);
  const auto entered = std::max_element(result_.tiles.begin(), result_.tiles.end(),
                                        [](const TileError& a, const TileError& b) { return a.score < b.score; });
  const double left = result_.sources.front().row_error[static_cast<std::size_t>(result_.row)];
  html += paragraph(entered->score > 0
                        ? QString("Row %1: the scores are furthest off in column block %2, by %3.")
                              .arg(grouped(result_.row), grouped(entered->j), number(entered->score, 3))
                        : QString("Row %1: the visible scores are those of float64.").arg(grouped(result_.row)),
                    c.text);
  html += paragraph(QString("After its last tile O / l, divided in float64, is %1 off; O as the run divides and stores "
                            "it is %2 off.")
                        .arg(number(result_.tiles.back().output, 3), number(left, 3)),
                    c.text);
  return html;
}

void NumericsPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) draw();
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
