#include "app/window/docks/gallery_panel.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QListWidget>
#include <QPushButton>
#include <QSplitter>
#include <QTextBrowser>
#include <QVBoxLayout>

#include "app/window/text.h"
#include "app/window/theme.h"
#include "engine/attention/cpu_runner.h"

namespace flashscope::window {
namespace {

Report run_of(const Problem& problem, const Recipe& recipe, const std::stop_token& stop) {
  RunOptions options;
  options.threads = 1;
  options.check.kind = CheckRows::Kind::none;
  return run_on_cpu(problem, recipe, options, stop);
}

QString numbers(const std::vector<double>& values) {
  constexpr std::size_t kShown = 6;
  QStringList list;
  for (std::size_t n = 0; n < std::min(kShown, values.size()); ++n) list << number(values[n]);
  if (values.size() > kShown) list << QString::fromUtf8("…");
  return list.join(", ");
}

QString kind_heading(GalleryEntry::Kind kind) {
  switch (kind) {
    case GalleryEntry::Kind::defect:
      return "Mistakes";
    case GalleryEntry::Kind::guard:
      return "Guards";
    case GalleryEntry::Kind::convention:
      return "Conventions";
  }
  return {};
}

}  // namespace

GalleryPanel::GalleryPanel(QWidget* parent) : Panel(parent) {
  list_ = new QListWidget;
  list_->setObjectName("entries");
  std::optional<GalleryEntry::Kind> kind;
  for (const GalleryEntry& entry : gallery()) {
    if (kind != entry.kind) {
      auto* heading = new QListWidgetItem(kind_heading(entry.kind), list_);
      heading->setFlags(Qt::NoItemFlags);
      kind = entry.kind;
    }
    auto* item = new QListWidgetItem("  " + text(entry.name), list_);
    item->setData(Qt::UserRole, text(entry.name));
    item->setToolTip(text(entry.sentence));
  }
  text_ = new QTextBrowser;
  text_->setFrameShape(QFrame::NoFrame);
  text_->setMinimumHeight(120);
  auto* split = new QSplitter(Qt::Vertical);
  split->addWidget(list_);
  split->addWidget(text_);
  split->setStretchFactor(1, 2);
  const auto button = [](const char* name, const QString& words, const QString& tip) {
    auto* made = new QPushButton(words);
    made->setObjectName(name);
    made->setToolTip(tip);
    return made;
  };
  both_ = button("open_both", "Side by side",
                 "Both runs on the smallest input that shows it, at the first step that differs (Return)");
  open_ =
      button("open_mistake", "Mistake", "The smallest input under the mistake alone, at the first step that differs");
  open_right_ = button("open_right", "Right", "The same input without it, at the same step");
  shown_ = new QLabel;
  shown_->setWordWrap(true);
  auto* buttons = new QHBoxLayout;
  buttons->setContentsMargins(8, 0, 8, 0);
  for (QPushButton* each : {both_, open_, open_right_}) buttons->addWidget(each);
  buttons->addStretch(1);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 6);
  layout->addWidget(split, 1);
  layout->addLayout(buttons);
  layout->addWidget(shown_);
  shown_->setContentsMargins(8, 0, 8, 0);
  connect(list_, &QListWidget::currentRowChanged, this, &GalleryPanel::choose);
  connect(list_, &QListWidget::itemActivated, this, [this] { open(Runs::both); });
  connect(both_, &QPushButton::clicked, this, [this] { open(Runs::both); });
  connect(open_, &QPushButton::clicked, this, [this] { open(Runs::mistake); });
  connect(open_right_, &QPushButton::clicked, this, [this] { open(Runs::right); });
  list_->setCurrentRow(1);
}

void GalleryPanel::choose(int row) {
  const QListWidgetItem* item = list_->item(row);
  entry_ = item ? find_in_gallery(item->data(Qt::UserRole).toString().toStdString()) : nullptr;
  looked_.reset(), pair_.reset(), wanted_.reset();
  if (entry_) {
    pair_ = smallest_example(entry_->name);
    work_.start(
        [pair = *pair_](const std::stop_token& stop) {
          const Report wrong = run_of(*pair.problem, pair.recipe, stop),
                       right = run_of(*pair.right_problem, pair.right, stop);
          Looked looked{pair, first_difference(pair, stop), {}, {}, {}, {}};
          looked.O.assign(wrong.O.begin(), wrong.O.end()), looked.right_O.assign(right.O.begin(), right.O.end());
          looked.LSE.assign(wrong.LSE.begin(), wrong.LSE.end());
          looked.right_LSE.assign(right.LSE.begin(), right.LSE.end());
          return looked;
        },
        [this](Looked looked) {
          looked_ = std::move(looked);
          show_entry();
          if (wanted_) open(*wanted_);
        },
        [this](const QString& message) { emit failed(message); });
  }
  show_entry();
}

void GalleryPanel::show_entry() {
  for (QPushButton* each : {both_, open_, open_right_}) each->setEnabled(entry_);
  if (!entry_) return text_->clear();
  const Colours c = colours(palette());
  const auto part = [&](const QString& what, std::string_view words) {
    return QString("<p style='margin:0 0 7px 0'><span style='color:%1'>%2</span> %3</p>")
        .arg(c.dim.name(), what, text(words).toHtmlEscaped());
  };
  QString html = QString("<p style='margin:0 0 7px 0'><b>%1</b></p>").arg(text(entry_->sentence).toHtmlEscaped());
  html += part("Seen when", entry_->seen_when) + part("Hidden by:", entry_->hidden_by);
  if (looked_) {
    html += part("First difference:", looked_->first ? flashscope::text(*looked_->first)
                                                     : "none: the same steps, only what is handed out differs");
    const auto run = [&](const std::string& title, const std::vector<double>& O, const std::vector<double>& LSE) {
      return QString(
                 "<tr><td style='color:%1'>%2&nbsp;</td><td>O&nbsp;%3</td></tr><tr><td></td><td "
                 "style='color:%1'>LSE&nbsp;%4</td></tr>")
          .arg(c.dim.name(), text(title).toHtmlEscaped(), numbers(O), numbers(LSE));
    };
    html += "<table cellspacing='0' cellpadding='2'>" + run(looked_->pair.left_title, looked_->O, looked_->LSE) +
            run(looked_->pair.right_title, looked_->right_O, looked_->right_LSE) + "</table>";
  }
  const bool convention = entry_->kind == GalleryEntry::Kind::convention;
  open_right_->setText(convention ? "Other" : "Right");
  open_->setText(convention ? "This one" : "Mistake");
  text_->setHtml(html);
}

void GalleryPanel::open(Runs runs) {
  if (!pair_) return;
  if (!looked_) {
    wanted_ = runs;
    return;
  }
  wanted_.reset();
  emit change([pair = *pair_, runs](Document& document) {
    document.set_beside({});
    document.join_changes(true);
    document.set_problem(runs == Runs::right ? pair.right_problem : pair.problem);
    document.set_recipe(runs == Runs::right ? pair.right : pair.recipe);
    document.join_changes(false);
    if (runs == Runs::both) document.set_beside(pair.right, pair.right_problem);
  });
  // Runs that take the same steps to the same numbers are shown at their end, where what is handed out stands.
  emit then([first = looked_->first](Document& document) {
    document.seek(first ? first->step : document.stage().schedule->steps());
  });
}

void GalleryPanel::refresh(const Document& document) {
  QString shown;
  if (pair_ && document.problem()) {
    const auto is = [&](const auto& problem, const Recipe& recipe) {
      return document.problem() == problem && document.recipe() == recipe;
    };
    const QString left = text(pair_->left_title), right = text(pair_->right_title);
    if (is(pair_->problem, pair_->recipe))
      shown = document.beside() == pair_->right && document.beside_problem() == pair_->right_problem
                  ? QString("On the stage: %1, and %2 beside it. D: the next difference").arg(left, right)
                  : "On the stage: " + left;
    else if (is(pair_->right_problem, pair_->right))
      shown = "On the stage: " + right;
  }
  shown_->setText(shown);
  shown_->setVisible(!shown.isEmpty());
}

void GalleryPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) show_entry();
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
