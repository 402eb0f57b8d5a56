// Where full runs and measured sweeps are made: on the CPU, or on one of the GPUs that are there.
#include <QActionGroup>
#include <QMenu>

#include "app/window/device_bar.h"
#include "app/window/explorer/explorer_window.h"
#include "app/window/main_window.h"
#include "app/window/stage_widget.h"
#include "app/window/text.h"

namespace flashscope::window {

void MainWindow::look_for_gpus() {
  for (const char* id : {"run.gpu", "step.gpu"}) {
    actions_[id]->setEnabled(false);
    actions_[id]->setToolTip("GPU: looking for one");
  }
  looking_.start([](const std::stop_token&) { return gpu_status(); },
                 [this](const gpu::GpuStatus& status) { take_gpus(status); },
                 [this](const QString& why) {
                   gpu::GpuStatus none;
                   none.missing.push_back(why.toStdString());
                   take_gpus(none);
                 });
}

void MainWindow::take_gpus(const gpu::GpuStatus& status) {
  QAction* gpu = actions_["run.gpu"];
  QAction* step = actions_["step.gpu"];
  for (QAction* action : {gpu, step}) action->setEnabled(status.can_run());
  explorer_->take_gpus(status);
  if (!status.can_run()) {
    const QString why = status.missing.empty() ? QString("there is none") : text(status.missing.front());
    gpu->setToolTip("No full runs on a GPU: " + why);
    return step->setToolTip("No stepping on a GPU: " + why);
  }
  RunTarget wanted{settings_.value("run/gpu", false).toBool(), settings_.value("run/device", 0).toInt()};
  const auto found = std::find_if(status.devices.begin(), status.devices.end(),
                                  [&](const gpu::GpuDevice& device) { return device.index == wanted.device; });
  if (found == status.devices.end()) wanted.device = status.devices.front().index;
  auto* group = new QActionGroup(this);
  for (const gpu::GpuDevice& device : status.devices) {
    QAction* choice = actions_.add_check(QString("run.device.%1").arg(device.index), "Run",
                                         QString("GPU %1: %2").arg(device.index).arg(text(device.name)), "",
                                         "The GPU of full runs and of measured sweeps", device.index == wanted.device,
                                         [this, index = device.index](bool on) {
                                           if (on) set_target({target_.gpu, index});
                                         });
    group->addAction(choice);
    gpu_menu_->addAction(choice);
  }
  gpu_menu_->menuAction()->setVisible(true);
  set_target(wanted);
  if (wanted.gpu) gpu->setChecked(true);
}

void MainWindow::set_target(const RunTarget& target) {
  target_ = target;
  settings_.setValue("run/gpu", target.gpu);
  settings_.setValue("run/device", target.device);
  explorer_->choose_device(target.device);
  if (QAction* device = actions_[QString("run.device.%1").arg(target.device)])
    actions_["run.gpu"]->setToolTip("Full runs on " + device->text() + ", in a process of their own");
}

void MainWindow::step_on_gpu(bool on) {
  apply([this, on](Document& document) { document.step_on(on ? target_.device : -1); });
}

void MainWindow::show_stepping() {
  QAction* step = actions_["step.gpu"];
  if (!step->isEnabled()) return;
  const QSignalBlocker quiet(step);
  step->setChecked(document_.stepping_device() >= 0);
  const QString shared = stage_->shared_by();
  step->setToolTip(document_.device_state()
                       ? "Stepped on " + text(document_.stepped_by()) + "; the picture is " + shared
                   : document_.gpu_failed().empty() ? "Step on the GPU, by its own kernel"
                                                    : "The CPU steps: " + text(document_.gpu_failed()));
  const QString words = !document_.device_state()          ? "Step on GPU"
                        : shared.startsWith("shared with") ? "Stepped on GPU"
                                                           : "Stepped on GPU, copied";
  if (words == step->text()) return;
  step->setText(words);
  emit device_bar_->resized();
}

}  // namespace flashscope::window
