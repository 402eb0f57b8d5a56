// The window: one document, the stage in the middle, panels around it. Owns no data of its own beyond what
// is remembered from one start to the next.
#pragma once

#include <QDockWidget>
#include <QMainWindow>
#include <QSettings>
#include <QTimer>
#include <atomic>
#include <filesystem>

#include "app/gpu_child.h"
#include "app/window/actions.h"
#include "app/window/background.h"
#include "app/window/panel.h"
#include "app/window/parity_check.h"
#include "app/window/session.h"
#include "app/window_start.h"

class QMenu;

namespace flashscope::window {

class CommandPalette;
class DeviceBar;
class KernelPanel;
class ExplorerWindow;
class LogPanel;
class MaskPanel;
class OverlayBar;
class StageWidget;
class StopsPanel;
class TransportBar;
class WhyPanel;

class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  // Opens what is asked for; where nothing is, what was open last time; the first time, the demo.
  explicit MainWindow(const WindowStart& start = {});
  ~MainWindow() override;

  using RecipeFor = std::function<Recipe(const Shape&)>;

  Document& document() { return document_; }
  const Actions& actions_table() const { return actions_; }
  void apply(const Change& change);               // a command of the person
  void apply_when_planned(const Change& change);  // what follows it, unless another command comes first
  void open_path(const std::filesystem::path& path, bool ask = false, const RecipeFor& recipe = {});
  void notice(const QString& message);  // passes by itself
  void fail(const QString& message);    // stays until it is dismissed, or something else is done
  QString message() const;              // what the person sees; empty: nothing
  bool idle() const;                    // nothing is searched, opened or looked into
  const ParityCheck& parity_check() const { return parity_; }
  bool gpus_known() const { return !looking_.running(); }
  void save_session_file(const std::filesystem::path& path, const std::function<void()>& then = {});

 protected:
  void closeEvent(QCloseEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  void changeEvent(QEvent* event) override;
  void showEvent(QShowEvent* event) override;
  bool eventFilter(QObject* object, QEvent* event) override;

 private:
  // main_window.cpp
  void poll();
  void refresh();
  bool planned() const;  // what is shown belongs to the present problem and recipe
  void refresh_panels();
  void follow_problem();
  void show_messages();
  void on_stage(const viz::StageCommand& command);
  void ask_why(const viz::command::PickCell& cell);
  void show_why(const Question& question);
  void toggle_convention(const std::string& which);
  void play(bool on);
  void play_step();
  void run_to_stop(bool forward);
  void stop_here();
  void escape();
  // main_window_actions.cpp
  void make_actions();
  void make_file_actions();
  void make_view_actions();
  void make_go_actions();
  void make_recipe_actions();
  void make_stop_actions();
  template <class Enum>
  void add_recipe_choices(const QString& label, Enum Recipe::*option);
  void make_menus();
  void update_actions();
  void about();
  // main_window_beside.cpp
  void make_beside_actions();
  void set_beside(const std::optional<Recipe>& recipe);
  void update_beside_actions();
  // main_window_layout.cpp
  void make_docks();
  QDockWidget* add_dock(const QString& id, const QString& title, Panel* panel);
  void default_layout();
  void show_only_stage(bool on);
  void show_explorer();
  void load_settings();
  void save_settings();
  void set_theme(bool dark);
  void set_stage_option(const std::function<void(viz::StageOptions&)>& change);
  // main_window_files.cpp
  void open_demo();
  void choose_file(bool ask);
  using ProblemPointer = std::shared_ptr<const Problem>;
  void draw_problem(const std::function<ProblemPointer(const std::stop_token&, const Progress&)>& make,
                    const std::function<void(const ProblemPointer&)>& then);
  void open(const WindowStart& start);
  void open_files(const ProblemFiles& files, const RecipeFor& recipe = {});
  void set_recipe_for(const RecipeFor& recipe);
  void open_other_layout();
  void restore(const Session& session);
  void apply_session(const Session& session);
  void add_recent(const QString& path);
  void fill_recent();
  void save_picture(QSize size);
  void export_result();
  QString place_as_text() const;
  // main_window_session.cpp
  void open_session_file(const std::filesystem::path& path, const RecipeFor& recipe = {});
  void take_session(const SessionFile& session, const std::filesystem::path& path);
  std::string view_as_json() const;
  void choose_session_place(const std::function<void()>& then = {});
  void before_losing(const std::function<void()>& go_on);  // asks only where a measurement would be lost
  void show_title();
  // main_window_explorer.cpp
  void open_explored(const Shape& shape, const Mask& mask, const Recipe& recipe);
  // main_window_gpu.cpp
  void look_for_gpus();
  void take_gpus(const gpu::GpuStatus& status);
  void set_target(const RunTarget& target);
  void step_on_gpu(bool on);
  void show_stepping();

  struct Origin {
    std::weak_ptr<const Tensor> q;
    ProblemFiles files;
  };

  QSettings settings_;
  std::atomic<bool> poll_queued_ = false;
  std::shared_ptr<const Problem> demo_;
  Document document_;
  Actions actions_;
  Stops stops_;

  StageWidget* stage_ = nullptr;
  OverlayBar* overlay_ = nullptr;
  DeviceBar* device_bar_ = nullptr;
  KernelPanel* kernel_ = nullptr;
  TransportBar* transport_ = nullptr;
  CommandPalette* palette_ = nullptr;
  ExplorerWindow* explorer_ = nullptr;
  LogPanel* log_ = nullptr;
  WhyPanel* why_ = nullptr;
  MaskPanel* mask_ = nullptr;
  StopsPanel* stops_panel_ = nullptr;
  QMenu* recent_menu_ = nullptr;
  std::vector<std::pair<QDockWidget*, Panel*>> docks_;
  QTimer play_timer_;
  std::vector<Change> when_planned_;
  bool refreshing_ = false;
  bool dark_ = true;
  bool first_start_ = false;

  QString notice_, logged_, mask_logged_;
  bool notice_passes_ = true;
  std::string document_message_;
  std::vector<Origin> origins_;  // which files the tensors came from, for undo and the session
  std::optional<ProblemFiles> opening_;
  RecipeFor opening_recipe_;
  std::optional<Session> restoring_;
  std::shared_ptr<const Tensor> shown_q_;
  QStringList recent_;
  std::filesystem::path session_path_;  // empty: in no file
  bool closing_ = false;                // what would be lost was asked about
  RunTarget target_;
  QMenu* gpu_menu_ = nullptr;  // which GPU, where there are several

  std::atomic<double> save_progress_ = 0;
  std::shared_ptr<std::atomic<double>> draw_progress_;  // of the newest drawing
  Background inspecting_, exporting_, saving_, looking_, drawing_;
  ParityCheck parity_;
  QTimer search_timer_;
  QByteArray layout_before_;  // of the docks, while only the stage is shown
};

}  // namespace flashscope::window
