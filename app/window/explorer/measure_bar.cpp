#include "app/window/explorer/measure_bar.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <algorithm>

#include "app/window/explorer/measuring.h"
#include "app/window/text.h"
#include "engine/insight/measured_chart.h"

namespace flashscope::window {

MeasureBar::MeasureBar(QWidget* parent) : QWidget(parent) {
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(new QLabel("Measured"));
  sweeps_ = new QComboBox;
  sweeps_->setObjectName("sweeps");
  sweeps_->setAccessibleName("measured sweep");
  sweeps_->setToolTip("What a GPU measured, here or in a session; choosing one explores its problem");
  sweeps_->setPlaceholderText("being measured, no point yet");
  sweeps_->setMinimumContentsLength(46);
  sweeps_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  row->addWidget(sweeps_, 2);
  const auto button = [&](const char* name) {
    auto* one = new QPushButton;
    one->setObjectName(name);
    one->setFocusPolicy(Qt::TabFocus);
    row->addWidget(one);
    return one;
  };
  start_ = button("measure"), pause_ = button("pause"), cancel_ = button("cancel");
  pause_->setToolTip("The GPU is free meanwhile");
  cancel_->setText("Cancel");
  cancel_->setToolTip("What was measured stays");
  progress_ = new QProgressBar;
  progress_->setObjectName("measured");
  progress_->setFormat("%v of %m");
  row->addWidget(progress_);
  words_ = new QLabel;
  words_->setObjectName("measuring");
  words_->setTextFormat(Qt::PlainText);
  row->addWidget(words_, 2);
  connect(sweeps_, &QComboBox::activated, this, &MeasureBar::chosen);
  connect(start_, &QPushButton::clicked, this, &MeasureBar::start);
  connect(cancel_, &QPushButton::clicked, this, &MeasureBar::cancel);
  connect(pause_, &QPushButton::clicked, this,
          [this] { pause_->property("paused").toBool() ? emit resume() : emit pause(); });
}

void MeasureBar::show_state(const Measuring& measuring, const QString& what, const QString& why_not) {
  const bool idle = measuring.state() == Measuring::State::idle;
  const bool paused = measuring.state() == Measuring::State::paused;
  start_->setVisible(idle);
  start_->setText(what);
  start_->setEnabled(why_not.isEmpty());
  start_->setToolTip(why_not.isEmpty() ? "On the GPU, in a process of its own; what is known from before costs nothing"
                                       : why_not);
  pause_->setVisible(!idle), cancel_->setVisible(!idle), progress_->setVisible(!idle);
  pause_->setProperty("paused", paused);
  pause_->setText(paused ? "Resume" : "Pause");
  if (measuring.sweep()) {
    progress_->setMaximum(static_cast<int>(measuring.sweep()->points.size()));
    progress_->setValue(static_cast<int>(measuring.measured()));
  }
  pause_->setEnabled(!paused || why_not.isEmpty());
  const QString words = !measuring.failed().isEmpty() ? measuring.failed()
                        : idle || paused              ? why_not
                                                      : "the stage and steps on the GPU wait; Pause lets them go on";
  const int letters = words_->fontMetrics().averageCharWidth();
  progress_->setMaximumWidth(20 * letters);
  words_->setText(words_->fontMetrics().elidedText(words, Qt::ElideRight, 46 * letters));
  words_->setToolTip(words);
}

void MeasureBar::show_sweeps(const std::vector<Sweep>& sweeps, const Sweep& shown) {
  QStringList names;
  int current = -1;
  for (const Sweep& sweep : sweeps) {
    if (shown && same_sweep(*sweep, *shown)) current = static_cast<int>(names.size());
    const auto measured =
        std::count_if(sweep->points.begin(), sweep->points.end(), [](const MeasuredPoint& p) { return p.gpu; });
    const MeasuredPoint& first = sweep->points.front();
    names << QString("%1: %2, %3")
                 .arg(text(sweep_name(*sweep)), text(name(first.recipe.algorithm)), counted(measured, "point"));
  }
  if (names.isEmpty()) names << "nothing yet";
  // What is there is named anew, so that a list which is open stays open.
  while (sweeps_->count() > names.size()) sweeps_->removeItem(sweeps_->count() - 1);
  for (int n = 0; n < static_cast<int>(names.size()); ++n) {
    if (n == sweeps_->count()) sweeps_->addItem(names[n]);
    if (names[n] != sweeps_->itemText(n)) sweeps_->setItemText(n, names[n]);
  }
  sweeps_->setEnabled(!sweeps.empty());
  sweeps_->setCurrentIndex(sweeps.empty() ? 0 : current);  // of one that has no point yet: none
}

}  // namespace flashscope::window
