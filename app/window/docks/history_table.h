// A row's history as a table: each column block with m, l, alpha and O before and after it.
#pragma once

#include <QAbstractTableModel>
#include <memory>

#include "app/document.h"

namespace flashscope::window {

class HistoryTable : public QAbstractTableModel {
  Q_OBJECT

 public:
  using QAbstractTableModel::QAbstractTableModel;
  void show(std::shared_ptr<const Document::History> history);

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::shared_ptr<const Document::History> history_;
};

}  // namespace flashscope::window
