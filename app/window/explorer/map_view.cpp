#include "app/window/explorer/map_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

// Viridis in nine stops: its lightness rises evenly, so that it is read without colour too.
QCPColorGradient viridis() {
  QCPColorGradient gradient;
  constexpr std::array stops{0x440154, 0x472d7b, 0x3b528b, 0x2c728e, 0x21918c, 0x28ae80, 0x5ec962, 0xaddc30, 0xfde725};
  QMap<double, QColor> colours;
  for (std::size_t n = 0; n < stops.size(); ++n)
    colours.insert(static_cast<double>(n) / (stops.size() - 1), QColor::fromRgb(static_cast<QRgb>(stops[n])));
  gradient.setColorStops(colours);
  gradient.setLevelCount(256);
  gradient.setNanHandling(QCPColorGradient::nhTransparent);
  return gradient;
}

ChartAxis block_axis(const char* label, const AxisRange& range) {
  return {label, ChartUnit::number, range.logarithmic, true, {}};
}

ChartAxis measure_axis(const Selection& selection) {
  ChartAxis axis{title(selection) + ", " + std::string(unit(selection)), ChartUnit::number, true, true, {}};
  switch (selection.measure) {
    case Measure::bytes:
    case Measure::on_chip:
      axis.unit = ChartUnit::bytes;
      break;
    case Measure::masked_share:
    case Measure::ragged_share:
      axis.unit = ChartUnit::percent, axis.logarithmic = axis.binary = false;
      break;
    case Measure::elements:
    case Measure::intensity:
    case Measure::blocks:
      break;
  }
  return axis;
}

// Where cell n of a range ends and the next begins, in the axis's own coordinates.
double edge(const AxisRange& range, std::int64_t n) {
  if (range.count == 1) return static_cast<double>(n == 0 ? range.first : range.last) + (n == 0 ? -0.5 : 0.5);
  const double part = (static_cast<double>(n) - 0.5) / static_cast<double>(range.count - 1);
  const auto first = static_cast<double>(range.first), last = static_cast<double>(range.last);
  return range.logarithmic ? first * std::pow(last / first, part) : first + (last - first) * part;
}

}  // namespace

// The cells that do not fit, over the colours and below the grid's marks.
class MapView::Hatch : public QCPLayerable {
 public:
  Hatch(QCustomPlot* plot, const MapData& data) : QCPLayerable(plot, "main"), data_(data) {}

 protected:
  void applyDefaultAntialiasingHint(QCPPainter* painter) const override { painter->setAntialiasing(false); }
  QRect clipRect() const override { return mParentPlot->axisRect()->rect(); }
  void draw(QCPPainter* painter) override {
    const SweepMap& map = data_.map;
    if (map.limits.empty()) return;
    painter->setPen(Qt::NoPen);
    const std::size_t cols = map.Bc.size();
    for (std::size_t row = 0; row < map.Br.size(); ++row) {
      for (std::size_t col = 0; col < cols; ++col) {
        if (map.limits[row * cols + col] == Limit::none) continue;
        std::size_t end = col;
        while (end < cols && map.limits[row * cols + end] != Limit::none) ++end;
        const QRectF area = QRectF(place(col, row), place(end, row + 1)).normalized();
        painter->fillRect(area, QColor(20, 20, 20, 150));
        painter->fillRect(area, QBrush(QColor(235, 235, 235), Qt::BDiagPattern));
        col = end;
      }
    }
  }

 private:
  QPointF place(std::size_t col, std::size_t row) const {
    return {mParentPlot->xAxis->coordToPixel(edge(data_.Bc, static_cast<std::int64_t>(col))),
            mParentPlot->yAxis->coordToPixel(edge(data_.Br, static_cast<std::int64_t>(row)))};
  }
  const MapData& data_;
};

MapView::MapView(QWidget* parent) : PlotPanel(parent) {
  QCustomPlot* plot = this->plot();
  colour_map_ = new QCPColorMap(plot->xAxis, plot->yAxis);
  scale_ = new QCPColorScale(plot);
  plot->plotLayout()->addElement(0, 1, scale_);
  scale_->setType(QCPAxis::atRight);
  colour_map_->setColorScale(scale_);
  colour_map_->setGradient(viridis());
  colour_map_->setInterpolate(false);
  auto* margins = new QCPMarginGroup(plot);
  plot->axisRect()->setMarginGroup(QCP::msBottom | QCP::msTop, margins);
  scale_->setMarginGroup(QCP::msBottom | QCP::msTop, margins);
  hatch_ = new Hatch(plot, data_);
  const auto marker = [&](QCPScatterStyle::ScatterShape shape, double size) {
    QCPGraph* graph = plot->addGraph();
    graph->setLineStyle(QCPGraph::lsNone);
    graph->setScatterStyle(QCPScatterStyle(shape, QPen(Qt::white, 2), QBrush(Qt::black), size));
    graph->setLayer("overlay");
    return graph;
  };
  stepper_ = marker(QCPScatterStyle::ssCrossCircle, 14);
  best_ = marker(QCPScatterStyle::ssStar, 14);
  connect(plot, &QCustomPlot::mousePress, this, [this](QMouseEvent* event) { pressed_ = event->pos(); });
  connect(plot, &QCustomPlot::mouseRelease, this, [this](QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || (event->pos() - pressed_).manhattanLength() > 3) return;
    if (const auto cell = cell_at(event->pos())) emit chosen(cell->Br, cell->Bc);
  });
}

void MapView::show_map(MapData data) {
  data_ = std::move(data);
  redraw();
}

void MapView::show_all() {
  plot()->xAxis->setRange(edge(data_.Bc, 0), edge(data_.Bc, data_.Bc.count));
  plot()->yAxis->setRange(edge(data_.Br, 0), edge(data_.Br, data_.Br.count));
}

void MapView::redraw() {
  if (!data_.problem) return;
  QCustomPlot* plot = this->plot();
  const SweepMap& map = data_.map;
  const auto rows = static_cast<int>(map.Br.size()), cols = static_cast<int>(map.Bc.size());
  show_axes(block_axis("Bc, rows of K and V in a tile", data_.Bc), block_axis("Br, rows of Q in a tile", data_.Br));
  QCPColorMapData* cells = colour_map_->data();
  cells->setSize(cols, rows);
  const auto ends = [](const AxisRange& range) {
    const auto last = static_cast<double>(range.last);
    return QCPRange(static_cast<double>(range.first), range.last == range.first ? last + 1 : last);
  };
  cells->setRange(ends(data_.Bc), ends(data_.Br));
  double low = std::numeric_limits<double>::infinity(), high = -low;
  std::optional<std::size_t> least;
  for (std::size_t n = 0; n < map.values.size(); ++n) {
    const double value = map.values[n];
    cells->setCell(static_cast<int>(n) % cols, static_cast<int>(n) / cols, value);
    low = std::min(low, value), high = std::max(high, value);
    const bool fits = map.limits.empty() || map.limits[n] == Limit::none;
    if (fits && (!least || value < map.values[*least])) least = n;
  }
  ChartAxis measure = measure_axis(data_.selection);
  if (!(low > 0)) measure.logarithmic = false;
  colour_map_->setDataScaleType(measure.logarithmic ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
  scale_->axis()->setTicker(QSharedPointer<QCPAxisTicker>(new ChartTicker(measure)));
  scale_->axis()->setSubTicks(false);
  scale_->setLabel(text(measure.label));
  const Colours c = colours(palette());
  for (QCPAxis* axis : {scale_->axis()}) {
    axis->setTickLabelColor(c.text), axis->setLabelColor(c.text), axis->setBasePen(QPen(c.dim));
    axis->setTickPen(QPen(c.dim)), axis->setTickLabelFont(font()), axis->setLabelFont(font());
  }
  scale_->setDataRange(low < high ? QCPRange(low, high) : QCPRange(low, measure.logarithmic ? low * 2 : low + 1));
  stepper_->setData(QVector<double>(), QVector<double>());
  best_->setData(QVector<double>(), QVector<double>());
  if (data_.stepper)
    stepper_->setData({static_cast<double>(data_.stepper->Bc)}, {static_cast<double>(data_.stepper->Br)});
  QStringList notes;
  const Shape& shape = data_.problem->shape;
  set_heading(QString("%1, %2, N %3 x %4, d %5, %6%7  [formula]")
                  .arg(text(title(data_.selection)), text(name(data_.recipe.algorithm)))
                  .arg(shape.Nq)
                  .arg(shape.Nk)
                  .arg(shape.d)
                  .arg(text(name(shape.type)),
                       data_.problem->mask.none() ? "" : ", " + text(conventions(data_.recipe, data_.problem->mask))));
  if (least && low < high) {
    const std::size_t row = *least / map.Bc.size(), col = *least % map.Bc.size();
    best_->setData({static_cast<double>(map.Bc[col])}, {static_cast<double>(map.Br[row])});
    notes << QString(
                 "Star: the least that fits, %1 with Br %2, Bc %3. Cross in a circle: the stepper's recipe. A click "
                 "opens a recipe in the stepper.")
                 .arg(text(value_text(map.values[*least], measure)))
                 .arg(map.Br[row])
                 .arg(map.Bc[col]);
  } else if (low == high) {
    notes << QString("The same everywhere: %1.").arg(text(value_text(low, measure)));
  }
  const bool traffic = data_.selection.measure == Measure::elements || data_.selection.measure == Measure::bytes;
  if (traffic && data_.recipe.algorithm != Algorithm::standard) {
    const bool flash2 = data_.recipe.algorithm == Algorithm::flash2;
    notes << (data_.problem->mask.structural_only() && data_.problem->mask.none()
                  ? QString("Without a mask exactly one size matters: %1.").arg(flash2 ? "Br" : "Bc")
                  : QString("%1 matters most; under a mask the tile's shape does too, through the tiles that are not "
                            "visited.")
                        .arg(flash2 ? "Br" : "Bc"));
  }
  if (data_.device) notes << "Hatched: does not fit " + text(data_.device->name) + "; point at it for the reason.";
  set_notes(notes);
  plot->legend->setVisible(false);
  show_all();
  plot->replot(QCustomPlot::rpQueuedReplot);
}

std::optional<std::pair<std::size_t, std::size_t>> MapView::index_at(QPointF pixel) const {
  if (!data_.problem) return {};
  const auto cell = [](QCPAxis* axis, const AxisRange& range, double at) -> std::optional<std::size_t> {
    const double value = axis->pixelToCoord(at);
    for (std::int64_t n = 0; n < range.count; ++n) {
      if (value >= edge(range, n) && value < edge(range, n + 1)) return static_cast<std::size_t>(n);
    }
    return {};
  };
  auto* plot = const_cast<MapView*>(this)->plot();
  const auto col = cell(plot->xAxis, data_.Bc, pixel.x()), row = cell(plot->yAxis, data_.Br, pixel.y());
  if (!row || !col) return {};
  return std::pair(*row, *col);
}

std::optional<BlockSizes> MapView::cell_at(QPointF pixel) const {
  const auto at = index_at(pixel);
  if (!at) return {};
  return BlockSizes{data_.map.Br[at->first], data_.map.Bc[at->second]};
}

QString MapView::values_at(QPointF pixel) {
  const auto at = index_at(pixel);
  if (!at) return {};
  Recipe recipe = data_.recipe;
  recipe.Br = data_.map.Br[at->first], recipe.Bc = data_.map.Bc[at->second];
  const double value = data_.map.at(at->first, at->second);
  QString line = QString("Br %1, Bc %2: %3 %4 [formula]")
                     .arg(recipe.Br)
                     .arg(recipe.Bc)
                     .arg(text(value_text(value, measure_axis(data_.selection))),
                          measure_axis(data_.selection).unit == ChartUnit::number ? text(unit(data_.selection)) : "");
  if (!data_.device) return line;
  const std::string why = why_infeasible(data_.problem->shape, recipe, *data_.device);
  return why.empty() ? line : line + "   does not fit: " + text(why);
}

QString MapView::csv_text() const {
  if (!data_.problem) return {};
  const Shape& shape = data_.problem->shape;
  std::string table =
      fmt::format("# {}: formula\n# {}, N {} x {}, d {}, dv {}, {} heads, {}\n# {}\n", title(data_.selection),
                  name(data_.recipe.algorithm), shape.Nq, shape.Nk, shape.d, shape.dv, shape.heads, name(shape.type),
                  conventions(data_.recipe, data_.problem->mask));
  if (data_.device) table += fmt::format("# fits: limits of the sheet {}\n", data_.device->name);
  table += fmt::format("br,bc,{}{}\n", unit(data_.selection), data_.device ? ",fits" : "");
  for (std::size_t row = 0; row < data_.map.Br.size(); ++row) {
    for (std::size_t col = 0; col < data_.map.Bc.size(); ++col) {
      table += fmt::format("{},{},{:.17g}", data_.map.Br[row], data_.map.Bc[col], data_.map.at(row, col));
      if (data_.device) table += data_.map.limits[row * data_.map.Bc.size() + col] == Limit::none ? ",yes" : ",no";
      table += '\n';
    }
  }
  return text(table);
}

}  // namespace flashscope::window
