// "Why?": the chain from a clicked cell back to its source, each link a step to go to. A cell can also be typed,
// and the first NaN asked for. After a change the same cell is asked again; what it was before stays readable. Of a
// cell at the end it says what the last full run on a GPU has there.
#pragma once

#include "app/window/background.h"
#include "app/window/panel.h"
#include "app/window/theme.h"
#include "engine/insight/provenance.h"

class QLineEdit;
class QTextBrowser;

namespace flashscope::window {

class WhyPanel : public Panel {
  Q_OBJECT

 public:
  explicit WhyPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  void ask_about(const Question& question);
  const std::optional<Provenance>& answer() const { return answer_; }
  bool busy() const { return background_.running(); }

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void look();
  void look_for_first_nan();
  void typed();
  void show_text();
  QString gpu_html(const Colours& colours) const;

  QLineEdit* cell_;
  QTextBrowser* text_;
  std::shared_ptr<const Problem> problem_;
  std::shared_ptr<const Schedule> schedule_;
  std::int64_t K_ = 0;
  RunPointer gpu_run_;  // under the present problem and recipe
  std::optional<Question> question_;
  std::optional<Provenance> answer_;
  QString before_, note_;
  Background background_;
};

}  // namespace flashscope::window
