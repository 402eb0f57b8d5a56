// The full runs that are kept: chosen to be shown, compared side by side, gone to, deleted.
#pragma once

#include <vector>

#include "app/window/panel.h"

class QLabel;
class QTableWidget;
class QTextBrowser;
class QToolButton;

namespace flashscope::window {

class RunsPanel : public Panel {
  Q_OBJECT

 public:
  explicit RunsPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  void select(const std::vector<int>& rows);  // as clicks do
  void delete_selected();
  void go_there();  // to the problem, mask and recipe of the first selected run

 protected:
  void changeEvent(QEvent* event) override;

 private:
  std::vector<int> selected() const;
  void fill(const Document& document);
  void compare();

  QTableWidget* table_;
  QTextBrowser* comparison_;
  QToolButton *go_, *delete_;
  QLabel* empty_;
  std::vector<RunPointer> shown_;
  RunPointer marked_;
  bool filling_ = false;
  bool stale_ = false;  // the colours changed
  QString html_;
};

}  // namespace flashscope::window
