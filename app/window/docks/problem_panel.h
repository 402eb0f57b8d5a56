// What is open: tensors with shape, type and range, the mask and its empty rows, and what can be set of
// it: head, scale, causal mask and window.
#pragma once

#include "app/window/background.h"
#include "app/window/panel.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QLineEdit;
class QSpinBox;
class QTextBrowser;

namespace flashscope::window {

class ProblemPanel : public Panel {
  Q_OBJECT

 public:
  explicit ProblemPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;

 protected:
  void changeEvent(QEvent* event) override;

 private:
  struct Summary {
    TensorSummary q, k, v;
    MaskSummary mask;
    std::int64_t empty_rows = 0;            // of `head`
    std::vector<std::int64_t> first_empty;  // at most ten of them
  };
  static Summary summarise_problem(const Problem& problem, std::int64_t head);
  void summarise_again();
  void mask_edited();
  MaskRules typed_rules() const;  // throws InputError
  void show_rules();
  void show_text();

  QTextBrowser* text_;
  QSpinBox* head_;
  QLabel* kv_head_;
  QLineEdit* scale_;
  QComboBox* causal_;
  QCheckBox* window_;
  QSpinBox *left_, *right_;
  QLineEdit *lengths_, *documents_, *prefix_, *alibi_, *softcap_;
  bool showing_ = false;
  std::shared_ptr<const Problem> problem_;
  std::int64_t shown_head_ = -1;
  std::vector<std::string> found_;
  std::optional<Summary> summary_;
  Background background_;
};

}  // namespace flashscope::window
