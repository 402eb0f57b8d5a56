// The numerics of a recipe: a preset, or the types, the scale, the exponential and the threshold one by one.
#pragma once

#include <QWidget>
#include <functional>
#include <vector>

#include "engine/attention/recipe.h"

class QComboBox;
class QDoubleSpinBox;

namespace flashscope::window {

class NumericsBox : public QWidget {
  Q_OBJECT

 public:
  explicit NumericsBox(QWidget* parent = nullptr);
  void show_numerics(const Numerics& numerics, DType element);

 signals:
  void edited(const flashscope::Numerics& numerics);

 private:
  void changed();  // by the person

  Numerics numerics_;
  DType element_ = DType::float32;
  QComboBox* preset_;
  QDoubleSpinBox* threshold_;
  std::vector<std::function<void()>> show_;
  bool showing_ = false;
};

}  // namespace flashscope::window
