// One row across its column blocks: m, l, alpha and |O| (or one channel of O) after each, as charts with one axis of
// tiles; before and after each as a table; and all of it as CSV.
#pragma once

#include "app/window/background.h"
#include "app/window/docks/history_table.h"
#include "app/window/panel.h"

class QCPAxisRect;
class QCPGraph;
class QCPItemLine;
class QCustomPlot;
class QLabel;
class QLineEdit;
class QPushButton;
class QStackedWidget;
class QTableView;

namespace flashscope::window {

class TableFit;

class HistoryPanel : public Panel {
  Q_OBJECT

 public:
  explicit HistoryPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  std::int64_t row() const { return row_; }
  const Document::History* shown() const { return history_.get(); }
  void seek_entry(std::size_t n);                  // as a click on its tile does
  void ask_why(std::size_t chart, std::size_t n);  // as a right click on it does
  void save_csv(const QString& path);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  struct Chart {
    QCPAxisRect* rect;
    QCPGraph *line, *rescaled, *nan, *inf;
    QCPItemLine* now;
  };
  void show_row(std::int64_t head, std::int64_t row, std::int64_t channel);
  void choose_csv();
  void draw();
  void show_note();
  void draw_now(std::int64_t K);
  void style();

  QLineEdit *row_edit_, *channel_edit_;
  QPushButton *as_table_, *csv_;
  QStackedWidget* pages_;
  QTableView* table_;
  HistoryTable* model_;
  TableFit* fit_;
  Background saving_;
  QLabel* note_;
  QCustomPlot* plot_;
  std::vector<Chart> charts_;
  std::int64_t row_ = -1, head_ = 0, rows_ = 0, last_pinned_ = -1, channel_ = -1, channels_ = 0;
  LseConvention lse_;
  // What the shown history belongs to; another one asks again.
  std::shared_ptr<const Schedule> schedule_;
  std::shared_ptr<const Document::History> history_;
};

}  // namespace flashscope::window
