// Traffic and memory as numbers, each with where it comes from: formula, counted, measured.
#pragma once

#include "app/window/panel.h"

class QTextBrowser;

namespace flashscope::window {

class TrafficPanel : public Panel {
  Q_OBJECT

 public:
  explicit TrafficPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void show_html(const QString& html);

  QTextBrowser* text_;
  QString shown_;
};

}  // namespace flashscope::window
