#include "app/window/theme.h"

#include <QApplication>
#include <QPainter>
#include <QPainterPath>
#include <QPixmap>
#include <QStyle>
#include <QStyleFactory>
#include <QToolTip>

namespace flashscope::window {

Colours colours(bool dark) {
  Colours c;
  c.dark = dark;
  if (dark) {
    c.window = "#161a22", c.base = "#10131a", c.raised = "#232936", c.border = "#343c4c";
    c.text = "#e8eaf0", c.dim = "#a3abba", c.accent = "#4fd1c5", c.select = "#1f5f66";
    c.rescale = "#f0a850", c.nan = "#ff5fe0", c.inf = "#ff9140", c.masked = "#7d8696", c.good = "#63d68a";
    c.bad = "#ff7070";
  } else {
    c.window = "#f3f4f7", c.base = "#ffffff", c.raised = "#e6e9ef", c.border = "#c3c9d4";
    c.text = "#171a21", c.dim = "#535b6b", c.accent = "#0b7a75", c.select = "#bfe6e2";
    c.rescale = "#a85500", c.nan = "#b5179e", c.inf = "#c2410c", c.masked = "#7d8696", c.good = "#167a3c";
    c.bad = "#b3261e";
  }
  return c;
}

Colours colours(const QPalette& palette) { return colours(palette.color(QPalette::Window).lightness() < 128); }

void apply_theme(bool dark) {
  const Colours c = colours(dark);
  QPalette palette;
  palette.setColor(QPalette::Window, c.window);
  palette.setColor(QPalette::WindowText, c.text);
  palette.setColor(QPalette::Base, c.base);
  palette.setColor(QPalette::AlternateBase, c.window);
  palette.setColor(QPalette::Text, c.text);
  palette.setColor(QPalette::PlaceholderText, c.dim);
  palette.setColor(QPalette::Button, c.raised);
  palette.setColor(QPalette::ButtonText, c.text);
  palette.setColor(QPalette::BrightText, c.nan);
  palette.setColor(QPalette::ToolTipBase, c.raised);
  palette.setColor(QPalette::ToolTipText, c.text);
  palette.setColor(QPalette::Link, c.accent);
  palette.setColor(QPalette::Highlight, c.select);
  palette.setColor(QPalette::HighlightedText, c.text);
  palette.setColor(QPalette::Light, c.raised.lighter(120));
  palette.setColor(QPalette::Midlight, c.raised);
  palette.setColor(QPalette::Mid, c.border);
  palette.setColor(QPalette::Dark, c.border.darker(120));
  palette.setColor(QPalette::Shadow, c.base);
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
    palette.setColor(QPalette::Disabled, role, c.masked);
  QApplication::setStyle(QStyleFactory::create("Fusion"));
  QApplication::setPalette(palette);
  QPalette boxes = palette;  // an empty check box must be seen on a dark panel
  boxes.setColor(QPalette::Base, dark ? c.border.lighter(125) : c.base);
  QApplication::setPalette(boxes, "QCheckBox");
  QToolTip::setPalette(palette);
  qApp->setStyleSheet(QString("QToolTip { color: %1; background: %2; border: 1px solid %3; padding: 3px; }"
                              "QTabBar { qproperty-elideMode: ElideNone; qproperty-usesScrollButtons: true; }"
                              "QMainWindow::separator { background: %3; width: 3px; height: 3px; }"
                              "QMainWindow::separator:hover { background: %4; }"
                              "QToolBar { border: 0; border-top: 1px solid %3; spacing: 2px; padding: 3px; }"
                              "QToolBar QToolButton { padding: 3px; border-radius: 4px; }"
                              "QToolBar QToolButton:hover { background: %2; }"
                              "QToolBar QToolButton:checked { background: %5; }"
                              "QDockWidget { titlebar-close-icon: none; }")
                          .arg(c.text.name(), c.raised.name(), c.border.name(), c.accent.name(), c.select.name()));
}

namespace {

// All glyphs are drawn on a 24 x 24 grid.
QPainterPath triangle(double x, double width) {  // pointing right for width > 0
  QPainterPath path;
  path.moveTo(x, 5);
  path.lineTo(x + width, 12);
  path.lineTo(x, 19);
  path.closeSubpath();
  return path;
}

QPainterPath bar(double x, double width = 2.6) {
  QPainterPath path;
  path.addRect(x, 5, width, 14);
  return path;
}

void arrow(QPainter& painter, bool forward) {  // a small chevron at the side of a marker
  const double x = forward ? 17 : 7, tip = forward ? 21.5 : 2.5;
  painter.drawPolyline(QPolygonF{{x, 7}, {tip, 12}, {x, 17}});
}

void turn(QPainter& painter, bool forward) {  // undo and redo
  if (forward) painter.translate(24, 0), painter.scale(-1, 1);
  QPainterPath path;
  path.moveTo(8, 5);
  path.lineTo(4, 9.5);
  path.lineTo(8, 14);
  path.moveTo(4, 9.5);
  path.lineTo(14, 9.5);
  path.arcTo(QRectF(9, 9.5, 10, 9), 90, -180);
  path.lineTo(9, 18.5);
  painter.drawPath(path);
}

void draw(QPainter& painter, Glyph glyph, const Colours& c, const QColor& ink) {
  const auto fill = [&](std::initializer_list<QPainterPath> paths) {
    for (const QPainterPath& path : paths) painter.fillPath(path, ink);
  };
  const auto pen = [&](const QColor& colour, double width) {
    painter.setPen(QPen(colour, width, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    painter.setBrush(Qt::NoBrush);
  };
  const bool active = ink == c.text;
  switch (glyph) {
    case Glyph::first:
      return fill({bar(4), triangle(19, -11)});
    case Glyph::back_tile:
      return fill({triangle(12, -9), triangle(21, -9)});
    case Glyph::back:
      return fill({triangle(13, -9), bar(16, 3)});
    case Glyph::play:
      return fill({triangle(6, 13)});
    case Glyph::pause:
      return fill({bar(6, 4), bar(14, 4)});
    case Glyph::step:
      return fill({bar(5, 3), triangle(11, 9)});
    case Glyph::next_tile:
      return fill({triangle(3, 9), triangle(12, 9)});
    case Glyph::last:
      return fill({triangle(5, 11), bar(17.4)});
    case Glyph::reset:
      pen(ink, 2);
      painter.drawArc(QRectF(5, 5, 14, 14), 120 * 16, 280 * 16);
      return painter.fillPath(
          [] {
            QPainterPath head;
            head.moveTo(3.5, 8.5), head.lineTo(10, 8.8), head.lineTo(6.5, 3), head.closeSubpath();
            return head;
          }(),
          ink);
    case Glyph::previous_rescale:
    case Glyph::next_rescale: {
      pen(ink, 2);
      const bool forward = glyph == Glyph::next_rescale;
      arrow(painter, forward);
      const double x = forward ? 3 : 11;  // bars that grow: a row's maximum
      for (int n = 0; n < 3; ++n)
        painter.fillRect(QRectF(x + 3.6 * n, 16 - 4 * n, 2.8, 3 + 4 * n), active ? c.rescale : ink);
      return;
    }
    case Glyph::previous_nan:
    case Glyph::next_nan: {
      pen(ink, 2);
      const bool forward = glyph == Glyph::next_nan;
      arrow(painter, forward);
      pen(active ? c.nan : ink, 2.4);
      const double x = forward ? 4 : 11.5;
      painter.drawPolyline(QPolygonF{{x, 18}, {x, 6}, {x + 8.5, 18}, {x + 8.5, 6}});
      return;
    }
    case Glyph::run_to_stop:
      fill({triangle(3, 10)});
      painter.setPen(Qt::NoPen);
      painter.setBrush(active ? QColor("#e5484d") : ink);
      painter.drawEllipse(QRectF(14.5, 8.5, 7, 7));
      return;
    case Glyph::undo:
    case Glyph::redo:
      pen(ink, 2);
      return turn(painter, glyph == Glyph::redo);
    case Glyph::close:
      pen(ink, 2.2);
      painter.drawLine(6, 6, 18, 18);
      painter.drawLine(18, 6, 6, 18);
      return;
  }
}

}  // namespace

QIcon icon(Glyph glyph, const Colours& c) {
  QIcon result;
  for (const int size : {20, 24, 32, 40, 48, 64}) {
    for (const bool enabled : {true, false}) {
      QPixmap pixmap(size, size);
      pixmap.fill(Qt::transparent);
      QPainter painter(&pixmap);
      painter.setRenderHint(QPainter::Antialiasing);
      painter.scale(size / 24.0, size / 24.0);
      draw(painter, glyph, c, enabled ? c.text : c.border);
      painter.end();
      result.addPixmap(pixmap, enabled ? QIcon::Normal : QIcon::Disabled);
    }
  }
  return result;
}

QIcon program_icon() {
  QIcon result;
  for (const int size : {16, 24, 32, 48, 64, 128, 256}) {
    QPixmap pixmap(size, size);
    pixmap.fill(Qt::transparent);
    QPainter painter(&pixmap);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.scale(size / 64.0, size / 64.0);
    painter.setPen(Qt::NoPen);
    painter.setBrush(QColor("#161a22"));
    painter.drawRoundedRect(0, 0, 64, 64, 12, 12);
    // A causal tile map with the tile of now outlined.
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        painter.fillRect(QRectF(9 + 12 * j, 9 + 12 * i, 10, 10), QColor(j <= i ? "#4fd1c5" : "#2b3342"));
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(QColor("#f0a850"), 3));
    painter.drawRect(QRectF(20.5, 32.5, 11, 11));
    painter.end();
    result.addPixmap(pixmap);
  }
  return result;
}

}  // namespace flashscope::window
