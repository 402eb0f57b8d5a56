// A plot with what every plot of the explorer has: a heading, round ticks, the values under the pointer or where the
// arrow keys lead (Shift: in small steps), zoom by wheel, drag, + and - (a double click or Home shows everything
// again), copy, and export as PNG, SVG or CSV.
#pragma once

#include <qcustomplot.h>

#include <QWidget>
#include <optional>

#include "engine/insight/chart.h"

class QLabel;

namespace flashscope::window {

// Places and texts of ticks by engine/insight/chart.h, the same as in files.
class ChartTicker : public QCPAxisTicker {
 public:
  explicit ChartTicker(ChartAxis axis) : axis_(std::move(axis)) {}

 protected:
  double getTickStep(const QCPRange&) override { return 1; }
  int getSubTickCount(double) override { return 0; }
  QVector<double> createTickVector(double step, const QCPRange& range) override;
  QString getTickLabel(double tick, const QLocale&, QChar, int) override;

 private:
  ChartAxis axis_;
};

class PlotPanel : public QWidget {
  Q_OBJECT

 public:
  explicit PlotPanel(QWidget* parent = nullptr);

  QCustomPlot* plot() { return plot_; }
  // Writes what is shown; the ending chooses the kind. Returns why it failed, or nothing.
  QString save(const QString& path);
  QImage picture();
  void align(PlotPanel* other);  // words as tall as the other's, so that two plots side by side are; null: as they are
  virtual QString csv_text() const = 0;
  virtual QString file_name() const = 0;  // without ending

 protected:
  void set_heading(const QString& heading);
  void set_notes(const QStringList& notes);
  void show_axes(const ChartAxis& x, const ChartAxis& y);
  void apply_colours();  // of the theme
  bool dark() const;
  double unit() const;  // how much larger than usual the text is: lines and marks are drawn as much larger
  // The text for the pointer at a place of the plot; empty: nothing is there.
  virtual QString values_at(QPointF pixel) = 0;
  virtual void activate(QPointF) {}  // Enter on what the arrows point at
  virtual void show_all() = 0;       // the whole extent
  virtual void redraw() = 0;         // after a change of theme
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* object, QEvent* event) override;

 private:
  void point_at(std::optional<QPointF> place);  // of the pointer or the arrow keys; none: it has left
  bool press(const QKeyEvent& event);
  void paint(QCPPainter* painter, const QPixmap* plot);  // null: the plot is drawn anew
  int words_height(const QLabel& label) const;
  QSize picture_size() const;
  void copy();
  void choose_file();

  QLabel *heading_ = nullptr, *values_ = nullptr, *notes_ = nullptr;
  QCustomPlot* plot_ = nullptr;
  QCPItemStraightLine *across_ = nullptr, *up_ = nullptr;  // crosshair
  std::optional<QPointF> pointed_;                         // there the crosshair is
};

}  // namespace flashscope::window
