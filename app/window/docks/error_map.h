// The rows of another kernel's output as a map: one strip a head, rows downwards, right ones quiet, wrong ones by the
// size of their error, NaN and Inf in their colours. A click goes to the row.
#pragma once

#include <QWidget>
#include <cstdint>
#include <memory>

#include "app/window/theme.h"
#include "engine/insight/compare.h"

namespace flashscope::window {

// What its colours mean, as far as they occur.
QString error_map_legend(const Comparison& comparison, const Colours& colours);

class ErrorMap : public QWidget {
  Q_OBJECT

 public:
  explicit ErrorMap(QWidget* parent = nullptr);
  void show_comparison(std::shared_ptr<const Comparison> comparison, std::int64_t Br);
  // Head and row under a point; -1 where there is none. The worst row of those that share a pixel.
  std::pair<std::int64_t, std::int64_t> place(const QPoint& point) const;

 signals:
  void chosen(qint64 head, qint64 row);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  bool event(QEvent* event) override;

 private:
  QRect strip(std::int64_t head) const;
  // The worst of the rows that fall on that line of the strip.
  std::int64_t worst_row(std::int64_t head, int line, int lines) const;

  std::shared_ptr<const Comparison> comparison_;
  std::int64_t Br_ = 1;
};

}  // namespace flashscope::window
