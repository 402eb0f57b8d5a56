#include "app/window/main_window.h"

#include <QAbstractButton>
#include <QAbstractScrollArea>
#include <QAbstractSlider>
#include <QAbstractSpinBox>
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QKeyEvent>
#include <QMenuBar>
#include <QResizeEvent>
#include <QTabBar>

#include "app/window/command_palette.h"
#include "app/window/device_bar.h"
#include "app/window/docks/log_panel.h"
#include "app/window/docks/mask_panel.h"
#include "app/window/docks/stops_panel.h"
#include "app/window/docks/why_panel.h"
#include "app/window/explorer/explorer_window.h"
#include "app/window/overlay_bar.h"
#include "app/window/stage_widget.h"
#include "app/window/text.h"
#include "app/window/theme.h"
#include "app/window/transport_bar.h"

namespace flashscope::window {
namespace {

// Plain keys are the transport's, except where the focus is on something that they operate.
bool keeps_key(const QWidget* focus, const QKeyEvent& event) {
  if (!focus || event.modifiers() & (Qt::ControlModifier | Qt::AltModifier | Qt::MetaModifier)) return false;
  const int key = event.key();
  const auto one_of = [key](std::initializer_list<int> keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  const bool vertical = one_of({Qt::Key_Up, Qt::Key_Down, Qt::Key_PageUp, Qt::Key_PageDown});
  const bool ends = one_of({Qt::Key_Home, Qt::Key_End});
  const bool sideways = one_of({Qt::Key_Left, Qt::Key_Right});
  if (qobject_cast<const QAbstractButton*>(focus)) return key == Qt::Key_Space;
  if (qobject_cast<const QComboBox*>(focus)) return vertical || ends || key == Qt::Key_Space;
  if (qobject_cast<const QAbstractSpinBox*>(focus)) return vertical;
  if (qobject_cast<const QAbstractSlider*>(focus)) return vertical || ends || sideways;
  if (qobject_cast<const QAbstractScrollArea*>(focus)) return vertical || ends;
  if (qobject_cast<const QTabBar*>(focus)) return sideways;
  return false;
}

}  // namespace

MainWindow::MainWindow(const WindowStart& start)
    : demo_(demo_problem()),
      document_([this] {
        if (!poll_queued_.exchange(true)) QMetaObject::invokeMethod(this, &MainWindow::poll, Qt::QueuedConnection);
      }),
      inspecting_(this),
      exporting_(this),
      saving_(this),
      looking_(this),
      drawing_(this),
      parity_(this) {
  setObjectName("flashscope");
  setAcceptDrops(true);
  setDockNestingEnabled(true);
  stops_ = load_stops(settings_);
  dark_ = settings_.value("view/dark", true).toBool();
  apply_theme(dark_);

  stage_ = new StageWidget(document_, this);
  setCentralWidget(stage_);
  overlay_ = new OverlayBar(stage_);
  explorer_ = new ExplorerWindow(this);
  connect(explorer_, &ExplorerWindow::change, this, &MainWindow::apply);
  // No commands of the person: what they wait for and what they are told stays.
  connect(explorer_, &ExplorerWindow::measured, this, [this](const std::shared_ptr<const MeasuredSweep>& sweep) {
    document_.keep_sweep(sweep);
    refresh();
  });
  connect(explorer_, &ExplorerWindow::measures, this, [this](bool on_gpu) { document_.hold_gpu(on_gpu); });
  connect(explorer_, &ExplorerWindow::opened, this, &MainWindow::open_explored);
  make_docks();
  make_actions();
  transport_ = new TransportBar(actions_, this);
  addToolBar(Qt::BottomToolBarArea, transport_);
  palette_ = new CommandPalette(actions_, this);
  make_menus();
  device_bar_ = new DeviceBar(actions_, this);
  menuBar()->setCornerWidget(device_bar_);
  connect(device_bar_, &DeviceBar::details_wanted, this, [this] { actions_["view.runs"]->trigger(); });
  connect(device_bar_, &DeviceBar::mask_wanted, this, [this] { actions_["view.mask"]->trigger(); });
  connect(mask_, &MaskPanel::reported, this, [this] {
    const MaskPanel::Serious found = mask_->serious();
    if (found.fault && found.details != mask_logged_) log_->add("Mask: " + found.details);
    mask_logged_ = found.details;
    device_bar_->show_mask(found.badge, found.details, found.fault);
    const std::shared_ptr<const Schedule>& of = mask_->schedule();
    const auto tiles = mask_->tiles();
    const bool in_strips = of->recipe().algorithm == Algorithm::standard;  // a run without tiles has no partial ones
    stops_panel_->show_partial_tiles(of, tiles ? std::optional(in_strips ? 0 : tiles->partial) : std::nullopt);
  });
  connect(&parity_, &ParityCheck::changed, this, [this] { device_bar_->show_parity(parity_words(parity_)); });
  // A menu bar lays its corner out again only when it is resized itself.
  connect(device_bar_, &DeviceBar::resized, this, [this] {
    device_bar_->adjustSize();
    QResizeEvent again(menuBar()->size(), menuBar()->size());
    QApplication::sendEvent(menuBar(), &again);
  });
  device_bar_->show_parity(parity_words(parity_));

  connect(stage_, &StageWidget::command, this, &MainWindow::on_stage);
  connect(stage_, &StageWidget::unavailable, this,
          [this](const QString& reason) { fail("The stage cannot be drawn: " + reason); });
  connect(stage_, &StageWidget::shared_changed, this, &MainWindow::show_stepping);
  connect(transport_, &TransportBar::change, this, &MainWindow::apply);
  connect(palette_, &CommandPalette::change, this, &MainWindow::apply);
  connect(overlay_, &OverlayBar::dismissed, this, &MainWindow::escape);
  connect(overlay_, &OverlayBar::passed, this, [this] {
    notice_.clear();
    document_.clear_message();
    show_messages();
  });
  connect(overlay_, &OverlayBar::cancelled, this, [this] {
    saving_.cancel();
    drawing_.cancel();
    opening_.reset();
    restoring_.reset();
    apply([](Document& document) { document.cancel_job(); });
  });
  connect(transport_, &TransportBar::speed_changed, this,
          [this] { play_timer_.setInterval(static_cast<int>(1000 / transport_->steps_per_second())); });
  play_timer_.setInterval(static_cast<int>(1000 / transport_->steps_per_second()));
  connect(&play_timer_, &QTimer::timeout, this, &MainWindow::play_step);
  search_timer_.setInterval(50);
  connect(&search_timer_, &QTimer::timeout, this, &MainWindow::show_messages);
  qApp->installEventFilter(this);

  default_layout();
  load_settings();
  look_for_gpus();
  open_demo();
  open(start);
  stage_->setFocus();
}

MainWindow::~MainWindow() {
  qApp->removeEventFilter(this);
  // Panels that come into view while others are deleted must not read the document any more.
  for (const auto& [dock, panel] : docks_) disconnect(dock, nullptr, this, nullptr);
}

void MainWindow::apply(const Change& change) {
  notice_.clear();
  when_planned_.clear();
  // The last message was about what is now past.
  if (!document_.message().empty()) document_.clear_message();
  change(document_);
  document_.poll();
  refresh();
}

void MainWindow::apply_when_planned(const Change& change) {
  when_planned_.push_back(change);
  refresh();
}

bool MainWindow::planned() const {
  const viz::StageData& stage = document_.stage();
  return stage.schedule && stage.problem == document_.problem() && stage.schedule->recipe() == document_.recipe();
}

void MainWindow::poll() {
  poll_queued_ = false;
  document_.poll();
  refresh();
}

void MainWindow::refresh() {
  if (refreshing_) return;  // a panel that comes into view meanwhile is refreshed by that
  refreshing_ = true;
  follow_problem();
  stage_->data_changed();
  transport_->refresh(document_);
  parity_.refresh(document_);
  refresh_panels();
  update_actions();
  show_messages();
  show_title();
  refreshing_ = false;
  if (!when_planned_.empty() && planned()) {
    const std::vector<Change> changes = std::exchange(when_planned_, {});
    // Part of the command before them: what was said since then stays.
    for (const Change& change : changes) change(document_);
    document_.poll();
    refresh();
  }
}

void MainWindow::refresh_panels() {
  if (document_.problem()) mask_->refresh(document_);  // reports while it is hidden too
  for (const auto& [dock, panel] : docks_)
    if (panel->isVisible()) panel->refresh(document_);
  if (explorer_ && explorer_->isVisible()) explorer_->refresh(document_);
}

void MainWindow::follow_problem() {
  if (!document_.problem() || document_.problem()->q == shown_q_) return;
  const bool from_demo = shown_q_ == demo_->q;
  shown_q_ = document_.problem()->q;
  const bool known =
      std::any_of(origins_.begin(), origins_.end(), [&](const Origin& o) { return o.q.lock() == shown_q_; });
  if (opening_ && !known && shown_q_ != demo_->q) {
    origins_.push_back({shown_q_, *opening_});
    add_recent(text((opening_->input.empty() ? opening_->q : opening_->input).string()));
    opening_.reset();
    // Queued: this is inside a refresh. The demo's recipe is the demo's: it has no guard.
    session_path_.clear();  // another document; its runs are kept
    if (restoring_)
      QMetaObject::invokeMethod(
          this, [this, session = *restoring_] { apply_session(session); }, Qt::QueuedConnection);
    else if (from_demo || opening_recipe_)
      QMetaObject::invokeMethod(
          this, [this, recipe = opening_recipe_] { set_recipe_for(recipe); }, Qt::QueuedConnection);
    if (!restoring_) actions_["view.problem"]->trigger();  // what was found
    restoring_.reset();
  }
}

QString MainWindow::message() const { return overlay_->message(); }

bool MainWindow::idle() const {
  return !inspecting_.running() && !drawing_.running() && !exporting_.running() && !saving_.running() &&
         document_.job().what.empty() && planned() && when_planned_.empty() && !document_.stage().busy &&
         document_.stage().state->K == document_.requested_K();
}

void MainWindow::notice(const QString& message) {
  notice_ = message, notice_passes_ = true;
  show_messages();
}

void MainWindow::fail(const QString& message) {
  notice_ = message, notice_passes_ = false;
  show_messages();
}

void MainWindow::show_messages() {
  const QString message = notice_.isEmpty() ? text(document_.message()) : notice_;
  overlay_->set_two(document_.beside().has_value());
  overlay_->show_message(message, notice_.isEmpty() ? document_.message_passes() : notice_passes_);
  if (!message.isEmpty() && message != logged_) log_->add(message);
  logged_ = message;
  const JobStatus job = document_.job();
  if (saving_.running())
    overlay_->show_job("Saving the session", save_progress_);
  else if (drawing_.running())
    overlay_->show_job("Drawing Q, K and V at random", *draw_progress_);
  else
    search_timer_.stop(),
        overlay_->show_job(text(job.stage.empty() ? job.what : job.what + ": " + job.stage), job.fraction);
}

void MainWindow::on_stage(const viz::StageCommand& command) {
  const auto run = [this](const Change& change) { apply(change); };
  std::visit(
      [&](const auto& c) {
        using C = std::decay_t<decltype(c)>;
        if constexpr (std::is_same_v<C, viz::command::Seek>)
          run([&](Document& d) { d.seek(c.K); });
        else if constexpr (std::is_same_v<C, viz::command::SeekTile>)
          run([&](Document& d) { d.seek_tile(c.i, c.j); });
        else if constexpr (std::is_same_v<C, viz::command::HoverRow>)
          document_.hover_row(c.row), stage_->data_changed();
        else if constexpr (std::is_same_v<C, viz::command::PinRow>)
          run([&](Document& d) { d.pin_row(c.row, c.pinned); });
        else if constexpr (std::is_same_v<C, viz::command::PickCell>)
          ask_why(c);
        else if constexpr (std::is_same_v<C, viz::command::SetMapColour>)
          set_stage_option([&](viz::StageOptions& o) { o.map_colour = c.colour; });
        else if constexpr (std::is_same_v<C, viz::command::ToggleConvention>)
          toggle_convention(c.which);
        else
          QApplication::clipboard()->setText(text(c.text));
      },
      command);
}

void MainWindow::ask_why(const viz::command::PickCell& cell) {
  for (const CellKind kind :
       {CellKind::O, CellKind::LSE, CellKind::l, CellKind::m, CellKind::alpha, CellKind::P, CellKind::S}) {
    if (name(kind) != cell.of) continue;
    Question question{kind, cell.head, cell.row, -1, document_.requested_K()};
    if (kind == CellKind::O || kind == CellKind::S || kind == CellKind::P) question.col = cell.col;
    if (kind == CellKind::alpha) question.col = std::max<std::int64_t>(document_.stage().state->j, 0);
    show_why(question);
  }
}

void MainWindow::show_why(const Question& question) {
  actions_["view.why"]->trigger();
  why_->ask_about(question);
}

void MainWindow::toggle_convention(const std::string& which) {
  Recipe recipe = document_.recipe();
  const auto next = [](auto& choice, int count) {
    choice = static_cast<std::decay_t<decltype(choice)>>((static_cast<int>(choice) + 1) % count);
  };
  if (which == "causal") {
    Mask mask = document_.problem()->mask;
    mask.causal = mask.causal == Causal::top_left ? Causal::bottom_right : Causal::top_left;
    return apply([&](Document& d) { d.set_mask(mask); });
  }
  if (which == "lse") {
    LseConvention lse = document_.stage().lse;
    lse.base2 = !lse.base2;
    return apply([&](Document& d) { d.set_lse(lse); });
  }
  if (which == "empty-row") next(recipe.empty_row, 3);
  if (which == "guard") next(recipe.guard, 3);
  if (which == "skip") next(recipe.skip, 3);
  apply([&](Document& d) { d.set_recipe(recipe); });
}

void MainWindow::play(bool on) {
  if (on == play_timer_.isActive()) return;
  if (on)
    play_timer_.start();
  else
    play_timer_.stop();
  transport_->set_playing(on);
}

void MainWindow::play_step() {
  const auto& stage = document_.stage();
  if (!stage.schedule || document_.requested_K() >= stage.schedule->steps()) return play(false);
  // Never ahead of what is computed and drawn.
  if (stage.state && stage.state->K == document_.requested_K() && !stage.busy) apply([](Document& d) { d.step(1); });
}

void MainWindow::run_to_stop(bool forward) {
  if (!document_.problem()) return;
  std::vector<Stop> stops;
  for (const std::size_t n : stops_.enabled()) stops.push_back(stops_.list[n].stop);
  if (stops.empty()) return notice("No stops are switched on: tick some in the Stops panel, or press F9 at a tile.");
  apply([&](Document& document) {
    document.run_to(stops, forward, [this, stops](const Found& found) {
      if (StopEntry* entry = stops_.find(text_of(stops[found.stop]))) ++entry->hits;
    });
  });
}

void MainWindow::stop_here() {
  const auto& state = document_.stage().state;
  if (!state || !state->step || state->step->i < 0 || state->step->j < 0)
    return notice("A stop belongs to a stage of a tile; this step belongs to none.");
  Stop stop;
  stop.kind = Stop::Kind::tile;
  stop.i = state->step->i, stop.j = state->step->j, stop.stage = state->step->stage;
  const StopEntry* there = stops_.find(text_of(stop));
  const bool set = !there;
  if (set)
    add(stops_, stop);
  else
    remove(stops_, static_cast<std::size_t>(there - stops_.list.data()));
  notice((set ? "Stop set at " : "Stop removed from ") + place_text(*state->step));
  refresh();
}

void MainWindow::escape() {
  notice_.clear();
  document_.clear_message();
  play(false);
  stage_->setFocus();
  refresh();
}

bool MainWindow::eventFilter(QObject* object, QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride &&
      keeps_key(QApplication::focusWidget(), *static_cast<QKeyEvent*>(event))) {
    event->accept();
    return true;
  }
  return QMainWindow::eventFilter(object, event);
}

}  // namespace flashscope::window
