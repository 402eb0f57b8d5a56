#include "app/window/docks/mask_panel.h"

#include <QEvent>
#include <QScrollBar>
#include <QTextBrowser>
#include <QUrl>
#include <QVBoxLayout>
#include <cmath>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

constexpr double kCellsWhileHidden = 1e8;

}  // namespace

MaskPanel::MaskPanel(QWidget* parent) : Panel(parent), background_(this), flipping_(this) {
  auto* layout = new QVBoxLayout(this);
  text_ = new QTextBrowser;
  text_->setObjectName("mask_text");
  text_->setFrameShape(QFrame::NoFrame);
  text_->setOpenLinks(false);
  layout->addWidget(text_);
  timer_.setInterval(200);
  connect(&timer_, &QTimer::timeout, this, [this] {
    note_ = QString("computing ... %1 % (<a href='cancel:'>cancel</a>)").arg(std::lround(100 * progress_));
    show_text();
  });
  connect(text_, &QTextBrowser::anchorClicked, this, [this](const QUrl& url) {
    if (url.scheme() == "other") take_other(url.path().toULongLong());
    if (url.scheme() == "layout") emit other_layout();
    if (url.scheme() != "cancel") return;
    background_.cancel();
    timer_.stop();
    note_ = "cancelled; a change of the mask computes it again";
    show_text();
  });
}

void MaskPanel::refresh(const Document& document) {
  const viz::StageData& stage = document.stage();
  if (!stage.schedule || stage.problem != document.problem()) return;
  const std::int64_t pinned = stage.pinned_rows.empty() ? -1 : stage.pinned_rows.back();
  const bool other_lse = lse_ != stage.lse;
  const bool other_state = state_ != stage.state || pinned != row_ || other_lse;
  state_ = stage.state, row_ = pinned, lse_ = stage.lse;
  if (other_lse || conventions_.empty()) put_lse_conventions();
  if (schedule_ == stage.schedule && !(scores_left_out_ && isVisible())) {
    if (other_state || stale_) show_text();
    return;
  }
  schedule_ = stage.schedule;
  problem_ = stage.problem;
  compute();
}

void MaskPanel::compute() {
  scores_left_out_ = false;
  progress_ = 0;
  note_ = "computing ...";
  show_text();
  timer_.start();
  // Every score of a large problem is computed only for somebody who looks.
  const Shape shape = problem_->shape();
  const double cells = static_cast<double>(shape.heads * shape.Nq) * static_cast<double>(shape.Nk);
  const bool all = isVisible() || cells <= kCellsWhileHidden;
  background_.start(
      [this, problem = problem_, schedule = schedule_, all](const std::stop_token& stop) {
        Findings found;
        const auto part = [&](double first, double share) {
          return [this, first, share](std::int64_t done, std::int64_t total) {
            progress_ =
                first + share * static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(total, 1));
          };
        };
        found.report = mask_report(*problem, *schedule, stop, part(0, 0.3));
        found.scores_matter = masked_scores_matter(found.report, schedule->recipe());
        if (found.scores_matter && all)
          found.scores = score_report(*problem, *schedule, found.report, 1, stop, part(0.3, 0.7));
        found.lines = mask_lines(*problem, found.report, found.scores);
        found.conventions = conventions_in_force(*problem, schedule->recipe());
        return found;
      },
      [this](const Findings& found) {
        timer_.stop();
        note_.clear();
        lines_ = found.lines;
        conventions_ = found.conventions;
        put_lse_conventions();
        scores_left_out_ = found.scores_matter && !found.scores;
        show_text();
        emit reported();
      },
      [this](const QString& why_not) {
        timer_.stop();
        note_ = why_not.toHtmlEscaped();
        show_text();
      });
}

void MaskPanel::take_other(std::size_t index) {
  if (index >= conventions_.size()) return;
  const Convention& other = conventions_[index];
  if (other.mask) {
    emit change([mask = *other.mask](Document& document) { document.set_mask(mask); });
  } else if (other.recipe) {
    emit change([recipe = *other.recipe](Document& document) { document.set_recipe(recipe); });
  } else if (other.name == "keep or drop") {
    flipping_.start([keep = problem_->mask.keep](const std::stop_token&) { return flipped(*keep); },
                    [this, mask = problem_->mask](KeepMask keep) {
                      Mask other = mask;
                      other.keep = std::make_shared<const KeepMask>(std::move(keep));
                      emit change([other](Document& document) { document.set_mask(other); });
                    },
                    [this](const QString& why_not) { emit failed(why_not); });
  } else if (other.lse) {
    emit change([lse = *other.lse](Document& document) { document.set_lse(lse); });
  }
}

// Those of the LSE, last in the list, are no part of what is computed in the background.
void MaskPanel::put_lse_conventions() {
  if (!schedule_) return;
  std::erase_if(conventions_, [](const Convention& one) { return one.lse.has_value(); });
  for (Convention& one : lse_conventions(lse_)) conventions_.push_back(std::move(one));
}

// The LSE of one row as the chosen conventions write it.
QString MaskPanel::lse_text() const {
  const QString how = text(flashscope::text(lse_));
  if (!state_ || state_->LSE.empty()) return "LSE is shown in " + how + " once a row is finished";
  const std::int64_t r = row_ >= state_->row0 && row_ < state_->row0 + state_->rows ? row_ - state_->row0 : 0;
  return QString("LSE[%1] = %2 (%3)").arg(state_->row0 + r).arg(number(handed_out(lse_, state_->LSE[r]), 7), how);
}

MaskPanel::Serious MaskPanel::serious() const {
  Serious found;
  int faults = 0, notices = 0;
  QStringList lines;
  for (const MaskLine& line : lines_) {
    if (line.kind == MaskLine::Kind::fact) continue;
    ++(line.kind == MaskLine::Kind::fault ? faults : notices);
    lines << text(line.text);
  }
  found.details = lines.join('\n');
  found.fault = faults > 0;
  if (faults > 0)
    found.badge = QString("Mask: %1 fault%2").arg(faults).arg(faults == 1 ? "" : "s");
  else if (notices > 0)
    found.badge = QString("Mask: %1 notice%2").arg(notices).arg(notices == 1 ? "" : "s");
  return found;
}

void MaskPanel::show_text() {
  stale_ = !isVisible();
  if (stale_) return;
  const Colours c = colours(palette());
  QString html;
  if (!note_.isEmpty()) html += "<p style='color:" + c.dim.name() + "'>" + note_ + "</p>";
  if (problem_ && problem_->mask.none() && note_.isEmpty()) html += "<p>no mask: every row sees every key</p>";
  for (const MaskLine& line : lines_) {
    const QColor colour = line.kind == MaskLine::Kind::fault    ? c.nan
                          : line.kind == MaskLine::Kind::notice ? c.rescale
                                                                : c.text;
    html +=
        QString("<p style='margin:3px 0;color:%1'>%2%3</p>")
            .arg(colour.name(), line.kind == MaskLine::Kind::fault ? "<b>!</b> " : "", text(line.text).toHtmlEscaped());
  }
  html +=
      QString("<p style='margin:10px 0 2px 0;color:%1'><b>In force, and the other one</b></p>").arg(c.accent.name());
  for (std::size_t n = 0; n < conventions_.size(); ++n) {
    const Convention& one = conventions_[n];
    html += QString(
                "<p style='margin:4px 0'><b>%1</b> %2<br>&nbsp;&nbsp;&nbsp;<a href='other:%3' "
                "style='color:%4'>take the other: %5</a>%6</p>")
                .arg(text(one.name), text(one.now).toHtmlEscaped())
                .arg(n)
                .arg(c.accent.name(), text(one.other).toHtmlEscaped(),
                     one.matters ? "" : QString(" <span style='color:%1'>no difference here</span>").arg(c.dim.name()));
  }
  html += QString(
              "<p style='margin:4px 0'><b>layout</b> of the file's tensors<br>&nbsp;&nbsp;&nbsp;<a href='layout:' "
              "style='color:%1'>read them the other way: (heads, N, d) or (N, heads, d)</a></p>")
              .arg(c.accent.name());
  html += "<p style='margin:8px 0'>" + lse_text() + "</p>";
  const int at = text_->verticalScrollBar()->value();
  text_->setHtml(html);
  text_->verticalScrollBar()->setValue(at);
}

void MaskPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) show_text();
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
