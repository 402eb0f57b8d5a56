// One row across its column blocks: m, l, alpha and |O| after each, as charts with one axis of tiles.
#pragma once

#include "app/window/panel.h"

class QCPAxisRect;
class QCPGraph;
class QCPItemLine;
class QCustomPlot;
class QLabel;
class QLineEdit;

namespace flashscope::window {

class HistoryPanel : public Panel {
  Q_OBJECT

 public:
  explicit HistoryPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  std::int64_t row() const { return row_; }
  const Document::History* shown() const { return history_.get(); }
  void seek_entry(std::size_t n);                  // as a click on its tile does
  void ask_why(std::size_t chart, std::size_t n);  // as a right click on it does

 protected:
  void changeEvent(QEvent* event) override;

 private:
  struct Chart {
    QCPAxisRect* rect;
    QCPGraph *line, *rescaled, *nan;
    QCPItemLine* now;
  };
  void show_row(std::int64_t head, std::int64_t row);
  void draw();
  void draw_now(std::int64_t K);
  void style();

  QLineEdit* row_edit_;
  QLabel* note_;
  QCustomPlot* plot_;
  std::vector<Chart> charts_;
  std::int64_t row_ = -1, head_ = 0, rows_ = 0, last_pinned_ = -1;
  // What the shown history belongs to; another one asks again.
  std::shared_ptr<const Schedule> schedule_;
  std::shared_ptr<const Document::History> history_;
};

}  // namespace flashscope::window
