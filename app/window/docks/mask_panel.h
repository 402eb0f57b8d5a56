// The mask report: which keys a row sees, what that does to rows and tiles, what about it looks wrong. Computed in the
// background on load and after each change, also while the panel is hidden: what is serious is `reported`. And each
// convention as a choice of two, the one in force marked: a click takes the other.
#pragma once

#include <QTimer>
#include <atomic>
#include <optional>

#include "app/window/background.h"
#include "app/window/panel.h"
#include "app/window/theme.h"
#include "engine/insight/mask_report.h"

class QTextBrowser;

namespace flashscope::window {

class MaskPanel : public Panel {
  Q_OBJECT

 public:
  explicit MaskPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) override;
  bool busy() const { return background_.running() || flipping_.running(); }
  const std::vector<MaskLine>& lines() const { return lines_; }
  const std::vector<Convention>& conventions() const { return conventions_; }
  // For a badge: "Mask: 2 faults", and its lines; empty where there is nothing serious.
  struct Serious {
    QString badge, details;
    bool fault = false;
  };
  Serious serious() const;
  void take_other(std::size_t convention);
  // What was counted of the present plan; none: nothing yet, or too many tiles.
  const std::shared_ptr<const Schedule>& schedule() const { return schedule_; }
  std::optional<MaskReport::Tiles> tiles() const { return report_ ? report_->tiles : std::nullopt; }

 signals:
  void reported();      // the report of the present mask is there
  void edit_wanted();   // of the masks: where they are set
  void other_layout();  // read the file's tensors as (N, heads, d) instead of (heads, N, d), or back

 protected:
  void changeEvent(QEvent* event) override;

 private:
  struct Findings {
    MaskReport report;
    std::optional<ScoreReport> scores;
    std::vector<MaskLine> lines;
    std::vector<Convention> conventions;
    bool scores_matter = false;
  };
  void forget(bool of_problem);
  void compute();
  void show_text();
  QString visible_html(const Colours& colours) const;
  QString effect_html(const Colours& colours) const;
  QString conventions_html(const Colours& colours) const;
  QString lse_text() const;
  void put_lse_conventions();

  QTextBrowser* text_;
  std::shared_ptr<const Problem> problem_;
  std::shared_ptr<const Schedule> schedule_;
  std::shared_ptr<const TraceState> state_;
  std::int64_t row_ = -1;  // whose LSE is shown
  std::optional<MaskReport> report_;
  std::vector<MaskLine> lines_;
  std::vector<Convention> conventions_;
  QString note_;
  bool stale_ = false;  // the text, while it cannot be seen
  bool scores_left_out_ = false;
  LseConvention lse_;
  std::atomic<double> progress_ = 0;
  QTimer timer_;
  Background background_, flipping_;
};

}  // namespace flashscope::window
