#include <QActionGroup>
#include <QApplication>
#include <QClipboard>
#include <QMenuBar>
#include <QMessageBox>

#include "app/window/command_palette.h"
#include "app/window/keys_dialog.h"
#include "app/window/main_window.h"
#include "app/window/stage_widget.h"
#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

struct LsePart {
  const char *id, *title;
  bool LseConvention::*part;
};
constexpr LsePart kLseParts[] = {{"view.lse_base2", "LSE in base &2", &LseConvention::base2},
                                 {"view.lse_negative", "LSE with the &other sign", &LseConvention::negative},
                                 {"view.lse_plus_inf", "LSE +&inf for an empty row", &LseConvention::plus_inf_empty}};

constexpr std::array kMapColours = {"largest score", "rescaled rows", "softmax mass", "NaN count"};
// The kinds of events by the names of their actions, and the stops that they are.
constexpr std::array<std::pair<const char*, const char*>, 7> kStopWords = {{{"first_max", "max"},
                                                                            {"rescale", "rescale"},
                                                                            {"masked", "masked"},
                                                                            {"partial", "partial"},
                                                                            {"empty_row", "empty"},
                                                                            {"nan", "nan"},
                                                                            {"inf", "inf"}}};
constexpr std::array kSpeeds = {0.25f, 0.5f, 1.0f, 2.0f, 4.0f};

}  // namespace

void MainWindow::make_actions() {
  make_file_actions();
  make_go_actions();
  make_stop_actions();
  make_beside_actions();
  make_view_actions();
  make_recipe_actions();
  for (const Actions::Entry& entry : actions_.entries()) addAction(entry.action);
}

void MainWindow::make_file_actions() {
  const auto change = [this](Change what) { return [this, what = std::move(what)] { apply(what); }; };
  actions_.add("file.open", "File", "&Open...", "Ctrl+O", "Tensors (.npz, .safetensors, .npy) or a session (.fscope)",
               [this] { choose_file(false); });
  actions_.add("file.open_mapped", "File", "Open and &map...", "Ctrl+Shift+O",
               "Say which array is q, k, v, mask; choose layout, batch and head", [this] { choose_file(true); });
  actions_.add("file.demo", "File", "Open the &demo", "", "A trained model's attention, built in",
               [this] { open_demo(); });
  actions_.add("file.save", "File", "&Save session", "Ctrl+S", "Problem, recipe, view and every full run, in one file",
               [this] { session_path_.empty() ? choose_session_place() : save_session_file(session_path_); });
  actions_.add("file.save_as", "File", "Save session &as...", "Ctrl+Shift+S", "", [this] { choose_session_place(); });
  actions_.add("file.picture", "File", "Save &picture...", "Ctrl+E", "The stage as it is now",
               [this] { save_picture((QSizeF(stage_->size()) * stage_->devicePixelRatioF()).toSize()); });
  actions_.add("file.picture_hd", "File", "Save picture at 1920 x 1080...", "", "", [this] {
    save_picture({1920, 1080});
  });
  actions_.add("file.export", "File", "&Export O and LSE...", "", "Of the last full run, as .npz",
               [this] { export_result(); });
  actions_.add("file.quit", "File", "&Quit", "Ctrl+Q", "", [this] { close(); });

  actions_.add("edit.undo", "Edit", "&Undo", "Ctrl+Z", "The last change of problem, mask or recipe, or deleted runs",
               change([](Document& d) { d.undo(); }));
  actions_.add("edit.redo", "Edit", "&Redo", "Ctrl+Shift+Z, Ctrl+Y", "", change([](Document& d) { d.redo(); }));
  actions_.add("edit.copy", "Edit", "&Copy the place", "Ctrl+C",
               "Problem, conventions, step and what is under the pointer, as text",
               [this] { QApplication::clipboard()->setText(place_as_text()); });
  actions_.add("edit.copy_picture", "Edit", "Copy the &picture", "Ctrl+Shift+C", "", [this] {
    QApplication::clipboard()->setImage(
        stage_->picture((QSizeF(stage_->size()) * stage_->devicePixelRatioF()).toSize()));
  });
  actions_.add("edit.keys", "Edit", "&Keys...", "?", "All keys, to read and to change", [this] {
    auto* dialog = new KeysDialog(actions_, this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    connect(dialog, &KeysDialog::keys_changed, this, [this] { actions_.save_keys(settings_); });
    dialog->show();
  });
  actions_.add("help.palette", "Help", "Any &command...", "Ctrl+P", "", [this] { palette_->open_over(stage_); });
  actions_.add("help.about", "Help", "&About flashscope", "", "", [this] { about(); });
}

void MainWindow::make_go_actions() {
  const auto go = [this](const QString& id, const QString& title, const QString& keys, const QString& tip,
                         Change what) {
    actions_.add(id, "Go", title, keys, tip, [this, what = std::move(what)] { play(false), apply(what); });
  };
  go("go.step", "&Step", "F10, Right", "One stage of the tile", [](Document& d) { d.step(1); });
  go("go.back", "Step &back", "Shift+F10, Left", "", [](Document& d) { d.step(-1); });
  go("go.next_tile", "Next &tile", "Down", "", [](Document& d) { d.step_tile(1); });
  go("go.back_tile", "&Previous tile", "Up", "", [](Document& d) { d.step_tile(-1); });
  go("go.first", "To the s&tart", "Home", "", [](Document& d) { d.seek(0); });
  go("go.last", "To the &end", "End", "", [](Document& d) {
    if (d.stage().schedule) d.seek(d.stage().schedule->steps());
  });
  go("go.reset", "&Reset", "R", "Back to the start, nothing pinned", [](Document& d) {
    const std::vector<std::int64_t> pinned = d.stage().pinned_rows;
    for (const std::int64_t row : pinned) d.pin_row(row, false);
    d.seek(0);
  });
  actions_.add("go.play", "Go", "&Play", "Space", "Play or pause", [this] { play(!play_timer_.isActive()); });
  go("go.next_rescale", "Next rescale", "E", "The next step in which a row's maximum grows",
     [](Document& d) { d.find(EventKind::rescale, true); });
  go("go.previous_rescale", "Previous rescale", "Shift+E", "", [](Document& d) { d.find(EventKind::rescale, false); });
  go("go.next_nan", "Next NaN", "N", "The next step in which a NaN is born",
     [](Document& d) { d.find(EventKind::nan, true); });
  go("go.previous_nan", "Previous NaN", "Shift+N", "", [](Document& d) { d.find(EventKind::nan, false); });
  actions_.add("go.run_to_stop", "Go", "Run to the next s&top", "F5",
               "Any that is switched on in the Stops panel: an event, a place set by F9, a condition",
               [this] { play(false), run_to_stop(true); });
  actions_.add("go.run_to_stop_back", "Go", "Run back to a stop", "Shift+F5", "",
               [this] { play(false), run_to_stop(false); });
  actions_.add("go.stop_here", "Go", "Stop &here", "F9", "Set or remove a stop at this tile and stage",
               [this] { stop_here(); });
  const auto head = [](Document& d, int by) {
    if (!d.stage().state) return;
    const std::int64_t heads = d.problem()->shape().heads;
    d.step_head((d.head() + by + heads) % heads);
  };
  go("go.next_head", "Next head", "PgDown", "", [head](Document& d) { head(d, 1); });
  go("go.previous_head", "Previous head", "PgUp", "", [head](Document& d) { head(d, -1); });
  actions_.add("go.run", "Go", "Run e&verything", "Ctrl+R",
               "All heads at once; time and memory are measured, O is checked against float64",
               [this] { apply([this](Document& d) { d.run_full(target_); }); });
  actions_.add_check("step.gpu", "Go", "Step on GPU", "", "By its own kernel, the picture straight from its memory",
                     false, [this](bool on) { step_on_gpu(on); });
  auto* sides = new QActionGroup(this);
  sides->addAction(actions_.add_check("run.cpu", "Run", "CPU", "", "Full runs on the CPU", true, [this](bool on) {
    if (on) set_target({false, target_.device});
  }));
  sides->addAction(actions_.add_check("run.gpu", "Run", "GPU", "", "Full runs on the GPU, in a process of their own",
                                      false, [this](bool on) {
                                        if (on) set_target({true, target_.device});
                                      }));
  actions_.add("go.escape", "Go", "Dismiss, pause, back to the stage", "Esc", "", [this] { escape(); });
}

void MainWindow::make_stop_actions() {
  actions_.add("go.clear_stops", "Go", "Remove all stops set by hand", "Ctrl+Shift+F9", "", [this] {
    remove_places(stops_);
    notice("No stops set by hand are left.");
    refresh();
  });
  for (const auto& [id, word] : kStopWords) {
    const std::string what = word;
    actions_.add_check(QString("stop.") + id, "Stops", "Stop at " + QString(id).replace('_', ' '), "", "", false,
                       [this, what](bool on) {
                         const StopEntry* there = stops_.find(what);
                         if (there)
                           enable(stops_, static_cast<std::size_t>(there - stops_.list.data()), on);
                         else if (on)
                           add(stops_, parse_stop(what));
                         refresh();
                       });
  }
}

void MainWindow::make_view_actions() {
  int number = 1;
  for (const auto& [dock, panel] : docks_) {
    actions_.add("view." + dock->objectName(), "View", dock->windowTitle(),
                 number < 10 ? QString("Alt+%1").arg(number++) : QString(), "Show this panel",
                 [dock = dock] { dock->show(), dock->raise(); });
  }
  for (const auto& [id, title, part] : kLseParts)
    actions_.add_check(id, "View", title, "", "How LSE is written, and read of another kernel; computed is the same",
                       false, [this, part = part](bool on) {
                         LseConvention lse = document_.stage().lse;
                         lse.*part = on;
                         apply([lse](Document& d) { d.set_lse(lse); });
                       });
  actions_.add("view.explorer", "View", "E&xplorer", "Ctrl+Shift+E",
               "How block size, budget, length and hardware decide the traffic", [this] { show_explorer(); });
  actions_.add_check("view.dark", "View", "&Dark", "Ctrl+T", "Dark or light", dark_,
                     [this](bool on) { set_theme(on); });
  actions_.add_check("view.animate", "View", "&Animate transfers", "A", "Never delays a step", true,
                     [this](bool on) { set_stage_option([on](viz::StageOptions& o) { o.animate = on; }); });
  auto* speeds = new QActionGroup(this);
  for (const float speed : kSpeeds) {
    QAction* action =
        actions_.add_check(QString("view.speed.%1").arg(speed), "View", QString("Animation speed x %1").arg(speed), "",
                           "", speed == 1.0f, [this, speed](bool on) {
                             if (on) set_stage_option([speed](viz::StageOptions& o) { o.animation_speed = speed; });
                           });
    speeds->addAction(action);
  }
  auto* colours = new QActionGroup(this);
  for (std::size_t n = 0; n < kMapColours.size(); ++n) {
    QAction* action = actions_.add_check(
        QString("view.map.%1").arg(n), "View", QString("Map by ") + kMapColours[n], QString("Ctrl+%1").arg(n + 1),
        "What colours the tiles of the map", n == 0, [this, n](bool on) {
          if (on) set_stage_option([n](viz::StageOptions& o) { o.map_colour = static_cast<viz::MapColour>(n); });
        });
    colours->addAction(action);
  }
  actions_.add_check("view.hex", "View", "Values also as &hex and ulp", "H", "", false,
                     [this](bool on) { set_stage_option([on](viz::StageOptions& o) { o.show_hex = on; }); });
  actions_.add_check("view.only_stage", "View", "&Only the stage", "F11", "No panels: for a projector", false,
                     [this](bool on) { show_only_stage(on); });
  actions_.add("view.default_layout", "View", "Default &layout", "", "Panels where they were at first",
               [this] { default_layout(); });
}

template <class Enum>
void MainWindow::add_recipe_choices(const QString& label, Enum Recipe::*option) {
  int index = 0;
  for (const std::string_view word : choices<Enum>()) {
    actions_.add("recipe." + label + '.' + text(word), "Recipe", label + ' ' + text(word), "", "",
                 [this, option, index] {
                   Recipe recipe = document_.recipe();
                   recipe.*option = static_cast<Enum>(index);
                   apply([&](Document& d) { d.set_recipe(recipe); });
                 });
    ++index;
  }
}

void MainWindow::make_recipe_actions() {
  add_recipe_choices("algorithm", &Recipe::algorithm);
  add_recipe_choices("order", &Recipe::order);
  add_recipe_choices("skip", &Recipe::skip);
  add_recipe_choices("guard", &Recipe::guard);
  add_recipe_choices("empty row", &Recipe::empty_row);
  add_recipe_choices("numerators", &Recipe::numerators);
  add_recipe_choices("defect", &Recipe::defect);
}

void MainWindow::make_menus() {
  const auto fill = [this](QMenu* menu, std::initializer_list<const char*> ids) {
    for (const char* id : ids) {
      if (*id)
        menu->addAction(actions_[id]);
      else
        menu->addSeparator();
    }
    menu->setToolTipsVisible(true);
    return menu;
  };
  QMenu* file = fill(menuBar()->addMenu("&File"), {"file.open", "file.open_mapped"});
  recent_menu_ = file->addMenu("&Recent files");
  fill(file, {"file.demo", "", "file.save", "file.save_as", "", "file.picture", "file.picture_hd", "file.export", "",
              "file.quit"});
  fill(menuBar()->addMenu("&Edit"), {"edit.undo", "edit.redo", "", "edit.copy", "edit.copy_picture", "", "edit.keys"});
  QMenu* view = menuBar()->addMenu("&View");
  for (const auto& [dock, panel] : docks_) view->addAction(actions_["view." + dock->objectName()]);
  view->addSeparator();
  fill(view, {"view.explorer", "", "view.dark", "view.animate"});
  QMenu* speed = view->addMenu("Animation &speed");
  for (const float value : kSpeeds) speed->addAction(actions_[QString("view.speed.%1").arg(value)]);
  QMenu* map = view->addMenu("&Map colour");
  for (std::size_t n = 0; n < kMapColours.size(); ++n) map->addAction(actions_[QString("view.map.%1").arg(n)]);
  QMenu* lse = view->addMenu("&LSE");
  for (const auto& [id, title, part] : kLseParts) lse->addAction(actions_[id]);
  fill(view, {"view.hex", "", "view.only_stage", "view.default_layout"});
  QMenu* go = fill(menuBar()->addMenu("&Go"),
                   {"go.step", "go.back", "go.next_tile", "go.back_tile", "go.first", "go.last", "go.reset", "go.play",
                    "", "go.next_rescale", "go.previous_rescale", "go.next_nan", "go.previous_nan", "",
                    "go.run_to_stop", "go.run_to_stop_back", "go.stop_here"});
  QMenu* stops = go->addMenu("St&ops");
  stops->addAction(actions_["view.stops"]);
  stops->addSeparator();
  for (const auto& [id, word] : kStopWords) stops->addAction(actions_[QString("stop.") + id]);
  stops->addSeparator();
  stops->addAction(actions_["go.clear_stops"]);
  fill(go, {"", "go.next_difference", "go.previous_difference", "", "go.next_head", "go.previous_head", "", "go.run",
            "run.cpu", "run.gpu", "step.gpu"});
  gpu_menu_ = go->addMenu("&Which GPU");
  gpu_menu_->menuAction()->setVisible(false);
  fill(menuBar()->addMenu("&Beside"),
       {"beside.keep", "beside.guard", "beside.algorithm", "beside.br", "beside.bc", "beside.order", "beside.defect",
        "", "go.next_difference", "go.previous_difference", "", "beside.swap", "beside.off"});
  fill(menuBar()->addMenu("&Help"), {"view.minutes", "help.palette", "edit.keys", "", "help.about"});
  fill_recent();
}

void MainWindow::update_actions() {
  show_stepping();
  actions_["edit.undo"]->setEnabled(document_.can_undo());
  actions_["edit.redo"]->setEnabled(document_.can_redo());
  actions_["file.export"]->setEnabled(document_.report() != nullptr);
  const bool heads = document_.problem() && document_.problem()->shape().heads > 1;
  actions_["go.next_head"]->setEnabled(heads);
  actions_["go.previous_head"]->setEnabled(heads);
  const viz::StageOptions& options = stage_->options();
  const auto check = [this](const QString& id, bool on) {
    const QSignalBlocker quiet(actions_[id]);
    actions_[id]->setChecked(on);
  };
  for (const auto& [id, word] : kStopWords) {
    const StopEntry* entry = stops_.find(word);
    check(QString("stop.") + id, entry && entry->enabled);
  }
  update_beside_actions();
  check("view.animate", options.animate);
  check("view.hex", options.show_hex);
  for (const auto& [id, title, part] : kLseParts) check(id, document_.stage().lse.*part);
  check(QString("view.map.%1").arg(static_cast<int>(options.map_colour)), true);
  for (const float speed : kSpeeds)
    if (speed == options.animation_speed) check(QString("view.speed.%1").arg(speed), true);
}

void MainWindow::about() {
  QMessageBox box(this);
  box.setIconPixmap(program_icon().pixmap(64, 64));
  box.setWindowTitle("About flashscope");
  box.setTextFormat(Qt::RichText);
  box.setText(
      QString("<h3>flashscope " FLASHSCOPE_VERSION "</h3><p>A scope for attention kernels.</p>"
              "<p>Free software under the GNU General Public License, version 3 or later; without any warranty.</p>"
              "<p>Qt %1, QCustomPlot and Dear ImGui draw the window.</p>")
          .arg(qVersion()));
  box.exec();
}

}  // namespace flashscope::window
