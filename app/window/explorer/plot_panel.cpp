#include "app/window/explorer/plot_panel.h"

#include <QApplication>
#include <QClipboard>
#include <QFile>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QLabel>
#include <QMessageBox>
#include <QSvgGenerator>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

constexpr int kMargin = 8, kTall = 10000;  // pixels

}  // namespace

QVector<double> ChartTicker::createTickVector(double, const QCPRange& range) {
  const std::vector<double> places = ticks(range.lower, range.upper, axis_);
  return {places.begin(), places.end()};
}

QString ChartTicker::getTickLabel(double tick, const QLocale&, QChar, int) {
  QString label = text(tick_text(tick, axis_));
  return axis_.categories.empty() ? label : label.replace(" (", "\n(");
}

PlotPanel::PlotPanel(QWidget* parent) : QWidget(parent) {
  heading_ = new QLabel;
  heading_->setWordWrap(true);
  heading_->setObjectName("heading");
  heading_->setAlignment(Qt::AlignLeft | Qt::AlignTop);
  QFont bold = heading_->font();
  bold.setBold(true);
  heading_->setFont(bold);
  auto* top = new QHBoxLayout;
  top->addWidget(heading_, 1);
  const auto button = [&](const QString& title, const QString& tip, auto run) {
    auto* one = new QToolButton;
    one->setText(title);
    one->setToolTip(tip);
    one->setFocusPolicy(Qt::TabFocus);
    connect(one, &QToolButton::clicked, this, run);
    top->addWidget(one, 0, Qt::AlignTop);
  };
  button("Show all", "Back from a zoom (double click)", [this] { show_all(), plot_->replot(); });
  button("Copy", "The picture and its numbers, to the clipboard", [this] { copy(); });
  button("Export...", "PNG, SVG, or CSV with how each number was obtained", [this] { choose_file(); });

  plot_ = new QCustomPlot;
  plot_->setObjectName("plot");
  plot_->setMinimumSize(240, 180);
  plot_->setInteractions(QCP::iRangeDrag | QCP::iRangeZoom);
  plot_->setMouseTracking(true);
  plot_->setFocusPolicy(Qt::StrongFocus);
  plot_->installEventFilter(this);
  across_ = new QCPItemStraightLine(plot_);
  up_ = new QCPItemStraightLine(plot_);
  for (QCPItemStraightLine* line : {across_, up_}) line->setVisible(false), line->setSelectable(false);

  values_ = new QLabel;
  values_->setObjectName("values");
  values_->setWordWrap(true);
  notes_ = new QLabel;
  notes_->setObjectName("notes");
  notes_->setWordWrap(true);
  notes_->setAlignment(Qt::AlignLeft | Qt::AlignTop);
  notes_->setTextInteractionFlags(Qt::TextSelectableByMouse);

  auto* layout = new QVBoxLayout(this);
  layout->addLayout(top);
  layout->addWidget(plot_, 1);
  layout->addWidget(values_);
  layout->addWidget(notes_);
  apply_colours();
}

void PlotPanel::align(PlotPanel* other) {
  const auto height = [](const QLabel& label) {
    const QRect room(0, 0, std::max(label.width(), 1), kTall);
    return label.fontMetrics().boundingRect(room, Qt::TextWordWrap, label.text()).height();
  };
  for (QLabel* PlotPanel::*words : {&PlotPanel::heading_, &PlotPanel::notes_}) {
    const int both = other ? std::max(height(*(this->*words)), height(*(other->*words))) : 0;
    for (PlotPanel* panel : {this, other})
      if (panel) (panel->*words)->setMinimumHeight(both);
  }
  // Room for the values, so that the plot stays where it is while the pointer moves.
  constexpr int kLinesBeside = 3;
  for (PlotPanel* panel : {this, other})
    if (panel) panel->values_->setMinimumHeight(values_->fontMetrics().lineSpacing() * (other ? kLinesBeside : 1) + 2);
}

void PlotPanel::set_heading(const QString& heading) { heading_->setText(heading); }
void PlotPanel::set_notes(const QStringList& notes) { notes_->setText(notes.join('\n')); }

bool PlotPanel::dark() const { return colours(palette()).dark; }

double PlotPanel::unit() const {
  return QFontInfo(font()).pointSizeF() / std::max(1.0, QFontInfo(QApplication::font()).pointSizeF());
}

void PlotPanel::show_axes(const ChartAxis& x, const ChartAxis& y) {
  for (const auto& [axis, what] : {std::pair(plot_->xAxis, &x), std::pair(plot_->yAxis, &y)}) {
    axis->setLabel(text(what->label));
    axis->setScaleType(what->logarithmic ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
    axis->setTicker(QSharedPointer<QCPAxisTicker>(new ChartTicker(*what)));
    axis->setSubTicks(false);
  }
}

void PlotPanel::apply_colours() {
  const Colours c = colours(palette());
  plot_->setBackground(QBrush(c.base));
  values_->setMinimumHeight(values_->fontMetrics().height() + 2);
  const int room = qRound(15 * unit()), right = qRound(24 * unit());  // half of the last tick's text
  plot_->axisRect()->setMinimumMargins(QMargins(room, room, right, room));
  QColor faint = c.border;
  faint.setAlpha(140);
  for (QCPAxis* axis : {plot_->xAxis, plot_->yAxis}) {
    axis->setBasePen(QPen(c.dim));
    axis->setTickPen(QPen(c.dim));
    axis->setTickLabelColor(c.text);
    axis->setLabelColor(c.text);
    axis->setTickLabelFont(font());
    axis->setLabelFont(font());
    axis->grid()->setPen(QPen(faint, 0, Qt::DotLine));
    axis->grid()->setZeroLinePen(Qt::NoPen);
  }
  plot_->legend->setBrush(QBrush(c.raised));
  plot_->legend->setBorderPen(QPen(c.border));
  plot_->legend->setTextColor(c.text);
  plot_->legend->setFont(font());
  plot_->legend->setIconSize(qRound(36 * unit()), qRound(16 * unit()));
  for (QCPItemStraightLine* line : {across_, up_}) line->setPen(QPen(c.dim, 0, Qt::DashLine));
}

void PlotPanel::changeEvent(QEvent* event) {
  const bool drawn_anew = event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange;
  if (drawn_anew && plot_) apply_colours(), redraw();
  QWidget::changeEvent(event);
}

bool PlotPanel::eventFilter(QObject* object, QEvent* event) {
  if (object != plot_) return QWidget::eventFilter(object, event);
  if (event->type() == QEvent::MouseMove) point_at(static_cast<QMouseEvent*>(event)->position());
  if (event->type() == QEvent::Leave) point_at({});
  if (event->type() == QEvent::KeyPress) return press(*static_cast<QKeyEvent*>(event));
  if (event->type() == QEvent::FocusIn && !pointed_) {  // by the keyboard: the crosshair says so
    const Qt::FocusReason reason = static_cast<QFocusEvent*>(event)->reason();
    if (reason == Qt::TabFocusReason || reason == Qt::BacktabFocusReason)
      point_at(QPointF(plot_->axisRect()->rect().center()));
  }
  if (event->type() == QEvent::MouseButtonDblClick) show_all(), plot_->replot(QCustomPlot::rpQueuedReplot);
  return false;
}

void PlotPanel::point_at(std::optional<QPointF> place) {
  const QString found = place && plot_->axisRect()->rect().contains(place->toPoint()) ? values_at(*place) : QString();
  values_->setText(found);
  if (found.isEmpty() && !pointed_) return;
  pointed_ = found.isEmpty() ? std::nullopt : place;
  across_->setVisible(pointed_.has_value()), up_->setVisible(pointed_.has_value());
  if (pointed_) {
    const double x = plot_->xAxis->pixelToCoord(pointed_->x()), y = plot_->yAxis->pixelToCoord(pointed_->y());
    up_->point1->setCoords(x, plot_->yAxis->range().lower), up_->point2->setCoords(x, plot_->yAxis->range().upper);
    across_->point1->setCoords(plot_->xAxis->range().lower, y);
    across_->point2->setCoords(plot_->xAxis->range().upper, y);
  }
  plot_->replot(QCustomPlot::rpQueuedReplot);
}

bool PlotPanel::press(const QKeyEvent& event) {
  constexpr double kZoom = 0.8;
  const QRectF room = plot_->axisRect()->rect();
  const QPointF from = pointed_.value_or(room.center());
  const double step = event.modifiers() & Qt::ShiftModifier ? 1 : room.width() / 40;
  const auto move = [&](double across, double down) {
    const QPointF to = from + step * QPointF(across, down);
    point_at(QPointF(std::clamp(to.x(), room.left() + 1, room.right() - 1),
                     std::clamp(to.y(), room.top() + 1, room.bottom() - 1)));
  };
  const auto zoom = [&](double factor) {
    for (QCPAxis* axis : {plot_->xAxis, plot_->yAxis})
      axis->scaleRange(factor, axis->pixelToCoord(axis == plot_->xAxis ? from.x() : from.y()));
    plot_->replot(QCustomPlot::rpQueuedReplot);
  };
  switch (event.key()) {
    case Qt::Key_Left:
      return move(-1, 0), true;
    case Qt::Key_Right:
      return move(1, 0), true;
    case Qt::Key_Up:
      return move(0, -1), true;
    case Qt::Key_Down:
      return move(0, 1), true;
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      return zoom(kZoom), true;
    case Qt::Key_Minus:
      return zoom(1 / kZoom), true;
    case Qt::Key_Home:
      return show_all(), plot_->replot(QCustomPlot::rpQueuedReplot), true;
    case Qt::Key_Return:
    case Qt::Key_Enter:
      if (pointed_) activate(*pointed_);
      return true;
    default:
      return false;
  }
}

// Heading above and notes below the plot, as on the screen: a picture is read without the window.
void PlotPanel::paint(QCPPainter* painter, const QPixmap* plot) {
  const Colours c = colours(palette());
  const auto words = [&](const QLabel& label, int top) {
    painter->setFont(label.font());
    painter->setPen(c.text);
    painter->drawText(QRect(kMargin, top, plot_->width() - 2 * kMargin, kTall), Qt::TextWordWrap, label.text());
  };
  painter->fillRect(QRect(QPoint(), picture_size()), c.base);
  const int top = words_height(*heading_);
  words(*heading_, kMargin);
  words(*notes_, top + plot_->height());
  painter->translate(0, top);
  if (plot)
    painter->drawPixmap(QRect(QPoint(), plot_->size()), *plot);
  else
    plot_->toPainter(painter, plot_->width(), plot_->height());
}

int PlotPanel::words_height(const QLabel& label) const {
  if (label.text().isEmpty()) return 0;
  const QRect room(0, 0, plot_->width() - 2 * kMargin, kTall);
  return QFontMetrics(label.font()).boundingRect(room, Qt::TextWordWrap, label.text()).height() + 2 * kMargin;
}

QSize PlotPanel::picture_size() const {
  return {plot_->width(), words_height(*heading_) + plot_->height() + words_height(*notes_)};
}

QImage PlotPanel::picture() {
  constexpr double kScale = 2;
  QImage image(picture_size() * kScale, QImage::Format_RGB32);
  image.setDevicePixelRatio(kScale);
  const QPixmap plot = plot_->toPixmap(plot_->width(), plot_->height(), kScale);
  QCPPainter painter(&image);
  paint(&painter, &plot);
  painter.end();
  image.setDevicePixelRatio(1);
  return image;
}

QString PlotPanel::save(const QString& path) {
  if (path.endsWith(".csv", Qt::CaseInsensitive)) {
    QFile file(path);
    const QByteArray bytes = csv_text().toUtf8();
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size()) return path + ": " + file.errorString();
    return {};
  }
  if (path.endsWith(".svg", Qt::CaseInsensitive)) {
    QFile file(path);
    if (!file.open(QIODevice::WriteOnly)) return path + ": " + file.errorString();
    QSvgGenerator generator;
    generator.setOutputDevice(&file);
    generator.setSize(picture_size());
    generator.setViewBox(QRect(QPoint(), picture_size()));
    generator.setTitle(heading_->text());
    generator.setDescription(notes_->text());
    QCPPainter painter;
    painter.begin(&generator);
    paint(&painter, nullptr);
    painter.end();
    return {};
  }
  return picture().save(path) ? QString() : path + ": cannot be written as a picture";
}

void PlotPanel::copy() {
  auto* both = new QMimeData;
  both->setImageData(picture());
  both->setText(csv_text());
  QApplication::clipboard()->setMimeData(both);
}

void PlotPanel::choose_file() {
  const QString path = QFileDialog::getSaveFileName(this, "Export", file_name() + ".png",
                                                    "PNG picture (*.png);;SVG picture (*.svg);;Numbers (*.csv)");
  if (path.isEmpty()) return;
  const QString failed = save(path);
  if (!failed.isEmpty()) QMessageBox::warning(this, "Export", failed);
}

}  // namespace flashscope::window
