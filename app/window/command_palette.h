// Any command by a few of its letters (Ctrl+P); a number goes to that step, "5,3" to that tile, "row 372"
// to that row.
#pragma once

#include <QDialog>
#include <optional>

#include "app/window/actions.h"
#include "app/window/panel.h"

class QLineEdit;
class QListWidget;

namespace flashscope::window {

class CommandPalette : public QDialog {
  Q_OBJECT

 public:
  CommandPalette(const Actions& actions, QWidget* parent);
  void open_over(QWidget* area);

 signals:
  void change(const flashscope::window::Change& change);

 protected:
  bool eventFilter(QObject* object, QEvent* event) override;

 private:
  void filter(const QString& pattern);
  void run_selected();

  const Actions& actions_;
  QLineEdit* input_;
  QListWidget* list_;
};

// What the person typed as a place: a step, a tile, a row. Nothing if it is none of them.
struct TypedPlace {
  QString title;
  Change change;
};
std::optional<TypedPlace> typed_place(const QString& typed);

}  // namespace flashscope::window
