// What is open: tensors with shape, type and range, the mask and its empty rows, and what can be set of
// it: head, scale, causal mask, window and the masks by rule. A rule that means nothing stays as it was typed, red and
// with what is wrong under it; the mask in force stays too.
#pragma once

#include <functional>

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
  struct Rule {
    QLineEdit* edit;  // modified: typed, and not in force
    QLabel* error;
    // Takes what was typed into the mask's rules. Throws InputError.
    std::function<void(const QString& typed, const Shape& shape, Mask& mask)> read;
    std::function<QString(const MaskRules& rules)> shown;
  };
  void mask_edited();
  void say(const Rule& rule, const QString& error);
  void show_rules(bool all);  // or those alone of which nothing is typed
  void show_text();

  QTextBrowser* text_;
  QSpinBox* head_;
  QLabel* kv_head_;
  QLineEdit* scale_;
  QComboBox* causal_;
  QCheckBox* window_;
  QSpinBox *left_, *right_;
  std::vector<Rule> rules_;
  bool showing_ = false;
  std::shared_ptr<const Problem> problem_;
  std::int64_t shown_head_ = -1;
  std::vector<std::string> found_;
  std::optional<Summary> summary_;
  Background background_;
};

}  // namespace flashscope::window
