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
  open_ = new QPushButton("With the mistake");
  open_->setObjectName("open_mistake");
  open_->setToolTip("Open the smallest input under the mistake, at the first step that differs");
  open_right_ = new QPushButton("Right");
  open_right_->setObjectName("open_right");
  open_right_->setToolTip("The same input without it, at the same step");
  shown_ = new QLabel;
  shown_->setWordWrap(true);
  auto* buttons = new QHBoxLayout;
  buttons->setContentsMargins(8, 0, 8, 0);
  buttons->addWidget(open_);
  buttons->addWidget(open_right_);
  buttons->addStretch(1);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 6);
  layout->addWidget(split, 1);
  layout->addLayout(buttons);
  layout->addWidget(shown_);
  shown_->setContentsMargins(8, 0, 8, 0);
  connect(list_, &QListWidget::currentRowChanged, this, &GalleryPanel::choose);
  connect(list_, &QListWidget::itemActivated, this, [this] { open_run(true); });
  connect(open_, &QPushButton::clicked, this, [this] { open_run(true); });
  connect(open_right_, &QPushButton::clicked, this, [this] { open_run(false); });
  list_->setCurrentRow(1);
}

void GalleryPanel::choose(int row) {
  const QListWidgetItem* item = list_->item(row);
  entry_ = item ? find_in_gallery(item->data(Qt::UserRole).toString().toStdString()) : nullptr;
  looked_.reset(), pair_.reset();
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
        },
        [this](const QString& message) { emit failed(message); });
  }
  show_entry();
}

void GalleryPanel::show_entry() {
  open_->setEnabled(entry_), open_right_->setEnabled(entry_);
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
  open_right_->setText(pair_ && entry_->kind == GalleryEntry::Kind::convention ? "The other" : "Right");
  open_->setText(entry_->kind == GalleryEntry::Kind::convention ? "This one" : "With the mistake");
  text_->setHtml(html);
}

void GalleryPanel::open_run(bool mistake) {
  if (!pair_) return;
  emit change([pair = *pair_, mistake](Document& document) {
    document.join_changes(true);
    document.set_problem(mistake ? pair.problem : pair.right_problem);
    document.set_recipe(mistake ? pair.recipe : pair.right);
    document.join_changes(false);
  });
  if (looked_ && looked_->first) emit then([K = looked_->first->step](Document& document) { document.seek(K); });
}

void GalleryPanel::refresh(const Document& document) {
  QString shown;
  if (pair_ && document.problem()) {
    if (document.problem() == pair_->problem && document.recipe() == pair_->recipe)
      shown = "On the stage: " + text(pair_->left_title);
    else if (document.problem() == pair_->right_problem && document.recipe() == pair_->right)
      shown = "On the stage: " + text(pair_->right_title);
  }
  shown_->setText(shown);
  shown_->setVisible(!shown.isEmpty());
}

void GalleryPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) show_entry();
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
