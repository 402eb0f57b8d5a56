// A list of any length of which only the rows on the screen exist: pages are asked for when they come into
// view, and old rows stay until new ones arrive.
#pragma once

#include <QAbstractScrollArea>
#include <map>
#include <vector>

#include "app/document.h"

namespace flashscope::window {

class EventsView : public QAbstractScrollArea {
  Q_OBJECT

 public:
  static constexpr std::int64_t kPage = 128;

  explicit EventsView(QWidget* parent = nullptr);
  void set_list(unsigned kinds, std::int64_t count);  // another filter, or more events were found
  void take(const Document::EventPage& page);         // a page arrived
  void set_current_K(std::int64_t K);
  std::int64_t count() const { return count_; }
  const Event* event_at(std::int64_t row) const;  // null: not here yet
  void choose(std::int64_t row);                  // as a click does

 signals:
  void wanted(unsigned kinds, qint64 first, qint64 count);
  void chosen(const flashscope::Event& event);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  struct Page {
    std::vector<Event> events;
    bool stale = false;  // of a shorter list
  };
  int row_height() const;
  std::int64_t first_visible() const;
  std::int64_t visible_rows() const;
  void update_scroll();
  void ask();

  unsigned kinds_ = 0;
  std::int64_t count_ = 0, current_K_ = -1, selected_ = -1;
  std::map<std::int64_t, Page> pages_;
  std::optional<std::int64_t> asked_;  // page that is on its way
  std::int64_t asked_count_ = 0;       // and the length of the list when it was asked for
};

}  // namespace flashscope::window
