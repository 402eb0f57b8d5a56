#include "app/window/docks/stops_panel.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalBlocker>
#include <QStyledItemDelegate>
#include <QTreeWidget>
#include <QVBoxLayout>

#include "app/window/docks/html_panel.h"
#include "app/window/docks/table_fit.h"
#include "app/window/text.h"
#include "app/window/theme.h"

namespace flashscope::window {
namespace {

enum Column { kStop, kInRun, kHits };

constexpr const char* kHelp =
    "nan  inf  rescale  rescale:10 (sums shrink by more)  max  masked  partial  empty\n"
    "row:71   tile:3,0   tile:3,0,accumulate\n"
    "or a condition on a row: alpha < 0.01 and row == 71, isnan(O), max(S) > 80,\n"
    "m > m_old + 5, any(P == 1 and key > 100), O[3] < 0\n"
    "Names: m l alpha m_old l_old LSE row_sum, S P key O (lists, [n]), head row i j r.\n"
    "Functions: abs exp log sqrt isnan isinf isfinite min max any all sum.";

// Only the first column can be edited; each letter is checked.
class Delegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  std::function<bool(const QString&)> check;

  // An empty check box must be seen on a dark panel.
  void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
    QStyledItemDelegate::initStyleOption(option, index);
    const Colours c = colours(option->palette);
    if (c.dark) option->palette.setColor(QPalette::Base, c.border.lighter(125));
  }
  QWidget* createEditor(QWidget* parent, const QStyleOptionViewItem&, const QModelIndex& index) const override {
    if (index.column() != kStop) return nullptr;
    auto* edit = new QLineEdit(parent);
    edit->setObjectName("stop_editor");
    connect(edit, &QLineEdit::textEdited, this, [this](const QString& text) { check(text); });
    return edit;
  }
  // What means nothing is not taken over: the editor stays open on Return, and gives up on Escape.
  void setModelData(QWidget* editor, QAbstractItemModel* model, const QModelIndex& index) const override {
    if (check(static_cast<QLineEdit*>(editor)->text())) QStyledItemDelegate::setModelData(editor, model, index);
  }
};

}  // namespace

StopsPanel::StopsPanel(Stops& stops, QWidget* parent) : Panel(parent), stops_(stops) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 4, 0, 4);
  list_ = new QTreeWidget;
  list_->setObjectName("stops_list");
  list_->setRootIsDecorated(false);
  list_->setColumnCount(3);
  list_->setHeaderLabels({"stop at", "in the run", "hits"});
  list_->headerItem()->setToolTip(kInRun, "Rows or tiles of that sort in what is scanned of the whole run: counted");
  list_->headerItem()->setToolTip(kHits, "How often running has stopped here");
  list_->header()->setStretchLastSection(false);
  list_->header()->setSectionResizeMode(kStop, QHeaderView::Stretch);
  list_->header()->setSectionResizeMode(kInRun, QHeaderView::ResizeToContents);
  list_->header()->setSectionResizeMode(kHits, QHeaderView::ResizeToContents);
  list_->setEditTriggers(QAbstractItemView::DoubleClicked | QAbstractItemView::EditKeyPressed);
  list_->setAccessibleName("Stops");
  list_->installEventFilter(this);
  list_->setUniformRowHeights(true);
  make_copyable(list_);
  auto* delegate = new Delegate(list_);
  delegate->check = [this](const QString& text) { return check(text); };
  list_->setItemDelegate(delegate);
  layout->addWidget(list_, 1);
  connect(list_, &QTreeWidget::itemChanged, this, [this](QTreeWidgetItem* item) {
    if (!showing_) take_edit(item);
  });
  connect(delegate, &QAbstractItemDelegate::closeEditor, this, [this] { check(edit_->text()); });

  // What is typed has a line of its own: a condition is long.
  edit_ = new QLineEdit;
  edit_->setObjectName("stop_text");
  edit_->setPlaceholderText("alpha < 0.01 and row == 71");
  edit_->setToolTip(kHelp);
  edit_->setAccessibleName("A stop to add");
  edit_->setClearButtonEnabled(true);
  auto* typed = new QHBoxLayout;
  typed->setContentsMargins(8, 0, 8, 0);
  typed->addWidget(edit_, 1);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(8, 0, 8, 0);
  const auto button = [&](QHBoxLayout* where, const char* name, const QString& title, const char* tip) {
    auto* made = new QPushButton(title);
    made->setObjectName(name);
    made->setToolTip(tip);
    made->setFocusPolicy(Qt::TabFocus);
    made->setMaximumWidth(made->fontMetrics().horizontalAdvance(title) + 20);
    where->addWidget(made);
    return made;
  };
  add_ = button(typed, "stop_add", "Add", "Add what is typed (Return)");
  remove_ = button(row, "stop_remove", "Remove", "Remove the chosen stop (Delete)");
  undo_ = button(row, "stop_undo", "Undo", "Take the last change of this list back");
  row->addStretch(1);
  back_ = button(row, "stop_back", QString::fromUtf8("◀ Run back"), "To the stop before here (Shift+F5)");
  next_ = button(row, "stop_next", QString::fromUtf8("Run to ▶"), "To the next stop that is switched on (F5)");
  layout->addLayout(typed);
  error_ = new QLabel;
  error_->setObjectName("stop_error");
  error_->setWordWrap(true);
  error_->setContentsMargins(8, 0, 8, 0);
  error_->setTextInteractionFlags(Qt::TextBrowserInteraction);
  layout->addWidget(error_);
  layout->addLayout(row);
  connect(error_, &QLabel::linkActivated, this, [this](const QString& example) {
    edit_->setText(example);
    edit_->setFocus();
    check(example);
  });
  connect(back_, &QPushButton::clicked, this, [this] { emit run(false); });
  connect(next_, &QPushButton::clicked, this, [this] { emit run(true); });

  connect(edit_, &QLineEdit::textEdited, this, [this](const QString& text) { check(text); });
  connect(edit_, &QLineEdit::returnPressed, this, &StopsPanel::add_typed);
  connect(add_, &QPushButton::clicked, this, &StopsPanel::add_typed);
  connect(remove_, &QPushButton::clicked, this, &StopsPanel::remove_chosen);
  connect(undo_, &QPushButton::clicked, this, [this] {
    if (undo(stops_)) changed();
  });
  connect(list_, &QTreeWidget::itemSelectionChanged, this,
          [this] { remove_->setEnabled(!list_->selectedItems().empty()); });
  show_list();
  check({});
}

void StopsPanel::refresh(const Document& document) {
  totals_ = document.stage().totals;
  schedule_ = document.stage().schedule;
  if (as_json(stops_) != shown_) show_list();
  show_counts();
}

void StopsPanel::show_partial_tiles(const std::shared_ptr<const Schedule>& of, std::optional<std::int64_t> count) {
  partial_of_ = of, partial_ = count;
  show_counts();
}

void StopsPanel::show_list() {
  const auto* editor = list_->findChild<QLineEdit*>("stop_editor");
  if (editor && editor->isVisible()) return;  // something is being written in it
  showing_ = true;
  const int chosen = list_->indexOfTopLevelItem(list_->currentItem());
  list_->clear();
  for (const StopEntry& entry : stops_.list) {
    auto* item = new QTreeWidgetItem(list_);
    item->setText(kStop, text(text_of(entry.stop)));
    item->setFlags(item->flags() | Qt::ItemIsUserCheckable | Qt::ItemIsEditable);
    item->setCheckState(kStop, entry.enabled ? Qt::Checked : Qt::Unchecked);
    item->setTextAlignment(kInRun, Qt::AlignRight | Qt::AlignVCenter);
    item->setTextAlignment(kHits, Qt::AlignRight | Qt::AlignVCenter);
    item->setToolTip(kStop, text(describe(entry.stop)));
  }
  if (chosen >= 0 && chosen < list_->topLevelItemCount()) list_->setCurrentItem(list_->topLevelItem(chosen));
  shown_ = as_json(stops_);
  showing_ = false;
  remove_->setEnabled(!list_->selectedItems().empty());
  undo_->setEnabled(!stops_.before.empty());
  show_counts();
}

void StopsPanel::show_counts() {
  showing_ = true;
  for (std::size_t n = 0; n < stops_.list.size() && static_cast<int>(n) < list_->topLevelItemCount(); ++n) {
    const StopEntry& entry = stops_.list[n];
    std::optional<std::int64_t> count;
    bool complete = totals_.complete;
    QString from = "counted by the scan of the whole run", why_not;
    switch (entry.stop.kind) {
      case Stop::Kind::nan:
        count = totals_.nan;
        break;
      case Stop::Kind::inf:
        count = totals_.inf;
        break;
      case Stop::Kind::rescale:
        if (entry.stop.factor == 1)
          count = totals_.rescale;
        else
          why_not = "not counted: the scan counts rescales of every factor together";
        break;
      case Stop::Kind::first_max:
        count = totals_.first_max;
        break;
      case Stop::Kind::masked:
        count = totals_.masked;
        break;
      case Stop::Kind::empty_row:
        count = totals_.empty_row;
        break;
      case Stop::Kind::partial:
        complete = true;
        from = "counted by the mask report, over all heads";
        if (partial_of_ == schedule_) count = partial_;
        why_not = "not counted: the mask report is under way, or the run has too many tiles for it";
        break;
      case Stop::Kind::row:
      case Stop::Kind::tile:
        why_not = "not counted: it is one place";
        break;
      case Stop::Kind::condition:
        why_not = "not counted: a condition is looked at only while it is run to";
        break;
    }
    QTreeWidgetItem* item = list_->topLevelItem(static_cast<int>(n));
    item->setText(kInRun, count ? grouped(*count) + (complete ? "" : " so far") : dash());
    item->setToolTip(kInRun, count ? from : why_not);
    item->setText(kHits, grouped(entry.hits));
  }
  showing_ = false;
}

void StopsPanel::show_examples() {
  const Colours c = colours(palette());
  QStringList links;
  for (const char* example : {"alpha < 0.01", "isnan(O)", "max(S) > 80", "alpha < 0.1 and row == 71", "rescale:10",
                              "row:71", "tile:3,0", "tile:3,0,accumulate"})
    links << QString("<a href='%1' style='color:%2'>%3</a>")
                 .arg(
                     QString(example).toHtmlEscaped(), c.accent.name(),
                     QString(example).toHtmlEscaped().replace(' ', "&nbsp;").replace(":", ":&#8288;"));  // in one piece
  error_->setText(QString("<span style='color:%1'>F5 runs to the next of these that is on, Shift+F5 back; F9 stops at "
                          "this tile and stage. To add:</span> %2")
                      .arg(c.dim.name(), links.join(" &nbsp;")));
}

bool StopsPanel::check(const QString& typed) {
  const Colours c = colours(palette());
  QPalette shade = error_->palette();
  bool right = false;
  if (typed.trimmed().isEmpty()) {
    show_examples();
    shade.setColor(QPalette::WindowText, c.dim);
  } else {
    try {
      const Stop stop = parse_stop(typed.toStdString());
      error_->setText(stop.kind == Stop::Kind::condition ? "stops where this begins to hold for a row"
                                                         : "stops at: " + text(describe(stop)));
      shade.setColor(QPalette::WindowText, c.good);
      right = true;
    } catch (const ConditionError& error) {
      const QByteArray utf8 = typed.toUtf8();
      const auto column = QString::fromUtf8(utf8.left(static_cast<int>(error.at()))).size();
      error_->setText(QString("character %1: found %2, expected %3")
                          .arg(column + 1)
                          .arg(text(error.found()), text(error.expected())));
      shade.setColor(QPalette::WindowText, c.nan);
    }
  }
  error_->setPalette(shade);
  add_->setEnabled(right);
  return right;
}

void StopsPanel::add_typed() {
  if (!check(edit_->text())) return;
  add(stops_, parse_stop(edit_->text().toStdString()));
  edit_->clear();
  check({});
  changed();
}

void StopsPanel::remove_chosen() {
  const int n = list_->indexOfTopLevelItem(list_->currentItem());
  if (n < 0 || list_->selectedItems().empty()) return;
  remove(stops_, static_cast<std::size_t>(n));
  changed();
}

// A check mark or a text was changed in the list.
void StopsPanel::take_edit(QTreeWidgetItem* item) {
  const int n = list_->indexOfTopLevelItem(item);
  if (n < 0 || n >= static_cast<int>(stops_.list.size())) return;
  enable(stops_, static_cast<std::size_t>(n), item->checkState(kStop) == Qt::Checked);
  try {
    replace(stops_, static_cast<std::size_t>(n), parse_stop(item->text(kStop).toStdString()));
  } catch (const ConditionError&) {
    // The delegate lets none through.
  }
  // Queued: the view still works on the item.
  QMetaObject::invokeMethod(this, &StopsPanel::changed, Qt::QueuedConnection);
}

void StopsPanel::changed() {
  show_list();
  emit edited();
}

bool StopsPanel::eventFilter(QObject* object, QEvent* event) {
  if (object == list_ && event->type() == QEvent::KeyPress && static_cast<QKeyEvent*>(event)->key() == Qt::Key_Delete) {
    remove_chosen();
    return true;
  }
  return Panel::eventFilter(object, event);
}

void StopsPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) check(edit_->text());
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
