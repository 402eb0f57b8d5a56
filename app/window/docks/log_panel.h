// Messages so far, with their time.
#pragma once

#include "app/window/panel.h"

class QPlainTextEdit;

namespace flashscope::window {

class LogPanel : public Panel {
  Q_OBJECT

 public:
  explicit LogPanel(QWidget* parent = nullptr);
  void refresh(const Document&) override {}
  void add(const QString& message);

 private:
  QPlainTextEdit* lines_;
};

}  // namespace flashscope::window
