// The events of the whole run as they are found by the background scan; a click goes there.
#pragma once

#include <array>

#include "app/window/docks/events_view.h"
#include "app/window/panel.h"

class QCheckBox;
class QLabel;

namespace flashscope::window {

class EventsPanel : public Panel {
  Q_OBJECT

 public:
  explicit EventsPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  EventsView& view() { return *view_; }

 private:
  static constexpr int kKinds = 6;
  unsigned kinds() const;
  void show_list();

  std::array<QCheckBox*, kKinds> boxes_{};
  QLabel* reached_;
  EventsView* view_;
  std::shared_ptr<const Scan> scan_;
  std::shared_ptr<const Document::EventPage> page_;
};

}  // namespace flashscope::window
