#include "engine/attention/lse_convention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "engine/error.h"

namespace flashscope {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace

double handed_out(const LseConvention& convention, double natural) {
  if (convention.plus_inf_empty && natural == -kInf) return kInf;
  const double value = convention.base2 ? natural / std::numbers::ln2 : natural;
  return convention.negative ? -value : value;
}

double natural_lse(const LseConvention& convention, double handed_out) {
  if (convention.plus_inf_empty && handed_out == kInf) return -kInf;
  const double value = convention.negative ? -handed_out : handed_out;
  return convention.base2 ? value * std::numbers::ln2 : value;
}

std::string text(const LseConvention& convention) {
  std::string text = convention.base2 ? "base 2" : "natural log";
  if (convention.negative) text += ", negative";
  if (convention.plus_inf_empty) text += ", +inf for an empty row";
  return text;
}

std::string formula(const LseConvention& convention) {
  std::string sum = convention.base2 || convention.negative ? "(m + ln l)" : "m + ln l";
  return (convention.negative ? "-" : "") + sum + (convention.base2 ? " / ln 2" : "");
}

std::string words(const LseConvention& convention) {
  std::string list;
  const auto add = [&list](const char* word) { list += (list.empty() ? "" : ",") + std::string(word); };
  if (convention.base2) add("base2");
  if (convention.negative) add("negative");
  if (convention.plus_inf_empty) add("+inf");
  return list.empty() ? "natural" : list;
}

LseConvention parse_lse(std::string_view words) {
  LseConvention convention;
  for (std::size_t at = 0; at <= words.size();) {
    const std::size_t end = std::min(words.find(',', at), words.size());
    const std::string_view word = words.substr(at, end - at);
    if (word == "base2")
      convention.base2 = true;
    else if (word == "negative")
      convention.negative = true;
    else if (word == "+inf")
      convention.plus_inf_empty = true;
    else if (word != "natural" || words != "natural")
      throw InputError("LSE", fmt::format("\"{}\"", words), "natural, or some of base2, negative, +inf");
    at = end + 1;
  }
  return convention;
}

std::string conventions(const Recipe& recipe, const Mask& mask, const LseConvention& lse) {
  std::string line = conventions(recipe, mask);
  constexpr std::string_view kNatural = "LSE natural log";
  if (const std::size_t at = line.find(kNatural); at != line.npos)
    line.replace(at, kNatural.size(), "LSE " + text(lse));
  return line;
}

}  // namespace flashscope
