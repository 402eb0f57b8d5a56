// Dark and light: the colours that mean something, Qt's palette made from them, and the icons, which are
// drawn (not loaded) so that they are sharp at any scale and follow the theme.
#pragma once

#include <QColor>
#include <QIcon>
#include <QPalette>

namespace flashscope::window {

struct Colours {
  bool dark = true;
  QColor window, base, raised, border, text, dim, accent, select;
  QColor rescale, nan, inf, masked, good;  // the stage's meanings
  QColor bad;                              // wrong, where no NaN needs to be meant
};
Colours colours(bool dark);
Colours colours(const QPalette& palette);  // of the theme that the palette belongs to
void apply_theme(bool dark);               // to the application

enum class Glyph {
  first,
  back_tile,
  back,
  play,
  pause,
  step,
  next_tile,
  last,
  reset,
  previous_rescale,
  next_rescale,
  previous_nan,
  next_nan,
  run_to_stop,
  undo,
  redo,
  close
};
QIcon icon(Glyph glyph, const Colours& colours);
QIcon program_icon();

}  // namespace flashscope::window
