// The explorer: how block size, budget, length and hardware decide the traffic. A window of its own beside the stepper.
//
// What the tab in front needs is computed in the background, the newest request next; formula only, so that dragging N,
// d, type, order or causal redraws within a frame. A click in the map, or a line of the advice, opens that recipe in
// the stepper.
#pragma once

#include <QWidget>
#include <variant>

#include "app/window/background.h"
#include "app/window/explorer/map_view.h"
#include "app/window/panel.h"
#include "engine/insight/advisor.h"

class QLabel;
class QTableWidget;
class QTabWidget;

namespace flashscope::window {

class ChartView;
class ExplorerControls;
struct ExplorerState;

class ExplorerWindow : public QWidget {
  Q_OBJECT

 public:
  explicit ExplorerWindow(QWidget* parent);
  void refresh(const Document& document);
  bool idle() const { return !work_.running() && !again_; }  // what is shown is what is asked for

  ExplorerControls* controls() { return controls_; }
  QTabWidget* tabs() { return tabs_; }
  MapView* map() { return map_; }

 signals:
  void change(const flashscope::window::Change& change);

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  using Result = std::variant<std::monostate, MapData, Chart, AdviceList, std::string>;
  enum class Page { map, n, budget, d, roofline, orders, unfused, saving, footprint, advice, hardware };

  void add_chart(Page page, const QString& title, const QString& tip);
  void update_page();  // computes what the tab in front shows, now or after what is running
  static Result compute(Page page, const ExplorerState& state, std::shared_ptr<const SweepProblem> known,
                        const std::optional<BlockSizes>& stepper, const std::stop_token& stop);
  void take(Page page, Result result);
  void show_advice(const AdviceList& list);
  void show_hardware();
  void open_recipe(std::int64_t Br, std::int64_t Bc);
  void look_for_devices();

  ExplorerControls* controls_ = nullptr;
  QTabWidget* tabs_ = nullptr;
  QLabel* message_ = nullptr;
  MapView* map_ = nullptr;
  QTableWidget *advice_ = nullptr, *hardware_ = nullptr;
  QLabel* advice_note_ = nullptr;
  std::vector<std::pair<Page, QWidget*>> pages_;
  std::shared_ptr<const SweepProblem> known_;  // the last problem's visible scores: a pass over a mask from a file
  Recipe stepper_;
  Background work_, looking_;
  bool again_ = false, looked_ = false;
};

}  // namespace flashscope::window
