// A chart of engine/insight/chart.h in the window.
#pragma once

#include "app/window/explorer/plot_panel.h"

namespace flashscope::window {

class ChartView : public PlotPanel {
  Q_OBJECT

 public:
  explicit ChartView(QWidget* parent = nullptr);
  void show_chart(Chart chart);  // keeps a zoom while the axes stay the same
  const Chart& chart() const { return chart_; }
  QString csv_text() const override;
  QString file_name() const override;

 protected:
  QString values_at(QPointF pixel) override;
  void show_all() override;
  void redraw() override;

 private:
  class Origin;
  void add_series(const ChartSeries& series, std::size_t place);
  void add_bars(const ChartSeries& series);
  void add_mark(const ChartMark& mark, int number);

  Chart chart_;
  QCPRange whole_x_, whole_y_;  // the extent that was shown last
};

}  // namespace flashscope::window
