#include <QApplication>
#include <QCloseEvent>
#include <QLayout>
#include <QMenuBar>
#include <QScreen>

#include "app/window/docks/compare_panel.h"
#include "app/window/docks/events_panel.h"
#include "app/window/docks/first_minutes_panel.h"
#include "app/window/docks/gallery_panel.h"
#include "app/window/docks/history_panel.h"
#include "app/window/docks/kernel_panel.h"
#include "app/window/docks/log_panel.h"
#include "app/window/docks/mask_panel.h"
#include "app/window/docks/memory_panel.h"
#include "app/window/docks/numerics_panel.h"
#include "app/window/docks/problem_panel.h"
#include "app/window/docks/recipe_panel.h"
#include "app/window/docks/row_panel.h"
#include "app/window/docks/runs_panel.h"
#include "app/window/docks/stops_panel.h"
#include "app/window/docks/timeline_panel.h"
#include "app/window/docks/traffic_panel.h"
#include "app/window/docks/why_panel.h"
#include "app/window/explorer/explorer_window.h"
#include "app/window/main_window.h"
#include "app/window/stage_widget.h"
#include "app/window/text.h"
#include "app/window/theme.h"
#include "app/window/transport_bar.h"
#include "engine/error.h"

namespace flashscope::window {
namespace {

constexpr int kRoomy = 1700;       // from this width on there is room for two groups of panels
constexpr int kLayoutVersion = 1;  // of the remembered docks

}  // namespace

QDockWidget* MainWindow::add_dock(const QString& id, const QString& title, Panel* panel) {
  auto* dock = new QDockWidget(title, this);
  dock->setObjectName(id);
  panel->setObjectName(id + "_panel");
  dock->setWidget(panel);
  addDockWidget(Qt::RightDockWidgetArea, dock);
  docks_.emplace_back(dock, panel);
  connect(panel, &Panel::change, this, &MainWindow::apply);
  connect(panel, &Panel::then, this, &MainWindow::apply_when_planned);
  connect(panel, &Panel::ask, this, [this](const Change& request) { request(document_); });
  connect(panel, &Panel::failed, this, &MainWindow::fail);
  connect(panel, &Panel::why, this, &MainWindow::show_why);
  connect(dock, &QDockWidget::visibilityChanged, this, [this, panel = panel](bool visible) {
    if (visible && document_.problem()) panel->refresh(document_);
  });
  return dock;
}

void MainWindow::make_docks() {
  add_dock("minutes", "First minutes", new FirstMinutesPanel(demo_, this));
  add_dock("recipe", "Recipe", new RecipePanel(this));
  add_dock("problem", "Problem", new ProblemPanel(this));
  add_dock("traffic", "Traffic", new TrafficPanel(this));
  add_dock("events", "Events", new EventsPanel(this));
  add_dock("history", "History", new HistoryPanel(this));
  stops_panel_ = new StopsPanel(stops_, this);
  connect(stops_panel_, &StopsPanel::edited, this, &MainWindow::refresh);
  connect(stops_panel_, &StopsPanel::run, this,
          [this](bool forward) { actions_[forward ? "go.run_to_stop" : "go.run_to_stop_back"]->trigger(); });
  add_dock("stops", "Stops", stops_panel_);
  add_dock("row", "One row", new RowPanel(this));
  add_dock("gallery", "Gallery", new GalleryPanel(this));
  add_dock("compare", "Compare", new ComparePanel(this));
  add_dock("numerics", "Numerics", new NumericsPanel(this));
  add_dock("runs", "Runs", new RunsPanel(this));
  add_dock("memory", "Memory", new MemoryPanel(this));
  kernel_ = new KernelPanel(this);
  add_dock("kernel", "Kernel", kernel_);
  auto* timeline = new TimelinePanel(this);
  add_dock("timeline", "Timeline", timeline);
  connect(timeline, &TimelinePanel::done, this, &MainWindow::notice);
  why_ = new WhyPanel(this);
  add_dock("why", "Why?", why_);
  mask_ = new MaskPanel(this);
  add_dock("mask", "Mask", mask_);
  connect(mask_, &MaskPanel::other_layout, this, &MainWindow::open_other_layout);
  connect(mask_, &MaskPanel::edit_wanted, this, [this] { actions_["view.problem"]->trigger(); });
  log_ = new LogPanel(this);
  add_dock("log", "Log", log_);
  setTabPosition(Qt::AllDockWidgetAreas, QTabWidget::North);
}

void MainWindow::default_layout() {
  const QSize room = screen()->availableGeometry().size().boundedTo({1920, 1080});
  const bool roomy = (isVisible() ? width() : room.width()) >= kRoomy;
  for (const auto& [dock, panel] : docks_) {
    dock->setFloating(false);
    addDockWidget(Qt::RightDockWidgetArea, dock);
    dock->show();
  }
  // The first group is always there; the second one below it where there is room, else in its tabs on demand.
  constexpr std::size_t kFirst = 3;
  if (roomy) splitDockWidget(docks_[0].first, docks_[kFirst].first, Qt::Vertical);
  for (std::size_t n = 1; n < docks_.size(); ++n)
    if (!roomy || n != kFirst) tabifyDockWidget(docks_[roomy && n > kFirst ? kFirst : 0].first, docks_[n].first);
  for (std::size_t n = kFirst; n < docks_.size(); ++n)
    if (!roomy || n == docks_.size() - 1) docks_[n].first->hide();
  layout()->activate();  // forgets the height of all docks in one column
  if (!isVisible()) resize(room);
  docks_[0].first->raise();
  if (roomy) docks_[kFirst].first->raise();
  resizeDocks({docks_[0].first}, {roomy ? 430 : 320}, Qt::Horizontal);
  if (roomy)
    resizeDocks({docks_[0].first, docks_[kFirst].first}, {height() * 56 / 100, height() * 44 / 100}, Qt::Vertical);
}

void MainWindow::show_explorer() {
  explorer_->refresh(document_);
  explorer_->show();
  explorer_->raise();
  explorer_->activateWindow();
}

void MainWindow::show_only_stage(bool on) {
  if (on) {
    layout_before_ = saveState(kLayoutVersion);
    for (const auto& [dock, panel] : docks_) dock->hide();
  } else {
    restoreState(layout_before_, kLayoutVersion);
    layout_before_.clear();
  }
  menuBar()->setVisible(!on);
}

void MainWindow::load_settings() {
  first_start_ = !settings_.contains("view/geometry");
  restoreGeometry(settings_.value("view/geometry").toByteArray());
  restoreState(settings_.value("view/docks").toByteArray(), kLayoutVersion);
  kernel_->set_sheet(settings_.value("view/sheet", "H200").toString());
  recent_ = settings_.value("files/recent").toStringList();
  fill_recent();
  actions_.load_keys(settings_);
  transport_->set_steps_per_second(settings_.value("view/steps_per_second", 5.0).toDouble());
  viz::StageOptions options = stage_->options();
  options.dark = dark_;
  options.animate = settings_.value("view/animate", true).toBool();
  options.animation_speed = std::clamp(settings_.value("view/animation_speed", 1.0).toFloat(), 0.1f, 10.0f);
  options.show_hex = settings_.value("view/hex", false).toBool();
  options.map_colour = static_cast<viz::MapColour>(std::clamp(settings_.value("view/map_colour", 0).toInt(), 0, 3));
  stage_->set_options(options);
  try {
    document_.set_lse(parse_lse(settings_.value("view/lse", "natural").toString().toStdString()));
  } catch (const InputError&) {  // of another version: the usual one
  }
}

void MainWindow::save_settings() {
  settings_.setValue("view/geometry", saveGeometry());
  settings_.setValue("view/docks", layout_before_.isEmpty() ? saveState(kLayoutVersion) : layout_before_);
  settings_.setValue("view/steps_per_second", transport_->steps_per_second());
  settings_.setValue("view/dark", dark_);
  settings_.setValue("view/sheet", kernel_->sheet());
  const viz::StageOptions& options = stage_->options();
  settings_.setValue("view/animate", options.animate);
  settings_.setValue("view/animation_speed", options.animation_speed);
  settings_.setValue("view/hex", options.show_hex);
  settings_.setValue("view/lse", text(words(document_.stage().lse)));
  settings_.setValue("view/map_colour", static_cast<int>(options.map_colour));
  actions_.save_keys(settings_);
  save_stops(settings_, stops_);
  const std::shared_ptr<const Problem>& problem = document_.problem();
  if (!problem) return;
  Session session;
  for (const Origin& origin : origins_)
    if (origin.q.lock() == problem->q) session.files = origin.files;
  session.session_file = session_path_;
  // What is in no file, drawn at random or of the gallery, cannot be opened again.
  if (!session.files && session_path_.empty() && problem->q != demo_->q) return settings_.remove("session");
  session.causal = problem->mask.causal;
  session.window = problem->mask.window;
  session.rules = problem->mask.rules;
  session.scale = problem->scale;
  session.recipe = document_.recipe();
  if (!document_.beside_problem()) session.beside = document_.beside();
  session.K = document_.requested_K();
  save_session(settings_, session);
}

void MainWindow::set_theme(bool dark) {
  dark_ = dark;
  apply_theme(dark);
  set_stage_option([dark](viz::StageOptions& options) { options.dark = dark; });
}

void MainWindow::set_stage_option(const std::function<void(viz::StageOptions&)>& change) {
  viz::StageOptions options = stage_->options();
  change(options);
  stage_->set_options(options);
  update_actions();
}

void MainWindow::closeEvent(QCloseEvent* event) {
  if (!closing_ && document_.would_lose()) {
    event->ignore();
    return before_losing([this] { closing_ = true, close(); });
  }
  save_settings();
  document_.cancel_job();
  QMainWindow::closeEvent(event);
}

void MainWindow::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange && stage_) refresh_panels();
  QMainWindow::changeEvent(event);
}

void MainWindow::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  if (document_.problem()) refresh();
}

}  // namespace flashscope::window
