#include "app/window/command_palette.h"

#include <QKeyEvent>
#include <QLineEdit>
#include <QListWidget>
#include <QRegularExpression>
#include <QVBoxLayout>
#include <algorithm>

#include "app/window/text.h"

namespace flashscope::window {

std::optional<TypedPlace> typed_place(const QString& typed) {
  static const QRegularExpression step("^\\s*(?:step\\s+)?([0-9][0-9,]*)\\s*$");
  static const QRegularExpression tile("^\\s*(?:tile\\s+)?\\(?\\s*([0-9]+)\\s*[, ]\\s*([0-9]+)\\s*\\)?\\s*$");
  static const QRegularExpression row("^\\s*row\\s+([0-9][0-9,]*)\\s*$");
  const auto value = [](QString digits, bool& ok) { return digits.remove(',').toLongLong(&ok); };
  bool ok = false;
  if (const auto match = row.match(typed); match.hasMatch()) {
    const std::int64_t r = value(match.captured(1), ok);
    if (!ok) return {};
    return TypedPlace{"Go to row " + grouped(r), [r](Document& document) { document.seek_row(document.head(), r); }};
  }
  // "5,3" is a tile; "1,445,888" is a number with its digits grouped.
  static const QRegularExpression grouped_digits("^\\s*[0-9]{1,3}(,[0-9]{3})+\\s*$");
  if (const auto match = tile.match(typed); match.hasMatch() && !grouped_digits.match(typed).hasMatch()) {
    bool ok_j = false;
    const std::int64_t i = value(match.captured(1), ok), j = value(match.captured(2), ok_j);
    if (!ok || !ok_j) return {};
    return TypedPlace{QString("Go to tile (%1, %2)").arg(i).arg(j),
                      [i, j](Document& document) { document.seek_tile(i, j); }};
  }
  if (const auto match = step.match(typed); match.hasMatch()) {
    const std::int64_t K = value(match.captured(1), ok);
    if (!ok) return {};
    return TypedPlace{"Go to step " + grouped(K), [K](Document& document) { document.seek(K); }};
  }
  return {};
}

CommandPalette::CommandPalette(const Actions& actions, QWidget* parent)
    : QDialog(parent, Qt::Popup), actions_(actions) {
  setObjectName("palette");
  setAttribute(Qt::WA_StyledBackground);
  setStyleSheet("#palette { border: 1px solid palette(link); }");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(8, 8, 8, 8);
  input_ = new QLineEdit;
  input_->setPlaceholderText("A command, a step (1200), a tile (5,3) or a row (row 372)");
  input_->setClearButtonEnabled(true);
  list_ = new QListWidget;
  list_->setUniformItemSizes(true);
  list_->setFocusPolicy(Qt::NoFocus);
  list_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  layout->addWidget(input_);
  layout->addWidget(list_);
  connect(input_, &QLineEdit::textChanged, this, &CommandPalette::filter);
  connect(input_, &QLineEdit::returnPressed, this, &CommandPalette::run_selected);
  connect(list_, &QListWidget::itemClicked, this, &CommandPalette::run_selected);
  input_->installEventFilter(this);
}

void CommandPalette::open_over(QWidget* area) {
  const int width = std::min(620, area->width() - 40);
  resize(width, std::min(420, area->height() - 60));
  move(area->mapToGlobal(QPoint((area->width() - width) / 2, 30)));
  input_->clear();
  filter({});
  show();
  input_->setFocus();
}

void CommandPalette::filter(const QString& pattern) {
  list_->clear();
  if (const auto place = typed_place(pattern)) {
    list_->addItem(place->title);
    list_->item(0)->setData(Qt::UserRole, pattern);
  }
  struct Hit {
    int score;
    const Actions::Entry* entry;
    QString title;
  };
  std::vector<Hit> hits;
  for (const Actions::Entry& entry : actions_.entries()) {
    if (!entry.action->isEnabled()) continue;
    QString title = entry.group + ": " + entry.action->text();
    title.remove('&');
    const int score = pattern.trimmed().isEmpty() ? 0 : fuzzy_score(pattern, title);
    if (score >= 0) hits.push_back({score, &entry, title});
  }
  std::stable_sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) { return a.score > b.score; });
  for (const Hit& hit : hits) {
    const QString keys = Actions::keys_text(hit.entry->action->shortcuts());
    const QString mark =
        hit.entry->action->isCheckable() && hit.entry->action->isChecked() ? QString::fromUtf8("✓ ") : QString();
    auto* item = new QListWidgetItem(mark + hit.title + (keys.isEmpty() ? QString() : "    [" + keys + ']'), list_);
    item->setData(Qt::UserRole + 1, hit.entry->id);
  }
  if (list_->count() > 0) list_->setCurrentRow(0);
}

void CommandPalette::run_selected() {
  const QListWidgetItem* item = list_->currentItem();
  if (!item) return;
  const QString typed = item->data(Qt::UserRole).toString(), id = item->data(Qt::UserRole + 1).toString();
  hide();
  if (const auto place = typed.isEmpty() ? std::nullopt : typed_place(typed))
    emit change(place->change);
  else if (QAction* action = actions_[id])
    action->trigger();
}

bool CommandPalette::eventFilter(QObject* object, QEvent* event) {
  if (object == input_ && event->type() == QEvent::KeyPress) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    const int page = std::max(1, list_->height() / std::max(1, list_->sizeHintForRow(0)) - 1);
    const int by = key == Qt::Key_Down       ? 1
                   : key == Qt::Key_Up       ? -1
                   : key == Qt::Key_PageDown ? page
                   : key == Qt::Key_PageUp   ? -page
                                             : 0;
    if (by != 0 && list_->count() > 0) {
      list_->setCurrentRow(std::clamp(list_->currentRow() + by, 0, list_->count() - 1));
      return true;
    }
  }
  return QDialog::eventFilter(object, event);
}

}  // namespace flashscope::window
