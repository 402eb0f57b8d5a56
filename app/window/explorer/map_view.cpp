#include "app/window/explorer/map_view.h"

#include <fmt/format.h>

#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "app/window/explorer/measured_cells.h"
#include "app/window/text.h"
#include "app/window/theme.h"
#include "engine/insight/measured_chart.h"
#include "engine/insight/measured_words.h"

namespace flashscope::window {
namespace {

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
    if (map.limits.empty() || data_.gauge) return;
    painter->setPen(Qt::NoPen);
    const std::size_t cols = map.Bc.size();
    for (std::size_t row = 0; row < map.Br.size(); ++row) {
      for (std::size_t col = 0; col < cols; ++col) {
        if (map.limits[row * cols + col] == Limit::none) continue;
        std::size_t end = col;
        while (end < cols && map.limits[row * cols + end] != Limit::none) ++end;
        const QRectF area = QRectF(place(col, row), place(end, row + 1)).normalized();
        hatch(painter, area);
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

// A star at the best, a ring at the stepper's recipe, a square at the explored one where it is another: whole at the
// edge of the plot too.
class MapView::Marks : public QCPLayerable {
 public:
  Marks(QCustomPlot* plot, const MapView& view)
      : QCPLayerable(plot, "overlay"), view_(view), data_(view.data_), best_(view.best_) {}

 protected:
  void applyDefaultAntialiasingHint(QCPPainter* painter) const override { painter->setAntialiasing(true); }
  void draw(QCPPainter* painter) override {
    const double unit = view_.unit();
    const auto outlined = [&](const auto& shape) {
      painter->setBrush(Qt::NoBrush);
      for (const QPen& pen : {QPen(Qt::black, 5 * unit), QPen(Qt::white, 2.5 * unit)}) painter->setPen(pen), shape();
    };
    if (data_.stepped()) {
      if (const auto at = place({data_.stepper.Br, data_.stepper.Bc})) {
        outlined([&] {
          painter->drawEllipse(*at, 10 * unit, 10 * unit);
          for (const QPointF& out : {QPointF(1, 0), QPointF(-1, 0), QPointF(0, 1), QPointF(0, -1)})
            painter->drawLine(*at + 10 * unit * out, *at + 15 * unit * out);
        });
        draw_name(painter, *at, data_.same_blocks() ? "stepper, explored" : "stepper", false);
      }
    }
    if (data_.recipe.algorithm != Algorithm::standard && !data_.same_blocks()) {
      if (const auto at = place({data_.recipe.Br, data_.recipe.Bc})) {
        outlined([&] { painter->drawRect(QRectF(at->x() - 8 * unit, at->y() - 8 * unit, 16 * unit, 16 * unit)); });
        draw_name(painter, *at, "explored", true);
      }
    }
    if (!best_) return;
    if (const auto at = place(*best_)) {
      QPolygonF star;
      for (int n = 0; n < 10; ++n) {
        const double angle = M_PI * n / 5, radius = (n % 2 == 0 ? 9 : 4) * unit;
        star << *at + QPointF(radius * std::sin(angle), -radius * std::cos(angle));
      }
      painter->setPen(QPen(Qt::black, 1.5 * unit));
      painter->setBrush(Qt::white);
      painter->drawPolygon(star);
    }
  }

 private:
  // Above or below the mark, on the other side where there is no room; the two names do not meet.
  void draw_name(QCPPainter* painter, QPointF at, const QString& words, bool below) const {
    const QRectF room = mParentPlot->axisRect()->rect();
    const QFontMetricsF metrics(view_.font());
    const double width = metrics.horizontalAdvance(words), away = 18 * view_.unit();
    const double x =
        std::clamp(at.x() - width / 2, room.left() + 3, std::max(room.left() + 3, room.right() - width - 3));
    if (below ? at.y() + away + metrics.height() > room.bottom() : at.y() - away - metrics.height() < room.top())
      below = !below;
    QPainterPath path;
    path.addText(x, below ? at.y() + away + metrics.ascent() : at.y() - away - metrics.descent(), view_.font(), words);
    painter->strokePath(path, QPen(Qt::black, 3 * view_.unit(), Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    painter->fillPath(path, Qt::white);
  }
  std::optional<QPointF> place(const BlockSizes& blocks) const {
    const auto Br = static_cast<double>(blocks.Br), Bc = static_cast<double>(blocks.Bc);
    if (!mParentPlot->xAxis->range().contains(Bc) || !mParentPlot->yAxis->range().contains(Br)) return {};
    return QPointF(mParentPlot->xAxis->coordToPixel(Bc), mParentPlot->yAxis->coordToPixel(Br));
  }
  const MapView& view_;
  const MapData& data_;
  const std::optional<BlockSizes>& best_;
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
  points_ = new MeasuredCells(plot);
  marks_ = new Marks(plot, *this);
  plot->axisRect()->setVisible(false), scale_->setVisible(false);  // until there are numbers
  connect(plot, &QCustomPlot::mousePress, this, [this](QMouseEvent* event) { pressed_ = event->pos(); });
  connect(plot, &QCustomPlot::mouseRelease, this, [this](QMouseEvent* event) {
    if (event->button() == Qt::LeftButton && (event->pos() - pressed_).manhattanLength() <= 3) activate(event->pos());
  });
}

void MapView::activate(QPointF pixel) {
  if (const auto cell = cell_at(pixel)) emit chosen(cell->Br, cell->Bc);
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
  show_axes(block_axis("Bc, rows of K and V in a tile", data_.Bc), block_axis("Br, rows of Q in a tile", data_.Br));
  plot()->axisRect()->setVisible(true), scale_->setVisible(true);
  colour_map_->setVisible(!data_.gauge);
  best_.reset();
  points_->set_unit(unit());
  points_->show_points(data_.gauge ? data_.points : std::vector<MeasuredPoint>(), data_.gauge.value_or(Gauge::l2_sm));
  data_.gauge ? redraw_points() : redraw_formula();
  plot()->legend->setVisible(false);
  show_all();
  plot()->replot(QCustomPlot::rpQueuedReplot);
}

QString MapView::recipes_text() const {
  const auto within = [](const AxisRange& range, std::int64_t size) {
    return size >= range.first && size <= range.last;
  };
  const auto place = [&](const Recipe& recipe, const char* mark) {
    return QString(within(data_.Br, recipe.Br) && within(data_.Bc, recipe.Bc) ? mark : "outside of this map");
  };
  const Recipe &stepper = data_.stepper, &explored = data_.recipe;
  QString line = QString("stepper: %1 (%2)")
                     .arg(recipe_text(stepper), data_.stepped() ? place(stepper, "ring") : "another order's map");
  if (data_.same_blocks()) return line + "; explored, here and on the other pages: the same";
  line += "; explored, here and on the other pages: " + recipe_text(explored);
  return explored.algorithm == Algorithm::standard ? line : line + " (" + place(explored, "square") + ')';
}

QString MapView::limits_text() const {
  if (!data_.device) return {};
  const auto broken = [this](Limit limit) {
    return std::find(data_.map.limits.begin(), data_.map.limits.end(), limit) != data_.map.limits.end();
  };
  QStringList reasons;
  if (const auto most = data_.device->value(Quantity::shared_per_block); most && broken(Limit::shared_memory))
    reasons << QString("more than %1 KiB of shared memory a block").arg(*most / 1024);
  if (const auto most = data_.device->value(Quantity::threads_per_block); most && broken(Limit::threads))
    reasons << QString("more than %1 threads a block").arg(*most);
  if (reasons.isEmpty()) return QString("All of it fits %1 [sheet].").arg(text(data_.device->name));
  return QString("Hatched: does not fit %1, %2 [sheet]; point at a cell for its figures.")
      .arg(text(data_.device->name), reasons.join(" or "));
}

void MapView::show_scale(const ChartAxis& measure, double low, double high) {
  const QCPAxis::ScaleType type = measure.logarithmic ? QCPAxis::stLogarithmic : QCPAxis::stLinear;
  colour_map_->setDataScaleType(type);
  scale_->setDataScaleType(type);
  scale_->axis()->setTicker(QSharedPointer<QCPAxisTicker>(new ChartTicker(measure)));
  scale_->axis()->setSubTicks(false);
  scale_->setLabel(text(measure.label));
  const Colours c = colours(palette());
  QCPAxis* axis = scale_->axis();
  axis->setTickLabelColor(c.text), axis->setLabelColor(c.text), axis->setBasePen(QPen(c.dim));
  axis->setTickPen(QPen(c.dim)), axis->setTickLabelFont(font()), axis->setLabelFont(font());
  scale_->setBarWidth(qRound(20 * unit()));
  if (data_.colours) low = data_.colours->first, high = data_.colours->second;
  const QCPRange range = low < high ? QCPRange(low, high) : QCPRange(low, measure.logarithmic ? low * 2 : low + 1);
  scale_->setDataRange(range);
  points_->set_colours(range, measure.logarithmic);
}

QString MapView::problem_text() const {
  const Shape& shape = data_.problem->shape;
  return QString("%1, N %2 x %3, d %4, %5, %6%7")
      .arg(text(name(data_.recipe.algorithm)), grouped(shape.Nq), grouped(shape.Nk))
      .arg(shape.d)
      .arg(counted(shape.heads, "head"), text(name(shape.type)),
           data_.problem->mask.none() ? "" : ", " + text(conventions(data_.recipe, data_.problem->mask)));
}

void MapView::redraw_formula() {
  const SweepMap& map = data_.map;
  const auto rows = static_cast<int>(map.Br.size()), cols = static_cast<int>(map.Bc.size());
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
  show_scale(measure, low, high);
  QStringList notes;
  set_heading(text(title(data_.selection)) + ", " + problem_text() + "  [formula]");
  if (least && low < high) {
    const auto sizes = [&](std::size_t n) { return BlockSizes{map.Br[n / map.Bc.size()], map.Bc[n % map.Bc.size()]}; };
    std::size_t as_good = 0;
    std::int64_t least_Br = std::numeric_limits<std::int64_t>::max(), most_Br = 0;
    for (std::size_t n = 0; n < map.values.size(); ++n) {
      if (map.values[n] != map.values[*least] || !(map.limits.empty() || map.limits[n] == Limit::none)) continue;
      ++as_good;
      least_Br = std::min(least_Br, sizes(n).Br), most_Br = std::max(most_Br, sizes(n).Br);
    }
    const QString amount = text(value_text(map.values[*least], measure)), rest = " A click opens it in the stepper.";
    if (as_good == 1) {
      best_ = sizes(*least);
      notes << QString("Star: the least that fits here, %1 [formula] with Br %2, Bc %3.")
                       .arg(amount)
                       .arg(best_->Br)
                       .arg(best_->Bc) +
                   rest;
    } else {  // a star at one of them would say that it is better
      notes << QString("The least that fits here, %1 [formula], at %2 of the cells that are drawn, with Br %3.")
                       .arg(amount, grouped(static_cast<std::int64_t>(as_good)),
                            least_Br == most_Br ? grouped(least_Br)
                                                : QString("%1 to %2").arg(grouped(least_Br), grouped(most_Br))) +
                   rest;
    }
  } else if (low == high) {
    notes << QString("The same everywhere: %1 [formula].").arg(text(value_text(low, measure)));
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
  if (const QString limits = limits_text(); !limits.isEmpty()) notes << limits;
  set_notes(notes << recipes_text());
}

void MapView::redraw_points() {
  const Gauge gauge = *data_.gauge;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const MeasuredPoint* best = nullptr;
  std::size_t measured = 0, failed = 0;
  for (const MeasuredPoint& point : data_.points) {
    failed += !point.failed.empty();
    const std::optional<double> found = value(point, gauge);
    if (!found) continue;
    ++measured;
    low = std::min(low, *found), high = std::max(high, *found);
    const bool better =
        !best || (less_is_better(gauge) ? *found < *value(*best, gauge) : *found > *value(*best, gauge));
    if (better) best = &point;
  }
  ChartAxis measure = gauge_axis(gauge);
  if (!(low > 0)) measure.logarithmic = false;
  // A difference of nearly nothing is to look like nothing: at least a hundredth of the traffic either way.
  if (gauge == Gauge::difference)
    for (const MeasuredPoint& point : data_.points)
      if (const auto formula = formula_bytes(point); formula && point.gpu)
        low = std::min(low, -0.01 * *formula), high = std::max(high, 0.01 * *formula);
  show_scale(measure, measured > 0 ? low : 0, measured > 0 ? high : 1);
  set_heading(QString("%1, %2  [%3 on %4]")
                  .arg(text(title(gauge)), problem_text(), text(origin(gauge)), text(data_.measured_on)));
  QStringList notes;
  if (data_.points.empty()) {
    set_notes(
        {"Nothing was measured of this problem: Measure, open a session that was saved on a GPU, or choose a sweep."});
    return;
  }
  notes << QString("%1 measured%2; each colours what is nearest to it. How: %3.")
               .arg(counted(measured, "point"))
               .arg(failed == 0 ? QString() : QString(", %1 failed (hatched; point at one for the reason)").arg(failed),
                    text(how(gauge)));
  const auto as_good =
      best ? std::count_if(data_.points.begin(), data_.points.end(),
                           [&](const MeasuredPoint& point) { return value(point, gauge) == value(*best, gauge); })
           : 0;
  if (as_good > 1) {  // a star at one of them would say that it is better
    notes << QString("The %1, %2 [%3], at %4 of them.")
                 .arg(less_is_better(gauge) ? "least" : "most", text(value_text(*value(*best, gauge), measure)),
                      text(origin(gauge)))
                 .arg(as_good);
  } else if (best && low < high) {
    best_ = BlockSizes{best->recipe.Br, best->recipe.Bc};
    notes << QString("Star: the %1, %2 [%3] with Br %4, Bc %5.")
                 .arg(less_is_better(gauge) ? "least" : "most", text(value_text(*value(*best, gauge), measure)),
                      text(origin(gauge)))
                 .arg(best->recipe.Br)
                 .arg(best->recipe.Bc);
  }
  const bool dram = gauge == Gauge::dram || gauge == Gauge::dram_read || gauge == Gauge::dram_written;
  const std::string flat = dram                         ? dram_text(data_.points, gauge, data_.l2_bytes)
                           : gauge == Gauge::difference ? difference_text(data_.points)
                                                        : std::string();
  if (!flat.empty()) notes.prepend(text(flat));
  set_notes(notes << recipes_text());
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
  if (data_.gauge) {
    const MeasuredPoint* point = points_->at(pixel);
    return point ? std::optional(BlockSizes{point->recipe.Br, point->recipe.Bc}) : std::nullopt;
  }
  const auto at = index_at(pixel);
  if (!at) return {};
  return BlockSizes{data_.map.Br[at->first], data_.map.Bc[at->second]};
}

QString MapView::point_text(const MeasuredPoint& point) const {
  QString line = QString("Br %1, Bc %2: ").arg(point.recipe.Br).arg(point.recipe.Bc);
  if (!point.failed.empty()) return line + "failed: " + text(point.failed);
  if (!point.gpu) return line + "not measured yet";
  const auto part = [&](Gauge gauge) {
    const auto found = value(point, gauge);
    return found ? text(value_text(*found, gauge_axis(gauge))) : QString("none");
  };
  if (const auto found = value(point, *data_.gauge))
    line += QString("%1 %2 [%3]").arg(text(title(*data_.gauge)), part(*data_.gauge), text(origin(*data_.gauge)));
  else
    line += QString("%1: none, %2").arg(text(title(*data_.gauge)), text(point.gpu->not_measured));
  if (const auto moved = value(point, Gauge::l2_sm), formula = formula_bytes(point); moved && formula)
    line += QString("   L2-SM is %1 % of the formula's bytes").arg(100 * *moved / *formula, 0, 'f', 2);
  return line + QString("   %1, %2 TFLOP/s   a thread [compiler]: %3 registers, %4 bytes spilled")
                    .arg(part(Gauge::seconds), part(Gauge::tflops), part(Gauge::registers),
                         grouped(point.gpu->spill_stores + point.gpu->spill_loads));
}

QString MapView::values_at(QPointF pixel) {
  if (data_.gauge) {
    const MeasuredPoint* point = points_->at(pixel);
    return point ? point_text(*point) : QString();
  }
  const auto at = index_at(pixel);
  if (!at) return {};
  Recipe recipe = data_.recipe;
  recipe.Br = data_.map.Br[at->first], recipe.Bc = data_.map.Bc[at->second];
  const double value = data_.map.at(at->first, at->second);
  QString line =
      QString("Br %1, Bc %2: %3 %4 [formula]")
          .arg(recipe.Br)
          .arg(recipe.Bc)
          .arg(text(value_text(value, measure_axis(data_.selection))),
               measure_axis(data_.selection).unit == ChartUnit::number ? text(flashscope::unit(data_.selection)) : "");
  if (!data_.device) return line;
  const std::string why = why_infeasible(data_.problem->shape, recipe, *data_.device);
  return why.empty() ? line : line + "   does not fit: " + text(why);
}

QString MapView::points_csv() const {
  std::string table = fmt::format("# {}\n# measured on {}\n", problem_text().toStdString(), data_.measured_on);
  std::string head = "br,bc";
  for (int n = 0; n < kGauges; ++n) {
    const auto gauge = static_cast<Gauge>(n);
    std::string column(title(gauge));
    for (char& c : column) c = c == ' ' || c == ',' || c == '-' ? '_' : c;
    table += fmt::format("# {}: {}; {}\n", column, flashscope::unit(gauge), how(gauge));
    head += ',' + column;
  }
  table += head + ",failed\n";
  for (const MeasuredPoint& point : data_.points) {
    table += fmt::format("{},{}", point.recipe.Br, point.recipe.Bc);
    for (int n = 0; n < kGauges; ++n) {
      const auto found = value(point, static_cast<Gauge>(n));
      table += found ? fmt::format(",{:.17g}", *found) : ",";
    }
    std::string failed = point.failed;
    std::replace(failed.begin(), failed.end(), '"', '\'');
    table += failed.empty() ? ",\n" : fmt::format(",\"{}\"\n", failed);
  }
  return text(table);
}

QString MapView::csv_text() const {
  if (!data_.problem) return {};
  if (data_.gauge) return points_csv();
  const Shape& shape = data_.problem->shape;
  std::string table =
      fmt::format("# {}: formula\n# {}, N {} x {}, d {}, dv {}, {} heads, {}\n# {}\n", title(data_.selection),
                  name(data_.recipe.algorithm), shape.Nq, shape.Nk, shape.d, shape.dv, shape.heads, name(shape.type),
                  conventions(data_.recipe, data_.problem->mask));
  if (data_.device) table += fmt::format("# fits: limits of the sheet {}\n", data_.device->name);
  table += fmt::format("br,bc,{}{}\n", flashscope::unit(data_.selection), data_.device ? ",fits" : "");
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
