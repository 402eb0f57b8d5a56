// Each piece of CUDA that is not there costs one line, which says how to get it. Every test looks in a process of its
// own: a library that was opened stays open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "kernels/host/gpu_runner.h"
#include "kernels/host/libraries.h"
#include "tests/temporary_folder.h"

namespace flashscope::gpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What is missing where CUDA's libraries are those of one folder, each line between brackets; then the end.
[[noreturn]] void tell_what_is_missing(const std::filesystem::path& folder) {
  setenv("FLASHSCOPE_CUDA_LIBRARIES", folder.c_str(), 1);
  std::vector<std::string> lines = gpu_status().missing;
  for (std::string& line : missing_libraries()) lines.push_back(std::move(line));
  int whole = 0;
  for (const std::string& line : lines) {
    std::fprintf(stderr, "[%s]\n", line.c_str());
    whole += line.find('\n') == std::string::npos;
  }
  std::filesystem::remove_all(folder);  // std::exit leaves the fixture as it is
  std::exit(whole == static_cast<int>(lines.size()) ? 0 : 1);
}

class MissingPieces : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  TemporaryFolder folder_;
};

TEST_F(MissingPieces, each_library_is_one_line_with_its_remedy) {
  EXPECT_EXIT(tell_what_is_missing(folder_.path()), ::testing::ExitedWithCode(0),
              AllOf(HasSubstr("[NVRTC, CUDA's run-time compiler, is missing (libnvrtc.so.13 not found): install CUDA "
                              "12.8 or newer (package cuda-nvrtc), or put its folder on LD_LIBRARY_PATH]"),
                    HasSubstr("[cuBLAS, needed for standard attention on the GPU, is missing (libcublas.so.13 not "
                              "found): install CUDA 12.8 or newer (package libcublas), or put its folder on "
                              "LD_LIBRARY_PATH]"),
                    HasSubstr("[CUPTI's counter library is missing (libnvperf_host.so not found): install CUDA 12.8 or "
                              "newer (package cuda-cupti), or put its folder on LD_LIBRARY_PATH]")));
}

TEST_F(MissingPieces, an_NVRTC_before_12_8_is_as_good_as_none) {
  std::filesystem::create_symlink(FLASHSCOPE_OLD_NVRTC, folder_ / "libnvrtc.so.12");
  EXPECT_EXIT(tell_what_is_missing(folder_.path()), ::testing::ExitedWithCode(0),
              AllOf(HasSubstr("[NVRTC, CUDA's run-time compiler, is too old (12.4, at least 12.8 is needed): install "
                              "CUDA 12.8 or newer"),
                    Not(HasSubstr("libnvrtc.so.13 not found"))));
}

// What each release of CUDA asks for.
TEST(NeededDriver, is_that_of_the_runtime_that_is_built_in) {
  EXPECT_EQ(needed_driver(12080), "driver 570 or newer");
  EXPECT_EQ(needed_driver(12090), "driver 575 or newer");
  EXPECT_EQ(needed_driver(13000), "driver 580 or newer");
  EXPECT_EQ(needed_driver(13010), "driver 580 or newer");
  EXPECT_EQ(needed_driver(14020), "a driver for CUDA 14.2 or newer");
}

}  // namespace
}  // namespace flashscope::gpu
