// The explorer: how block size, budget, length and hardware decide the traffic. A window of its own beside the stepper.
//
// What the tab in front needs is computed in the background, the newest request next; formula only, so that dragging N,
// d, type, order or causal redraws within a frame. A click in the map, or a line of the advice, opens that recipe in
// the stepper.
#pragma once

#include <QWidget>

#include "app/gpu_child.h"
#include "app/window/background.h"
#include "app/window/explorer/explorer_pages.h"
#include "app/window/explorer/map_view.h"
#include "app/window/explorer/measure_bar.h"
#include "app/window/explorer/measuring.h"
#include "app/window/panel.h"

class QLabel;
class QSplitter;
class QTableWidget;
class QTabWidget;

namespace flashscope::window {

class ChartView;

class ExplorerWindow : public QWidget {
  Q_OBJECT

 public:
  explicit ExplorerWindow(QWidget* parent);
  void refresh(const Document& document);
  bool idle() const { return !work_.running() && !again_; }  // what is shown is what is asked for
  void take_gpus(const gpu::GpuStatus& status);              // that were found
  void choose_device(int device);                            // of them: the one that measures
  // For tests: how, and, where one is given, on a GPU in place of the chosen one.
  void measure_on(const std::optional<MeasuredOn>& on, const MeasureOptions& options);

  ExplorerControls* controls() { return controls_; }
  QTabWidget* tabs() { return tabs_; }
  MapView* map() { return map_; }
  MapView* formula_map() { return formula_map_; }
  Measuring& measuring() { return measuring_; }

 signals:
  void change(const flashscope::window::Change& change);
  void measured(const std::shared_ptr<const flashscope::MeasuredSweep>& sweep);  // so far
  void measures(bool on_gpu);
  // Another problem than the stepper's is to be stepped.
  void opened(const flashscope::Shape& shape, const flashscope::Mask& mask, const flashscope::Recipe& recipe);

 protected:
  void showEvent(QShowEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  using Sweep = std::shared_ptr<const MeasuredSweep>;

  void add_chart(Page page, const QString& title, const QString& tip);
  void update_page();  // computes what the tab in front shows, now or after what is running
  Page page() const;
  void go_to(Page page);
  void align_maps();
  void scale_text();
  void explore(const Sweep& sweep);  // its problem, on the page that shows its points
  void start_measuring();
  void show_measuring();
  Sweep shown_sweep() const;  // the chosen one, the one that is being measured, or the newest; or null
  void take(Page page, PageResult result);
  void show_advice(const AdvicePage& advice);
  void show_hardware();
  enum class Of { formula, measured };
  void open_recipe(std::int64_t Br, std::int64_t Bc, Of of);
  void on_measuring();
  void look_at_device();

  ExplorerControls* controls_ = nullptr;
  QTabWidget* tabs_ = nullptr;
  QLabel* message_ = nullptr;
  MapView *map_ = nullptr, *formula_map_ = nullptr;  // the second beside a measured one
  QTableWidget *advice_ = nullptr, *hardware_ = nullptr;
  QLabel* advice_note_ = nullptr;
  std::vector<std::pair<Page, QWidget*>> pages_;
  std::shared_ptr<const SweepProblem> known_;
  Recipe stepper_;
  std::shared_ptr<const Problem> stepped_;
  MeasureBar* bar_ = nullptr;
  Measuring measuring_;
  std::optional<MeasuredOn> on_;
  QSplitter* splitter_ = nullptr;  // controls, pages
  static constexpr const char* kLooking = "looking for a GPU";
  std::string no_gpu_ = kLooking;  // why nothing can be measured
  MeasureOptions measure_options_;
  std::vector<Sweep> sweeps_;  // the document's
  std::vector<RunPointer> runs_;
  Sweep chosen_;
  Background work_, looking_;
  std::optional<gpu::GpuStatus> gpus_;
  float scale_ = 1;
  bool again_ = false, looked_ = false, listed_ = false, given_ = false;
  bool run_on_gpu_ = false;  // by the document
};

}  // namespace flashscope::window
