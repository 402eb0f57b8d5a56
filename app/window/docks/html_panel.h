// A panel that is a text with tables. What differs is what `html` says of the document.
#pragma once

#include <QStringList>

#include "app/window/panel.h"
#include "app/window/theme.h"

class QTextBrowser;

namespace flashscope::window {

// A table of text cells; the first row is its head, the first column its labels.
class Table {
 public:
  Table(const Colours& colours, const QStringList& head);
  Table& row(const QStringList& cells, bool strong = false);
  // The last cell in a colour of its own.
  Table& row(const QStringList& cells, const QColor& last);
  // A label over the whole width, above its row: where many columns leave it no room beside them.
  Table& over(const QString& label);
  QString html() const { return html_ + "</table>"; }

 private:
  void add(const QStringList& cells, const QColor& colour, const QColor& last, bool strong);
  Colours colours_;
  qsizetype columns_;
  QString html_;
};

QString heading(const QString& title, const QString& remark, const Colours& colours);
QString paragraph(const QString& words, const QColor& colour);
QString dash();  // in the place of a number that is not there

class HtmlPanel : public Panel {
  Q_OBJECT

 public:
  explicit HtmlPanel(QWidget* parent = nullptr);
  void refresh(const Document& document) final;

 protected:
  // Empty: what is shown stays.
  virtual QString html(const Document& document, const Colours& colours) = 0;
  virtual void link_clicked(const QString&) {}
  void changeEvent(QEvent* event) override;

 private:
  QTextBrowser* text_;
  QString shown_;
};

}  // namespace flashscope::window
