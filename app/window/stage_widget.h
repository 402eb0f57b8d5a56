// The stage in the window: draws viz::Stage into a QOpenGLWidget, hands it Qt's events in their order, and
// passes its commands on. Frames are drawn only when something changed or moves.
#pragma once

#include <QElapsedTimer>
#include <QOpenGLWidget>
#include <QTimer>
#include <memory>
#include <vector>

#include "app/document.h"
#include "app/gpu_picture.h"

namespace flashscope::window {

class StageWidget : public QOpenGLWidget {
  Q_OBJECT

 public:
  explicit StageWidget(const Document& document, QWidget* parent = nullptr);
  ~StageWidget() override;

  const viz::StageOptions& options() const { return options_; }
  void set_options(const viz::StageOptions& options);
  void data_changed();                                            // draws if the document's stage has another version
  QImage picture(QSize size);                                     // the same stage, drawn at that size in pixels
  QString pointed_at() const { return pointed_at_; }              // what is under the pointer, as text
  std::uint64_t drawn_version() const { return drawn_version_; }  // of the frame on the screen
  std::uint64_t frames() const { return frames_; }                // drawn so far

  // How a GPU's arrays come to the screen; empty: nothing of a GPU was drawn yet.
  QString shared_by() const { return gpu_ ? QString::fromStdString(gpu_->status()) : QString(); }

 signals:
  void command(const flashscope::viz::StageCommand& command);
  void shared_changed();                    // shared_by() says something else now
  void unavailable(const QString& reason);  // no OpenGL 4.3: the rest of the window still works

 protected:
  void initializeGL() override;
  void paintGL() override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void leaveEvent(QEvent* event) override;

 private:
  void queue(viz::InputEvent event);
  void queue(const QMouseEvent& event, viz::InputEvent::Kind kind, bool double_click = false);
  viz::StageInput next_input(QSize size, double scale, unsigned framebuffer);
  void release();

  const Document& document_;
  viz::StageOptions options_;
  std::unique_ptr<viz::Stage> stage_;
  std::unique_ptr<GpuPicture> gpu_;
  std::vector<viz::InputEvent> events_;
  QElapsedTimer clock_;
  QTimer next_frame_, busy_frame_;
  QSize drawn_size_;     // in pixels
  int frames_left_ = 3;  // the user interface inside needs some frames to settle
  std::uint64_t drawn_version_ = ~std::uint64_t{0}, frames_ = 0;
  QString pointed_at_;
};

}  // namespace flashscope::window
