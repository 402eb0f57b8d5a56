// The full runs that are kept: chosen to be shown, compared side by side, gone to, deleted. The NaN rows of one are
// listed, and a click on one asks "Why?".
#pragma once

#include <vector>

#include "app/window/background.h"
#include "app/window/panel.h"
#include "app/window/theme.h"
#include "engine/insight/nan_rows.h"

class QLabel;
class QTableWidget;
class QTextBrowser;
class QToolButton;

namespace flashscope::window {

class TableFit;

class RunsPanel : public Panel {
  Q_OBJECT

 public:
  explicit RunsPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  void select(const std::vector<int>& rows);  // as clicks do
  void delete_selected();
  void go_there();                                    // to the problem, mask and recipe of the first selected run
  void ask_why(std::int64_t head, std::int64_t row);  // of the run shown alone: as a click on its NaN row does
  // Of the run shown alone, against the engine's; null while it is looked for, or where there is no NaN.
  const RunNans* nans() const { return nans_ && nans_of_ == shown_alone() ? &*nans_ : nullptr; }

 protected:
  void changeEvent(QEvent* event) override;

 private:
  std::vector<int> selected() const;
  void fill(const Document& document);
  void compare();
  RunPointer shown_alone() const;
  void go_to(const RunPointer& run);
  void look_for_nans(const RunPointer& run);
  QString answer_html(const RunPointer& run, const Colours& colours) const;

  TableFit* fit_;
  QTableWidget* table_;
  QTextBrowser* comparison_;
  QToolButton *go_, *delete_;
  QLabel* empty_;
  std::vector<RunPointer> shown_;
  RunPointer marked_;
  bool filling_ = false;
  bool stale_ = false;  // the colours changed
  QString html_;
  RunPointer nans_of_;
  std::optional<RunNans> nans_;
  QString nans_failed_;
  Background looking_;
};

}  // namespace flashscope::window
