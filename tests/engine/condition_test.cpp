// The words of a condition: what they mean, and what is said of those that mean nothing.
#include "engine/insight/condition.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace flashscope {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const std::array<float, 3> kS = {1, -kInf, 4}, kP = {0.25f, 0, 1};
const std::array<float, 2> kO = {2, -8};

ConditionRow<float> row() {
  ConditionRow<float> row;
  row.exists = ~0u & ~condition::bit(condition::Name::LSE);
  row.m = 4, row.l = 1.25, row.alpha = 0.5, row.m_old = 3, row.l_old = 1, row.row_sum = 1.25;
  row.head = 1, row.row = 71, row.i = 2, row.j = 3, row.r = 7, row.col0 = 30, row.cols = 3, row.channels = 2;
  row.S = kS.data(), row.P = kP.data(), row.O = kO.data();
  return row;
}
bool says(const char* text) { return holds(parse_condition(text), row()); }

TEST(Condition, means_what_it_says) {
  for (const char* text : {"m == 4",
                           "alpha < 1 and row == 71",
                           "not (l > 2)",
                           "m > 5 or l == 1.25",
                           "1 + 2 * 3 == 7",
                           "(1 + 2) * 3 == 9",
                           "-m + 8 / 2 == 0",
                           "8 / 4 / 2 == 1",
                           "10 - 4 - 3 == 3",
                           "abs(O[1]) == 8",
                           "S[0] == 1 and S[2] == m and isinf(S[1])",
                           "isinf(S)",
                           "any(isinf(S))",
                           "all(P <= 1)",
                           "not all(isfinite(S))",
                           "max(S) == m",
                           "min(O) == -8",
                           "sum(P) == row_sum",
                           "max(m, l) == m",
                           "min(m_old, l_old) == 1",
                           "any(S == m and key == 32)",
                           "not any(S == m and key == 31)",
                           "S == m && key == 32",
                           "head == 1 and i == 2 and j == 3 and r == 7",
                           "exp(log(2)) - sqrt(4) < 1e-9",
                           "nan != nan",
                           "O[r - 7] == 2",
                           "inf > 1e300 || false_alarm_free < 0"}) {
    if (std::string_view(text).find("false_alarm") != std::string_view::npos) {
      EXPECT_THROW(parse_condition(text), ConditionError);
      continue;
    }
    EXPECT_TRUE(says(text)) << text;
  }
  for (const char* text : {"nan == nan", "nan < 1", "not nan != nan", "m == 4 and m == 5", "isnan(O)", "S > m"})
    EXPECT_FALSE(says(text)) << text;
}

TEST(Condition, does_not_hold_where_something_it_names_does_not_exist) {
  EXPECT_FALSE(says("LSE == LSE or m == 4"));
  EXPECT_FALSE(says("S[3] != 0"));
  EXPECT_FALSE(says("m == 4 or S[3] != 0"));
  EXPECT_FALSE(says("S[3] != 0 or m == 4"));
  EXPECT_FALSE(says("not (m == 5 and S[3] != 0)"));
  EXPECT_FALSE(says("not (O[-1] > 0)"));
  EXPECT_TRUE(says("O[1.5] == -8"));  // the channel that 1.5 lies in
}

TEST(Condition, says_where_it_is_wrong_what_was_found_and_what_was_expected) {
  const struct {
    const char *text, *found, *expected;
    std::size_t at;
  } cases[] = {
      {"", "the end", "a number, a name", 0},
      {"m >", "the end", "a number, a name", 3},
      {"m > 3 3", "\"3\"", "an operator", 6},
      {"mm > 3", "\"mm\"", "one of m, l, alpha", 0},
      {"m = 3", "\"=\"", "\"==\" to compare", 2},
      {"0 < l < 1", "\"<\"", "\"and\" between two comparisons", 6},
      {"m", "a number", "a comparison", 0},
      {"m and l > 0", "a number", "a comparison", 0},
      {"l > 0 and m", "a number", "a comparison", 10},
      {"(m > 3", "the end", "\")\" for the \"(\" at character 1", 6},
      {"m > 3)", "\")\"", "an operator", 5},
      {"m[0] > 3", "\"[\"", "only S, P, key and O have an index", 1},
      {"S[0 > 3", "true or false", "a number", 2},
      {"S[key] > 3", "a list", "one number", 2},
      {"S[0 + 1 > 3", "true or false", "a number", 2},
      {"S > O", "a list over keys beside one over channels", "lists of one sort", 0},
      {"abs(m, l) > 3", "\",\"", "abs takes one argument", 5},
      {"sum(m) > 3", "one number for the row", "a list in sum()", 4},
      {"abs > 3", "\">\"", "\"(\" after abs", 4},
      {"foo(m) > 3", "\"foo\"", "one of the functions abs", 0},
      {"any(S)", "a number", "a comparison", 4},
      {"(m > 3) + 1 > 2", "true or false", "a number", 0},
      {"m > 1e999", "\"1e999\"", "float64", 4},
      {"m > \xc3\xa9", "\"\xc3\xa9\"", "a number, a name", 4},
      {"m > $", "\"$\"", "a number, a name", 4},
  };
  for (const auto& c : cases) {
    try {
      parse_condition(c.text);
      ADD_FAILURE() << c.text << " was accepted";
    } catch (const ConditionError& error) {
      EXPECT_EQ(error.at(), c.at) << c.text << ": " << error.what();
      EXPECT_GE(error.length(), 1u);
      EXPECT_EQ(error.found(), c.found) << c.text;
      EXPECT_NE(error.expected().find(c.expected), std::string::npos) << c.text << ": " << error.expected();
    }
  }
}

TEST(Condition, no_text_can_exhaust_the_stack) {
  for (const char* part : {"(", "not ", "-", "abs("}) {
    std::string text;
    while (text.size() < 4000) text += part;
    EXPECT_THROW(parse_condition(text + "m > 1"), ConditionError);
  }
  EXPECT_THROW(parse_condition(std::string(5000, '1') + " > 2"), ConditionError);
  std::string chain = "m > 0";
  while (chain.size() < 4000) chain += "+1";
  EXPECT_FALSE(holds(parse_condition(chain), row()));
}

}  // namespace
}  // namespace flashscope
