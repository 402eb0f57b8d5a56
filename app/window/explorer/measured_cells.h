// Measured points in a map of Br x Bc: each colours what is nearest to it on the screen, so that refined places show
// their detail; a dot says where a point was measured, a hatch that it failed.
#pragma once

#include <qcustomplot.h>

#include <array>
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
  void set_colours(const QCPRange& range, bool logarithmic);
  void set_unit(double unit) { unit_ = unit; }  // how much larger than usual a dot is
  // The point that colours that place; null where there is none.
  const MeasuredPoint* at(QPointF pixel) const;

 protected:
  void applyDefaultAntialiasingHint(QCPPainter* painter) const override { painter->setAntialiasing(false); }
  QRect clipRect() const override { return mParentPlot->axisRect()->rect(); }
  void draw(QCPPainter* painter) override;

 private:
  QPointF place(const MeasuredPoint& point) const;
  void paint_picture();

  std::vector<MeasuredPoint> points_;
  Gauge gauge_ = Gauge::l2_sm;
  QCPRange range_;
  bool logarithmic_ = false;
  double unit_ = 1;
  QImage picture_;  // null: to be painted
  std::array<double, 4> shown_{};
  QSize room_;
};

}  // namespace flashscope::window
