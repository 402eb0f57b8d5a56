#include "app/window/docks/history_table.h"

#include <QApplication>
#include <cmath>
#include <optional>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

enum Column { kJ, kStep, kTileMax, kM, kL, kAlpha, kNorm, kO };

struct Pair {
  double before, after;
};

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
  if (orientation != Qt::Horizontal || (role != Qt::DisplayRole && role != Qt::ToolTipRole)) return {};
  const QString o = history_ ? QString("O[%1]").arg(history_->channel) : QString();
  const QString names[] = {"j", "step", "tile max", "m", "l", "alpha", "|O|", o};
  const bool pair = section == kM || section == kL || section >= kNorm;
  if (role == Qt::ToolTipRole) return pair ? names[section] + ": before the tile, and below it after" : names[section];
  return pair ? names[section] + "\nbefore, after" : names[section];
}

QVariant HistoryTable::data(const QModelIndex& index, int role) const {
  if (!history_ || !index.isValid()) return {};
  const RowHistoryEntry& e = history_->entries[static_cast<std::size_t>(index.row())];
  const int column = index.column();
  if (role == Qt::TextAlignmentRole) return QVariant::fromValue(Qt::AlignRight | Qt::AlignVCenter);
  const auto pair = [&]() -> std::optional<Pair> {
    switch (column) {
      case kM:
        return Pair{e.m_before, e.m};
      case kL:
        return Pair{e.l_before, e.l};
      case kNorm:
        return Pair{e.o_norm_before, e.o_norm};
      case kO:
        return Pair{e.o_before, e.o};
      default:
        return {};
    }
  }();
  const double single = column == kTileMax ? e.tile_max : e.alpha;
  if (role == Qt::ForegroundRole) {
    const Colours c = colours(QApplication::palette());
    if (!e.visited) return c.dim;
    if (column >= kTileMax && std::isnan(pair ? pair->after : single)) return c.nan;
    if (column == kAlpha && e.rescaled) return c.rescale;
    return {};
  }
  if (role != Qt::DisplayRole && role != Qt::ToolTipRole) return {};
  const int digits = role == Qt::ToolTipRole ? 17 : 5;
  if (column == kJ) return QString::number(e.j);
  if (!e.visited) return column == kStep ? QString("not visited") : QString();
  if (column == kStep) return grouped(e.step);
  return pair ? number(pair->before, digits) + '\n' + number(pair->after, digits) : number(single, digits);
}

}  // namespace flashscope::window
