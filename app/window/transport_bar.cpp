#include "app/window/transport_bar.h"

#include <QComboBox>
#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QRegularExpressionValidator>
#include <QSpinBox>
#include <QToolButton>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {

TransportBar::TransportBar(const Actions& actions, QWidget* parent) : QToolBar("Transport", parent), actions_(actions) {
  setObjectName("transport");
  setMovable(false);
  setIconSize({22, 22});
  for (const char* id : {"go.first", "go.back_tile", "go.back", "go.play", "go.step", "go.next_tile", "go.last"})
    addAction(actions[id]);
  speed_ = new QComboBox;
  speed_->setFocusPolicy(Qt::TabFocus);
  for (const double speed : {1.0, 2.0, 5.0, 10.0, 30.0, 60.0}) speed_->addItem(QString::number(speed) + " / s", speed);
  speed_->setCurrentIndex(2);
  speed_->setToolTip("Steps per second while playing");
  speed_->setAccessibleName("Steps per second");
  addWidget(speed_);
  addSeparator();
  for (const char* id : {"go.previous_rescale", "go.next_rescale", "go.previous_nan", "go.next_nan", "go.run_to_stop"})
    addAction(actions[id]);
  addSeparator();

  auto* label = new QLabel(" step ");
  addWidget(label);
  step_ = new QLineEdit;
  step_->setObjectName("step");
  step_->setAccessibleName("Step");
  step_->setToolTip("The state after so many steps; type a number and press Return");
  step_->setAlignment(Qt::AlignRight);
  step_->setMaximumWidth(120);
  step_->setValidator(new QRegularExpressionValidator(QRegularExpression("[0-9,]{0,24}"), step_));
  step_->setFocusPolicy(Qt::ClickFocus);
  addWidget(step_);
  of_ = new QLabel;
  addWidget(of_);
  connect(step_, &QLineEdit::returnPressed, this, [this] {
    bool ok = false;
    const std::int64_t K = step_->text().remove(',').toLongLong(&ok);
    step_->setModified(false);
    step_->clearFocus();
    if (ok) emit change([K](Document& document) { document.seek(K); });
  });

  head_ = new QSpinBox;
  head_->setObjectName("head");
  head_->setPrefix("head ");
  head_->setToolTip("The query head that is stepped");
  head_->setFocusPolicy(Qt::ClickFocus);
  head_->setKeyboardTracking(false);
  head_action_ = addWidget(head_);
  connect(head_, &QSpinBox::valueChanged, this,
          [this](int head) { emit change([head](Document& document) { document.step_head(head); }); });

  place_ = new QLabel;
  place_->setObjectName("place");
  place_->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  place_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  QFont bold = place_->font();
  bold.setBold(true);
  place_->setFont(bold);
  addWidget(place_);
  connect(speed_, &QComboBox::currentIndexChanged, this, &TransportBar::speed_changed);
  style();
}

void TransportBar::refresh(const Document& document) {
  const auto& schedule = document.stage().schedule;
  if (!schedule) return;
  const std::int64_t K = document.requested_K(), steps = schedule->steps();
  if (!step_->isModified()) step_->setText(grouped(K));
  of_->setText(" of " + grouped(steps) + "  ");
  const std::int64_t heads = schedule->shape().heads;
  head_action_->setVisible(heads > 1);
  if (heads > 1) {
    const QSignalBlocker quiet(head_);
    head_->setRange(0, static_cast<int>(heads - 1));
    head_->setSuffix(" of " + grouped(heads));
    head_->setValue(static_cast<int>(schedule->step(std::clamp<std::int64_t>(K - 1, 0, steps - 1)).head));
  }
  // What the person asked for, at once; the stage follows when it is computed.
  place_->setText(K <= 0 ? QString("start") : place_text(schedule->step(std::min(K, steps) - 1)));
}

void TransportBar::set_playing(bool playing) {
  playing_ = playing;
  actions_["go.play"]->setIcon(icon(playing ? Glyph::pause : Glyph::play, colours(palette())));
}

double TransportBar::steps_per_second() const { return speed_->currentData().toDouble(); }

void TransportBar::set_steps_per_second(double speed) {
  if (const int found = speed_->findData(speed); found >= 0) speed_->setCurrentIndex(found);
}

void TransportBar::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) style();
  QToolBar::changeEvent(event);
}

void TransportBar::style() {
  const Colours c = colours(palette());
  const std::initializer_list<std::pair<const char*, Glyph>> icons = {{"go.first", Glyph::first},
                                                                      {"go.back_tile", Glyph::back_tile},
                                                                      {"go.back", Glyph::back},
                                                                      {"go.step", Glyph::step},
                                                                      {"go.next_tile", Glyph::next_tile},
                                                                      {"go.last", Glyph::last},
                                                                      {"go.reset", Glyph::reset},
                                                                      {"go.previous_rescale", Glyph::previous_rescale},
                                                                      {"go.next_rescale", Glyph::next_rescale},
                                                                      {"go.previous_nan", Glyph::previous_nan},
                                                                      {"go.next_nan", Glyph::next_nan},
                                                                      {"go.run_to_stop", Glyph::run_to_stop},
                                                                      {"edit.undo", Glyph::undo},
                                                                      {"edit.redo", Glyph::redo}};
  for (const auto& [id, glyph] : icons)
    if (QAction* action = actions_[id]) action->setIcon(icon(glyph, c));
  set_playing(playing_);
}

}  // namespace flashscope::window
