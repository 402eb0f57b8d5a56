#include "app/window/docks/table_fit.h"

#include <QAbstractItemView>
#include <QApplication>
#include <QClipboard>
#include <QHeaderView>
#include <QKeyEvent>
#include <QMenu>
#include <QTableView>
#include <algorithm>
#include <numeric>
#include <set>

namespace flashscope::window {
namespace {

class Copying : public QObject {
 public:
  explicit Copying(QAbstractItemView* view) : QObject(view), view_(view) {
    view->installEventFilter(this);
    view->setContextMenuPolicy(Qt::CustomContextMenu);
    connect(view, &QWidget::customContextMenuRequested, this, [this](const QPoint& at) {
      QMenu menu(view_);
      QAction* chosen = menu.addAction("Copy the chosen rows", [this] { copy(false); });
      chosen->setEnabled(view_->selectionModel() && view_->selectionModel()->hasSelection());
      menu.addAction("Copy the table", [this] { copy(true); });
      menu.exec(view_->viewport()->mapToGlobal(at));
    });
  }

 protected:
  // Before the window's own Ctrl+C, which copies the place on the stage.
  bool eventFilter(QObject* object, QEvent* event) override {
    if (event->type() != QEvent::ShortcutOverride && event->type() != QEvent::KeyPress)
      return QObject::eventFilter(object, event);
    if (!static_cast<QKeyEvent*>(event)->matches(QKeySequence::Copy)) return QObject::eventFilter(object, event);
    event->accept();
    if (event->type() == QEvent::KeyPress) copy(!view_->selectionModel()->hasSelection());
    return true;
  }

 private:
  void copy(bool all) { QApplication::clipboard()->setText(as_text(*view_, all)); }

  QAbstractItemView* view_;
};

}  // namespace

TableFit::TableFit(QTableView* table, int elided, std::vector<int> dropped, int least)
    : QObject(table), table_(table), elided_(elided), least_(least), dropped_(std::move(dropped)) {
  table->horizontalHeader()->setSectionResizeMode(QHeaderView::Interactive);
  table->setTextElideMode(Qt::ElideRight);
  table->installEventFilter(this);
}

void TableFit::fit() {
  if (fitting_ || !table_->model()) return;
  fitting_ = true;
  QHeaderView* header = table_->horizontalHeader();
  const int columns = table_->model()->columnCount();
  std::vector<int> wide(columns);
  for (int n = 0; n < columns; ++n) {
    table_->setColumnHidden(n, false);
    wide[n] = std::max(static_cast<const QAbstractItemView*>(table_)->sizeHintForColumn(n), header->sectionSizeHint(n));
  }
  const bool some = elided_ < columns;
  const int full = some ? wide[elided_] : 0;
  if (some) wide[elided_] = std::min(full, least_);
  const int room = table_->viewport()->width();
  int taken = std::accumulate(wide.begin(), wide.end(), 0);
  for (const int n : dropped_) {
    if (taken <= room) break;
    if (n >= columns) continue;
    table_->setColumnHidden(n, true);
    taken -= wide[n];
  }
  if (some) wide[elided_] += std::max(0, room - taken);
  for (int n = 0; n < columns; ++n)
    if (!table_->isColumnHidden(n)) table_->setColumnWidth(n, wide[n]);
  fitting_ = false;
}

bool TableFit::eventFilter(QObject* object, QEvent* event) {
  if (event->type() == QEvent::Resize || event->type() == QEvent::Show)
    QMetaObject::invokeMethod(this, &TableFit::fit, Qt::QueuedConnection);  // the viewport has its new width then
  return QObject::eventFilter(object, event);
}

QString as_text(const QAbstractItemView& view, bool all) {
  const QAbstractItemModel& model = *view.model();
  std::set<int> rows;
  if (all)
    for (int row = 0; row < model.rowCount(); ++row) rows.insert(row);
  else
    for (const QModelIndex& index : view.selectionModel()->selectedIndexes()) rows.insert(index.row());
  const auto one_line = [](QString cell) { return cell.replace('\n', ' '); };
  const int columns = model.columnCount();
  QStringList lines, cells;
  if (columns > 1) {
    for (int n = 0; n < columns; ++n)
      cells << one_line(model.headerData(n, Qt::Horizontal, Qt::DisplayRole).toString());
    lines << cells.join('\t');
  }
  for (const int row : rows) {
    cells.clear();
    for (int n = 0; n < columns; ++n) cells << one_line(model.index(row, n).data().toString());
    lines << cells.join('\t');
  }
  return lines.join('\n');
}

void make_copyable(QAbstractItemView* view) { new Copying(view); }

}  // namespace flashscope::window
