// The numerics lens: what the recipe's types cost against float64 in each row of the head on the stage, and in which
// tile the error of the pinned row (else the worst) enters.
#pragma once

#include "app/window/background.h"
#include "app/window/panel.h"
#include "engine/insight/numerics.h"

class QCPAxisRect;
class QCPLegend;
class QCustomPlot;
class QLabel;
class QPushButton;
class QTextBrowser;

namespace flashscope::window {

class NumericsPanel : public Panel {
  Q_OBJECT

 public:
  explicit NumericsPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  const std::vector<ErrorSource>& sources() const { return result_.sources; }
  const std::vector<TileError>& tiles() const { return result_.tiles; }
  bool idle() const { return !work_.running(); }
  void go_to_row(std::int64_t row);  // as a click on the chart does

 protected:
  void changeEvent(QEvent* event) override;

 private:
  struct Result {
    std::vector<ErrorSource> sources;
    std::vector<TileError> tiles;
    std::int64_t head = 0, row = 0;
  };
  void compute();
  void draw();
  void draw_rows();
  void draw_tiles();
  QString words() const;
  std::vector<const ErrorSource*> shown() const;  // one of those that are the same
  std::int64_t row_at(double x) const;            // the worst of the rows that share that place

  QLabel* note_;
  QPushButton* compute_;
  QCustomPlot* plot_;
  QCPAxisRect *by_row_ = nullptr, *by_tile_ = nullptr;
  QCPLegend *row_legend_ = nullptr, *tile_legend_ = nullptr;
  QTextBrowser* text_;
  std::shared_ptr<const Problem> problem_;
  Recipe recipe_;
  std::int64_t head_ = 0, row_ = -1;  // row_: pinned, -1: the worst
  Result result_;
  Background work_;
};

}  // namespace flashscope::window
