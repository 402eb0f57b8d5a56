// What the explorer explores: shape, mask and recipe (the stepper's, until something is changed here), the budget M,
// what colours the map and over which range, and the hardware, with what-if figures.
#pragma once

#include <QWidget>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/insight/curves.h"
#include "engine/insight/measurement.h"

class QCheckBox;
class QComboBox;
class QDoubleSpinBox;
class QFormLayout;
class QLabel;
class QSlider;
class QSpinBox;

namespace flashscope::window {

struct ExplorerState {
  CurveProblem problem;  // units and M too
  Selection selection;
  std::optional<Gauge> gauge;  // a figure of the measured points in place of the selection
  AxisRange Br{1, 512, 200, true}, Bc{1, 512, 200, true};
  std::optional<HardwareSheet> device;
};

class ExplorerControls : public QWidget {
  Q_OBJECT

 public:
  explicit ExplorerControls(QWidget* parent = nullptr);
  const ExplorerState& state() const { return state_; }
  bool follows() const;
  // What the stepper has; shown while it is followed.
  void follow(const Shape& shape, const Mask& mask, const Recipe& recipe);
  void add_device(const HardwareSheet& sheet);  // one that was found
  void choose_blocks(std::int64_t Br, std::int64_t Bc);
  void explore(const MeasuredPoint& point);  // its shape, mask and recipe
  void choose_gauge(Gauge gauge);
  void choose_device(std::string_view name);  // the sheet of a device of that name, if there is one

 signals:
  void edited();

 protected:
  void changeEvent(QEvent* event) override;

 private:
  int spin_width() const;
  QSlider* add_size(QFormLayout* form, const QString& label, const QString& tip, std::int64_t largest,
                    std::int64_t (*get)(const ExplorerState&), void (*set)(ExplorerState&, std::int64_t), bool own);
  QComboBox* add_choice(QFormLayout* form, const QString& label, const QString& tip, const QStringList& words,
                        const std::function<int()>& get, const std::function<void(int)>& set, bool own);
  void add_what_if(QFormLayout* form, const QString& label, const QString& suffix, double unit,
                   std::function<Quantity()> quantity);
  void changed(bool own);  // `own`: what is explored is no longer the stepper's
  void show_state();

  ExplorerState state_;
  std::optional<HardwareSheet> sheet_;   // before what-if
  std::optional<CurveProblem> stepper_;  // what the stepper had last
  std::vector<HardwareSheet> sheets_;
  std::vector<std::function<void()>> show_;
  QCheckBox* follow_ = nullptr;
  QComboBox* device_ = nullptr;
  QLabel *explored_ = nullptr, *stepped_ = nullptr;  // recipes
  bool showing_ = false;
};

}  // namespace flashscope::window
