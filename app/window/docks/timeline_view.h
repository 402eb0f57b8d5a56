// A kernel's timeline: SMs down, time across, each tile a bar; above it how many SMs are busy, of all. Zoomed by the
// wheel, with Ctrl down the SMs, moved by dragging. An SM that never works is hatched: flash1's idle ones, and the
// staircase at a causal mask's end, are what it is for.
#pragma once

#include <QImage>
#include <QWidget>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/attention/cpu_runner.h"

namespace flashscope::window {

struct Colours;

enum class TimelineColour { head, row_block, column_block };

// What is seen of a timeline, computed once.
struct TimelineRows {
  std::vector<std::size_t> first;                 // of each SM's spans; sms + 1 entries
  std::vector<std::uint8_t> lane;                 // of each span: blocks that share an SM run side by side
  std::vector<std::uint8_t> lanes;                // of each SM
  std::int64_t duration = 0;                      // ns
  int busy_sms = 0;                               // that work at all
  double busy = 0;                                // share of SMs x time in which some tile is worked on
  double uneven = 0;                              // busiest SM against the mean of those that work
  std::int64_t heads = 0, rows = 0, columns = 0;  // one more than the largest of each
};
TimelineRows timeline_rows(const Timeline& timeline);
// Between the ticks of an axis of `ns` over `pixels`: the least 1, 2 or 5 times a power of ten that leaves each a
// label.
double tick_step(double ns, double pixels, double label);

class TimelineView : public QWidget {
  Q_OBJECT

 public:
  explicit TimelineView(QWidget* parent = nullptr);
  // The report that holds the timeline, kept while it is shown; null: none.
  void show_report(std::shared_ptr<const Report> report);
  const TimelineRows& rows() const { return rows_; }
  void colour_by(TimelineColour colour);
  void show_all();
  void zoom(double factor, double at_ns);      // about a moment; > 1: nearer
  void zoom_sms(double factor, double at_sm);  // about a place between 0 and the number of SMs
  double from_ns() const { return from_; }
  double to_ns() const { return to_; }
  double from_sm() const { return sm_from_; }
  double to_sm() const { return sm_to_; }
  const Timeline::Span* span_at(QPointF at) const;
  QPointF middle_of(const Timeline::Span& span) const;  // in this widget
  QImage picture(QSize size) const;
  QSize minimumSizeHint() const override { return {200, 160}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  struct Frame {
    QRect busy, rows;  // where the two charts lie
  };
  Frame frame(QSize size) const;
  void draw(QPainter& painter, QSize size, const Colours& colours) const;
  void draw_spans(QImage& image, std::vector<int>& busy, const Colours& colours) const;
  void move_to(double from, double to);
  void move_sms_to(double from, double to);
  double y_of(double sm, double height) const { return (sm - sm_from_) * height / (sm_to_ - sm_from_); }
  QColor colour_of(const Timeline::Span& span, const Colours& colours) const;

  std::shared_ptr<const Report> report_;
  const Timeline* timeline_ = nullptr;
  TimelineRows rows_;
  TimelineColour colour_ = TimelineColour::head;
  double from_ = 0, to_ = 1;        // ns, shown
  double sm_from_ = 0, sm_to_ = 1;  // SMs, shown
  QPointF dragged_from_;
  double drag_from_ = 0, drag_to_ = 0, drag_sm_from_ = 0, drag_sm_to_ = 0;
  bool dragging_ = false;
};

}  // namespace flashscope::window
