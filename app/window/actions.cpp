#include "app/window/actions.h"

#include <QSettings>
#include <algorithm>

namespace flashscope::window {

Actions::Entry& Actions::insert(const QString& id, const QString& group, const QString& title, const QString& keys,
                                const QString& tip) {
  Entry entry{id, group, new QAction(title, this), {}};
  for (const QString& key : keys.split(", ", Qt::SkipEmptyParts)) entry.default_keys << QKeySequence(key);
  entry.action->setObjectName(id);
  entry.action->setShortcuts(entry.default_keys);
  index_[id] = entries_.size();
  tips_[id] = tip;
  entries_.push_back(entry);
  show_keys(entries_.back());
  return entries_.back();
}

QAction* Actions::add(const QString& id, const QString& group, const QString& title, const QString& keys,
                      const QString& tip, std::function<void()> run) {
  QAction* action = insert(id, group, title, keys, tip).action;
  connect(action, &QAction::triggered, this, [run = std::move(run)] { run(); });
  return action;
}

QAction* Actions::add_check(const QString& id, const QString& group, const QString& title, const QString& keys,
                            const QString& tip, bool checked, std::function<void(bool)> run) {
  QAction* action = insert(id, group, title, keys, tip).action;
  action->setCheckable(true);
  action->setChecked(checked);
  connect(action, &QAction::toggled, this, [run = std::move(run)](bool on) { run(on); });
  return action;
}

QAction* Actions::operator[](const QString& id) const {
  const auto found = index_.find(id);
  return found == index_.end() ? nullptr : entries_[found->second].action;
}

QString Actions::keys_text(const QList<QKeySequence>& keys) {
  QStringList names;
  for (const QKeySequence& key : keys) names << key.toString(QKeySequence::NativeText);
  return names.join(", ");
}

void Actions::show_keys(Entry& entry) {
  const QString keys = keys_text(entry.action->shortcuts());
  QString title = entry.action->text();
  title.remove('&').remove("...");
  const QString tip = tips_[entry.id];
  entry.action->setToolTip(title + (keys.isEmpty() ? QString() : " (" + keys + ')') +
                           (tip.isEmpty() ? QString() : '\n' + tip));
}

void Actions::set_keys(const QString& id, const QList<QKeySequence>& keys) {
  const auto found = index_.find(id);
  if (found == index_.end()) return;
  Entry& entry = entries_[found->second];
  entry.action->setShortcuts(keys);
  show_keys(entry);
}

void Actions::load_keys(QSettings& settings) {
  settings.beginGroup("keys");
  for (const QString& id : settings.childKeys()) {
    QList<QKeySequence> keys;
    for (const QString& key : settings.value(id).toStringList())
      if (!key.isEmpty()) keys << QKeySequence(key, QKeySequence::PortableText);
    set_keys(id, keys);
  }
  settings.endGroup();
}

void Actions::save_keys(QSettings& settings) const {
  settings.remove("keys");
  settings.beginGroup("keys");
  for (const Entry& entry : entries_) {
    if (entry.action->shortcuts() == entry.default_keys) continue;
    QStringList keys;
    for (const QKeySequence& key : entry.action->shortcuts()) keys << key.toString(QKeySequence::PortableText);
    settings.setValue(entry.id, keys.isEmpty() ? QStringList{""} : keys);  // an empty list would not be stored
  }
  settings.endGroup();
}

int fuzzy_score(const QString& pattern, const QString& text) {
  constexpr int kNone = -1'000'000;
  const qsizetype length = text.size();
  const auto starts_word = [&](qsizetype n) { return n == 0 || !text[n - 1].isLetterOrNumber(); };
  // before[n + 1]: the best score of the letters so far with the last of them at n.
  std::vector<int> before(length + 1, kNone), now(length + 1, kNone);
  before[0] = 0;
  for (const QChar letter : pattern) {
    if (letter.isSpace()) continue;
    now.assign(length + 1, kNone);
    int best_before = before[0];
    for (qsizetype n = 0; n < length; ++n) {
      if (text[n].toCaseFolded() == letter.toCaseFolded()) {
        const int apart = best_before + (starts_word(n) ? 24 : 4);
        const int adjoining = n > 0 ? before[n] + 32 : kNone;
        now[n + 1] = std::max(apart, adjoining);
      }
      best_before = std::max(best_before, before[n + 1]);
    }
    before.swap(now);
  }
  const int best = *std::max_element(before.begin(), before.end());
  return best < 0 ? -1 : best * 4 - static_cast<int>(std::min<qsizetype>(length, 80)) / 4;
}

}  // namespace flashscope::window
