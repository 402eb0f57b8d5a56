// Sessions: problem, recipe, view and every full run in one file.
#include <QFileDialog>
#include <QFileInfo>
#include <QMessageBox>
#include <nlohmann/json.hpp>

#include "app/window/docks/kernel_panel.h"
#include "app/window/main_window.h"
#include "app/window/stage_widget.h"
#include "app/window/text.h"

namespace flashscope::window {
namespace {

using Json = nlohmann::json;

// What the window keeps of itself in a session. A field that is missing, or of another type, keeps its default.
struct View {
  std::vector<std::int64_t> pinned;
  int map_colour = 0;
  bool hex = false;
  std::optional<Stops> stops;
};

View view_of(const std::string& window) {
  View view;
  const Json json = Json::parse(window, nullptr, false);
  if (!json.is_object()) return view;
  if (const auto found = json.find("pinned"); found != json.end() && found->is_array())
    for (const Json& row : *found)
      if (row.is_number_integer()) view.pinned.push_back(row.get<std::int64_t>());
  if (const auto found = json.find("map_colour"); found != json.end() && found->is_number_integer())
    view.map_colour = std::clamp(found->get<int>(), 0, 3);
  if (const auto found = json.find("stops"); found != json.end()) view.stops = stops_from_json(found->dump());
  if (const auto found = json.find("hex"); found != json.end() && found->is_boolean()) view.hex = found->get<bool>();
  return view;
}

}  // namespace

std::string MainWindow::view_as_json() const {
  Json json;
  json["pinned"] = document_.stage().pinned_rows;
  json["map_colour"] = static_cast<int>(stage_->options().map_colour);
  json["hex"] = stage_->options().show_hex;
  json["stops"] = Json::parse(as_json(stops_));
  return json.dump();
}

void MainWindow::open_session_file(const std::filesystem::path& path, const RecipeFor& recipe) {
  inspecting_.cancel();
  drawing_.cancel();
  opening_.reset();
  restoring_.reset();
  apply([&](Document& document) {
    document.open_session(path, [this, path, recipe](const SessionFile& session) {
      document_.set_session(session, [this, session, path, recipe] {
        take_session(session, path);
        if (recipe)
          QMetaObject::invokeMethod(
              this, [this, recipe] { set_recipe_for(recipe); }, Qt::QueuedConnection);
      });
    });
  });
}

void MainWindow::take_session(const SessionFile& session, const std::filesystem::path& path) {
  if (session.problem) {
    const View view = view_of(session.window);
    const std::vector<std::int64_t> before = document_.stage().pinned_rows;
    for (const std::int64_t row : before) document_.pin_row(row, false);
    for (const std::int64_t row : view.pinned)
      if (row >= 0 && row < session.problem->shape().Nq) document_.pin_row(row, true);
    set_stage_option([&](viz::StageOptions& options) {
      options.map_colour = static_cast<viz::MapColour>(view.map_colour), options.show_hex = view.hex;
    });
    if (view.stops) stops_.before.push_back(std::exchange(stops_.list, view.stops->list));
    session_path_ = path;
  }
  add_recent(text(path.string()));
  if (!session.reports.empty()) actions_["view.runs"]->trigger();
  if (!session.problem && session.reports.empty() && !session.sweeps.empty()) show_explorer();
  const auto runs = static_cast<std::int64_t>(session.reports.size());
  const auto sweeps = static_cast<std::int64_t>(session.sweeps.size());
  const QString measured =
      sweeps == 0 ? QString() : QString(", %1 in the explorer").arg(counted(sweeps, "measured sweep"));
  notice(QString("Opened %1: %2%3%4")
             .arg(text(path.filename().string()), counted(runs, "run"), measured,
                  session.problem ? "" : "; it holds no problem, so the open one stays"));
}

void MainWindow::choose_session_place(const std::function<void()>& then) {
  const QString name = session_path_.empty()
                           ? text(document_.problem()->name).section('/', -1).replace(' ', '-') + ".fscope"
                           : text(session_path_.filename().string());
  QString path =
      QFileDialog::getSaveFileName(this, "Save the session", settings_.value("files/folder").toString() + '/' + name,
                                   "flashscope session (*.fscope)");
  if (path.isEmpty()) return;
  if (QFileInfo(path).suffix().isEmpty()) path += ".fscope";
  settings_.setValue("files/folder", QFileInfo(path).path());
  save_session_file(path.toStdString(), then);
}

void MainWindow::save_session_file(const std::filesystem::path& path, const std::function<void()>& then) {
  SessionFile session = document_.session();
  if (!session.problem) return;
  session.window = view_as_json();
  save_progress_ = 0;
  search_timer_.start();
  saving_.start(
      [this, session, path](const std::stop_token& stop) {
        write_session(path, session, stop, [this](std::int64_t done, std::int64_t total) {
          save_progress_ = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
        });
        return true;
      },
      [this, session, path, then](bool) {
        document_.mark_saved(session);
        if (session.problem == document_.problem()) session_path_ = path;
        add_recent(text(path.string()));
        notice("Saved " + text(path.string()));
        refresh();
        if (then) then();
      },
      [this](const QString& why) { fail(why); });
}

void MainWindow::before_losing(const std::function<void()>& go_on) {
  if (!document_.would_lose()) return go_on();
  const QString what = !document_.would_lose_sweeps()   ? "Runs were measured on a GPU and are"
                       : !document_.runs().would_lose() ? "A sweep was measured on a GPU and is"
                                                        : "Runs and a sweep were measured on a GPU and are";
  auto* box = new QMessageBox(QMessageBox::Question, "flashscope", what + " in no session file.",
                              QMessageBox::Save | QMessageBox::Discard | QMessageBox::Cancel, this);
  box->setObjectName("would_lose");
  box->setInformativeText("Save before that is lost?");
  box->setDefaultButton(QMessageBox::Save);
  box->setAttribute(Qt::WA_DeleteOnClose);
  connect(box, &QMessageBox::finished, this, [this, go_on](int answer) {
    if (answer == QMessageBox::Discard) return go_on();
    if (answer != QMessageBox::Save) return;
    if (session_path_.empty())
      choose_session_place(go_on);
    else
      save_session_file(session_path_, go_on);
  });
  box->open();
}

void MainWindow::show_title() {
  if (!document_.problem()) return;
  const QString name = text(document_.problem()->name);
  setWindowTitle(session_path_.empty() ? name + "[*] - flashscope"
                                       : text(session_path_.filename().string()) + "[*] - " + name + " - flashscope");
  setWindowModified(session_path_.empty() ? document_.would_lose() : document_.modified());
}

}  // namespace flashscope::window
