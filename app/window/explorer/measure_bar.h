// Above the explorer's pages: which measured sweep is shown, and measuring one: start, pause, go on, cancel, how far.
#pragma once

#include <QWidget>
#include <memory>
#include <vector>

#include "engine/attention/measured_sweep.h"

class QComboBox;
class QLabel;
class QProgressBar;
class QPushButton;

namespace flashscope::window {

class Measuring;

class MeasureBar : public QWidget {
  Q_OBJECT

 public:
  using Sweep = std::shared_ptr<const MeasuredSweep>;
  explicit MeasureBar(QWidget* parent = nullptr);
  // `why_not`: why nothing can be measured now, nor gone on with; empty where it can.
  void show_state(const Measuring& measuring, const QString& what, const QString& why_not);
  void show_sweeps(const std::vector<Sweep>& sweeps, const Sweep& shown);

 signals:
  void start();
  void pause();
  void resume();
  void cancel();
  void chosen(int sweep);  // of those shown

 private:
  QComboBox* sweeps_ = nullptr;
  QPushButton *start_ = nullptr, *pause_ = nullptr, *cancel_ = nullptr;
  QProgressBar* progress_ = nullptr;
  QLabel* words_ = nullptr;
};

}  // namespace flashscope::window
