#include "app/window/explorer/plot_panel.h"

#include <QApplication>
#include <QClipboard>
#include <QFile>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QLabel>
#include <QMessageBox>
#include <QPushButton>
#include <QSvgGenerator>
#include <QVBoxLayout>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {

QVector<double> ChartTicker::createTickVector(double, const QCPRange& range) {
  const std::vector<double> places = ticks(range.lower, range.upper, axis_);
  return {places.begin(), places.end()};
}

QString ChartTicker::getTickLabel(double tick, const QLocale&, QChar, int) { return text(tick_text(tick, axis_)); }

PlotPanel::PlotPanel(QWidget* parent) : QWidget(parent) {
  heading_ = new QLabel;
  heading_->setWordWrap(true);
  heading_->setObjectName("heading");
  QFont bold = heading_->font();
  bold.setBold(true);
  heading_->setFont(bold);
  auto* top = new QHBoxLayout;
  top->addWidget(heading_, 1);
  const auto button = [&](const QString& title, const QString& tip, auto run) {
    auto* one = new QPushButton(title);
    one->setToolTip(tip);
    one->setFocusPolicy(Qt::TabFocus);
    connect(one, &QPushButton::clicked, this, run);
    top->addWidget(one);
  };
  button("Show all", "Back from a zoom (double click)", [this] { show_all(), plot_->replot(); });
  button("Copy", "The picture and its numbers, to the clipboard", [this] { copy(); });
  button("Export...", "PNG, SVG, or CSV with how each number was obtained", [this] { choose_file(); });

  plot_ = new QCustomPlot;
  plot_->setObjectName("plot");
  plot_->setMinimumSize(240, 180);
  plot_->setInteractions(QCP::iRangeDrag | QCP::iRangeZoom);
  plot_->setMouseTracking(true);
  plot_->installEventFilter(this);
  across_ = new QCPItemStraightLine(plot_);
  up_ = new QCPItemStraightLine(plot_);
  for (QCPItemStraightLine* line : {across_, up_}) line->setVisible(false), line->setSelectable(false);

  values_ = new QLabel;
  values_->setObjectName("values");
  values_->setWordWrap(true);
  values_->setMinimumHeight(values_->fontMetrics().height() + 2);
  notes_ = new QLabel;
  notes_->setObjectName("notes");
  notes_->setWordWrap(true);
  notes_->setTextInteractionFlags(Qt::TextSelectableByMouse);

  auto* layout = new QVBoxLayout(this);
  layout->addLayout(top);
  layout->addWidget(plot_, 1);
  layout->addWidget(values_);
  layout->addWidget(notes_);
  apply_colours();
}

void PlotPanel::set_heading(const QString& heading) { heading_->setText(heading); }
void PlotPanel::set_notes(const QStringList& notes) { notes_->setText(notes.join('\n')); }

bool PlotPanel::dark() const { return colours(palette()).dark; }

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
  for (QCPItemStraightLine* line : {across_, up_}) line->setPen(QPen(c.dim, 0, Qt::DashLine));
}

void PlotPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange && plot_) apply_colours(), redraw();
  QWidget::changeEvent(event);
}

bool PlotPanel::eventFilter(QObject* object, QEvent* event) {
  if (object != plot_) return QWidget::eventFilter(object, event);
  if (event->type() == QEvent::MouseMove || event->type() == QEvent::Leave) {
    const bool inside = event->type() == QEvent::MouseMove;
    const QPointF at = inside ? static_cast<QMouseEvent*>(event)->position() : QPointF();
    const QString found = inside && plot_->axisRect()->rect().contains(at.toPoint()) ? values_at(at) : QString();
    values_->setText(found);
    if (found.isEmpty() && !crosshair_) return false;
    crosshair_ = !found.isEmpty();
    across_->setVisible(crosshair_), up_->setVisible(crosshair_);
    if (crosshair_) {
      const double x = plot_->xAxis->pixelToCoord(at.x()), y = plot_->yAxis->pixelToCoord(at.y());
      up_->point1->setCoords(x, plot_->yAxis->range().lower), up_->point2->setCoords(x, plot_->yAxis->range().upper);
      across_->point1->setCoords(plot_->xAxis->range().lower, y);
      across_->point2->setCoords(plot_->xAxis->range().upper, y);
    }
    plot_->replot(QCustomPlot::rpQueuedReplot);
  }
  if (event->type() == QEvent::MouseButtonDblClick) show_all(), plot_->replot(QCustomPlot::rpQueuedReplot);
  return false;
}

QImage PlotPanel::picture() { return plot_->toPixmap(plot_->width(), plot_->height(), 2).toImage(); }

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
    generator.setSize(plot_->size());
    generator.setViewBox(QRect(QPoint(), plot_->size()));
    generator.setTitle(heading_->text());
    generator.setDescription(notes_->text());
    QCPPainter painter;
    painter.begin(&generator);
    plot_->toPainter(&painter, plot_->width(), plot_->height());
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
