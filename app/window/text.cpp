#include "app/window/text.h"

#include <QLocale>
#include <array>
#include <cmath>

namespace flashscope::window {

QString text(std::string_view utf8) { return QString::fromUtf8(utf8.data(), static_cast<qsizetype>(utf8.size())); }

QString grouped(std::int64_t value) { return QLocale(QLocale::English).toString(static_cast<qlonglong>(value)); }

QString counted(std::int64_t n, const QString& what, const QString& many) {
  return grouped(n) + ' ' + (n == 1 ? what : many.isEmpty() ? what + 's' : many);
}

QString short_bytes(std::int64_t bytes) {
  constexpr std::array units = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < units.size()) value /= 1024, ++unit;
  return unit == 0 ? grouped(bytes) + " bytes" : QString::number(value, 'f', value < 10 ? 2 : 1) + ' ' + units[unit];
}

QString bytes_text(std::int64_t bytes) {
  const QString exact = grouped(bytes) + " bytes";
  return bytes < 1024 ? exact : exact + " (" + short_bytes(bytes) + ')';
}

QString number(double value, int digits) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+inf" : "-inf";
  return QString::number(value, 'g', digits);
}

QString stage_text(Stage stage) { return text(name(stage)).replace('_', ' '); }

QString place_text(const Step& step) {
  QStringList place;
  if (step.i >= 0) place << "i " + grouped(step.i);
  if (step.j >= 0) place << "j " + grouped(step.j);
  return place.join(", ") + ": " + stage_text(step.stage);
}

}  // namespace flashscope::window
