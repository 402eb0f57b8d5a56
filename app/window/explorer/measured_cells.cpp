#include "app/window/explorer/measured_cells.h"

#include <limits>
#include <optional>
#include <utility>

namespace flashscope::window {
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

void hatch(QCPPainter* painter, const QRectF& area) {
  painter->fillRect(area, QColor(20, 20, 20, 150));
  painter->fillRect(area, QBrush(QColor(235, 235, 235), Qt::BDiagPattern));
}

void MeasuredCells::show_points(std::vector<MeasuredPoint> points, Gauge gauge) {
  points_ = std::move(points), gauge_ = gauge;
  picture_ = {};
}

void MeasuredCells::set_colours(const QCPRange& range, bool logarithmic) {
  range_ = range, logarithmic_ = logarithmic;
  picture_ = {};
}

QPointF MeasuredCells::place(const MeasuredPoint& point) const {
  return {mParentPlot->xAxis->coordToPixel(static_cast<double>(point.recipe.Bc)),
          mParentPlot->yAxis->coordToPixel(static_cast<double>(point.recipe.Br))};
}

const MeasuredPoint* MeasuredCells::at(QPointF pixel) const {
  const MeasuredPoint* nearest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const MeasuredPoint& point : points_) {
    const QPointF away = place(point) - pixel;
    const double distance = QPointF::dotProduct(away, away);
    if (distance < least) least = distance, nearest = &point;
  }
  return nearest;
}

// One colour for every kDot x kDot pixels: that of the point nearest to it.
void MeasuredCells::paint_picture() {
  constexpr int kDot = 2, kHatch = 4;
  const QRect room = clipRect();
  const std::array<double, 4> shown{mParentPlot->xAxis->range().lower, mParentPlot->xAxis->range().upper,
                                    mParentPlot->yAxis->range().lower, mParentPlot->yAxis->range().upper};
  if (!picture_.isNull() && shown == shown_ && room.size() == room_) return;
  shown_ = shown, room_ = room.size();
  picture_ = QImage((room.width() + kDot - 1) / kDot, (room.height() + kDot - 1) / kDot, QImage::Format_RGB32);
  const QRgb base = mParentPlot->palette().color(QPalette::Base).rgb();
  const QRgb lines = qRgb(235, 235, 235), between = qRgb(90, 90, 90);
  QCPColorGradient gradient = viridis();
  std::vector<QPointF> places;
  std::vector<std::optional<QRgb>> colours;
  for (const MeasuredPoint& point : points_) {
    places.push_back(place(point) - room.topLeft());
    const std::optional<double> found = value(point, gauge_);
    colours.push_back(found ? std::optional(gradient.color(*found, range_, logarithmic_)) : std::nullopt);
  }
  for (int y = 0; y < picture_.height(); ++y) {
    auto* line = reinterpret_cast<QRgb*>(picture_.scanLine(y));
    for (int x = 0; x < picture_.width(); ++x) {
      std::size_t nearest = 0;
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t n = 0; n < places.size(); ++n) {
        const double across = places[n].x() - kDot * x, up = places[n].y() - kDot * y;
        const double distance = across * across + up * up;
        if (distance < least) least = distance, nearest = n;
      }
      const bool failed = !points_[nearest].failed.empty();
      line[x] = colours[nearest] ? *colours[nearest] : !failed ? base : (x + y) % kHatch == 0 ? lines : between;
    }
  }
}

void MeasuredCells::draw(QCPPainter* painter) {
  if (points_.empty()) return;
  paint_picture();
  painter->drawImage(clipRect(), picture_);
  painter->setAntialiasing(true);
  for (const MeasuredPoint& point : points_) {
    if (!point.gpu) continue;
    painter->setBrush(Qt::white);
    painter->setPen(QPen(Qt::black, unit_));
    painter->drawEllipse(place(point), 2 * unit_, 2 * unit_);
  }
}

}  // namespace flashscope::window
