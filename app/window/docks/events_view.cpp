#include "app/window/docks/events_view.h"

#include <QKeyEvent>
#include <QPainter>
#include <QScrollBar>
#include <algorithm>
#include <array>
#include <limits>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

constexpr std::array kHead = {"step", "event", "head", "tile", "row", "alpha"};
constexpr std::array kShare = {0.16, 0.20, 0.14, 0.18, 0.15, 0.17};
constexpr std::size_t kPagesKept = 64;

QString cell(const Event& event, std::size_t column) {
  switch (column) {
    case 0:
      return grouped(event.step);
    case 1:
      return text(name(event.kind)).replace('_', ' ');
    case 2:
      return grouped(event.head);
    case 3:
      return event.j < 0 ? QString("row block %1").arg(event.i) : QString("%1, %2").arg(event.i).arg(event.j);
    case 4:
      return event.row < 0 ? QString("all") : grouped(event.row);
    default:
      if (event.kind != EventKind::rescale) return {};
      return event.alpha < 1e-3 ? QString::number(event.alpha, 'e', 0) : number(event.alpha, 2);
  }
}

QColor colour(EventKind kind, const Colours& c) {
  switch (kind) {
    case EventKind::rescale:
      return c.rescale;
    case EventKind::nan:
      return c.nan;
    case EventKind::inf:
      return c.inf;
    case EventKind::masked:
    case EventKind::empty_row:
      return c.dim;
    default:
      return c.text;
  }
}

}  // namespace

EventsView::EventsView(QWidget* parent) : QAbstractScrollArea(parent) {
  setFrameShape(QFrame::NoFrame);
  setFocusPolicy(Qt::StrongFocus);
  setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOn);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setAccessibleName("Events");
  connect(verticalScrollBar(), &QScrollBar::valueChanged, this, [this] { ask(), viewport()->update(); });
}

int EventsView::row_height() const { return fontMetrics().height() + 5; }
std::int64_t EventsView::first_visible() const { return verticalScrollBar()->value(); }
std::int64_t EventsView::visible_rows() const {
  return std::max<std::int64_t>(1, (viewport()->height() - row_height()) / row_height());
}

void EventsView::set_list(unsigned kinds, std::int64_t count) {
  if (kinds == kinds_ && count == count_) return;
  if (kinds != kinds_) {
    pages_.clear();
    asked_.reset();
    selected_ = -1;
  }
  for (auto& [number, page] : pages_) page.stale = true;
  kinds_ = kinds;
  count_ = count;
  update_scroll();
  ask();
  viewport()->update();
}

void EventsView::take(const Document::EventPage& page) {
  if (page.kinds != kinds_ || !asked_ || page.first != *asked_ * kPage) return;
  pages_[*asked_] = {page.events, asked_count_ != count_};
  asked_.reset();
  if (pages_.size() > kPagesKept) {
    // The page farthest from the screen goes.
    const std::int64_t here = first_visible() / kPage;
    const bool front = here - pages_.begin()->first > pages_.rbegin()->first - here;
    pages_.erase(front ? pages_.begin() : std::prev(pages_.end()));
  }
  ask();
  viewport()->update();
}

void EventsView::set_current_K(std::int64_t K) {
  if (K == current_K_) return;
  current_K_ = K;
  viewport()->update();
}

const Event* EventsView::event_at(std::int64_t row) const {
  const auto page = pages_.find(row / kPage);
  if (row < 0 || row >= count_ || page == pages_.end()) return nullptr;
  const auto within = static_cast<std::size_t>(row % kPage);
  return within < page->second.events.size() ? &page->second.events[within] : nullptr;
}

void EventsView::ask() {
  if (asked_ || count_ == 0) return;
  const std::int64_t first = first_visible() / kPage;
  const std::int64_t last = std::min(count_ - 1, first_visible() + visible_rows()) / kPage;
  for (std::int64_t number = first; number <= last; ++number) {
    const auto page = pages_.find(number);
    if (page != pages_.end() && !page->second.stale) continue;
    asked_ = number;
    asked_count_ = count_;
    emit wanted(kinds_, number * kPage, std::min(kPage, count_ - number * kPage));
    return;
  }
}

void EventsView::update_scroll() {
  const std::int64_t last = std::max<std::int64_t>(0, count_ - visible_rows());
  verticalScrollBar()->setPageStep(static_cast<int>(visible_rows()));
  verticalScrollBar()->setRange(0, static_cast<int>(std::min<std::int64_t>(last, std::numeric_limits<int>::max())));
}

void EventsView::resizeEvent(QResizeEvent*) { update_scroll(), ask(); }

void EventsView::paintEvent(QPaintEvent*) {
  const Colours c = colours(palette());
  QPainter painter(viewport());
  painter.fillRect(viewport()->rect(), c.base);
  const int height = row_height(), width = viewport()->width() - 12;
  const auto draw_row = [&](int y, const QColor& ink, int only, auto&& content) {
    double x = 6;
    for (std::size_t column = 0; column < kHead.size(); ++column) {
      const QRectF box(x, y, kShare[column] * width - 6, height);
      painter.setPen(only < 0 || static_cast<int>(column) == only ? ink : c.text);
      const bool left = column == 1;
      painter.drawText(box, (left ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter,
                       fontMetrics().elidedText(content(column), Qt::ElideRight, static_cast<int>(box.width())));
      x += kShare[column] * width;
    }
  };
  painter.fillRect(QRect(0, 0, viewport()->width(), height), c.raised);
  draw_row(0, c.dim, -1, [](std::size_t column) { return QString(kHead[column]); });
  const std::int64_t first = first_visible();
  for (std::int64_t n = 0; n <= visible_rows() && first + n < count_; ++n) {
    const int y = static_cast<int>(height * (n + 1));
    const Event* event = event_at(first + n);
    if (first + n == selected_) painter.fillRect(QRect(0, y, viewport()->width(), height), c.select);
    if (!event) {
      draw_row(y, c.dim, -1, [](std::size_t column) { return column == 1 ? QString("...") : QString(); });
      continue;
    }
    if (event->step == current_K_) painter.fillRect(QRect(0, y, 4, height), c.accent);
    draw_row(y, colour(event->kind, c), 1, [&](std::size_t column) { return cell(*event, column); });
  }
  if (count_ == 0) {
    painter.setPen(c.dim);
    painter.drawText(viewport()->rect().adjusted(10, height + 10, -10, -10),
                     Qt::AlignTop | Qt::AlignHCenter | Qt::TextWordWrap, "No events of the kinds ticked above");
  }
}

void EventsView::choose(std::int64_t row) {
  if (count_ == 0) return;
  selected_ = std::clamp<std::int64_t>(row, 0, count_ - 1);
  if (selected_ < first_visible()) verticalScrollBar()->setValue(static_cast<int>(selected_));
  if (selected_ >= first_visible() + visible_rows())
    verticalScrollBar()->setValue(static_cast<int>(selected_ - visible_rows() + 1));
  viewport()->update();
  if (const Event* event = event_at(selected_)) emit chosen(*event);
}

void EventsView::mousePressEvent(QMouseEvent* event) {
  const int line = static_cast<int>(event->position().y()) / row_height() - 1;
  if (event->button() == Qt::LeftButton && line >= 0 && first_visible() + line < count_) choose(first_visible() + line);
}

void EventsView::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Up:
      return choose(selected_ - 1);
    case Qt::Key_Down:
      return choose(selected_ + 1);
    case Qt::Key_PageUp:
      return choose(selected_ - visible_rows());
    case Qt::Key_PageDown:
      return choose(selected_ + visible_rows());
    case Qt::Key_Home:
      return choose(0);
    case Qt::Key_End:
      return choose(count_ - 1);
    default:
      QAbstractScrollArea::keyPressEvent(event);
  }
}

void EventsView::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) viewport()->update();
  QAbstractScrollArea::changeEvent(event);
}

}  // namespace flashscope::window
