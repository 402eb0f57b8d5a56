// The stops of F5 as a list: switched on and off, written, edited in place and removed, run to and back to. What is
// wrong with a condition is said while it is typed; examples can be clicked.
#pragma once

#include "app/window/panel.h"
#include "app/window/stops.h"

class QLabel;
class QLineEdit;
class QPushButton;
class QTreeWidget;
class QTreeWidgetItem;

namespace flashscope::window {

class StopsPanel : public Panel {
  Q_OBJECT

 public:
  // `stops` is the window's; it outlives the panel.
  explicit StopsPanel(Stops& stops, QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  // As the mask report counted them in that plan; none: it did not.
  void show_partial_tiles(const std::shared_ptr<const Schedule>& of, std::optional<std::int64_t> count);

 signals:
  void edited();           // of the list
  void run(bool forward);  // to the next stop, as F5 does

 protected:
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* object, QEvent* event) override;

 private:
  void show_list();
  void show_counts();
  bool check(const QString& text);  // says what is wrong with it
  void show_examples();
  void add_typed();
  void remove_chosen();
  void take_edit(QTreeWidgetItem* item);
  void changed();

  Stops& stops_;
  QTreeWidget* list_;
  QLineEdit* edit_;
  QLabel* error_;
  QPushButton *add_, *remove_, *undo_, *back_, *next_;
  ScanTotals totals_;
  std::shared_ptr<const Schedule> schedule_, partial_of_;
  std::optional<std::int64_t> partial_;  // tiles, in `partial_of_`
  std::string shown_;
  bool showing_ = false;
};

}  // namespace flashscope::window
