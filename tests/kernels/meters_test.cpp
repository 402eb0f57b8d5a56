// The hardware counters' names on the chips that are meant to be measured; needs CUPTI, no GPU.
#include "kernels/host/meters.h"

#include <gtest/gtest.h>

#include "kernels/host/libraries.h"

namespace flashscope::gpu {
namespace {

// CUPTI opens its own counter library with RTLD_DEEPBIND, at which AddressSanitizer's runtime ends the process.
#ifdef __SANITIZE_ADDRESS__
#define NEEDS_CUPTI() GTEST_SKIP() << "CUPTI opens a library with RTLD_DEEPBIND, which AddressSanitizer does not allow"
#else
#define NEEDS_CUPTI() static_cast<void>(0)
#endif

class Chips : public ::testing::TestWithParam<const char*> {};

TEST_P(Chips, have_the_counters_in_few_passes) {
  NEEDS_CUPTI();
  const Counters counters = counters_of(GetParam());
  ASSERT_EQ(counters.names.size(), 9u);
  EXPECT_EQ(counters.names[0], "l1tex__m_xbar2l1tex_read_bytes.sum");
  EXPECT_GE(counters.passes, 1);
  EXPECT_LE(counters.passes, 8);  // GA100, AD102: 8; GH100, GB202: fewer
}
INSTANTIATE_TEST_SUITE_P(Known, Chips, ::testing::Values("GA100", "AD102", "GH100", "GB202"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Meters, an_unknown_chip_is_one_line) {
  NEEDS_CUPTI();
  try {
    counters_of("XX999");
    FAIL() << "known";
  } catch (const Missing& missing) {
    EXPECT_EQ(std::string(missing.what()).find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace flashscope::gpu
