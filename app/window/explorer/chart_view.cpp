#include "app/window/explorer/chart_view.h"

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {

namespace {

// In lines of at most about so many letters, so that a long name does not take the plot's room.
QString legend_text(const ChartSeries& series) {
  constexpr qsizetype kMost = 24;
  QStringList lines{QString()};
  for (const QString& word : text(series.name).split(' ')) {
    if (!lines.last().isEmpty() && lines.last().size() + word.size() >= kMost) lines << QString();
    lines.last() += (lines.last().isEmpty() ? "" : " ") + word;
  }
  return lines.join('\n');
}

}  // namespace

// A line of the legend: where the figures of the series below it come from.
class ChartView::Origin : public QCPAbstractLegendItem {
 public:
  Origin(QCPLegend* legend, QString words) : QCPAbstractLegendItem(legend), words_(std::move(words)) {}

 protected:
  QSize minimumOuterSizeHint() const override { return QFontMetrics(mFont).size(0, words_).grownBy(mMargins); }
  void draw(QCPPainter* painter) override {
    painter->setFont(mFont);
    painter->setPen(QPen(mTextColor));
    painter->drawText(mRect, Qt::AlignLeft | Qt::AlignVCenter, words_);
  }

 private:
  const QString words_;
};

// The legend stands beside the plot: over it it would hide data.
ChartView::ChartView(QWidget* parent) : PlotPanel(parent) {
  QCustomPlot* plot = this->plot();
  plot->axisRect()->insetLayout()->take(plot->legend);
  auto* side = new QCPLayoutGrid;
  plot->plotLayout()->addElement(0, 1, side);
  plot->plotLayout()->setColumnStretchFactor(1, 0.001);
  side->setMargins(QMargins(4, 8, 4, 8));
  side->addElement(0, 0, plot->legend);
  side->addElement(1, 0, new QCPLayoutElement(plot));
  side->setRowStretchFactor(0, 0.001);
}

void ChartView::show_chart(Chart chart) {
  chart_ = std::move(chart);
  redraw();
}

QString ChartView::csv_text() const { return text(csv(chart_)); }
QString ChartView::file_name() const { return text(chart_.name); }

void ChartView::show_all() {
  const auto [x0, x1] = extent(chart_, true);
  const auto [y0, y1] = extent(chart_, false);
  whole_x_ = QCPRange(x0, x1), whole_y_ = QCPRange(y0, y1);
  plot()->xAxis->setRange(whole_x_);
  plot()->yAxis->setRange(whole_y_);
}

void ChartView::redraw() {
  QCustomPlot* plot = this->plot();
  const bool zoomed = plot->xAxis->range() != whole_x_ || plot->yAxis->range() != whole_y_;
  const bool same_axes = plot->xAxis->label() == text(chart_.x.label) && plot->yAxis->label() == text(chart_.y.label);
  plot->clearPlottables();
  plot->legend->clearItems();
  plot->legend->setRowSpacing(qRound(6 * unit()));
  for (int n = plot->itemCount() - 1; n >= 0; --n) {
    if (qobject_cast<QCPItemText*>(plot->item(n)) || plot->item(n)->property("mark").isValid())
      plot->removeItem(plot->item(n));
  }
  const std::string origin = common_origin(chart_);
  set_heading(text(chart_.title) + (origin.empty() ? "" : "  [" + text(origin) + ']'));
  QStringList notes;
  for (const std::string& note : chart_.notes) notes << text(note);
  set_notes(notes);
  show_axes(chart_.x, chart_.y);
  for (std::size_t n = 0; n < chart_.series.size(); ++n) {
    const ChartSeries& series = chart_.series[n];
    if (origin.empty() && begins_origin(chart_, n))
      plot->legend->addItem(new Origin(plot->legend, '[' + text(series.origin) + ']'));
    series.style == SeriesStyle::bars ? add_bars(series) : add_series(series, n);
  }
  int number = 0;
  for (const ChartMark& mark : chart_.marks) add_mark(mark, number++);
  // One kind of bars is what the axis says.
  const bool bars_alone = chart_.series.size() == 1 && chart_.series.front().style == SeriesStyle::bars;
  plot->legend->setVisible(!chart_.series.empty() && !bars_alone);
  if (!zoomed || !same_axes) show_all();
  plot->replot(QCustomPlot::rpQueuedReplot);
}

void ChartView::add_series(const ChartSeries& series, std::size_t place) {
  QCPGraph* graph = plot()->addGraph();
  const QColor colour(text(chart_colour(series.colour, dark())));
  graph->setName(legend_text(series));
  QPen pen(colour, 2 * unit());
  if (const std::span<const double> dashes = chart_dashes(series); !dashes.empty()) {
    QVector<qreal> pattern;  // in widths of the pen
    for (const double length : dashes) pattern << length / 2;
    pen.setDashPattern(pattern);
    pen.setCapStyle(Qt::FlatCap);
  }
  graph->setPen(pen);
  graph->setAntialiased(true);
  if (series.style == SeriesStyle::points) {
    graph->setLineStyle(QCPGraph::lsNone);
    constexpr std::array shapes{QCPScatterStyle::ssCircle, QCPScatterStyle::ssSquare, QCPScatterStyle::ssDiamond};
    const auto shape = shapes[static_cast<std::size_t>(marker_shape(series, place)) % shapes.size()];
    graph->setScatterStyle(QCPScatterStyle(shape, QPen(colour, 2.5 * unit()), Qt::NoBrush, 12 * unit()));
  }
  graph->setData({series.x.begin(), series.x.end()}, {series.y.begin(), series.y.end()});
}

void ChartView::add_bars(const ChartSeries& series) {
  auto* bars = new QCPBars(plot()->xAxis, plot()->yAxis);
  const QColor colour(text(chart_colour(series.colour, dark())));
  bars->setName(legend_text(series));
  bars->setBrush(colour);
  bars->setPen(Qt::NoPen);
  bars->setWidth(0.6);
  bars->setData({series.x.begin(), series.x.end()}, {series.y.begin(), series.y.end()});
  for (std::size_t n = 0; n < series.x.size(); ++n) {
    auto* label = new QCPItemText(plot());
    label->setText(
        text(chart_.y.unit == ChartUnit::bytes ? tick_text(series.y[n], chart_.y) : value_text(series.y[n], chart_.y)));
    label->setColor(colours(palette()).text);
    label->setFont(font());
    label->setPositionAlignment(Qt::AlignHCenter | Qt::AlignBottom);
    label->position->setCoords(series.x[n], series.y[n]);
  }
}

void ChartView::add_mark(const ChartMark& mark, int number) {
  const Colours c = colours(palette());
  auto* line = new QCPItemStraightLine(plot());
  line->setProperty("mark", true);
  line->setPen(QPen(c.text, unit(), Qt::DotLine));
  line->point1->setCoords(mark.vertical ? mark.at : 1, mark.vertical ? 1 : mark.at);
  line->point2->setCoords(mark.vertical ? mark.at : 2, mark.vertical ? 2 : mark.at);
  auto* label = new QCPItemText(plot());
  label->setText(text(mark.label));
  label->setColor(c.text);
  label->setFont(font());
  label->setPadding(QMargins(4, 1, 4, 1));
  label->setBrush(QBrush(c.base));
  // To the side on which there is room.
  const auto [low, high] = extent(chart_, true);
  const auto along = [&](double value) { return chart_.x.logarithmic ? std::log(value) : value; };
  const bool right = mark.vertical && (along(mark.at) - along(low)) / (along(high) - along(low)) > 0.55;
  label->setPositionAlignment((right ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignBottom);
  label->position->setTypeX(QCPItemPosition::ptPlotCoords);
  label->position->setTypeY(mark.vertical ? QCPItemPosition::ptAxisRectRatio : QCPItemPosition::ptPlotCoords);
  label->position->setCoords(mark.vertical ? mark.at : low, mark.vertical ? 0.98 - 0.06 * number : mark.at);
}

QString ChartView::values_at(QPointF pixel) {
  if (!chart_.x.categories.empty()) {
    const double x = plot()->xAxis->pixelToCoord(pixel.x());
    const auto n = static_cast<std::size_t>(std::max(0.0, std::round(x)));
    if (n >= chart_.x.categories.size()) return {};
    QString line = text(chart_.x.categories[n]);
    for (const ChartSeries& series : chart_.series)
      if (n < series.y.size())
        line += ": " + text(value_text(series.y[n], chart_.y)) + " [" + text(series.origin) + ']';
    return line;
  }
  // Each line at its point nearest to the pointer; a single point only where the pointer is near it.
  QStringList parts;
  const QString origin = text(common_origin(chart_));
  for (const ChartSeries& series : chart_.series) {
    double nearest = std::numeric_limits<double>::infinity();
    std::size_t at = 0;
    for (std::size_t n = 0; n < series.x.size(); ++n) {
      const double distance = std::abs(plot()->xAxis->coordToPixel(series.x[n]) - pixel.x());
      if (distance < nearest) nearest = distance, at = n;
    }
    if (series.x.empty() || (series.style == SeriesStyle::points && nearest > 12 * unit())) continue;
    const QString value = text(value_text(series.y[at], chart_.y));
    if (parts.isEmpty()) parts << text(value_text(series.x[at], chart_.x)) + ":";
    parts << text(series.name) + " " + value + (origin.isEmpty() ? " [" + text(series.origin) + ']' : "");
  }
  return parts.join("   ") + (parts.isEmpty() || origin.isEmpty() ? "" : "   [" + origin + ']');
}

}  // namespace flashscope::window
