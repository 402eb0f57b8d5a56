// A panel of the window: reads the document, and returns what it wants done as a change that the main
// window applies. Refreshed only while it can be seen.
//
// `change` is a command of the person. `then` is what shall follow once the change before it is planned
// (seeking has no meaning in a plan that is not there yet); another command takes it back. `ask` only
// requests data that the panel shows.
#pragma once

#include <QWidget>
#include <functional>

#include "app/document.h"
#include "engine/insight/provenance.h"

namespace flashscope::window {

using Change = std::function<void(Document&)>;

class Panel : public QWidget {
  Q_OBJECT

 public:
  using QWidget::QWidget;
  virtual void refresh(const Document& document) = 0;

 signals:
  void change(const flashscope::window::Change& change);
  void then(const flashscope::window::Change& change);
  void ask(const flashscope::window::Change& request);
  void failed(const QString& message);
  void why(const flashscope::Question& question);  // the person points at a cell
};

}  // namespace flashscope::window
