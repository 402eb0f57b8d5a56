#include "app/window/docks/timeline_view.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

constexpr int kBusyHeight = 46, kLeft = 46, kRight = 10, kTop = 6, kBottom = 24, kBetween = 14;
constexpr double kShortest = 50;  // ns that fill the width when zoomed in as far as it goes

// Okabe and Ito's colours, which the colour-blind tell apart; heads take turns.
constexpr std::array<QRgb, 7> kHeads = {0xffe69f00, 0xff56b4e9, 0xff009e73, 0xfff0e442,
                                        0xff0072b2, 0xffd55e00, 0xffcc79a7};
// Five points of viridis: in order also in grey.
constexpr std::array<std::array<int, 3>, 5> kViridis = {
    {{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}}};

QRgb viridis(double part) {
  const double at = std::clamp(part, 0.0, 1.0) * (kViridis.size() - 1);
  const auto n = std::min(static_cast<std::size_t>(at), kViridis.size() - 2);
  const double rest = at - static_cast<double>(n);
  const auto mix = [&](std::size_t k) {
    return static_cast<int>(kViridis[n][k] + rest * (kViridis[n + 1][k] - kViridis[n][k]));
  };
  return qRgb(mix(0), mix(1), mix(2));
}

QString time_text(double ns) {
  return ns < 1e6 ? QString::number(ns / 1e3, 'f', 3) + QString::fromUtf8(" µs")
                  : QString::number(ns / 1e6, 'f', 4) + " ms";
}

}  // namespace

TimelineRows timeline_rows(const Timeline& timeline) {
  TimelineRows rows;
  const std::size_t n = timeline.spans.size();
  rows.first.assign(static_cast<std::size_t>(timeline.sms) + 1, n);
  rows.lane.assign(n, 0);
  rows.lanes.assign(static_cast<std::size_t>(timeline.sms), 1);
  rows.duration = timeline.duration();
  double busy_ns = 0, busiest_ns = 0;
  std::size_t at = 0;
  for (int sm = 0; sm < timeline.sms; ++sm) {
    const std::size_t first = at;
    rows.first[static_cast<std::size_t>(sm)] = first;
    while (at < n && timeline.spans[at].sm <= sm) ++at;
    if (at == first) continue;
    ++rows.busy_sms;
    // A block keeps its lane from its first span to its last.
    std::unordered_map<std::int64_t, std::int64_t> last_end;
    for (std::size_t k = first; k < at; ++k) {
      std::int64_t& end = last_end[timeline.spans[k].block];
      end = std::max(end, timeline.spans[k].end_ns);
    }
    std::unordered_map<std::int64_t, std::uint8_t> lane_of;
    std::vector<std::int64_t> lane_free;
    std::int64_t covered = 0;
    double of_sm = 0;
    for (std::size_t k = first; k < at; ++k) {
      const Timeline::Span& span = timeline.spans[k];
      const auto [found, fresh] = lane_of.try_emplace(span.block, 0);
      if (fresh) {
        std::size_t lane = 0;
        while (lane < lane_free.size() && lane_free[lane] > span.start_ns) ++lane;
        if (lane == lane_free.size() && lane < 255) lane_free.push_back(0);
        lane = std::min(lane, lane_free.size() - 1);
        lane_free[lane] = last_end[span.block];
        found->second = static_cast<std::uint8_t>(lane);
      }
      rows.lane[k] = found->second;
      of_sm += static_cast<double>(std::max<std::int64_t>(0, span.end_ns - std::max(covered, span.start_ns)));
      covered = std::max(covered, span.end_ns);
      rows.heads = std::max(rows.heads, span.head + 1), rows.rows = std::max(rows.rows, span.i + 1);
      rows.columns = std::max(rows.columns, span.j + 1);
    }
    rows.lanes[static_cast<std::size_t>(sm)] = static_cast<std::uint8_t>(lane_free.size());
    busy_ns += of_sm, busiest_ns = std::max(busiest_ns, of_sm);
  }
  if (busy_ns > 0) rows.uneven = busiest_ns * rows.busy_sms / busy_ns;
  rows.first.back() = at;
  if (rows.duration > 0 && timeline.sms > 0) rows.busy = busy_ns / (static_cast<double>(rows.duration) * timeline.sms);
  return rows;
}

double tick_step(double ns, double pixels, double label) {
  const double least = ns * label / pixels, power = std::pow(10, std::floor(std::log10(least)));
  for (const double times : {1.0, 2.0, 5.0})
    if (power * times >= least) return power * times;
  return power * 10;
}

TimelineView::TimelineView(QWidget* parent) : QWidget(parent) {
  setObjectName("timeline_view");
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setCursor(Qt::CrossCursor);
}

void TimelineView::show_report(std::shared_ptr<const Report> report) {
  if (report == report_) return;
  report_ = std::move(report);
  timeline_ = report_ && report_->gpu && report_->gpu->timeline ? &*report_->gpu->timeline : nullptr;
  rows_ = timeline_ ? timeline_rows(*timeline_) : TimelineRows();
  show_all();
}

void TimelineView::colour_by(TimelineColour colour) {
  colour_ = colour;
  update();
}

void TimelineView::show_all() {
  move_sms_to(0, timeline_ ? timeline_->sms : 1);
  move_to(0, static_cast<double>(std::max<std::int64_t>(rows_.duration, 1)));
}

void TimelineView::move_to(double from, double to) {
  const double all = static_cast<double>(std::max<std::int64_t>(rows_.duration, 1));
  const double width = std::clamp(to - from, std::min(kShortest, all), all);
  from_ = std::clamp(from, 0.0, all - width);
  to_ = from_ + width;
  update();
}

void TimelineView::zoom(double factor, double at_ns) {
  move_to(at_ns - (at_ns - from_) / factor, at_ns + (to_ - at_ns) / factor);
}

void TimelineView::move_sms_to(double from, double to) {
  const double all = std::max(1, timeline_ ? timeline_->sms : 1);
  const double count = std::clamp(to - from, 1.0, all);
  sm_from_ = std::clamp(from, 0.0, all - count);
  sm_to_ = sm_from_ + count;
  update();
}

void TimelineView::zoom_sms(double factor, double at_sm) {
  move_sms_to(at_sm - (at_sm - sm_from_) / factor, at_sm + (sm_to_ - at_sm) / factor);
}

TimelineView::Frame TimelineView::frame(QSize size) const {
  Frame frame;
  const int width = std::max(10, size.width() - kLeft - kRight);
  frame.busy = {kLeft, kTop, width, kBusyHeight};
  const int top = kTop + kBusyHeight + kBetween;
  frame.rows = {kLeft, top, width, std::max(10, size.height() - top - kBottom)};
  return frame;
}

QColor TimelineView::colour_of(const Timeline::Span& span, const Colours& c) const {
  const auto part = [](std::int64_t n, std::int64_t of) {
    return of > 1 ? static_cast<double>(n) / static_cast<double>(of - 1) : 0.5;
  };
  switch (colour_) {
    case TimelineColour::head:
      return QColor::fromRgb(kHeads[static_cast<std::size_t>(span.head) % kHeads.size()]);
    case TimelineColour::row_block:
      return QColor::fromRgb(viridis(part(span.i, rows_.rows)));
    case TimelineColour::column_block:
      return span.j < 0 ? c.masked : QColor::fromRgb(viridis(part(span.j, rows_.columns)));
  }
  return c.accent;
}

// Bars as pixels: there may be a million of them. `busy` counts the SMs at work in each column.
void TimelineView::draw_spans(QImage& image, std::vector<int>& busy, const Colours& c) const {
  const int width = image.width(), height = image.height();
  const double per_ns = width / (to_ - from_);
  std::vector<int> seen(static_cast<std::size_t>(width), -1);  // the last SM that was counted in a column
  for (int sm = 0; sm < timeline_->sms; ++sm) {
    const std::size_t first = rows_.first[static_cast<std::size_t>(sm)],
                      last = rows_.first[static_cast<std::size_t>(sm) + 1];
    const auto y_at = [&](double at) { return static_cast<int>(std::clamp(std::floor(y_of(at, height)), -1e6, 1e6)); };
    const int y0 = y_at(sm), y1 = std::max(y0 + 1, y_at(sm + 1));
    const int lanes = rows_.lanes[static_cast<std::size_t>(sm)];
    for (std::size_t n = first; n < last; ++n) {
      const Timeline::Span& span = timeline_->spans[n];
      const auto start = static_cast<double>(span.start_ns), end = static_cast<double>(span.end_ns);
      if (end < from_ || start > to_) continue;
      const int x0 = std::clamp(static_cast<int>((start - from_) * per_ns), 0, width - 1);
      const double real_end = (end - from_) * per_ns;
      // A gap between bars that are wide enough to have one.
      const int x1 = std::clamp(static_cast<int>(real_end) - (real_end - x0 > 4 ? 1 : 0), x0, width - 1);
      const int lane = rows_.lane[n];
      const int top = y0 + lane * (y1 - y0) / lanes, under = std::max(top + 1, y0 + (lane + 1) * (y1 - y0) / lanes);
      const int below = under - top > 3 ? under - 1 : under;
      const QRgb ink = colour_of(span, c).rgb();
      for (int y = std::max(top, 0); y < std::min(below, height); ++y) {
        auto* line = reinterpret_cast<QRgb*>(image.scanLine(y));
        std::fill(line + x0, line + x1 + 1, ink);
      }
      for (int x = x0; x <= x1; ++x) {
        int& counted = seen[static_cast<std::size_t>(x)];
        if (counted != sm) counted = sm, ++busy[static_cast<std::size_t>(x)];
      }
    }
  }
}

void TimelineView::draw(QPainter& painter, QSize size, const Colours& c) const {
  painter.fillRect(QRect(QPoint(), size), c.base);
  if (!timeline_ || timeline_->sms == 0) return;
  const Frame at = frame(size);
  const double scale = painter.device()->devicePixelRatioF();
  QImage image((QSizeF(at.rows.size()) * scale).toSize(), QImage::Format_RGB32);
  image.fill(c.window);
  std::vector<int> busy(static_cast<std::size_t>(image.width()), 0);
  draw_spans(image, busy, c);
  painter.drawImage(QRectF(at.rows), image);
  for (int sm = 0; sm < timeline_->sms; ++sm) {
    if (rows_.first[static_cast<std::size_t>(sm)] != rows_.first[static_cast<std::size_t>(sm) + 1]) continue;
    const double y0 = y_of(sm, at.rows.height()), y1 = y_of(sm + 1, at.rows.height());
    const QRectF row(at.rows.left(), at.rows.top() + y0, at.rows.width(), y1 - y0);
    painter.fillRect(row & QRectF(at.rows), QBrush(c.masked, Qt::BDiagPattern));
  }
  painter.setPen(c.border);
  painter.drawRect(at.rows.adjusted(-1, -1, 0, 0));

  QPolygonF area;
  area << QPointF(at.busy.left(), at.busy.bottom());
  for (std::size_t x = 0; x < busy.size(); ++x) {
    const double y = at.busy.bottom() - static_cast<double>(at.busy.height()) * busy[x] / timeline_->sms;
    area << QPointF(at.busy.left() + static_cast<double>(x) / scale, y)
         << QPointF(at.busy.left() + static_cast<double>(x + 1) / scale, y);
  }
  area << QPointF(at.busy.right() + 1, at.busy.bottom());
  painter.fillRect(at.busy, c.window);
  painter.setPen(Qt::NoPen);
  painter.setBrush(c.accent);
  painter.drawPolygon(area);
  painter.setBrush(Qt::NoBrush);
  painter.setPen(c.border);
  painter.drawRect(at.busy.adjusted(-1, -1, 0, 0));

  painter.setFont(font());
  const QFontMetrics metrics(font());
  painter.setPen(c.dim);
  const auto beside = [&](double y, const QString& words) {
    painter.drawText(QRectF(0, y - 10, kLeft - 6, 20), Qt::AlignRight | Qt::AlignVCenter, words);
  };
  beside(at.busy.top() + 6, QString::number(timeline_->sms));
  beside(at.busy.bottom() - 5, "0");
  painter.drawText(at.busy.left() + 4, at.busy.bottom() + metrics.ascent() + 1, "SMs at work above, each SM below");
  const int every = std::max(1, static_cast<int>(std::ceil((sm_to_ - sm_from_) * 22 / at.rows.height())));
  const int step_sms = every <= 1 ? 1 : (every + 3) / 4 * 4;
  bool first = true;
  for (int sm = 0; sm < timeline_->sms; sm += step_sms) {
    if (sm + 0.5 < sm_from_ || sm + 0.5 > sm_to_) continue;
    beside(at.rows.top() + y_of(sm + 0.5, at.rows.height()), (first ? "SM " : "") + QString::number(sm));
    first = false;
  }
  const int label = metrics.horizontalAdvance(QString::fromUtf8("123456 µs")) * 5 / 4;
  const double step = tick_step(to_ - from_, at.rows.width(), label);
  for (double ns = std::ceil(from_ / step) * step; ns <= to_; ns += step) {
    const double x = at.rows.left() + (ns - from_) / (to_ - from_) * at.rows.width();
    painter.setPen(c.border);
    painter.drawLine(QPointF(x, at.rows.bottom() + 1), QPointF(x, at.rows.bottom() + 5));
    painter.setPen(c.dim);
    const QString words = QString::number(ns / 1e3, 'g', 6) + QString::fromUtf8(" µs");
    const int wide = metrics.horizontalAdvance(words);
    painter.drawText(
        QPointF(std::min(x - wide / 2.0, size.width() - wide - 2.0), at.rows.bottom() + 6 + metrics.ascent()), words);
  }
}

void TimelineView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  draw(painter, size(), colours(palette()));
}

QImage TimelineView::picture(QSize size) const {
  QImage image(size, QImage::Format_RGB32);
  QPainter painter(&image);
  draw(painter, size, colours(palette()));
  return image;
}

const Timeline::Span* TimelineView::span_at(QPointF at) const {
  if (!timeline_ || timeline_->sms == 0) return nullptr;
  const QRect rows = frame(size()).rows;
  if (!QRectF(rows).contains(at)) return nullptr;
  const double row = sm_from_ + (at.y() - rows.top()) * (sm_to_ - sm_from_) / rows.height();
  const auto sm = static_cast<std::size_t>(std::clamp(static_cast<int>(row), 0, timeline_->sms - 1));
  const int lane = static_cast<int>((row - static_cast<double>(sm)) * rows_.lanes[sm]);
  const double ns = from_ + (at.x() - rows.left()) / rows.width() * (to_ - from_);
  for (std::size_t n = rows_.first[sm]; n < rows_.first[sm + 1]; ++n) {
    const Timeline::Span& span = timeline_->spans[n];
    if (rows_.lane[n] == lane && static_cast<double>(span.start_ns) <= ns && ns < static_cast<double>(span.end_ns))
      return &span;
  }
  return nullptr;
}

QPointF TimelineView::middle_of(const Timeline::Span& span) const {
  const QRect rows = frame(size()).rows;
  const auto sm = static_cast<std::size_t>(span.sm);
  const auto n = static_cast<std::size_t>(&span - timeline_->spans.data());
  const double ns = static_cast<double>(span.start_ns + span.end_ns) / 2;
  return {rows.left() + (ns - from_) / (to_ - from_) * rows.width(),
          rows.top() + y_of(span.sm + (rows_.lane[n] + 0.5) / rows_.lanes[sm], rows.height())};
}

void TimelineView::wheelEvent(QWheelEvent* event) {
  const QRect rows = frame(size()).rows;
  const double at = from_ + (event->position().x() - rows.left()) / rows.width() * (to_ - from_);
  const double sm = sm_from_ + (event->position().y() - rows.top()) * (sm_to_ - sm_from_) / rows.height();
  const double factor = std::pow(1.25, event->angleDelta().y() / 120.0);
  if (event->modifiers() & Qt::ControlModifier)
    zoom_sms(factor, std::clamp(sm, sm_from_, sm_to_));
  else
    zoom(factor, std::clamp(at, from_, to_));
  event->accept();
}

void TimelineView::mousePressEvent(QMouseEvent* event) {
  dragging_ = event->button() == Qt::LeftButton;
  dragged_from_ = event->position();
  drag_from_ = from_, drag_to_ = to_, drag_sm_from_ = sm_from_, drag_sm_to_ = sm_to_;
}

void TimelineView::mouseMoveEvent(QMouseEvent* event) {
  if (dragging_) {
    const double by =
        (event->position().x() - dragged_from_.x()) / frame(size()).rows.width() * (drag_to_ - drag_from_);
    const double sms =
        (event->position().y() - dragged_from_.y()) / frame(size()).rows.height() * (drag_sm_to_ - drag_sm_from_);
    move_sms_to(drag_sm_from_ - sms, drag_sm_to_ - sms);
    return move_to(drag_from_ - by, drag_to_ - by);
  }
  const Timeline::Span* span = span_at(event->position());
  if (!span) return QToolTip::hideText();
  const QString tile = span->j >= 0 ? QString("tile (%1, %2)").arg(span->i).arg(span->j)
                                    : QString("row block %1, no tile of it").arg(span->i);
  QToolTip::showText(event->globalPosition().toPoint(),
                     QString("SM %1, block %2\nhead %3, %4\n%5, from %6 on")
                         .arg(span->sm)
                         .arg(span->block)
                         .arg(span->head)
                         .arg(tile, time_text(static_cast<double>(span->end_ns - span->start_ns)),
                              time_text(static_cast<double>(span->start_ns))),
                     this);
}

void TimelineView::mouseReleaseEvent(QMouseEvent*) { dragging_ = false; }
void TimelineView::mouseDoubleClickEvent(QMouseEvent*) { show_all(); }

void TimelineView::keyPressEvent(QKeyEvent* event) {
  const double middle = (from_ + to_) / 2, part = (to_ - from_) / 8;
  const double middle_sm = (sm_from_ + sm_to_) / 2, part_sms = (sm_to_ - sm_from_) / 8;
  switch (event->key()) {
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      return zoom(1.5, middle);
    case Qt::Key_Minus:
      return zoom(1 / 1.5, middle);
    case Qt::Key_BracketRight:
      return zoom_sms(1.5, middle_sm);
    case Qt::Key_BracketLeft:
      return zoom_sms(1 / 1.5, middle_sm);
    case Qt::Key_BraceLeft:
      return move_sms_to(sm_from_ - part_sms, sm_to_ - part_sms);
    case Qt::Key_BraceRight:
      return move_sms_to(sm_from_ + part_sms, sm_to_ + part_sms);
    case Qt::Key_0:
      return show_all();
    case Qt::Key_Less:
    case Qt::Key_Comma:
      return move_to(from_ - part, to_ - part);
    case Qt::Key_Greater:
    case Qt::Key_Period:
      return move_to(from_ + part, to_ + part);
    default:
      QWidget::keyPressEvent(event);
  }
}

}  // namespace flashscope::window
