#include "app/window/docks/compare_panel.h"

#include <QEvent>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QLabel>
#include <QListWidget>
#include <QProgressBar>
#include <QPushButton>
#include <QSplitter>
#include <QTextBrowser>
#include <QVBoxLayout>
#include <utility>

#include "app/window/docks/error_map.h"
#include "app/window/docks/html_panel.h"
#include "app/window/docks/lse_links.h"
#include "app/window/docks/table_fit.h"
#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {

ComparePanel::ComparePanel(QWidget* parent) : Panel(parent) {
  load_ = new QPushButton("Load yours...");
  load_->setObjectName("load");
  load_->setToolTip("O of your kernel (.npy), or o, lse, m, l (.npz, .safetensors),\nfor the problem that is open");
  file_ = new QLabel;
  file_->setWordWrap(true);
  progress_ = new QProgressBar;
  progress_->setRange(0, 1000);
  progress_->setTextVisible(false);
  progress_->setMaximumHeight(10);
  cancel_ = new QPushButton("Cancel");
  cancel_->setObjectName("cancel");
  auto* top = new QHBoxLayout;
  top->addWidget(load_);
  top->addWidget(file_, 1);
  top->addWidget(progress_, 1);
  top->addWidget(cancel_);
  top->setContentsMargins(8, 4, 8, 0);

  text_ = new QTextBrowser;
  text_->setFrameShape(QFrame::NoFrame);
  text_->setMinimumHeight(70);
  text_->setOpenLinks(false);
  connect(text_, &QTextBrowser::anchorClicked, this, [this](const QUrl& url) {
    if (const Change to = lse_change(url)) emit change(to);
  });
  map_ = new ErrorMap;
  legend_ = new QLabel;
  legend_->setObjectName("error_map_legend");
  legend_->setWordWrap(true);
  legend_->setContentsMargins(8, 0, 8, 2);
  mapped_ = new QWidget;
  auto* mapped = new QVBoxLayout(mapped_);
  mapped->setContentsMargins(0, 0, 0, 0);
  mapped->setSpacing(2);
  mapped->addWidget(map_, 1);
  mapped->addWidget(legend_);
  list_ = new QListWidget;
  list_->setObjectName("explanations");
  list_->setWordWrap(true);
  list_->setMinimumHeight(60);
  make_copyable(list_);
  split_ = new QSplitter(Qt::Vertical);
  split_->addWidget(text_);
  split_->addWidget(mapped_);
  split_->addWidget(list_);
  split_->setChildrenCollapsible(false);
  split_->setSizes({150, 170, 130});
  open_ = new QPushButton("Open this run");
  open_->setObjectName("open");
  open_->setToolTip(
      "The run that reproduces your output, beside the right one, at its first row that is not right; undo goes back");
  auto* bottom = new QHBoxLayout;
  bottom->addWidget(open_);
  bottom->addStretch(1);
  bottom->setContentsMargins(8, 0, 8, 6);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addLayout(top);
  layout->addWidget(split_, 1);
  layout->addLayout(bottom);

  connect(load_, &QPushButton::clicked, this, &ComparePanel::choose_file);
  connect(cancel_, &QPushButton::clicked, this, [this] {
    work_.cancel();
    show_running();
  });
  connect(map_, &ErrorMap::chosen, this, &ComparePanel::go_to_row);
  connect(list_, &QListWidget::currentRowChanged, this, [this](int n) { open_->setEnabled(n >= 0); });
  connect(list_, &QListWidget::itemActivated, this, [this] { open_explanation(list_->currentRow()); });
  connect(open_, &QPushButton::clicked, this, [this] { open_explanation(list_->currentRow()); });
  timer_.setInterval(100);
  connect(&timer_, &QTimer::timeout, this, &ComparePanel::show_running);
  show_result();
  show_running();
}

void ComparePanel::choose_file() {
  const QString file = QFileDialog::getOpenFileName(this, "Your kernel's output", {},
                                                    "Arrays (*.npy *.npz *.safetensors);;All files (*)");
  if (!file.isEmpty()) load(file.toStdString());
}

void ComparePanel::load(const std::filesystem::path& file) {
  if (!problem_) return;
  path_ = file;
  done_->store(0);
  work_.start(
      [file, problem = problem_, recipe = recipe_, lse = lse_, done = done_](const std::stop_token& stop) {
        // Loading is quick; comparing and trying the mistakes share the bar.
        const auto part = [&](double from) {
          return [done, from](std::int64_t n, std::int64_t total) {
            done->store(from + 0.5 * static_cast<double>(n) / static_cast<double>(std::max<std::int64_t>(1, total)));
          };
        };
        OutputFile wanted;
        wanted.path = file, wanted.lse = lse;
        const KernelOutput theirs = load_output(wanted, problem->shape(), stop);
        Result result;
        result.comparison = std::make_shared<const Comparison>(compare(*problem, recipe, theirs, 0, stop, part(0)));
        result.causes = find_causes(problem, recipe, theirs, *result.comparison, {}, stop, part(0.5));
        return result;
      },
      [this, of = problem_, recipe = recipe_](Result result) {
        compared_ = of, compared_recipe_ = recipe;
        comparison_ = std::move(result.comparison);
        explanations_ = std::move(result.causes.named);
        near_miss_ = std::move(result.causes.near_miss);
        show_result();
        show_running();
      },
      [this](const QString& message) {
        show_running();
        emit failed(message);
      });
  show_running();
}

void ComparePanel::show_running() {
  const bool running = work_.running();
  progress_->setVisible(running), cancel_->setVisible(running);
  file_->setVisible(!running), load_->setEnabled(!running && problem_);
  progress_->setValue(static_cast<int>(1000 * done_->load()));
  running ? timer_.start() : timer_.stop();
}

void ComparePanel::show_result() {
  list_->clear();
  map_->show_comparison(comparison_, recipe_.Br);
  open_->setEnabled(false);
  mapped_->setVisible(comparison_ != nullptr);
  for (QWidget* part : {static_cast<QWidget*>(list_), static_cast<QWidget*>(open_)})
    part->setVisible(!explanations_.empty());
  const Colours c = colours(palette());
  if (!comparison_) {
    text_->setHtml(QString("<p style='color:%1'>Load what your kernel gave for the problem that is open: the rows that "
                           "are not right are shown here, and the known mistake that reproduces them.</p>")
                       .arg(c.dim.name()));
    return;
  }
  file_->setText(text(path_.filename().string()));
  const Comparison& found = *comparison_;
  legend_->setText(error_map_legend(found, c));
  const RowCounts total = found.total();
  const bool rounding = found.right() && size_of(found.precision) == 2 && found.max_error > 0;
  const auto count = [&](std::int64_t n, const char* what, const QColor& colour) {
    return n > 0
               ? QString("&nbsp;&nbsp;<span style='color:%1'><b>%2</b> %3</span>").arg(colour.name(), grouped(n), what)
               : QString();
  };
  QString html =
      QString("<p style='margin:0 0 6px 0'><b style='color:%1'>%2</b>%3%4%5%6 <span style='color:%7'>of %8</span></p>")
          .arg(found.right() ? c.good.name() : c.nan.name(),
               found.right() ? rounding ? "Right, rounding" : "Right" : "Not right",
               count(total.right, "right", c.good), count(total.wrong, "wrong", c.accent),
               count(total.nan, "NaN", c.nan), count(total.inf, "Inf", c.inf), c.dim.name(),
               counted(std::ssize(found.rows), "row"));
  if (const std::string nan = nan_text(found.cells); !nan.empty())
    html += QString("<p style='margin:0 0 6px 0'>%1</p>").arg(text(nan));
  const bool apart = total.nan + total.inf > 0;
  Table figures(c, {"against " + text(found.reference), ""});
  figures.row({apart ? "largest error of the other rows" : "largest error", number(found.max_error)}, true);
  figures.row({"in", QString("head %1, row %2").arg(found.worst_head).arg(found.worst_row)});
  figures.row({"tolerance", number(found.tolerance) + (found.plain_error ? "" : " (fixed for float64)")});
  if (found.plain_error)
    figures.row({QString("plain attention in %1 makes").arg(text(name(found.precision))), number(*found.plain_error)});
  if (found.values_are)
    figures.row({QString("every value is a %1").arg(text(name(*found.values_are))), "judged as such"});
  figures.row({"rms error / spread of the right O", number(found.cells.rms_over_spread(), 3)});
  html += figures.html();
  if (!found.pattern.text.empty())
    html += QString("<p style='margin:0 0 6px 0'>Where: <b>%1</b></p>").arg(text(found.pattern.text).toHtmlEscaped());
  if (found.lse) {
    html += QString("<p style='margin:0 0 6px 0'>LSE: %1 right%2%3%4 <span style='color:%5'>read as %6</span></p>")
                .arg(grouped(found.lse->right), count(found.lse->wrong, "wrong", c.accent),
                     count(found.lse->nan, "NaN", c.nan),
                     count(found.lse->plus_inf + found.lse->plus_inf_empty, "+inf: empty or NaN", c.inf), c.dim.name(),
                     found.lse->from_m_and_l ? "m + ln l, from m and l" : lse_links(found.lse->read_as, c));
  }
  if (!found.right() && explanations_.empty())
    html += "<p style='margin:0'>No known mistake, convention or other block size reproduces it." +
            (near_miss_ ? " Closest: " + text(near_miss_text(*near_miss_)).toHtmlEscaped() + "." : QString()) + "</p>";
  text_->setHtml(html);
  fit_text();
  const bool tie = std::any_of(explanations_.begin(), explanations_.end(), [](const Explanation& e) { return e.tie; });
  for (std::size_t n = 0; n < explanations_.size(); ++n) {
    const Explanation& e = explanations_[n];
    const bool tied = e.tie || (n == 0 && tie);
    auto* item = new QListWidgetItem((tied ? "= " : "") + text(flashscope::text(e)), list_);
    item->setToolTip(text(e.sentence) + (tied ? "\nExplains the output as well as the others marked =" : ""));
  }
  if (!explanations_.empty()) list_->setCurrentRow(0);
}

// As high as what it says, up to half of the panel: the rest is the map's and the list's.
void ComparePanel::fit_text() {
  const int all = split_->height(), wanted = static_cast<int>(text_->document()->size().height()) + 6;
  const int high = std::min(wanted, all / 2), list = std::clamp(all / 5, 60, 130);
  if (all > 200) split_->setSizes({high, all - high - list, list});
}

void ComparePanel::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  if (comparison_) QMetaObject::invokeMethod(this, &ComparePanel::fit_text, Qt::QueuedConnection);
}

void ComparePanel::go_to_row(std::int64_t head, std::int64_t row) {
  emit change([head, row](Document& document) {
    document.seek_row(head, row);
    document.pin_row(row, true);
  });
}

void ComparePanel::open_explanation(int n) {
  if (n < 0 || n >= static_cast<int>(explanations_.size())) return;
  const Explanation& e = explanations_[n];
  const auto bad =
      std::find_if(comparison_->rows.begin(), comparison_->rows.end(), [](RowState s) { return s != RowState::right; });
  const std::int64_t at = bad == comparison_->rows.end() ? 0 : bad - comparison_->rows.begin();
  emit change([problem = e.problem, recipe = e.recipe, right_problem = compared_,
               right = compared_recipe_](Document& document) {
    document.join_changes(true);
    if (document.problem() != problem) document.set_problem(problem);
    document.set_recipe(recipe);
    document.join_changes(false);
    // Only one of the same heads can be kept in step.
    if (problem->shape() == right_problem->shape())
      document.set_beside(right, right_problem);
    else
      document.set_beside({});
  });
  emit then([head = at / comparison_->shape.Nq, row = at % comparison_->shape.Nq](Document& document) {
    document.seek_row(head, row);
    document.pin_row(row, true);
  });
}

void ComparePanel::refresh(const Document& document) {
  const bool other = problem_ != document.problem();
  problem_ = document.problem();
  recipe_ = document.recipe();
  // The file's LSE means something else now: compared again.
  if (std::exchange(lse_, document.stage().lse) != document.stage().lse && comparison_ && comparison_->lse &&
      !comparison_->lse->from_m_and_l && compared_ == problem_)
    load(path_);
  load_->setEnabled(!work_.running());
  if (other && comparison_) {
    const bool ours = problem_ == compared_ || std::any_of(explanations_.begin(), explanations_.end(),
                                                           [&](const Explanation& e) { return e.problem == problem_; });
    file_->setText(text(path_.filename().string()) + (ours ? "" : " (compared with another problem)"));
  }
}

void ComparePanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) {
    const int row = list_->currentRow();
    show_result();
    list_->setCurrentRow(row);
  }
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
