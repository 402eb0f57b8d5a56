// LSE as kernels hand it out: base, sign, empty rows; written and read back.
#include "engine/attention/lse_convention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/error.h"

namespace flashscope {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(LseConvention, IsWrittenAndReadBack) {
  for (const char* named : {"natural", "base2", "negative", "+inf", "base2,negative", "base2,negative,+inf"}) {
    const LseConvention convention = parse_lse(named);
    EXPECT_EQ(words(convention), named);
    for (const double natural : {3.5, -2.0, 0.0, -kInf})
      EXPECT_NEAR(std::exp(natural_lse(convention, handed_out(convention, natural))), std::exp(natural), 1e-12)
          << named;
    EXPECT_TRUE(std::isnan(handed_out(convention, std::nan(""))));
    EXPECT_TRUE(std::isnan(natural_lse(convention, std::nan(""))));
  }
  EXPECT_DOUBLE_EQ(handed_out(parse_lse("base2"), std::log(8.0)), 3);
  EXPECT_DOUBLE_EQ(handed_out(parse_lse("base2,negative"), std::log(8.0)), -3);
  EXPECT_EQ(handed_out(parse_lse("natural"), -kInf), -kInf);
  EXPECT_EQ(handed_out(parse_lse("+inf"), -kInf), kInf);
  EXPECT_EQ(text(parse_lse("base2,+inf")), "base 2, +inf for an empty row");
  EXPECT_EQ(formula(parse_lse("base2,negative")), "-(m + ln l) / ln 2");
  EXPECT_EQ(formula({}), "m + ln l");
  for (const char* wrong : {"", "base3", "natural,base2", "base2,", "BASE2"})
    EXPECT_THROW(parse_lse(wrong), InputError);
}

TEST(LseConvention, StandsInTheLineOfConventions) {
  EXPECT_EQ(conventions(Recipe{}, Mask{}, {}), conventions(Recipe{}, Mask{}));
  const std::string line = conventions(Recipe{}, Mask{}, parse_lse("base2"));
  EXPECT_NE(line.find("LSE base 2"), line.npos) << line;
  EXPECT_EQ(line.find("natural"), line.npos) << line;
}

}  // namespace
}  // namespace flashscope
