#include "engine/digits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace flashscope {
namespace {

TEST(Digits, CountsAgreeWithTheirNoun) {
  EXPECT_EQ(counted(0, "row"), "0 rows");
  EXPECT_EQ(counted(1, "row block"), "1 row block");
  EXPECT_EQ(counted(2, "block size"), "2 block sizes");
  EXPECT_EQ(counted(12'345, "cell holds", "cells hold"), "12,345 cells hold");
  EXPECT_EQ(counted(1, "launch", "launches"), "1 launch");
}

TEST(Digits, NotANumberIsSpelledNaN) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(number_text(std::nan("")), "NaN");
  EXPECT_EQ(number_text(-std::nan("")), "NaN");
  EXPECT_EQ(number_text(kInf), "inf");
  EXPECT_EQ(number_text(-kInf), "-inf");
  EXPECT_EQ(number_text(1.0 / 3), "0.333333");
}

}  // namespace
}  // namespace flashscope
