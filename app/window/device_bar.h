// Where full runs are made, and whether their answers agree: the parity badge, the switch between CPU and GPU, the
// button that runs; and a badge where the mask report has found something. In the corner of the menu bar.
#pragma once

#include <QWidget>

#include "app/window/actions.h"
#include "app/window/parity_check.h"

class QToolButton;

namespace flashscope::window {

class DeviceBar : public QWidget {
  Q_OBJECT

 public:
  DeviceBar(const Actions& actions, QWidget* parent = nullptr);
  void show_parity(const ParityWords& words);
  void show_mask(const QString& badge, const QString& details, bool fault);  // an empty badge: none

 signals:
  void details_wanted();  // the badge of parity was clicked
  void mask_wanted();     // that of the mask
  void resized();         // it wants another width

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void style();
  QToolButton *mask_, *badge_, *run_;
  bool mask_fault_ = false;
  ParityWords words_;
};

}  // namespace flashscope::window
