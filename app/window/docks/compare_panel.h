// Compare with yours: another kernel's output beside the right answer of what is open; which rows are not right, and
// which known mistake reproduces it.
#pragma once

#include <QTimer>
#include <atomic>
#include <filesystem>

#include "app/window/background.h"
#include "app/window/panel.h"
#include "engine/insight/explain.h"

class QLabel;
class QListWidget;
class QProgressBar;
class QPushButton;
class QSplitter;
class QTextBrowser;

namespace flashscope::window {

class ErrorMap;

class ComparePanel : public Panel {
  Q_OBJECT

 public:
  explicit ComparePanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  void load(const std::filesystem::path& file);  // compares it with what is open
  const Comparison* comparison() const { return comparison_.get(); }
  const std::vector<Explanation>& explanations() const { return explanations_; }
  bool idle() const { return !work_.running(); }

 protected:
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  struct Result {
    std::shared_ptr<const Comparison> comparison;
    Causes causes;
  };
  void choose_file();
  void show_result();
  void fit_text();
  void go_to_row(std::int64_t head, std::int64_t row);
  void open_explanation(int n);
  void show_running();

  QPushButton *load_, *cancel_, *open_;
  QLabel *file_, *legend_;
  QProgressBar* progress_;
  QTextBrowser* text_;
  ErrorMap* map_;
  QWidget* mapped_;  // the map and its legend
  QSplitter* split_;
  QListWidget* list_;
  QTimer timer_;
  std::filesystem::path path_;
  std::shared_ptr<const Problem> problem_, compared_;  // open now; compared with
  Recipe recipe_, compared_recipe_;
  LseConvention lse_;  // in which a file's LSE is read
  std::shared_ptr<const Comparison> comparison_;
  std::vector<Explanation> explanations_;
  std::optional<Explanation> near_miss_;  // where there are none
  std::shared_ptr<std::atomic<double>> done_ = std::make_shared<std::atomic<double>>(0);
  Background work_;
};

}  // namespace flashscope::window
