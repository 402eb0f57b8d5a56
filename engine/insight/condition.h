// A condition on one row of a state, as a person writes it: "alpha < 0.01 and row == 71", "isnan(O)",
// "max(S) > 80 or l == 0". Checked when it is parsed; asked of millions of rows afterwards.
//
//   or, and, not        of comparisons         < <= > >= == !=     of numbers
//   + - * /  -x  ( )    abs exp log sqrt isnan isinf isfinite (x)  min max (x, y)
//   m l alpha m_old l_old LSE row_sum          numbers of the row
//   head row i j r                             its place; r: inside the row block; j is -1 between tiles
//   S P key [column of the tile], O [channel]  one number for each key of the tile, or each channel of O
//   any all min max sum (x)                    of such a list; a list without one of these is any(...)
//
// Comparisons with NaN are false, != is true (IEEE 754). Where something that it names does not exist
// (alpha before `rescale`, and of a row that had no key before: there is nothing to rescale; S between tiles, S[70] in
// a tile of 64 keys) a condition does not hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/error.h"

namespace flashscope {

// What is wrong with a condition, and where: `length` characters at `at`.
class ConditionError : public InputError {
 public:
  ConditionError(std::size_t at, std::size_t length, const std::string& found, const std::string& expected);
  std::size_t at() const { return at_; }
  std::size_t length() const { return length_; }

 private:
  std::size_t at_, length_;
};

namespace condition {

enum class Name : std::uint8_t { m, l, alpha, m_old, l_old, LSE, row_sum, head, row, i, j, r, S, P, key, O };
constexpr unsigned bit(Name name) { return 1u << static_cast<unsigned>(name); }

enum class Op : std::uint8_t {
  number,
  name,
  index,  // a: list, b: number
  logical_or,
  logical_and,
  logical_not,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  add,
  subtract,
  multiply,
  divide,
  negate,
  abs,
  exp,
  log,
  sqrt,
  isnan,
  isinf,
  isfinite,
  min,
  max,  // of two
  any_of,
  all_of,
  min_of,
  max_of,
  sum_of  // of a list
};

enum class Over : std::uint8_t { row, keys, channels };  // one number, or one for each

struct Node {
  Op op = Op::number;
  int a = -1, b = -1;  // operands, as positions in Condition::nodes
  double value = 0;
  Name name = Name::m;
  Over over = Over::row;
  bool truth = false;  // true or false rather than a number
};

}  // namespace condition

struct Condition {
  std::string text;
  std::vector<condition::Node> nodes;  // operands before what uses them; the last is the whole
  unsigned names = 0;                  // bits of what it names
};

// Throws ConditionError.
Condition parse_condition(std::string_view text);

// One row in one state. What does not exist has no bit in `exists`; lists are strided, as the fold keeps them.
template <class T>
struct ConditionRow {
  unsigned exists = 0;
  double m = 0, l = 0, alpha = 0, m_old = 0, l_old = 0, LSE = 0, row_sum = 0;
  std::int64_t head = 0, row = 0, i = 0, j = -1, r = 0, col0 = 0, cols = 0, channels = 0;
  const T *S = nullptr, *P = nullptr, *O = nullptr;
  std::int64_t stride = 1;
};
template <class T>
bool holds(const Condition& condition, const ConditionRow<T>& row);

}  // namespace flashscope
