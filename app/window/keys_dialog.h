// All keys: shown ("?") and changed.
#pragma once

#include <QDialog>

#include "app/window/actions.h"

class QTreeWidget;
class QTreeWidgetItem;
class QKeySequenceEdit;
class QLabel;
class QPushButton;

namespace flashscope::window {

class KeysDialog : public QDialog {
  Q_OBJECT

 public:
  KeysDialog(Actions& actions, QWidget* parent);

 signals:
  void keys_changed();

 private:
  const Actions::Entry* selected() const;
  const Actions::Entry* owner_of(const QKeySequence& key) const;  // of a key that is taken, or null
  void fill();
  void select();
  void assign(bool add);
  void restore(bool all);

  Actions& actions_;
  QTreeWidget* tree_;
  QKeySequenceEdit* edit_;
  QLabel* note_;
  QPushButton *add_, *replace_, *reset_;
};

}  // namespace flashscope::window
