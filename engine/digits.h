// Numbers as a text says them: 17,383,424; 1 row, 2 rows; NaN.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flashscope {

std::string grouped(std::int64_t n);
// "1 row", "2,048 rows"; `many` where it is not `what` with an s.
std::string counted(std::int64_t n, std::string_view what, std::string_view many = {});
std::string number_text(double value);  // 6 significant digits; "NaN", "inf", "-inf"

}  // namespace flashscope
