// The sweep map: Br up, Bc across, coloured by one measure of the formula, or by one figure of the points that a GPU
// measured. Cells that a device cannot run, and points that failed, are hatched; the stepper's recipe, the explored one
// and the best value are marked; a click names a recipe.
#pragma once

#include "app/window/explorer/map_data.h"
#include "app/window/explorer/plot_panel.h"

namespace flashscope::window {

class MeasuredCells;

class MapView : public PlotPanel {
  Q_OBJECT

 public:
  explicit MapView(QWidget* parent = nullptr);
  void show_map(MapData data);
  const MapData& data() const { return data_; }
  QString csv_text() const override;
  QString file_name() const override { return "sweep-map"; }
  // Of the cell under a place of the plot: Br, Bc.
  std::optional<BlockSizes> cell_at(QPointF pixel) const;

 signals:
  void chosen(std::int64_t Br, std::int64_t Bc);

 protected:
  QString values_at(QPointF pixel) override;
  void activate(QPointF pixel) override;
  void show_all() override;
  void redraw() override;

 private:
  class Hatch;
  class Marks;
  void redraw_formula();
  void redraw_points();
  void show_scale(const ChartAxis& measure, double low, double high);
  QString recipes_text() const;  // which recipe is stepped, which explored, and how they are marked
  QString limits_text() const;   // what does not fit, and why
  QString problem_text() const;
  QString point_text(const MeasuredPoint& point) const;
  QString points_csv() const;
  std::optional<std::pair<std::size_t, std::size_t>> index_at(QPointF pixel) const;  // row, column

  MapData data_;
  QCPColorMap* colour_map_ = nullptr;
  QCPColorScale* scale_ = nullptr;
  Hatch* hatch_ = nullptr;
  MeasuredCells* points_ = nullptr;
  Marks* marks_ = nullptr;
  std::optional<BlockSizes> best_;
  QPoint pressed_;
};

}  // namespace flashscope::window
