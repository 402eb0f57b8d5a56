#include "app/window/docks/log_panel.h"

#include <QPlainTextEdit>
#include <QTime>
#include <QVBoxLayout>

namespace flashscope::window {

LogPanel::LogPanel(QWidget* parent) : Panel(parent) {
  lines_ = new QPlainTextEdit;
  lines_->setReadOnly(true);
  lines_->setMaximumBlockCount(2000);
  lines_->setPlaceholderText("No messages yet");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(lines_);
}

void LogPanel::add(const QString& message) {
  lines_->appendPlainText(QTime::currentTime().toString("HH:mm:ss  ") + message);
}

}  // namespace flashscope::window
