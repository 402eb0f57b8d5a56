// "The first three minutes": five lines beside the stage, each a recipe that a click sets, with numbers that
// are computed from the demo's tensors in the background.
#pragma once

#include <QAbstractButton>
#include <optional>

#include "app/window/background.h"
#include "app/window/panel.h"

namespace flashscope::window {

class MinuteLine : public QAbstractButton {
  Q_OBJECT

 public:
  MinuteLine(int index, const FirstMinute& line, QWidget* parent = nullptr);
  void set_numbers(const FirstMinuteNumbers& numbers, std::int64_t rows);
  const std::optional<FirstMinuteNumbers>& numbers() const { return numbers_; }
  void set_report(const Report& report);  // of the full run under this line's recipe
  void set_current(bool current);
  bool current() const { return current_; }

  QSize sizeHint() const override;
  bool hasHeightForWidth() const override { return true; }
  int heightForWidth(int width) const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QString html(const QPalette& palette) const;

  int index_;
  QString title_;
  std::int64_t rows_ = 0;
  bool current_ = false;
  std::optional<FirstMinuteNumbers> numbers_;
  std::optional<ErrorReport> verdict_;
};

class FirstMinutesPanel : public Panel {
  Q_OBJECT

 public:
  FirstMinutesPanel(std::shared_ptr<const Problem> demo, QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  const std::vector<MinuteLine*>& lines() const { return buttons_; }
  bool complete() const;  // all numbers are there

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void compute_next();
  void choose(std::size_t index);

  std::shared_ptr<const Problem> demo_;
  std::vector<FirstMinute> lines_;
  std::vector<MinuteLine*> buttons_;
  Background background_;
};

}  // namespace flashscope::window
