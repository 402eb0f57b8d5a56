// Opening tensors whose names, layout or batch a file does not tell: what was found in it, and who is who.
#pragma once

#include <QDialog>
#include <map>

#include "engine/files/problem_file.h"

class QComboBox;
class QFormLayout;
class QLabel;
class QLineEdit;
class QPushButton;
class QSpinBox;

namespace flashscope::window {

// Whether a file leaves nothing to ask.
bool is_clear(const FileReport& report);

class OpenDialog : public QDialog {
  Q_OBJECT

 public:
  OpenDialog(const std::filesystem::path& path, const FileReport& report, QWidget* parent);
  ProblemFiles files() const;

 private:
  void add_paths(QFormLayout* form);  // three .npy
  void add_roles(QFormLayout* form, const FileReport& report);
  void check();

  std::filesystem::path path_;
  bool separate_ = false;  // q, k, v from three files
  std::map<std::string, QComboBox*> roles_;
  std::map<std::string, QLineEdit*> paths_;
  QComboBox *layout_, *mask_means_, *causal_;
  QSpinBox *batch_, *head_;
  QLineEdit* scale_;
  QLabel* note_;
  QPushButton* open_;
};

}  // namespace flashscope::window
