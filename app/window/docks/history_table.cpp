#include "app/window/docks/history_table.h"

#include <QApplication>
#include <cmath>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

enum Column { kJ, kStep, kTileMax, kMBefore, kM, kLBefore, kL, kAlpha, kNormBefore, kNorm, kOBefore, kO };

}  // namespace

void HistoryTable::show(std::shared_ptr<const Document::History> history) {
  beginResetModel();
  history_ = std::move(history);
  endResetModel();
}

int HistoryTable::rowCount(const QModelIndex& parent) const {
  return history_ && !parent.isValid() ? static_cast<int>(history_->entries.size()) : 0;
}
int HistoryTable::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : history_ && history_->channel >= 0 ? kO + 1 : kNorm + 1;
}

QVariant HistoryTable::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  const QString o = history_ ? QString("O[%1]").arg(history_->channel) : QString();
  const QString names[] = {"j", "step",  "tile max",   "m before", "m",           "l before",
                           "l", "alpha", "|O| before", "|O|",      o + " before", o};
  return names[section];
}

QVariant HistoryTable::data(const QModelIndex& index, int role) const {
  if (!history_ || !index.isValid()) return {};
  const RowHistoryEntry& e = history_->entries[static_cast<std::size_t>(index.row())];
  if (role == Qt::TextAlignmentRole) return QVariant::fromValue(Qt::AlignRight | Qt::AlignVCenter);
  const auto value = [&]() -> double {
    switch (index.column()) {
      case kTileMax:
        return e.tile_max;
      case kMBefore:
        return e.m_before;
      case kM:
        return e.m;
      case kLBefore:
        return e.l_before;
      case kL:
        return e.l;
      case kAlpha:
        return e.alpha;
      case kNormBefore:
        return e.o_norm_before;
      case kNorm:
        return e.o_norm;
      case kOBefore:
        return e.o_before;
      default:
        return e.o;
    }
  };
  if (role == Qt::ForegroundRole) {
    const Colours c = colours(QApplication::palette());
    if (!e.visited) return c.dim;
    if (index.column() >= kTileMax && std::isnan(value())) return c.nan;
    if (index.column() == kAlpha && e.rescaled) return c.rescale;
    return {};
  }
  if (role != Qt::DisplayRole) return {};
  if (index.column() == kJ) return QString::number(e.j);
  if (!e.visited) return index.column() == kStep ? QString("not visited") : QString();
  return index.column() == kStep ? grouped(e.step) : number(value());
}

}  // namespace flashscope::window
