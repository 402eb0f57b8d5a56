// The timeline dock: the shown run's tiles over SMs and time, as the kernel's blocks wrote them down; to be exported as
// a Chrome trace or a picture.
#pragma once

#include "app/window/background.h"
#include "app/window/docks/timeline_view.h"
#include "app/window/panel.h"

class QComboBox;
class QLabel;
class QToolButton;

namespace flashscope::window {

class TimelinePanel : public Panel {
  Q_OBJECT

 public:
  explicit TimelinePanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  TimelineView& view() { return *view_; }
  void export_trace(const QString& path);
  void export_picture(const QString& path);

 signals:
  void done(const QString& message);

 private:
  QString file_name(const char* what) const;  // of the run that is shown
  void ask_trace();
  void ask_picture();

  QLabel* note_;
  QComboBox* colour_;
  QToolButton *trace_, *picture_;
  TimelineView* view_;
  Background background_;
  std::shared_ptr<const Report> report_;
};

}  // namespace flashscope::window
