#include "app/window/docks/mask_panel.h"

#include <QEvent>
#include <QScrollBar>
#include <QTextBrowser>
#include <QUrl>
#include <QVBoxLayout>
#include <cmath>

#include "app/window/docks/html_panel.h"
#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

constexpr double kCellsWhileHidden = 1e8;

}  // namespace

MaskPanel::MaskPanel(QWidget* parent) : Panel(parent), background_(this), flipping_(this) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
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
    if (url.scheme() == "edit") emit edit_wanted();
    if (url.scheme() != "cancel") return;
    background_.cancel();
    timer_.stop();
    forget(false);
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
  if (problem_ != stage.problem) forget(true);
  schedule_ = stage.schedule;
  problem_ = stage.problem;
  compute();
}

// What was found under another recipe, or of another problem. Rows and their keys are of the problem alone.
void MaskPanel::forget(bool of_problem) {
  if (of_problem)
    report_.reset(), flipping_.cancel();
  else if (report_)
    report_->tiles.reset();
  lines_.clear();
  conventions_.clear();  // each is a whole mask or recipe that a click would set
  put_lse_conventions();
}

void MaskPanel::compute() {
  scores_left_out_ = false;
  progress_ = 0;
  note_ = "computing ...";
  const int scrolled = text_->verticalScrollBar()->value();  // to come back to: until then there is less to show
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
      [this, scrolled](const Findings& found) {
        timer_.stop();
        note_.clear();
        report_ = found.report;
        lines_ = found.lines;
        conventions_ = found.conventions;
        put_lse_conventions();
        scores_left_out_ = found.scores_matter && !found.scores;
        show_text();
        text_->verticalScrollBar()->setValue(std::max(scrolled, text_->verticalScrollBar()->value()));
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
  if (other.recipe && background_.running()) return;  // of the recipe before
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
    found.badge = "Mask: " + counted(faults, "fault");
  else if (notices > 0)
    found.badge = "Mask: " + counted(notices, "notice");
  return found;
}

// Which keys a row sees: one line a mask, all of which have to let a key be seen.
QString MaskPanel::visible_html(const Colours& c) const {
  const Mask& mask = problem_->mask;
  QStringList lines;
  if (mask.causal != Causal::none)
    lines << QString("<b>causal, %1</b>: row r sees keys c &le; %2")
                 .arg(mask.causal == Causal::top_left ? "top-left" : "bottom-right",
                      mask.causal == Causal::top_left ? "r" : "r + Nk - Nq");
  if (mask.window)
    lines << QString("<b>window</b>: row r sees %1 before its own and %2 behind it")
                 .arg(mask.window->left < Band::kOpen / 2 ? counted(mask.window->left, "key") : "all keys",
                      mask.window->right < Band::kOpen / 2 ? grouped(mask.window->right) : "all");
  if (mask.keep) {
    const KeepMask& keep = *mask.keep;
    QString stored = QString("%1 x %2").arg(grouped(keep.rows), grouped(keep.cols));
    if (keep.heads > 1) stored = grouped(keep.heads) + " x " + stored;
    lines << QString("<b>keep mask</b> (%1%2): a cell that keeps lets its key be seen, one that drops hides it")
                 .arg(stored, keep.rows == 1 ? ", the same for every row" : "");
  }
  if (mask.bias) lines << "<b>bias</b>: added to the scaled scores; cells of -inf hide their key";
  const QString rules = text(flashscope::text(mask.rules));
  if (!rules.isEmpty()) lines << "<b>set here</b>: " + rules.toHtmlEscaped();
  QString html = heading("Which keys a row sees", {}, c);
  if (lines.empty()) html += paragraph("All of them: there is no mask.", c.text);
  for (const QString& line : lines) html += paragraph(line, c.text);
  if (lines.size() > 1) html += paragraph("A key is seen where all of these let it.", c.dim);
  if (!lines.empty() && schedule_)
    html += paragraph(schedule_->recipe().mask_apply == MaskApply::select
                          ? "The score of a key that is not seen becomes -inf (mask applied by select)."
                          : "A mask is added to the score (mask applied by add): NaN stays NaN.",
                      c.dim);
  return html + paragraph(QString("<a href='edit:' style='color:%1'>Change or add masks ...</a>").arg(c.accent.name()),
                          c.text);
}

QString MaskPanel::effect_html(const Colours& c) const {
  QString html;
  for (const MaskLine& line : lines_)
    if (line.kind != MaskLine::Kind::fact)
      html += paragraph((line.kind == MaskLine::Kind::fault ? "<b>! </b>" : "") + text(line.text).toHtmlEscaped(),
                        line.kind == MaskLine::Kind::fault ? c.nan : c.rescale);
  if (!report_) return html;
  constexpr std::size_t kMostHeads = 8;
  Table table(c, {"counted", ""});
  for (std::size_t h = 0; h < std::min(report_->heads.size(), kMostHeads); ++h) {
    const VisibleKeys& keys = report_->heads[h];
    const QString of = report_->heads.size() == 1 ? QString() : QString("head %1: ").arg(h);
    const QString range =
        keys.min == keys.max
            ? grouped(keys.min)
            : QString("%1 to %2, median %3").arg(grouped(keys.min), grouped(keys.max), number(keys.median));
    table.row({of + "keys that a row sees", range + " of " + grouped(problem_->shape().Nk)});
    table.row({of + "rows that see no key", grouped(static_cast<std::int64_t>(keys.empty_rows.size()))});
    table.row({of + "rows that see one key", grouped(static_cast<std::int64_t>(keys.one_key_rows.size()))});
  }
  if (report_->tiles) {
    const MaskReport::Tiles& tiles = *report_->tiles;
    table.row({"tiles without a hidden key", grouped(tiles.full)});
    table.row({"tiles with some of each", grouped(tiles.partial)});
    table.row({"tiles without a visible key", grouped(tiles.empty)});
    table.row(
        {"tiles visited", QString("%1 of %2: %3 % skipped")
                              .arg(grouped(tiles.visited), grouped(tiles.total()),
                                   QString::number(100.0 * static_cast<double>(tiles.total() - tiles.visited) /
                                                       static_cast<double>(std::max<std::int64_t>(tiles.total(), 1)),
                                                   'f', 1))});
  }
  html += table.html();
  if (report_->heads.size() > kMostHeads)
    html +=
        paragraph("and " + counted(static_cast<std::int64_t>(report_->heads.size() - kMostHeads), "more head"), c.dim);
  return html;
}

QString MaskPanel::conventions_html(const Colours& c) const {
  const auto choice = [&](const QString& name, const QString& now, const QString& other, const QString& link,
                          bool matters) {
    return QString(
               "<p style='margin:7px 0 0 0'><b>%1</b>%2</p><p style='margin:1px 0 0 14px'><span "
               "style='color:%3'>&#9679; %4</span></p><p style='margin:1px 0 0 14px'>&#9675; <a href='%5' "
               "style='color:%6'>%7</a></p>")
        .arg(name.toHtmlEscaped(),
             matters ? "" : QString(" <span style='color:%1'>no difference here</span>").arg(c.dim.name()),
             c.text.name(), now.toHtmlEscaped(), link, c.accent.name(), other.toHtmlEscaped());
  };
  QString html = heading("Conventions", QString::fromUtf8("● in force   ○ a click takes it"), c);
  for (std::size_t n = 0; n < conventions_.size(); ++n) {
    const Convention& one = conventions_[n];
    html += choice(text(one.name), text(one.now), text(one.other), QString("other:%1").arg(n), one.matters);
  }
  html += choice("layout of the file's tensors", "as they were read",
                 "read again the other way: (heads, N, d) or (N, heads, d)", "layout:", true);
  return html;
}

void MaskPanel::show_text() {
  stale_ = !isVisible();
  if (stale_) return;
  const Colours c = colours(palette());
  QString html;
  if (!note_.isEmpty()) html += paragraph(note_, c.dim);
  if (problem_) html += visible_html(c) + effect_html(c);
  html += conventions_html(c) + paragraph(lse_text(), c.dim);
  const int at = text_->verticalScrollBar()->value();
  text_->setHtml(html);
  text_->verticalScrollBar()->setValue(at);
}

void MaskPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) show_text();
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
