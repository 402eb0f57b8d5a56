// The kernel of a run: blocks of threads against SMs, registers, spills, shared memory, time, what the counters say of
// it.
#pragma once

#include "app/window/docks/html_panel.h"

class QComboBox;

namespace flashscope::window {

class KernelPanel : public HtmlPanel {
  Q_OBJECT

 public:
  explicit KernelPanel(QWidget* parent = nullptr);
  QString sheet() const;  // the chosen hardware sheet's name
  void set_sheet(const QString& name);

 protected:
  QString html(const Document& document, const Colours& colours) override;

 private:
  QComboBox* sheets_;
};

}  // namespace flashscope::window
