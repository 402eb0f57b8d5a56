#include "app/window/device_bar.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QToolButton>

#include "app/window/theme.h"

namespace flashscope::window {

DeviceBar::DeviceBar(const Actions& actions, QWidget* parent) : QWidget(parent) {
  setObjectName("device_bar");
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(0, 1, 6, 1);
  layout->setSpacing(2);
  mask_ = new QToolButton;
  mask_->setObjectName("mask_badge");
  mask_->setFocusPolicy(Qt::TabFocus);
  mask_->hide();
  connect(mask_, &QToolButton::clicked, this, &DeviceBar::mask_wanted);
  layout->addWidget(mask_);
  badge_ = new QToolButton;
  badge_->setObjectName("parity");
  badge_->setFocusPolicy(Qt::TabFocus);
  badge_->setAccessibleName("Agreement of steps, CPU and GPU");
  connect(badge_, &QToolButton::clicked, this, &DeviceBar::details_wanted);
  layout->addWidget(badge_);
  layout->addSpacing(8);
  for (const char* id : {"step.gpu", "run.cpu", "run.gpu"}) {
    auto* side = new QToolButton;
    side->setObjectName(QString(id).replace('.', '_'));
    side->setFocusPolicy(Qt::TabFocus);
    side->setDefaultAction(actions[id]);
    layout->addWidget(side);
  }
  layout->addSpacing(4);
  run_ = new QToolButton;
  run_->setObjectName("run");
  run_->setFocusPolicy(Qt::TabFocus);
  run_->setDefaultAction(actions["go.run"]);
  layout->addWidget(run_);
  style();
}

void DeviceBar::show_parity(const ParityWords& words) {
  if (words.badge == words_.badge && words.details == words_.details && words.bad == words_.bad &&
      words.nan == words_.nan)
    return;
  words_ = words;
  badge_->setText(words.badge);
  badge_->setToolTip(words.details);
  badge_->setAccessibleDescription(words.badge + ". " + words.details);
  style();
  updateGeometry();
  emit resized();
}

void DeviceBar::show_mask(const QString& badge, const QString& details, bool fault) {
  if (mask_->text() == badge && mask_->toolTip() == details && fault == mask_fault_) return;
  mask_fault_ = fault;
  mask_->setText(badge);
  mask_->setToolTip(details);
  mask_->setAccessibleDescription(badge + ". " + details);
  mask_->setVisible(!badge.isEmpty());
  style();
  updateGeometry();
  emit resized();
}

void DeviceBar::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) style();
  QWidget::changeEvent(event);
}

void DeviceBar::style() {
  const Colours c = colours(palette());
  const QColor ink = words_.bad ? c.bad : words_.nan ? c.nan : words_.good ? c.good : c.dim;
  const QString sheet =
      QString(
          "QToolButton { border: 1px solid %1; border-radius: 4px; padding: 2px 8px; background: %2; color: %3; }"
          "QToolButton:checked { background: %4; border-color: %5; }"
          "QToolButton:disabled { color: %6; }"
          "QToolButton:hover { border-color: %5; }"
          "#parity { color: %7; border-color: %7; font-weight: bold; background: transparent; }"
          "#mask_badge { color: %8; border-color: %8; font-weight: bold; background: transparent; }")
          .arg(c.border.name(), c.raised.name(), c.text.name(), c.select.name(), c.accent.name(), c.masked.name(),
               ink.name(), (mask_fault_ ? c.nan : c.rescale).name());
  if (styleSheet() != sheet) setStyleSheet(sheet);
}

}  // namespace flashscope::window
