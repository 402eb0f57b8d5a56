// What commands print: JSON pieces with the names of the project's documents, and aligned lines for people. Every
// number for people says where it comes from: formula, counted, measured.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/attention/ledger.h"
#include "engine/digits.h"

namespace flashscope::command_line {

using Json = nlohmann::ordered_json;

// ---- JSON. -inf, inf and nan are strings.
Json number(double value);
Json json_of(const Moved& moved);      // read, written, total
Json json_of(const Traffic& traffic);  // and by_tensor
Json json_of(const Shape& shape);
Json json_of(const Recipe& recipe);
Json json_of(const OnChip& chip);
Json rows_json(const std::vector<std::vector<std::int64_t>>& rows);  // one list for one head, else a list of lists
// The same as ranges [[first, last], ...], which stay short where whole blocks are named.
Json ranges_json(const std::vector<std::vector<std::int64_t>>& rows);
void print_json(const Json& object);  // one object on standard output

// ---- for people; more in engine/digits.h
std::string bytes_text(std::int64_t n);                        // 33.16 MiB
std::string rows_text(const std::vector<std::int64_t>& rows);  // 64-99, 192-199
// "flash1, Br 64, Bc 196 (from M = 50,000), forward; 1 head of 4,096 x 4,096, d 64, float32"
std::string recipe_text(const Shape& shape, const Recipe& recipe);

// Lines of columns: the first is left-aligned, the others right-aligned, the last left-aligned.
class Table {
 public:
  void line(std::vector<std::string> cells) { lines_.push_back(std::move(cells)); }
  std::string text() const;  // two spaces before each line

 private:
  std::vector<std::vector<std::string>> lines_;
};

}  // namespace flashscope::command_line
