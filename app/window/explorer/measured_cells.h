// Measured points in a map of Br x Bc: each fills the plane up to halfway to the next one in its row and column, coarse
// ones below, so that refined places show their detail; a dot says where a point was measured, a hatch that it failed.
#pragma once

#include <qcustomplot.h>

#include <vector>

#include "engine/insight/measurement.h"

namespace flashscope::window {

// Viridis in nine stops: its lightness rises evenly, so that it is read without colour too.
QCPColorGradient viridis();
void hatch(QCPPainter* painter, const QRectF& area);

class MeasuredCells : public QCPLayerable {
 public:
  explicit MeasuredCells(QCustomPlot* plot) : QCPLayerable(plot, "main") {}

  void show_points(std::vector<MeasuredPoint> points, Gauge gauge);
  void set_colours(const QCPRange& range, bool logarithmic) { range_ = range, logarithmic_ = logarithmic; }
  // The point whose cell is on top there; null where there is none.
  const MeasuredPoint* at(double Bc, double Br) const;

 protected:
  void applyDefaultAntialiasingHint(QCPPainter* painter) const override { painter->setAntialiasing(false); }
  QRect clipRect() const override { return mParentPlot->axisRect()->rect(); }
  void draw(QCPPainter* painter) override;

 private:
  struct Cell {
    QRectF area;  // in block sizes: x Bc, y Br
    std::size_t point;
  };
  QPointF place(QPointF blocks) const {
    return {mParentPlot->xAxis->coordToPixel(blocks.x()), mParentPlot->yAxis->coordToPixel(blocks.y())};
  }

  std::vector<MeasuredPoint> points_;
  Gauge gauge_ = Gauge::l2_sm;
  std::vector<Cell> cells_;  // the largest first
  QCPRange range_;
  bool logarithmic_ = false;
};

}  // namespace flashscope::window
