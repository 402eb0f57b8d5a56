// The bars over the top of the stage that ask for nothing: the last message, and the job that runs with
// its progress and a way to cancel it. They cover a little of the stage instead of moving it.
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
  void show_message(const QString& message);            // empty: none
  void show_job(const QString& what, double fraction);  // empty: none
  QString message() const;

 signals:
  void dismissed();
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
  QTimer job_delay_;  // a job that ends at once is not shown
};

}  // namespace flashscope::window
