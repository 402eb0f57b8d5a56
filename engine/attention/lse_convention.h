// How a kernel hands out LSE: the natural log of the scaled scores' sum, m + ln l, is what this program computes in and
// shows first; kernels on exp2 hand out base 2, some the other sign, some +inf for a row that sees no key. Nothing is
// computed differently: numbers are written, and other kernels' are read, in the convention in force.
#pragma once

#include <string>
#include <string_view>

#include "engine/attention/mask.h"
#include "engine/attention/recipe.h"

namespace flashscope {

struct LseConvention {
  bool base2 = false, negative = false, plus_inf_empty = false;
  bool operator==(const LseConvention&) const = default;
};

double handed_out(const LseConvention& convention, double natural);
double natural_lse(const LseConvention& convention, double handed_out);  // the inverse
std::string text(const LseConvention& convention);     // "natural log", "base 2, negative, +inf for an empty row"
std::string formula(const LseConvention& convention);  // "m + ln l", "-(m + ln l) / ln 2"
// "natural", or some of base2, negative, +inf with commas. Throws InputError.
LseConvention parse_lse(std::string_view words);
std::string words(const LseConvention& convention);  // the inverse

// conventions() of recipe.h, with LSE as it is handed out.
std::string conventions(const Recipe& recipe, const Mask& mask, const LseConvention& lse);

}  // namespace flashscope
