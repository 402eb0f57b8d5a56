#include "app/window/docks/html_panel.h"

#include <QEvent>
#include <QRegularExpression>
#include <QScrollBar>
#include <QTextBrowser>
#include <QVBoxLayout>

namespace flashscope::window {

Table::Table(const Colours& colours, const QStringList& head) : colours_(colours), columns_(head.size()) {
  html_ = "<table width='100%' cellspacing='0' cellpadding='3'>";
  add(head, colours.dim, colours.dim, false);
}

Table& Table::over(const QString& label) {
  html_ += QString("<tr><td colspan='%1' style='color:%2'>%3</td></tr>").arg(columns_).arg(colours_.dim.name(), label);
  return *this;
}

Table& Table::row(const QStringList& cells, bool strong) {
  add(cells, colours_.text, colours_.text, strong);
  return *this;
}

Table& Table::row(const QStringList& cells, const QColor& last) {
  add(cells, colours_.text, last, false);
  return *this;
}

void Table::add(const QStringList& cells, const QColor& colour, const QColor& last, bool strong) {
  static const QRegularExpression tags("<[^>]*>");
  html_ += "<tr>";
  for (qsizetype n = 0; n < cells.size(); ++n)
    html_ +=
        QString("<td align='%1' style='color:%2%3'>%4%5%6</td>")
            .arg(n > 0 ? "right" : "left", (n > 0 && n + 1 == cells.size() ? last : colour).name(),
                 QString(cells[n]).remove(tags).contains(' ') ? ""
                                                              : ";white-space:nowrap",  // a number stays in one piece
                 strong ? "<b>" : "", cells[n], strong ? "</b>" : "");
  html_ += "</tr>";
}

QString heading(const QString& title, const QString& remark, const Colours& colours) {
  return QString("<p style='margin-top:12px;margin-bottom:2px;color:%1'><b>%2</b> <span style='color:%3'>%4</span></p>")
      .arg(colours.accent.name(), title, colours.dim.name(), remark);
}

QString paragraph(const QString& words, const QColor& colour) {
  return QString("<p style='margin-top:3px;margin-bottom:3px;color:%1'>%2</p>").arg(colour.name(), words);
}

QString dash() { return QString::fromUtf8("—"); }

HtmlPanel::HtmlPanel(QWidget* parent) : Panel(parent) {
  text_ = new QTextBrowser;
  text_->setFrameShape(QFrame::NoFrame);
  text_->setOpenLinks(false);
  connect(text_, &QTextBrowser::anchorClicked, this, [this](const QUrl& url) { link_clicked(url.toString()); });
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(text_);
}

void HtmlPanel::refresh(const Document& document) {
  const QString html = this->html(document, colours(palette()));
  if (html.isEmpty() || html == shown_) return;
  shown_ = html;
  const int at = text_->verticalScrollBar()->value();
  text_->setHtml(html);
  text_->verticalScrollBar()->setValue(at);
}

void HtmlPanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) shown_.clear();
  Panel::changeEvent(event);
}

}  // namespace flashscope::window
