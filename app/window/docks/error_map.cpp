#include "app/window/docks/error_map.h"

#include <QHelpEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "app/window/text.h"

namespace flashscope::window {
namespace {

constexpr int kTop = 24, kSide = 46, kGap = 2;

// How bad a row is, for the choice among rows that share a pixel.
double badness(const Comparison& c, std::size_t row) {
  switch (c.rows[row]) {
    case RowState::right:
      return 0;
    case RowState::nan:
      return 1e300;
    case RowState::inf:
      return 1e299;
    case RowState::wrong:
      return std::isfinite(c.row_error[row]) ? 1 + c.row_error[row] : 1e298;
  }
  return 0;
}

QColor mixed(const QColor& a, const QColor& b, double share) {
  const auto of = [share](int x, int y) { return static_cast<int>(std::lround(x + (y - x) * share)); };
  return {of(a.red(), b.red()), of(a.green(), b.green()), of(a.blue(), b.blue())};
}

QColor right_colour(const Colours& c) { return mixed(c.base, c.dim, 0.3); }
// share: 0 at the tolerance, 1 at the largest error.
QColor wrong_colour(const Colours& c, double share) { return mixed(c.base, c.accent, 0.35 + 0.65 * share); }

}  // namespace

QString error_map_legend(const Comparison& comparison, const Colours& c) {
  const RowCounts total = comparison.total();
  const auto square = [](const QColor& colour) {
    return QString("<span style='color:%1'>&#9632;</span>").arg(colour.name());
  };
  QStringList parts;
  if (total.right > 0) parts << square(right_colour(c)) + "&nbsp;right";
  if (total.wrong > 0)
    parts << square(wrong_colour(c, 0)) + square(wrong_colour(c, 0.5)) + square(wrong_colour(c, 1)) +
                 QString("&nbsp;wrong, from the tolerance %1 to %2")
                     .arg(number(comparison.tolerance, 2), number(comparison.max_error, 2));
  if (total.nan > 0) parts << square(c.nan) + "&nbsp;NaN";
  if (total.inf > 0) parts << square(c.inf) + "&nbsp;Inf";
  return "A line of the map is its worst row: " + parts.join(" &nbsp; ");
}

ErrorMap::ErrorMap(QWidget* parent) : QWidget(parent) {
  setMinimumHeight(120);
  setMouseTracking(true);
  setAccessibleName("Map of the rows that are not right");
}

void ErrorMap::show_comparison(std::shared_ptr<const Comparison> comparison, std::int64_t Br) {
  comparison_ = std::move(comparison);
  Br_ = std::max<std::int64_t>(1, Br);
  update();
}

QRect ErrorMap::strip(std::int64_t head) const {
  const auto heads = static_cast<int>(comparison_->heads.size());
  const int room = std::max(heads, width() - kSide - 8);
  const int left = kSide + static_cast<int>(head) * room / heads,
            right = kSide + static_cast<int>(head + 1) * room / heads;
  return {left, kTop, std::max(1, right - left - (room / heads > 6 ? kGap : 0)), std::max(1, height() - kTop - 4)};
}

std::int64_t ErrorMap::worst_row(std::int64_t head, int line, int lines) const {
  const std::int64_t Nq = comparison_->shape.Nq;
  const std::int64_t first = Nq * line / lines, last = std::max(first + 1, Nq * (line + 1) / lines);
  std::int64_t worst = first;
  for (std::int64_t r = first; r < std::min(last, Nq); ++r)
    if (badness(*comparison_, head * Nq + r) > badness(*comparison_, head * Nq + worst)) worst = r;
  return worst;
}

std::pair<std::int64_t, std::int64_t> ErrorMap::place(const QPoint& point) const {
  if (!comparison_) return {-1, -1};
  for (std::int64_t h = 0; h < comparison_->shape.heads; ++h) {
    const QRect r = strip(h);
    if (r.contains(point)) return {h, worst_row(h, point.y() - r.top(), r.height())};
  }
  return {-1, -1};
}

void ErrorMap::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colours c = colours(palette());
  painter.fillRect(rect(), c.base);
  if (!comparison_) return;
  const std::int64_t Nq = comparison_->shape.Nq, heads = comparison_->shape.heads;
  const double least = std::log(std::max(comparison_->tolerance, 1e-300));
  const double most = std::max(least + 1e-3, std::log(std::max(comparison_->max_error, 1e-300)));
  const QColor quiet = right_colour(c);
  for (std::int64_t h = 0; h < heads; ++h) {
    const QRect r = strip(h);
    for (int y = 0; y < r.height(); ++y) {
      const std::size_t row = h * Nq + worst_row(h, y, r.height());
      QColor colour = quiet;
      switch (comparison_->rows[row]) {
        case RowState::right:
          break;
        case RowState::nan:
          colour = c.nan;
          break;
        case RowState::inf:
          colour = c.inf;
          break;
        case RowState::wrong: {
          const double at = (std::log(std::max<double>(comparison_->row_error[row], 1e-300)) - least) / (most - least);
          colour = wrong_colour(c, std::clamp(at, 0.0, 1.0));
          break;
        }
      }
      painter.fillRect(r.left(), r.top() + y, r.width(), 1, colour);
    }
    if (r.width() >= 14) {
      painter.setPen(c.dim);
      painter.drawText(QRect(r.left(), 0, r.width(), kTop - 6), Qt::AlignHCenter | Qt::AlignVCenter,
                       QString::number(h));
    }
  }
  // Where the row blocks begin, as far as there is room to tell them apart.
  painter.setPen(c.dim);
  const QRect r = strip(0);
  const int line = painter.fontMetrics().height();
  int written = -line;
  for (std::int64_t row = 0; row < Nq; row += Br_) {
    const int y = r.top() + static_cast<int>(row * r.height() / Nq);
    if (y - written < line) continue;
    painter.drawText(QRect(0, y - line / 2, kSide - 10, line), Qt::AlignRight | Qt::AlignVCenter, QString::number(row));
    painter.drawLine(kSide - 7, y, kSide - 2, y);
    written = y;
  }
  painter.drawText(QRect(0, 0, kSide - 10, kTop - 6), Qt::AlignRight | Qt::AlignVCenter, heads > 1 ? "head" : "row");
}

void ErrorMap::mousePressEvent(QMouseEvent* event) {
  const auto [head, row] = place(event->position().toPoint());
  if (head >= 0) emit chosen(head, row);
}

bool ErrorMap::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto [head, row] = place(help->pos());
  if (head < 0) {
    QToolTip::hideText();
    return true;
  }
  const std::size_t at = head * comparison_->shape.Nq + row;
  QToolTip::showText(help->globalPos(),
                     QString("head %1, row %2 (row block %3)\n%4, largest error %5\nclick: go there")
                         .arg(head)
                         .arg(row)
                         .arg(row / Br_)
                         .arg(text(name(comparison_->rows[at])), number(comparison_->row_error[at])),
                     this);
  return true;
}

}  // namespace flashscope::window
