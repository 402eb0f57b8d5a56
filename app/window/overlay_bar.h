// The bars over the stage that ask for nothing: the last message, and the job that runs with its progress and a way to
// cancel it. They lie where they hide least (viz::notice_place) instead of moving the stage. A notice passes by itself,
// an error stays until it is dismissed or the next thing is done.
#pragma once

#include <QFrame>
#include <QTimer>

class QLabel;
class QProgressBar;
class QToolButton;

namespace flashscope::window {

class OverlayBar : public QFrame {
  Q_OBJECT

 public:
  explicit OverlayBar(QWidget* over);
  void show_message(const QString& message, bool passes);  // empty: none
  void set_two(bool two);                                  // two recipes are on the stage
  void set_notice_time(int milliseconds) { notice_time_.setInterval(milliseconds); }
  void show_job(const QString& what, double fraction);  // empty: none; below 0: nobody knows how much is done
  QString message() const;

 signals:
  void dismissed();
  void passed();  // a notice has been shown long enough
  void cancelled();

 protected:
  bool eventFilter(QObject* object, QEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void place();
  void style();

  QWidget *message_row_, *job_row_;
  QLabel *message_, *job_;
  QProgressBar* progress_;
  QToolButton* close_;
  QTimer job_delay_;    // a job that ends at once is not shown
  QTimer notice_time_;  // how long a notice is shown
  bool two_ = false;
};

}  // namespace flashscope::window
