#include "app/window/overlay_bar.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QToolButton>
#include <QVBoxLayout>

#include "app/window/theme.h"
#include "viz/scene.h"

namespace flashscope::window {

OverlayBar::OverlayBar(QWidget* over) : QFrame(over) {
  setObjectName("overlay");
  setAutoFillBackground(true);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(12, 6, 6, 6);
  layout->setSpacing(4);

  message_row_ = new QWidget;
  auto* first = new QHBoxLayout(message_row_);
  first->setContentsMargins(0, 0, 0, 0);
  message_ = new QLabel;
  message_->setObjectName("message");
  message_->setWordWrap(true);
  message_->setTextFormat(Qt::PlainText);
  message_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  close_ = new QToolButton;
  close_->setAutoRaise(true);
  close_->setToolTip("Dismiss (Esc)");
  close_->setFocusPolicy(Qt::TabFocus);
  first->addWidget(message_, 1);
  first->addWidget(close_, 0, Qt::AlignTop);

  job_row_ = new QWidget;
  auto* second = new QHBoxLayout(job_row_);
  second->setContentsMargins(0, 0, 6, 0);
  job_ = new QLabel;
  job_->setTextFormat(Qt::PlainText);
  progress_ = new QProgressBar;
  progress_->setRange(0, 1000);
  progress_->setTextVisible(false);
  progress_->setMaximumHeight(10);
  auto* cancel = new QPushButton("Cancel");
  cancel->setFocusPolicy(Qt::TabFocus);
  second->addWidget(job_);
  second->addWidget(progress_, 1);
  second->addWidget(cancel);

  layout->addWidget(message_row_);
  layout->addWidget(job_row_);
  message_row_->hide();
  job_row_->hide();
  hide();
  job_delay_.setSingleShot(true);
  job_delay_.setInterval(200);
  connect(&job_delay_, &QTimer::timeout, this, [this] { job_row_->show(), place(); });
  notice_time_.setSingleShot(true);
  notice_time_.setInterval(5000);
  connect(&notice_time_, &QTimer::timeout, this, &OverlayBar::passed);
  connect(close_, &QToolButton::clicked, this, &OverlayBar::dismissed);
  connect(cancel, &QPushButton::clicked, this, &OverlayBar::cancelled);
  over->installEventFilter(this);
  style();
}

QString OverlayBar::message() const { return message_row_->isHidden() ? QString() : message_->text(); }

void OverlayBar::show_message(const QString& message, bool passes) {
  if (message == this->message()) return;
  if (passes && !message.isEmpty())
    notice_time_.start();
  else
    notice_time_.stop();
  message_->setText(message);
  message_row_->setVisible(!message.isEmpty());
  place();
}

void OverlayBar::show_job(const QString& what, double fraction) {
  if (what.isEmpty()) {
    job_delay_.stop();
    if (!job_row_->isHidden()) job_row_->hide(), place();
    return;
  }
  job_->setText(what);
  progress_->setRange(0, fraction < 0 ? 0 : 1000);  // 0 to 0: it only moves
  progress_->setValue(static_cast<int>(std::max(0.0, fraction) * 1000));
  if (job_row_->isHidden() && !job_delay_.isActive()) job_delay_.start();
}

void OverlayBar::set_two(bool two) {
  if (two == two_) return;
  two_ = two;
  place();
}

void OverlayBar::place() {
  setVisible(!message_row_->isHidden() || !job_row_->isHidden());
  if (isHidden()) return;
  const double ratio = devicePixelRatioF();
  const auto pixels = [ratio](int length) { return static_cast<float>(length * ratio); };
  const viz::Rect room = viz::notice_place(pixels(parentWidget()->width()), pixels(parentWidget()->height()),
                                           static_cast<float>(ratio), two_);
  const int left = qRound(room.x / ratio), width = std::min(qRound(room.w / ratio), 760);
  layout()->activate();
  const int height = layout()->hasHeightForWidth() ? layout()->totalHeightForWidth(width) : sizeHint().height();
  setGeometry(left + (qRound(room.w / ratio) - width) / 2, std::max(0, qRound(room.bottom() / ratio) - height), width,
              height);
  raise();
}

bool OverlayBar::eventFilter(QObject* object, QEvent* event) {
  if (object == parentWidget() && event->type() == QEvent::Resize) place();
  return QFrame::eventFilter(object, event);
}

void OverlayBar::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) style();
  QFrame::changeEvent(event);
}

void OverlayBar::style() {
  const Colours c = colours(palette());
  close_->setIcon(icon(Glyph::close, c));
  const QString sheet = QString("#overlay { background: %1; border: 1px solid %2; border-radius: 6px; }")
                            .arg(c.raised.name(), c.rescale.name());
  if (styleSheet() != sheet) setStyleSheet(sheet);
}

}  // namespace flashscope::window
