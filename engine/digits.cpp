#include "engine/digits.h"

#include <fmt/format.h>

#include <cmath>

namespace flashscope {

std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n);
  const std::ptrdiff_t first = n < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3) digits.insert(at, 1, ',');
  return digits;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  return fmt::format("{:.6g}", value);  // "inf", "-inf"
}

std::string counted(std::int64_t n, std::string_view what, std::string_view many) {
  std::string text = grouped(n) + ' ';
  text += n == 1 || many.empty() ? what : many;
  if (n != 1 && many.empty()) text += 's';
  return text;
}

}  // namespace flashscope
