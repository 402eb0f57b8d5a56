// Tables in narrow docks: every column as wide as its text, one takes what is left and elides; where the others do not
// fit, the least wanted are left out. Rows are copied with their header, tab by tab: by Ctrl+C and by the menu.
#pragma once

#include <QObject>
#include <vector>

class QAbstractItemView;
class QTableView;

namespace flashscope::window {

class TableFit : public QObject {
 public:
  // `elided` takes what is left, but not less than `least`; `dropped`: the columns to leave out, the first one first.
  TableFit(QTableView* table, int elided, std::vector<int> dropped, int least = 60);
  void fit();  // after the rows have changed

 protected:
  bool eventFilter(QObject* object, QEvent* event) override;

 private:
  QTableView* table_;
  int elided_, least_;
  std::vector<int> dropped_;
  bool fitting_ = false;
};

// The chosen rows, or all of them; columns that are left out too.
QString as_text(const QAbstractItemView& view, bool all);
void make_copyable(QAbstractItemView* view);

}  // namespace flashscope::window
