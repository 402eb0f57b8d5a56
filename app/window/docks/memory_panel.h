// Memory, tiled against standard, as bars on a logarithmic scale: what allocators measured where there was a run, the
// footprint by formula where there was none.
#pragma once

#include <vector>

#include "app/window/panel.h"
#include "engine/insight/traffic_table.h"

class QLabel;

namespace flashscope::window {

struct MemoryBar {
  QString what;  // "Q, K, V"
  double bytes = 0;
  Label origin = Label::formula;
};
struct MemoryGroup {
  QString title, source;  // "flash2 128 x 64", "measured: NVIDIA H200"
  std::vector<MemoryBar> bars;
  double beyond = 0;     // bytes beyond Q, K, V
  double workspace = 0;  // of them cuBLAS's, which is no tensor of the algorithm
  int sets = 1;          // of Q, K, V that were on the device
  double measuring = 0;  // what measuring took besides; not the algorithm's, so it is no bar
};
// The three algorithms on the open problem, that of the recipe first; each from its last run, GPU before CPU.
std::vector<MemoryGroup> memory_groups(const Document& document);

class MemoryView : public QWidget {
 public:
  explicit MemoryView(QWidget* parent = nullptr);
  void show_groups(const std::vector<MemoryGroup>& groups);
  const std::vector<MemoryGroup>& groups() const { return groups_; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  std::vector<MemoryGroup> groups_;
};

class MemoryPanel : public Panel {
  Q_OBJECT

 public:
  explicit MemoryPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  const MemoryView& view() const { return *view_; }

 private:
  MemoryView* view_;
  QLabel* note_;
};

}  // namespace flashscope::window
