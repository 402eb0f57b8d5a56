// The gallery: known mistakes and conventions; each opens on the smallest input that shows it, at the first step that
// differs: both runs side by side, or either alone.
#pragma once

#include "app/window/background.h"
#include "app/window/panel.h"
#include "engine/insight/gallery.h"

class QLabel;
class QListWidget;
class QPushButton;
class QTextBrowser;

namespace flashscope::window {

class GalleryPanel : public Panel {
  Q_OBJECT

 public:
  explicit GalleryPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  // The entry chosen in the list, its two runs and the step at which they part; null until they are there.
  const GalleryPair* pair() const { return pair_ ? &*pair_ : nullptr; }
  bool idle() const { return !work_.running(); }

 protected:
  void changeEvent(QEvent* event) override;

 private:
  struct Looked {
    GalleryPair pair;
    std::optional<FirstDifference> first;
    std::vector<double> O, right_O, LSE, right_LSE;
  };
  enum class Runs { both, mistake, right };
  void choose(int row);
  void show_entry();
  void open(Runs runs);

  QListWidget* list_;
  QTextBrowser* text_;
  QPushButton *both_, *open_, *open_right_;
  QLabel* shown_;  // which of the two runs are on the stage
  const GalleryEntry* entry_ = nullptr;
  std::optional<GalleryPair> pair_;
  std::optional<Looked> looked_;
  std::optional<Runs> wanted_;  // to be opened once it is known where they part
  Background work_;
};

}  // namespace flashscope::window
