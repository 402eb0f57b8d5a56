// Traffic as numbers, each with where it comes from: formula, counted, measured; a run's sources side by side.
#pragma once

#include "app/window/docks/html_panel.h"

namespace flashscope::window {

class TrafficPanel : public HtmlPanel {
  Q_OBJECT

 public:
  using HtmlPanel::HtmlPanel;

 protected:
  QString html(const Document& document, const Colours& colours) override;
};

}  // namespace flashscope::window
