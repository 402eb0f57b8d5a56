#include <QDir>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenu>
#include <QMimeData>
#include <QStandardPaths>

#include "app/window/main_window.h"
#include "app/window/open_dialog.h"
#include "app/window/stage_widget.h"
#include "app/window/text.h"
#include "engine/error.h"
#include "engine/files/tensor_file.h"

namespace flashscope::window {

void MainWindow::open_demo() {
  inspecting_.cancel();
  drawing_.cancel();
  opening_.reset();
  restoring_.reset();
  session_path_.clear();
  apply([this](Document& document) {
    document.join_changes(true);
    document.set_recipe(demo_recipe());
    document.set_problem(demo_);
    document.join_changes(false);
  });
  // Not the empty chip of step 0: the first tile in which something happens. Home goes to the start.
  apply_when_planned([](Document& document) { document.find(EventKind::rescale, true); });
}

void MainWindow::choose_file(bool ask) {
  const QString chosen = QFileDialog::getOpenFileName(this, "Open", settings_.value("files/folder").toString(),
                                                      "Tensors and sessions (*.npz *.safetensors *.npy *.fscope);;All "
                                                      "files (*)");
  if (chosen.isEmpty()) return;
  settings_.setValue("files/folder", QFileInfo(chosen).path());
  open_path(chosen.toStdString(), ask);
}

// A random problem: what is open stays until it is drawn, and a cancelled one leaves it.
void MainWindow::draw_problem(const std::function<ProblemPointer(const std::stop_token&, const Progress&)>& make,
                              const std::function<void(const ProblemPointer&)>& then) {
  inspecting_.cancel();  // what was asked for before does not replace it
  draw_progress_ = std::make_shared<std::atomic<double>>(0);
  drawing_.start(
      [make, part = draw_progress_](const std::stop_token& stop) {
        return make(stop, [part](std::int64_t done, std::int64_t total) {
          *part = static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(total, 1));
        });
      },
      [this, then](const ProblemPointer& problem) {
        // A file that was still opening does not come any more.
        opening_.reset();
        restoring_.reset();
        then(problem);
      },
      [this](const QString& why) { fail(why); });
  search_timer_.start();  // shows how far it is
  show_messages();
}

// What the command line asked for.
void MainWindow::open(const WindowStart& start) {
  if (start.make)
    return draw_problem(start.make, [this, recipe = start.recipe](const ProblemPointer& problem) {
      apply([&](Document& document) {
        document.join_changes(true);
        document.set_problem(problem);
        document.set_recipe(recipe(problem->shape()));
        document.join_changes(false);
      });
      actions_["view.problem"]->trigger();
    });
  if (start.files) return open_files(*start.files, start.recipe);
  if (!start.file.empty()) return open_path(start.file, false, start.recipe);
  if (start.recipe) return set_recipe_for(start.recipe);
  if (const std::optional<Session> session = first_start_ ? std::nullopt : load_session(settings_)) restore(*session);
}

void MainWindow::set_recipe_for(const RecipeFor& recipe) {
  try {
    apply([wanted = recipe ? recipe(document_.problem()->shape()) : Recipe{}](Document& d) { d.set_recipe(wanted); });
  } catch (const InputError& error) {
    fail(text(error.what()));
  }
}

void MainWindow::open_path(const std::filesystem::path& path, bool ask, const RecipeFor& recipe) {
  notice_.clear();
  // Nothing: a session.
  inspecting_.start(
      [path](const std::stop_token&) { return is_session(path) ? std::nullopt : std::optional(inspect(path)); },
      [this, path, ask, recipe](const std::optional<FileReport>& found) {
        if (!found) return before_losing([this, path, recipe] { open_session_file(path, recipe); });
        const FileReport& report = *found;
        if (!ask && is_clear(report)) {
          ProblemFiles files;
          files.input = path;
          return open_files(files, recipe);
        }
        auto* dialog = new OpenDialog(path, report, this);
        dialog->setAttribute(Qt::WA_DeleteOnClose);
        connect(dialog, &QDialog::accepted, this, [this, dialog, recipe] { open_files(dialog->files(), recipe); });
        dialog->open();
      },
      [this](const QString& why) { fail(why); });
}

// The same files with rows and heads exchanged.
void MainWindow::open_other_layout() {
  for (const Origin& origin : origins_) {
    if (!document_.problem() || origin.q.lock() != document_.problem()->q) continue;
    ProblemFiles files = origin.files;
    files.layout = files.layout == Layout::nhd ? Layout::hnd : Layout::nhd;
    return open_files(files);
  }
  notice("The layout is of tensors from a file; these were not read from one.");
}

void MainWindow::open_files(const ProblemFiles& files, const RecipeFor& recipe) {
  inspecting_.cancel();
  drawing_.cancel();
  opening_ = files, opening_recipe_ = recipe;
  restoring_.reset();
  apply([&](Document& document) { document.open(files); });
}

void MainWindow::restore(const Session& session) {
  if (!session.session_file.empty()) return open_session_file(session.session_file);
  if (!session.files) return apply_session(session);
  ProblemFiles files = *session.files;
  files.causal = session.causal;
  files.window = session.window;
  if (session.scale > 0) files.scale = session.scale;
  open_files(files);
  restoring_ = session;
}

void MainWindow::apply_session(const Session& session) {
  apply([&](Document& document) {
    document.join_changes(true);
    Mask mask = document.problem()->mask;
    mask.causal = session.causal;
    mask.window = session.window;
    mask.rules = session.rules;
    if (mask != document.problem()->mask) document.set_mask(mask);
    if (session.scale > 0 && session.scale != document.problem()->scale) document.set_scale(session.scale);
    document.set_recipe(session.recipe);
    document.join_changes(false);
    document.set_beside(session.beside);
  });
  apply_when_planned([K = session.K](Document& document) { document.seek(K); });
}

void MainWindow::add_recent(const QString& path) {
  const QString whole = QFileInfo(path).absoluteFilePath();
  recent_.removeAll(whole);
  recent_.prepend(whole);
  while (recent_.size() > 10) recent_.removeLast();
  settings_.setValue("files/recent", recent_);
  fill_recent();
}

void MainWindow::fill_recent() {
  if (!recent_menu_) return;
  recent_menu_->clear();
  recent_menu_->setEnabled(!recent_.isEmpty());
  recent_menu_->setToolTipsVisible(true);
  for (const QString& path : recent_) {
    // The name, and the end of a folder that is long; "&" is no mnemonic here.
    const QFileInfo file(path);
    const QString folder = fontMetrics().elidedText(QDir::toNativeSeparators(file.path()), Qt::ElideLeft,
                                                    36 * fontMetrics().averageCharWidth());
    QAction* action = recent_menu_->addAction(QString(file.fileName() + "   " + folder).replace('&', "&&"), this,
                                              [this, path] { open_path(path.toStdString()); });
    action->setToolTip(path);
  }
}

void MainWindow::save_picture(QSize size) {
  const QString folder =
      settings_.value("files/pictures", QStandardPaths::writableLocation(QStandardPaths::PicturesLocation)).toString();
  QString path = QFileDialog::getSaveFileName(
      this, "Save the picture", QString("%1/flashscope-step-%2.png").arg(folder).arg(document_.requested_K()),
      "PNG (*.png)");
  if (path.isEmpty()) return;
  if (QFileInfo(path).suffix().isEmpty()) path += ".png";
  settings_.setValue("files/pictures", QFileInfo(path).path());
  const QImage image = stage_->picture(size);
  exporting_.start([image, path](const std::stop_token&) { return !image.isNull() && image.save(path); },
                   [this, path](bool saved) { saved ? notice("Saved " + path) : fail("Could not write " + path); },
                   [this](const QString& why) { fail(why); });
}

void MainWindow::export_result() {
  const std::shared_ptr<const Report> report = document_.report();
  if (!report) return notice("Run everything first (Go > Run everything): O and LSE come from the full run.");
  const QString path = QFileDialog::getSaveFileName(
      this, "Export O and LSE", settings_.value("files/folder").toString() + "/result.npz", "NumPy archive (*.npz)");
  if (path.isEmpty()) return;
  exporting_.start(
      [report, path](const std::stop_token&) {
        const ElementType type = report->shape.type == DType::float64 ? ElementType::float64 : ElementType::float32;
        const Shape& s = report->shape;
        const OutArray arrays[] = {{"o", type, {s.heads, s.Nq, s.dv}, report->O},
                                   {"lse", type, {s.heads, s.Nq}, report->LSE}};
        write_npz(path.toStdString(), arrays);
        return true;
      },
      [this, path](bool) { notice("Saved " + path); }, [this](const QString& why) { fail(why); });
}

QString MainWindow::place_as_text() const {
  const viz::StageData& stage = document_.stage();
  if (!stage.state) return {};
  QString result =
      QString("%1\n%2\nstep %3 of %4")
          .arg(text(stage.title), text(stage.conventions), grouped(stage.state->K), grouped(stage.state->steps));
  if (stage.state->step) result += ", head " + grouped(stage.state->head) + ", " + place_text(*stage.state->step);
  if (!stage_->pointed_at().isEmpty()) result += '\n' + stage_->pointed_at();
  return result + '\n';
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  for (const QUrl& url : event->mimeData()->urls())
    if (url.isLocalFile()) return event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls()) {
    if (!url.isLocalFile()) continue;
    event->acceptProposedAction();
    return open_path(url.toLocalFile().toStdString());
  }
}

}  // namespace flashscope::window
