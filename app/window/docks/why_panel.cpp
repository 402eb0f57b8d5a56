#include "app/window/docks/why_panel.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QPushButton>
#include <QTextBrowser>
#include <QUrl>
#include <QVBoxLayout>
#include <cmath>
#include <utility>

#include "app/window/text.h"
#include "app/window/theme.h"
#include "engine/error.h"
#include "engine/insight/nan_rows.h"

namespace flashscope::window {
namespace {

struct Found {
  std::optional<Question> question;  // none: no NaN in the run
  std::optional<Provenance> answer;
};

QColor colour_of(double value, const Colours& c) {
  if (std::isnan(value)) return c.nan;
  if (std::isinf(value)) return value > 0 ? c.inf : c.dim;
  return c.text;
}

bool is_statement(const Link& link) { return link.of == CellKind::tile || link.of == CellKind::keys; }

// A link and what is said of it, further in; its place is the anchor.
QString paragraph(const Link& link, std::int64_t heads, bool first, const Colours& c) {
  QString html = first ? QString() : QString("<span style='color:%1'>&#8592;</span> ").arg(c.dim.name());
  html += QString("<a href='step:%1' style='color:%2;text-decoration:none'><b>%3</b></a>")
              .arg(link.step)
              .arg(c.accent.name(), text(place_text(link, heads)).toHtmlEscaped());
  if (!is_statement(link))
    html += QString(" = <b style='color:%1'>%2</b>").arg(colour_of(link.value, c).name(), number(link.value, 6));
  QString where = "step " + grouped(link.step);
  if (link.j >= 0) where += QString(", tile\u00a0(%1,\u00a0%2)").arg(link.i).arg(link.j);  // not broken at a line's end
  html += QString(" <span style='color:%1'>%2</span>").arg(c.dim.name(), where);
  QStringList more;
  if (!link.formula.empty()) more << text(link.formula).toHtmlEscaped();
  if (!link.text.empty()) more << text(link.text).toHtmlEscaped();
  for (const std::string& twin : link.twins) more << "also " + text(twin).toHtmlEscaped();
  html = "<p style='margin:6px 0 0 14px;text-indent:-14px'>" + html + "</p>";
  for (const QString& line : more) html += "<p style='margin:0 0 0 14px'>" + line + "</p>";
  return html;
}

}  // namespace

WhyPanel::WhyPanel(QWidget* parent) : Panel(parent), background_(this) {
  auto* layout = new QVBoxLayout(this);
  auto* top = new QHBoxLayout;
  cell_ = new QLineEdit;
  cell_->setObjectName("why_cell");
  cell_->setPlaceholderText("O[head,row,column], S[head,row,key] ...");
  cell_->setToolTip(
      "O[0,71,3]  S[0,71,120]  P[0,71,120]  alpha[0,71,1]  l[0,71]  m[0,71]  LSE[0,71]\n@1234 behind it: in that "
      "state; without: at the end of the run");
  auto* first = new QPushButton("First NaN");
  first->setObjectName("why_first_nan");
  first->setToolTip("Where the first NaN of this head is born");
  first->setFocusPolicy(Qt::TabFocus);
  top->addWidget(cell_, 1);
  top->addWidget(first);
  layout->addLayout(top);
  text_ = new QTextBrowser;
  text_->setObjectName("why_text");
  text_->setFrameShape(QFrame::NoFrame);
  text_->setOpenLinks(false);
  layout->addWidget(text_, 1);
  connect(cell_, &QLineEdit::returnPressed, this, &WhyPanel::typed);
  connect(first, &QPushButton::clicked, this, &WhyPanel::look_for_first_nan);
  connect(text_, &QTextBrowser::anchorClicked, this, [this](const QUrl& url) {
    if (url.scheme() != "step") return;
    // With the row that it is about: its numbers stand on the stage then.
    emit change([K = url.path().toLongLong(), row = question_ ? question_->row : -1](Document& document) {
      document.seek(K);
      if (row >= 0) document.pin_row(row, true);
    });
  });
  show_text();
}

void WhyPanel::refresh(const Document& document) {
  const viz::StageData& stage = document.stage();
  if (!stage.schedule || !stage.state || stage.problem != document.problem()) return;
  K_ = document.requested_K();
  const RunPointer gpu_run = document.last_run(true);
  const bool other_run = std::exchange(gpu_run_, gpu_run) != gpu_run;
  if (schedule_ == stage.schedule) {
    if (other_run) show_text();
    return;
  }
  schedule_ = stage.schedule;
  problem_ = stage.problem;
  if (!question_) return show_text();
  // The same cell in the same place of another run; a cell that is not there any more is forgotten.
  const Shape shape = problem_->shape();
  const bool there = question_->head < shape.heads && question_->row < shape.Nq;
  before_.clear();
  if (there && answer_ && answer_->cause)
    before_ = QString("before the change %1: %2")
                  .arg(number(answer_->links.front().value), text(one_line(*answer_, shape.heads)).toHtmlEscaped());
  answer_.reset();
  if (!there) question_.reset(), show_text();
  if (question_ && question_->K) question_->K = K_;
  look();
}

void WhyPanel::ask_about(const Question& question) {
  question_ = question;
  before_.clear();
  look();
}

void WhyPanel::typed() {
  try {
    ask_about(parse_question(cell_->text().trimmed().toStdString()));
  } catch (const InputError& error) {
    emit failed(text(error.what()));
  }
}

void WhyPanel::look() {
  if (!question_ || !schedule_) return;
  note_.clear();
  cell_->setText(text(flashscope::text(*question_)));
  background_.start([problem = problem_, schedule = schedule_, question = *question_](
                        const std::stop_token& stop) { return flashscope::why(*problem, *schedule, question, stop); },
                    [this](const Provenance& answer) {
                      answer_ = answer;
                      show_text();
                    },
                    [this](const QString& why_not) {
                      answer_.reset();
                      note_ = why_not;
                      show_text();
                    });
}

void WhyPanel::look_for_first_nan() {
  if (!schedule_) return;
  note_ = "looking for the first NaN ...";
  answer_.reset();
  before_.clear();
  show_text();
  background_.start(
      [problem = problem_, schedule = schedule_](const std::stop_token& stop) {
        const auto first = diagnose(problem, schedule->recipe(), 0, stop).first_nan;
        if (!first) return Found{};
        const Question question = question_of(*first);
        return Found{question, flashscope::why(*problem, *schedule, question, stop)};
      },
      [this](const Found& found) {
        note_ = found.question ? "" : "no NaN in any row of this run";
        question_ = found.question;
        answer_ = found.answer;
        if (question_) cell_->setText(text(flashscope::text(*question_)));
        show_text();
      },
      [this](const QString& why_not) {
        note_ = why_not;
        show_text();
      });
}

// What the last full run on a GPU, of the same problem and recipe, has in the cell asked about.
QString WhyPanel::gpu_html(const Colours& c) const {
  const bool of_end = question_ && !question_->K && (question_->of == CellKind::O || question_->of == CellKind::LSE);
  if (!gpu_run_ || !of_end || !answer_) return {};
  const Report& report = gpu_run_->report();
  const std::int64_t row = question_->head * report.shape.Nq + question_->row;
  const std::int64_t col = std::max<std::int64_t>(question_->col, 0);
  const double there = question_->of == CellKind::LSE ? report.LSE[row] : report.O[row * report.shape.dv + col];
  const bool nan_there = std::isnan(there), nan_here = std::isnan(answer_->links.front().value);
  const QString device = text(report.device).toHtmlEscaped();
  if (nan_there && nan_here) return QString("<p>NaN on %1 too: this chain is its chain.</p>").arg(device);
  if (nan_there)
    return QString("<p><b style='color:%1'>NaN on %2 and not here:</b> this chain does not explain it.</p>")
        .arg(c.nan.name(), device);
  const QString value = QString("<b>%1</b>").arg(number(there, 6));
  return nan_here ? QString("<p>%1 on %2: its run does not have this NaN.</p>").arg(value, device)
                  : QString("<p>%1 on %2.</p>").arg(value, device);
}

void WhyPanel::show_text() {
  const Colours c = colours(palette());
  QString html = gpu_html(c);
  if (answer_) {
    for (std::size_t n = 0; n < answer_->links.size(); ++n)
      html += paragraph(answer_->links[n], problem_->shape().heads, n == 0, c);
    if (answer_->cause)
      html += QString("<p style='margin-top:10px'><b style='color:%1'>%2</b>: %3</p>")
                  .arg(c.nan.name(), text(name(*answer_->cause)).replace('_', ' '), text(conclusion(*answer_)));
  } else if (note_.isEmpty()) {
    html += QString(
                "<p style='color:%1'>Click a cell of O, S, P, m, l or alpha: the chain back to its source stands "
                "here, each link a step to go to.</p>")
                .arg(c.dim.name());
  }
  if (!note_.isEmpty()) html += "<p>" + note_.toHtmlEscaped() + "</p>";
  if (!before_.isEmpty()) html += QString("<p style='color:%1;margin-top:10px'>%2</p>").arg(c.dim.name(), before_);
  text_->setHtml(html);
}

void WhyPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) show_text();
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
