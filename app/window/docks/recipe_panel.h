// Every option of the recipe, live: a change re-plans at once and keeps the place.
#pragma once

#include <QComboBox>
#include <initializer_list>

#include "app/window/panel.h"

class QCheckBox;
class QFormLayout;
class QLabel;
class QLineEdit;
class QSlider;
class QSpinBox;

namespace flashscope::window {

class RecipePanel : public Panel {
  Q_OBJECT

 public:
  explicit RecipePanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;

 private:
  struct BlockSize {
    QSlider* slider;
    QSpinBox* box;
  };
  BlockSize add_block_size(QFormLayout* form, const QString& label, const QString& tip, std::int64_t Recipe::*size);
  // A combo box over all words of an enumeration of the recipe.
  template <class Enum>
  QComboBox* add_choice(QFormLayout* form, const QString& label, const QString& tip, Enum Recipe::*option);
  void edited();  // recipe_ was changed by the person
  void defect_edited();
  void show_recipe();

  Recipe recipe_;
  Shape shape_;
  std::shared_ptr<const Problem> problem_;
  bool showing_ = false;                     // widgets are being set, not edited
  std::vector<std::function<void()>> show_;  // sets each widget from recipe_
  BlockSize br_, bc_;
  QCheckBox* by_sram_;
  QSpinBox* sram_;
  QComboBox* normalise_;
  QLineEdit* sentinel_;
  QCheckBox* sentinel_added_;
  QWidget* sentinel_row_;
  QLabel *plan_, *defect_note_;
};

}  // namespace flashscope::window
