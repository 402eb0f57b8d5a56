#include "app/window/docks/events_panel.h"

#include <QCheckBox>
#include <QGridLayout>
#include <QLabel>
#include <QVBoxLayout>

#include "app/window/text.h"

namespace flashscope::window {

EventsPanel::EventsPanel(QWidget* parent) : Panel(parent) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 4, 0, 0);
  auto* grid = new QGridLayout;
  grid->setContentsMargins(8, 0, 8, 0);
  for (int n = 0; n < kKinds; ++n) {
    auto* box = boxes_[n] = new QCheckBox;
    box->setObjectName("kind_" + text(name(static_cast<EventKind>(n))));
    box->setFocusPolicy(Qt::TabFocus);
    box->setChecked(n != static_cast<int>(EventKind::first_max) && n != static_cast<int>(EventKind::masked));
    connect(box, &QCheckBox::toggled, this, &EventsPanel::show_list);
    grid->addWidget(box, n / 2, n % 2);
  }
  layout->addLayout(grid);
  reached_ = new QLabel;
  reached_->setContentsMargins(8, 0, 8, 0);
  layout->addWidget(reached_);
  view_ = new EventsView;
  layout->addWidget(view_, 1);
  connect(view_, &EventsView::wanted, this, [this](unsigned kinds, qint64 first, qint64 count) {
    emit ask([=](Document& document) { document.request_events(kinds, first, count); });
  });
  connect(view_, &EventsView::chosen, this,
          [this](const Event& event) { emit change([K = event.step](Document& document) { document.seek(K); }); });
}

unsigned EventsPanel::kinds() const {
  unsigned result = 0;
  for (int n = 0; n < kKinds; ++n)
    if (boxes_[n]->isChecked()) result |= 1u << n;
  return result;
}

void EventsPanel::refresh(const Document& document) {
  const ScanTotals& totals = document.stage().totals;
  const std::array counts = {totals.first_max, totals.rescale, totals.masked, totals.empty_row, totals.nan, totals.inf};
  for (int n = 0; n < kKinds; ++n)
    boxes_[n]->setText(text(name(static_cast<EventKind>(n))).replace('_', ' ') + "  " + grouped(counts[n]));
  reached_->setText(totals.complete
                        ? "whole run scanned, " + counted(totals.tiles, "tile")
                        : "scanned so far: " + grouped(totals.tiles_scanned) + " of " + counted(totals.tiles, "tile"));
  if (scan_ != document.scan()) {
    scan_ = document.scan();
    view_->set_list(0, 0);  // another run: nothing of the old list stays
  }
  show_list();
  view_->set_current_K(document.requested_K());
  if (document.events() && document.events() != page_) {
    page_ = document.events();
    view_->take(*page_);
  }
}

void EventsPanel::show_list() { view_->set_list(kinds(), scan_ && kinds() ? scan_->event_count(kinds()) : 0); }

}  // namespace flashscope::window
