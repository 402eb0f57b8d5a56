// The transport under the stage: ends, tiles, steps, play, rescales, NaNs, and the place as numbers that
// can be typed (64-bit: a walk may have 10^12 steps).
#pragma once

#include <QLineEdit>
#include <QToolBar>

#include "app/window/actions.h"
#include "app/window/panel.h"

class QComboBox;
class QLabel;
class QSpinBox;

namespace flashscope::window {

class TransportBar : public QToolBar {
  Q_OBJECT

 public:
  TransportBar(const Actions& actions, QWidget* parent);
  void refresh(const Document& document);
  void set_playing(bool playing);
  double steps_per_second() const;
  void set_steps_per_second(double speed);

 signals:
  void change(const flashscope::window::Change& change);
  void speed_changed();

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void style();

  const Actions& actions_;
  QLineEdit* step_;
  QLabel *of_, *place_;
  QSpinBox* head_;
  QAction* head_action_;
  QComboBox* speed_;
  bool playing_ = false;
};

}  // namespace flashscope::window
