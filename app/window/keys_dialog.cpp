#include "app/window/keys_dialog.h"

#include <QDialogButtonBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeySequenceEdit>
#include <QLabel>
#include <QPushButton>
#include <QTreeWidget>
#include <QVBoxLayout>

namespace flashscope::window {

KeysDialog::KeysDialog(Actions& actions, QWidget* parent) : QDialog(parent), actions_(actions) {
  setWindowTitle("Keys");
  resize(640, 560);
  auto* layout = new QVBoxLayout(this);
  tree_ = new QTreeWidget;
  tree_->setHeaderLabels({"Command", "Keys"});
  tree_->header()->setSectionResizeMode(0, QHeaderView::Stretch);
  tree_->header()->setSectionResizeMode(1, QHeaderView::ResizeToContents);
  tree_->setUniformRowHeights(true);
  layout->addWidget(tree_);

  auto* row = new QHBoxLayout;
  edit_ = new QKeySequenceEdit;
  edit_->setToolTip("Click here and press the new keys");
  replace_ = new QPushButton("Set");
  add_ = new QPushButton("Add");
  reset_ = new QPushButton("Default");
  row->addWidget(new QLabel("New keys:"));
  row->addWidget(edit_, 1);
  for (QPushButton* button : {replace_, add_, reset_}) row->addWidget(button), button->setAutoDefault(false);
  layout->addLayout(row);
  note_ = new QLabel("Choose a command, click into the field and press keys.");
  note_->setWordWrap(true);
  layout->addWidget(note_);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
  QPushButton* all = buttons->addButton("All defaults", QDialogButtonBox::ResetRole);
  all->setAutoDefault(false);
  layout->addWidget(buttons);

  connect(tree_, &QTreeWidget::currentItemChanged, this, &KeysDialog::select);
  connect(edit_, &QKeySequenceEdit::keySequenceChanged, this, &KeysDialog::select);
  connect(replace_, &QPushButton::clicked, this, [this] { assign(false); });
  connect(add_, &QPushButton::clicked, this, [this] { assign(true); });
  connect(reset_, &QPushButton::clicked, this, [this] { restore(false); });
  connect(all, &QPushButton::clicked, this, [this] { restore(true); });
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  fill();
}

void KeysDialog::fill() {
  const QString before = selected() ? selected()->id : QString();
  const QSignalBlocker quiet(tree_);
  tree_->clear();
  QTreeWidgetItem* again = nullptr;
  std::map<QString, QTreeWidgetItem*> groups;
  for (const Actions::Entry& entry : actions_.entries()) {
    QTreeWidgetItem*& group = groups[entry.group];
    if (!group) {
      group = new QTreeWidgetItem(tree_, {entry.group});
      group->setFlags(Qt::ItemIsEnabled);
      group->setExpanded(true);
    }
    QString title = entry.action->text();
    auto* item = new QTreeWidgetItem(group, {title.remove('&'), Actions::keys_text(entry.action->shortcuts())});
    item->setData(0, Qt::UserRole, entry.id);
    if (entry.action->shortcuts() != entry.default_keys) {
      QFont font = item->font(1);
      font.setBold(true);
      item->setFont(1, font);
    }
    if (entry.id == before) again = item;
  }
  if (again) tree_->setCurrentItem(again);
  select();
}

const Actions::Entry* KeysDialog::selected() const {
  const QTreeWidgetItem* item = tree_->currentItem();
  if (!item) return nullptr;
  const QString id = item->data(0, Qt::UserRole).toString();
  for (const Actions::Entry& entry : actions_.entries())
    if (entry.id == id) return &entry;
  return nullptr;
}

const Actions::Entry* KeysDialog::owner_of(const QKeySequence& key) const {
  for (const Actions::Entry& entry : actions_.entries())
    if (&entry != selected() && entry.action->shortcuts().contains(key)) return &entry;
  return nullptr;
}

void KeysDialog::select() {
  const bool ready = selected() && !edit_->keySequence().isEmpty();
  replace_->setEnabled(ready);
  add_->setEnabled(ready);
  reset_->setEnabled(selected());
  if (!ready) return;
  const Actions::Entry* owner = owner_of(edit_->keySequence());
  QString title = owner ? owner->action->text() : QString();
  note_->setText(owner ? "These keys belong to \"" + title.remove('&') + "\"; setting them takes them away from it."
                       : QString("These keys are free."));
}

void KeysDialog::assign(bool add) {
  const Actions::Entry* entry = selected();
  const QKeySequence key = edit_->keySequence();
  if (!entry || key.isEmpty()) return;
  if (const Actions::Entry* owner = owner_of(key)) {
    QList<QKeySequence> left = owner->action->shortcuts();
    left.removeAll(key);
    actions_.set_keys(owner->id, left);
  }
  QList<QKeySequence> keys = add ? entry->action->shortcuts() : QList<QKeySequence>();
  if (!keys.contains(key)) keys << key;
  actions_.set_keys(entry->id, keys);
  edit_->clear();
  fill();
  emit keys_changed();
}

void KeysDialog::restore(bool all) {
  const QString id = selected() ? selected()->id : QString();
  for (const Actions::Entry& entry : actions_.entries())
    if (all || entry.id == id) actions_.set_keys(entry.id, entry.default_keys);
  fill();
  emit keys_changed();
}

}  // namespace flashscope::window
