#include "app/window/docks/first_minutes_panel.h"

#include <QLabel>
#include <QPainter>
#include <QScrollArea>
#include <QTextDocument>
#include <QVBoxLayout>

#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

constexpr int kLeft = 40, kMargin = 9;

bool is_demo(const Document& document, const Problem& demo) {
  return document.problem() && document.problem()->q == demo.q && document.problem()->mask == demo.mask &&
         document.problem()->scale == demo.scale;
}

}  // namespace

MinuteLine::MinuteLine(int index, const FirstMinute& line, QWidget* parent)
    : QAbstractButton(parent), index_(index), title_(window::text(line.title)) {
  setObjectName(QString("minute%1").arg(index));
  setText(title_);
  setCursor(Qt::PointingHandCursor);
  setFocusPolicy(Qt::TabFocus);
  setAttribute(Qt::WA_Hover);
  QSizePolicy policy(QSizePolicy::Preferred, QSizePolicy::Minimum);
  policy.setHeightForWidth(true);
  setSizePolicy(policy);
}

void MinuteLine::set_numbers(const FirstMinuteNumbers& numbers, std::int64_t rows) {
  numbers_ = numbers;
  rows_ = rows;
  setAccessibleDescription(QString("%1, %2, %3")
                               .arg(counted(numbers.rescales, "rescale"), counted(numbers.nan_rows, "NaN row"),
                                    counted(numbers.bytes, "byte")));
  updateGeometry();
  update();
}

void MinuteLine::set_report(const Report& report) {
  if (!report.error || verdict_) return;
  verdict_ = report.error;
  updateGeometry();
  update();
}

void MinuteLine::set_current(bool current) {
  if (current_ != current) current_ = current, update();
}

QString MinuteLine::html(const QPalette& palette) const {
  const Colours c = colours(palette);
  QString body = QString("<div style='color:%1'><b>%2</b></div>").arg(c.text.name(), title_.toHtmlEscaped());
  if (!numbers_) return body + QString("<div style='color:%1'>computing ...</div>").arg(c.dim.name());
  const QString nan = numbers_->nan_rows == 0 ? QString("<span style='color:%1'>no NaN</span>").arg(c.good.name())
                                              : QString("<span style='color:%1'><b>%2 of %3 rows NaN</b></span>")
                                                    .arg(c.nan.name(), grouped(numbers_->nan_rows), grouped(rows_));
  body += QString("<div style='color:%1'><span style='color:%2'><b>%3</b></span>, %4</div>")
              .arg(c.text.name(), c.rescale.name(), counted(numbers_->rescales, "rescale"), nan);
  if (numbers_->first_nan)
    body += QString("<div style='color:%1'>first in %2</div>")
                .arg(c.nan.name(), window::text(*numbers_->first_nan).toHtmlEscaped());
  body += QString("<div style='color:%1'>%2, %3 moved</div>")
              .arg(c.dim.name(), counted(numbers_->tiles_visited, "tile"), counted(numbers_->bytes, "byte"));
  if (verdict_)
    body += QString("<div style='color:%1'>full run: %2 of %3 rows %4 (largest error%5 %6, tolerance %7)</div>")
                .arg((verdict_->within() ? c.good : c.nan).name(),
                     verdict_->within()            ? grouped(verdict_->rows_checked)
                     : verdict_->nan_mismatch == 0 ? QString("not all")
                                                   : grouped(verdict_->nan_mismatch),
                     grouped(verdict_->rows),
                     verdict_->nan_mismatch == 0 ? "right"
                     : !verdict_->nan            ? "NaN on one side only"
                     : verdict_->nan->there == 0 ? "NaN here only"
                     : verdict_->nan->here == 0  ? "NaN in float64 only"
                                                 : "NaN here only or in float64 only",
                     verdict_->nan_mismatch > 0 ? " of the others" : "", number(verdict_->max, 3),
                     number(verdict_->tolerance, 3));
  return body;
}

QSize MinuteLine::sizeHint() const { return {260, heightForWidth(260)}; }

int MinuteLine::heightForWidth(int width) const {
  QTextDocument document;
  document.setDefaultFont(font());
  document.setDocumentMargin(0);
  document.setHtml(html(palette()));
  document.setTextWidth(std::max(60, width - kLeft - kMargin));
  return static_cast<int>(std::ceil(document.size().height())) + 2 * kMargin;
}

void MinuteLine::paintEvent(QPaintEvent*) {
  const Colours c = colours(palette());
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF box = QRectF(rect()).adjusted(1, 1, -1, -1);
  painter.setPen(QPen(current_ ? c.accent : hasFocus() ? c.text : c.border, current_ ? 2 : 1));
  painter.setBrush(isDown() || underMouse() ? c.raised : c.base);
  painter.drawRoundedRect(box, 6, 6);
  painter.setPen(Qt::NoPen);
  painter.setBrush(current_ ? c.accent : c.raised);
  const QRectF circle(9, kMargin, 23, 23);
  painter.drawEllipse(circle);
  painter.setPen(current_ ? c.base : c.text);
  QFont bold = font();
  bold.setBold(true);
  painter.setFont(bold);
  painter.drawText(circle, Qt::AlignCenter, QString::number(index_ + 1));
  QTextDocument document;
  document.setDefaultFont(font());
  document.setDocumentMargin(0);
  document.setHtml(html(palette()));
  document.setTextWidth(width() - kLeft - kMargin);
  painter.translate(kLeft, kMargin);
  document.drawContents(&painter);
}

FirstMinutesPanel::FirstMinutesPanel(std::shared_ptr<const Problem> demo, QWidget* parent)
    : Panel(parent), demo_(std::move(demo)), lines_(first_three_minutes()), background_(this) {
  auto* inside = new QWidget;
  auto* column = new QVBoxLayout(inside);
  column->setContentsMargins(8, 8, 8, 8);
  column->setSpacing(7);
  auto* intro = new QLabel(
      "A trained model's attention, one head, computed here. Click the five lines in turn and watch the stage.");
  intro->setWordWrap(true);
  column->addWidget(intro);
  for (std::size_t n = 0; n < lines_.size(); ++n) {
    auto* button = new MinuteLine(static_cast<int>(n), lines_[n]);
    connect(button, &QAbstractButton::clicked, this, [this, n] { choose(n); });
    column->addWidget(button);
    buttons_.push_back(button);
  }
  column->addStretch(1);
  auto* scroll = new QScrollArea;
  scroll->setWidget(inside);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setFocusPolicy(Qt::NoFocus);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(scroll);
}

void FirstMinutesPanel::showEvent(QShowEvent* event) {
  Panel::showEvent(event);
  if (!background_.running()) compute_next();
}

bool FirstMinutesPanel::complete() const {
  return std::all_of(buttons_.begin(), buttons_.end(),
                     [](const MinuteLine* line) { return line->numbers().has_value(); });
}

void FirstMinutesPanel::compute_next() {
  for (std::size_t n = 0; n < lines_.size(); ++n) {
    if (buttons_[n]->numbers()) continue;
    background_.start([demo = demo_, line = lines_[n]](const std::stop_token&) { return compute(*demo, line); },
                      [this, n](const FirstMinuteNumbers& numbers) {
                        buttons_[n]->set_numbers(numbers, demo_->shape().Nq);
                        compute_next();
                      },
                      [this](const QString& why) { emit failed(why); });
    return;
  }
}

void FirstMinutesPanel::refresh(const Document& document) {
  const bool demo = is_demo(document, *demo_);
  const std::shared_ptr<const Report> report = document.report();
  for (std::size_t n = 0; n < lines_.size(); ++n) {
    const bool current = demo && lines_[n].recipe == document.recipe();
    buttons_[n]->set_current(current);
    if (current && report && report->recipe == lines_[n].recipe) buttons_[n]->set_report(*report);
  }
}

void FirstMinutesPanel::choose(std::size_t index) {
  const std::optional<FirstMinuteNumbers>& numbers = buttons_[index]->numbers();
  const bool to_first_nan = numbers && numbers->nan_rows > 0;
  emit change([demo = demo_, recipe = lines_[index].recipe](Document& document) {
    document.join_changes(true);
    if (!is_demo(document, *demo)) document.set_problem(demo);
    document.set_recipe(recipe);
    document.join_changes(false);
  });
  if (to_first_nan) {
    emit then([](Document& document) {
      document.seek(0);
      document.find(EventKind::nan, true);
    });
  }
  // The last line claims that every row is right: the full run is compared with float64.
  if (index + 1 == lines_.size()) emit then([](Document& document) { document.run_full(); });
}

}  // namespace flashscope::window
