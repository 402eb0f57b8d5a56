#include "app/window/explorer/measured_cells.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>

namespace flashscope::window {
namespace {

// Halfway to the neighbours; at the ends as far as on the other side.
std::pair<double, double> reach(const std::set<std::int64_t>& line, std::int64_t at) {
  const auto here = line.find(at);
  const auto value = static_cast<double>(at);
  constexpr double kAlone = 8;
  std::optional<double> before, after;
  if (here != line.begin()) before = (value - static_cast<double>(*std::prev(here))) / 2;
  if (std::next(here) != line.end()) after = (static_cast<double>(*std::next(here)) - value) / 2;
  return {value - std::min(before.value_or(after.value_or(kAlone)), value / 2),
          value + after.value_or(before.value_or(kAlone))};
}

}  // namespace

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
  cells_.clear();
  std::map<std::int64_t, std::set<std::int64_t>> in_row, in_col;
  for (const MeasuredPoint& point : points_) {
    in_row[point.recipe.Br].insert(point.recipe.Bc);
    in_col[point.recipe.Bc].insert(point.recipe.Br);
  }
  for (std::size_t n = 0; n < points_.size(); ++n) {
    const Recipe& recipe = points_[n].recipe;
    const auto [left, right] = reach(in_row[recipe.Br], recipe.Bc);
    const auto [low, high] = reach(in_col[recipe.Bc], recipe.Br);
    cells_.push_back({QRectF(left, low, right - left, high - low), n});
  }
  std::sort(cells_.begin(), cells_.end(), [](const Cell& a, const Cell& b) {
    return a.area.width() * a.area.height() > b.area.width() * b.area.height();
  });
}

const MeasuredPoint* MeasuredCells::at(double Bc, double Br) const {
  for (auto cell = cells_.rbegin(); cell != cells_.rend(); ++cell)
    if (cell->area.contains(QPointF(Bc, Br))) return &points_[cell->point];
  return nullptr;
}

void MeasuredCells::draw(QCPPainter* painter) {
  painter->setPen(Qt::NoPen);
  QCPColorGradient gradient = viridis();
  for (const Cell& cell : cells_) {
    const MeasuredPoint& point = points_[cell.point];
    const QRectF area = QRectF(place(cell.area.topLeft()), place(cell.area.bottomRight())).normalized();
    const std::optional<double> found = value(point, gauge_);
    painter->fillRect(area, mParentPlot->palette().color(QPalette::Base));
    if (!point.failed.empty()) hatch(painter, area);
    if (found) painter->fillRect(area, QColor::fromRgb(gradient.color(*found, range_, logarithmic_)));
  }
  painter->setAntialiasing(true);
  for (const Cell& cell : cells_) {
    const MeasuredPoint& point = points_[cell.point];
    if (!point.gpu) continue;
    const QPointF middle = place({static_cast<double>(point.recipe.Bc), static_cast<double>(point.recipe.Br)});
    painter->setBrush(Qt::white);
    painter->setPen(QPen(Qt::black, 1));
    painter->drawEllipse(middle, 2, 2);
  }
}

}  // namespace flashscope::window
