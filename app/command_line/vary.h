// --vary NAME=VALUES of `sweep`: which options take which values, and the product of several, the first slowest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flashscope::command_line {

struct Varied {
  std::string name;                 // of the option, without dashes
  std::vector<std::string> values;  // words for it
};

// "sram=12500,25000", "n=1024:65536:*2", "br=16:256:16,100", "algorithm=flash1,flash2": a comma list of
// a | a:b:step | a:b:*factor. Throws InputError.
Varied parse_varied(std::string_view text);

// The n-th of the product of all values: one word for each name.
std::vector<std::string> nth_words(const std::vector<Varied>& varied, std::int64_t n);
std::int64_t product_size(const std::vector<Varied>& varied);  // throws InputError above `sweep`'s limit

}  // namespace flashscope::command_line
