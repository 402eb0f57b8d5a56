// One row by hand: the online softmax of typed, pasted or picked scores in chunks, with and without the
// rescale.
#pragma once

#include "app/window/background.h"
#include "app/window/panel.h"
#include "engine/attention/row_demo.h"

class QComboBox;
class QLabel;
class QPlainTextEdit;
class QSpinBox;
class QTableView;

namespace flashscope::window {

class RowModel;

// Numbers as a person types or pastes them: separated by anything but a number; "-inf", "inf" and "nan" count.
// Throws InputError for a word that is none.
std::vector<double> typed_numbers(const QString& typed);

class RowPanel : public Panel {
  Q_OBJECT

 public:
  explicit RowPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  const RowDemo& demo() const { return demo_; }
  void show_built_in(const std::string& name);

 private:
  void chosen(int index);
  void pick();
  void compute();

  QComboBox* source_;
  QPlainTextEdit *scores_, *values_;
  QSpinBox *chunk_, *row_, *column_;
  QWidget* pick_row_;
  QLabel *result_, *title_;
  QTableView* table_;
  RowModel* model_;
  RowDemo demo_;
  Background background_;
  std::shared_ptr<const Problem> problem_;
  std::int64_t head_ = 0, found_ = -1;
  LseConvention lse_;
};

}  // namespace flashscope::window
