// Everything that the window can do, by name: one table for menus, keys, tooltips, the key settings and the
// command palette.
#pragma once

#include <QAction>
#include <QKeySequence>
#include <QObject>
#include <functional>
#include <map>
#include <vector>

class QSettings;

namespace flashscope::window {

class Actions : public QObject {
  Q_OBJECT

 public:
  using QObject::QObject;

  struct Entry {
    QString id;     // "go.step": the name in the settings
    QString group;  // "Go": shown in the palette and in the list of keys
    QAction* action = nullptr;
    QList<QKeySequence> default_keys;
  };

  // `tip` says more than the title; empty: the title is enough. `keys`: "F10, Right".
  QAction* add(const QString& id, const QString& group, const QString& title, const QString& keys, const QString& tip,
               std::function<void()> run);
  // A check mark; `run` gets its new value.
  QAction* add_check(const QString& id, const QString& group, const QString& title, const QString& keys,
                     const QString& tip, bool checked, std::function<void(bool)> run);
  QAction* operator[](const QString& id) const;
  const std::vector<Entry>& entries() const { return entries_; }

  void set_keys(const QString& id, const QList<QKeySequence>& keys);
  void load_keys(QSettings& settings);  // those that the person changed
  void save_keys(QSettings& settings) const;

  static QString keys_text(const QList<QKeySequence>& keys);  // "F10, Right"

 private:
  Entry& insert(const QString& id, const QString& group, const QString& title, const QString& keys, const QString& tip);
  void show_keys(Entry& entry);

  std::vector<Entry> entries_;
  std::map<QString, std::size_t> index_;
  std::map<QString, QString> tips_;
};

// How well `pattern` fits `text`: its letters in order, better at the starts of words and side by side.
// Negative: not at all.
int fuzzy_score(const QString& pattern, const QString& text);

}  // namespace flashscope::window
