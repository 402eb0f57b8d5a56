#include "app/window/stage_widget.h"

#include <QMouseEvent>
#include <QOpenGLContext>
#include <QOpenGLFramebufferObject>
#include <QWheelEvent>

namespace flashscope::window {

StageWidget::StageWidget(const Document& document, QWidget* parent) : QOpenGLWidget(parent), document_(document) {
  setObjectName("stage");
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setMinimumSize(480, 320);
  setUpdateBehavior(PartialUpdate);  // a frame that is not drawn anew stays
  setAccessibleName("Stage");
  next_frame_.setSingleShot(true);
  next_frame_.setInterval(16);
  busy_frame_.setSingleShot(true);
  busy_frame_.setInterval(40);
  connect(&next_frame_, &QTimer::timeout, this, qOverload<>(&QWidget::update));
  connect(&busy_frame_, &QTimer::timeout, this,
          [this] { document_.gpu_held() ? busy_frame_.start() : QWidget::update(); });
  clock_.start();
}

StageWidget::~StageWidget() {
  if (context()) disconnect(context(), nullptr, this, nullptr);
  release();
}

void StageWidget::release() {
  if (!stage_) return;
  makeCurrent();
  gpu_.reset();
  stage_.reset();
  doneCurrent();
}

void StageWidget::set_options(const viz::StageOptions& options) {
  options_ = options;
  frames_left_ = std::max(frames_left_, 1);
  update();
}

void StageWidget::data_changed() {
  if (document_.stage().version == drawn_version_) return;
  // A seek usually ends before a frame would: drawing that it is under way must not delay its result.
  if (!document_.stage().busy && !document_.gpu_held())
    update();
  else if (!busy_frame_.isActive())
    busy_frame_.start();
}

void StageWidget::initializeGL() {
  connect(context(), &QOpenGLContext::aboutToBeDestroyed, this, &StageWidget::release);
  try {
    stage_ = std::make_unique<viz::Stage>();
    gpu_ = std::make_unique<GpuPicture>();
  } catch (const std::exception& error) {
    const QString reason = QString::fromUtf8(error.what());
    QMetaObject::invokeMethod(
        this, [this, reason] { emit unavailable(reason); }, Qt::QueuedConnection);
  }
  frames_left_ = 3;
}

viz::StageInput StageWidget::next_input(QSize size, double scale, unsigned framebuffer) {
  viz::StageInput input;
  input.width = size.width();
  input.height = size.height();
  input.scale = static_cast<float>(scale);
  input.time = static_cast<double>(clock_.elapsed()) / 1000;
  input.framebuffer = framebuffer;
  return input;
}

void StageWidget::paintGL() {
  if (!stage_) return;
  const QSize pixels = size() * devicePixelRatioF();
  if (pixels == drawn_size_ && document_.gpu_held()) {  // the GPU is the counters'
    busy_frame_.start();
    return;
  }
  drawn_size_ = pixels;
  busy_frame_.stop();
  const double ratio = devicePixelRatioF();
  viz::StageInput input =
      next_input({qRound(width() * ratio), qRound(height() * ratio)}, ratio, defaultFramebufferObject());
  input.events.swap(events_);
  viz::StageData data = document_.stage();
  const QString shared_before = shared_by();
  gpu_->show(document_, data);
  if (shared_by() != shared_before) QMetaObject::invokeMethod(this, &StageWidget::shared_changed, Qt::QueuedConnection);
  data.message.clear();  // the window shows it itself, where it can be dismissed
  const viz::StageResult result = stage_->draw(data, options_, input);
  drawn_version_ = data.version;
  ++frames_;
  pointed_at_ = QString::fromStdString(result.tooltip);
  setCursor(result.pointing_hand ? Qt::PointingHandCursor : Qt::ArrowCursor);
  // Commands change the document and with it this widget: not from inside a paint event.
  for (const viz::StageCommand& one : result.commands)
    QMetaObject::invokeMethod(
        this, [this, one] { emit command(one); }, Qt::QueuedConnection);
  if (frames_left_ > 0) --frames_left_;
  if (result.wants_frame || frames_left_ > 0 || !events_.empty()) next_frame_.start();
}

QImage StageWidget::picture(QSize size) {
  if (!stage_) return {};
  makeCurrent();
  QOpenGLFramebufferObject target(size, QOpenGLFramebufferObject::CombinedDepthStencil);
  viz::StageOptions still = options_;
  still.animate = false;
  viz::StageData data = document_.stage();
  gpu_->show(document_, data);
  stage_->draw(data, still, next_input(size, devicePixelRatioF(), target.handle()));
  QImage image = target.toImage().convertToFormat(QImage::Format_RGB32);
  doneCurrent();
  update();
  return image;
}

void StageWidget::queue(viz::InputEvent event) {
  using Kind = viz::InputEvent::Kind;
  // Of several moves between two frames only the last one matters.
  if (event.kind == Kind::move && !events_.empty() && events_.back().kind == Kind::move)
    events_.back() = event;
  else
    events_.push_back(event);
  frames_left_ = std::max(frames_left_, 2);
  update();
}

void StageWidget::queue(const QMouseEvent& event, viz::InputEvent::Kind kind, bool double_click) {
  const double ratio = devicePixelRatioF();
  viz::InputEvent result;
  result.kind = kind;
  result.x = static_cast<float>(event.position().x() * ratio);
  result.y = static_cast<float>(event.position().y() * ratio);
  result.button = event.button() == Qt::RightButton ? 1 : event.button() == Qt::MiddleButton ? 2 : 0;
  result.shift = event.modifiers() & Qt::ShiftModifier;
  result.ctrl = event.modifiers() & Qt::ControlModifier;
  result.alt = event.modifiers() & Qt::AltModifier;
  result.double_click = double_click;
  queue(result);
}

void StageWidget::mouseMoveEvent(QMouseEvent* event) { queue(*event, viz::InputEvent::Kind::move); }
void StageWidget::mousePressEvent(QMouseEvent* event) { queue(*event, viz::InputEvent::Kind::press); }
void StageWidget::mouseReleaseEvent(QMouseEvent* event) { queue(*event, viz::InputEvent::Kind::release); }
void StageWidget::mouseDoubleClickEvent(QMouseEvent* event) { queue(*event, viz::InputEvent::Kind::press, true); }

void StageWidget::wheelEvent(QWheelEvent* event) {
  const double ratio = devicePixelRatioF();
  viz::InputEvent result;
  result.kind = viz::InputEvent::Kind::wheel;
  result.x = static_cast<float>(event->position().x() * ratio);
  result.y = static_cast<float>(event->position().y() * ratio);
  result.wheel = static_cast<float>(event->angleDelta().y()) / 120;
  result.shift = event->modifiers() & Qt::ShiftModifier;
  result.ctrl = event->modifiers() & Qt::ControlModifier;
  queue(result);
  event->accept();
}

void StageWidget::leaveEvent(QEvent*) {
  viz::InputEvent result;
  result.kind = viz::InputEvent::Kind::leave;
  queue(result);
}

}  // namespace flashscope::window
