// Where full runs are made, and whether their answers agree: the parity badge, the switch between CPU and GPU, the
// button that runs. In the corner of the menu bar.
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

 signals:
  void details_wanted();  // the badge was clicked
  void resized();         // it wants another width

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void style();
  QToolButton *badge_, *run_;
  ParityWords words_;
};

}  // namespace flashscope::window
