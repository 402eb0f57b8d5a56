#include "app/window/docks/timeline_panel.h"

#include <fmt/format.h>

#include <QComboBox>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QLabel>
#include <QSaveFile>
#include <QToolButton>
#include <QVBoxLayout>

#include "app/window/docks/run_words.h"
#include "app/window/text.h"
#include "engine/digits.h"
#include "engine/error.h"

namespace flashscope::window {

TimelinePanel::TimelinePanel(QWidget* parent) : Panel(parent), background_(this) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 4, 0, 0);
  layout->setSpacing(4);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(8, 0, 8, 0);
  row->addWidget(new QLabel("colour"));
  colour_ = new QComboBox;
  colour_->setObjectName("timeline_colour");
  colour_->addItems({"head", "row block i", "column block j"});
  row->addWidget(colour_);
  row->addStretch(1);
  const auto button = [&](const QString& words, const QString& tip, void (TimelinePanel::*does)()) {
    auto* made = new QToolButton;
    made->setText(words);
    made->setToolTip(tip);
    made->setFocusPolicy(Qt::TabFocus);
    connect(made, &QToolButton::clicked, this, does);
    row->addWidget(made);
    return made;
  };
  trace_ = button("Trace...",
                  "Save as a Chrome trace, which ui.perfetto.dev and chrome://tracing open: a row an SM, a span a tile",
                  &TimelinePanel::ask_trace);
  picture_ = button("PNG...", "Save what is shown as a picture of 1920 x 1080", &TimelinePanel::ask_picture);
  layout->addLayout(row);
  note_ = new QLabel;
  note_->setObjectName("timeline_note");
  note_->setWordWrap(true);
  note_->setContentsMargins(8, 0, 8, 0);
  layout->addWidget(note_);
  view_ = new TimelineView;
  view_->setToolTip(
      "Wheel: zoom in time, with Ctrl in SMs. Drag: move. Double click or 0: everything. + and -, < and >, [ and ], { "
      "and } do the same.");
  layout->addWidget(view_, 1);
  connect(colour_, &QComboBox::currentIndexChanged, this,
          [this](int n) { view_->colour_by(static_cast<TimelineColour>(n)); });
}

void TimelinePanel::refresh(const Document& document) {
  const RunPointer run = document.shown_run();
  report_ = run ? run->saved.report : nullptr;
  const Timeline* timeline = report_ && report_->gpu && report_->gpu->timeline ? &*report_->gpu->timeline : nullptr;
  view_->show_report(timeline ? report_ : nullptr);
  view_->setVisible(timeline != nullptr);
  for (QWidget* widget : std::initializer_list<QWidget*>{trace_, picture_, colour_}) widget->setEnabled(timeline);
  if (!timeline) {
    note_->setAlignment(Qt::AlignTop);
    note_->setText(
        !run ? "No timeline: a run on a GPU writes down when each tile was worked on, and none was made."
        : !run->on_gpu()
            ? "No timeline: the run that is shown was on the CPU."
            : "No timeline: none was asked for in this run (in the window Run everything writes one, on the command "
              "line --timeline FILE).");
    return;
  }
  const TimelineRows& rows = view_->rows();
  const Recipe& recipe = report_->recipe;
  QString words =
      QString(
          "%1 on %2, by the device's timer in a launch of its own: %3 of %4 SMs work, on tiles in %5 % of SMs x time; "
          "the busiest %6 x their mean; %7. Hatched: no tile.")
          .arg(text(name(recipe.algorithm)), text(report_->device))
          .arg(rows.busy_sms)
          .arg(timeline->sms)
          .arg(100 * rows.busy, 0, 'f', 0)
          .arg(rows.uneven, 0, 'f', 1)
          .arg(QString::number(static_cast<double>(rows.duration) / 1e3, 'f', 1) + QString::fromUtf8(" µs"));
  if (timeline->lost > 0) words += QString("; %1 did not fit the buffer").arg(counted(timeline->lost, "tile"));
  note_->setText(words);
}

QString TimelinePanel::file_name(const char* what) const {
  return "flashscope-" + run_brief(*report_).replace(' ', "").replace(',', "") + "-" + what;
}

void TimelinePanel::ask_trace() {
  const QString path =
      QFileDialog::getSaveFileName(this, "Save the timeline", file_name("trace.json"), "Chrome trace (*.json)");
  if (!path.isEmpty()) export_trace(path);
}

void TimelinePanel::ask_picture() {
  const QString path = QFileDialog::getSaveFileName(this, "Save the picture", file_name("timeline.png"), "PNG (*.png)");
  if (!path.isEmpty()) export_picture(path);
}

void TimelinePanel::export_trace(const QString& path) {
  background_.start(
      [report = report_, path](const std::stop_token&) {
        const std::string json =
            chrome_trace(*report->gpu->timeline, report->device,
                         fmt::format("{}; {} of {} x {}, d {}, {}", run_brief(*report).toStdString(),
                                     flashscope::counted(report->shape.heads, "head"), report->shape.Nq,
                                     report->shape.Nk, report->shape.d, name(report->shape.type)));
        QSaveFile file(path);
        if (!file.open(QIODevice::WriteOnly) || file.write(json.data(), static_cast<qint64>(json.size())) < 0 ||
            !file.commit())
          throw InputError(path.toStdString(), file.errorString().toStdString(), "a file that can be written");
        return true;
      },
      [this, path](bool) { emit done("Saved " + path); }, [this](const QString& why) { emit failed(why); });
}

void TimelinePanel::export_picture(const QString& path) {
  background_.start([image = view_->picture({1920, 1080}), path](const std::stop_token&) { return image.save(path); },
                    [this, path](bool saved) {
                      if (saved)
                        emit done("Saved " + path);
                      else
                        emit failed("Could not write " + path);
                    },
                    [this](const QString& why) { emit failed(why); });
}

}  // namespace flashscope::window
