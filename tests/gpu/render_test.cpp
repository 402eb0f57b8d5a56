// The stage of the same step, stepped by the CPU and by the GPU: the same picture, drawn by `flashscope render`.
#include <gtest/gtest.h>
#include <stb_image.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/host/gpu_runner.h"
#include "tests/temporary_folder.h"

namespace flashscope::gpu {
namespace {

struct Picture {
  int width = 0, height = 0;
  std::vector<unsigned char> rgba;
};
Picture read_png(const std::string& path) {
  Picture picture;
  int channels = 0;
  stbi_uc* pixels = stbi_load(path.c_str(), &picture.width, &picture.height, &channels, 4);
  EXPECT_NE(pixels, nullptr) << path;
  if (!pixels) return picture;
  picture.rgba.assign(pixels, pixels + std::size_t{4} * picture.width * picture.height);
  stbi_image_free(pixels);
  return picture;
}

class RenderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu_status().devices.empty()) GTEST_SKIP() << "no GPU";
    if (lost_) GTEST_SKIP() << "OpenGL's context was lost when it shared with CUDA";
  }
  Picture render(const std::string& problem, const char* device) {
    const std::string file = (folder_ / (std::string(device) + ".png")).string();
    const std::string words = (folder_ / "words.txt").string();
    // The program beside this one, wherever both were carried.
    const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "flashscope";
    const std::string command = "'" + program.string() + "' render " + problem + " --device " + device + " --out " +
                                file + " > " + words + " 2>&1";
    const int status = std::system(command.c_str());
    std::ostringstream said;
    said << std::ifstream(words).rdbuf();
    EXPECT_EQ(WEXITSTATUS(status), 0) << command << '\n' << said.str();
    lost_ = lost_ || said.str().find("was lost") != std::string::npos;
    return read_png(file);
  }
  // The driver gives up what shares with CUDA after another process's illegal address, and takes 20 s for it.
  static inline bool lost_ = false;
  TemporaryFolder folder_;
};

// Numbers may differ in their last digit, colours by a neighbour in the palette.
void expect_same(const Picture& cpu, const Picture& gpu) {
  ASSERT_GT(cpu.width, 0);
  ASSERT_EQ(cpu.width, gpu.width);
  ASSERT_EQ(cpu.rgba.size(), gpu.rgba.size());
  std::size_t far = 0;
  for (std::size_t n = 0; n < cpu.rgba.size(); ++n) far += std::abs(cpu.rgba[n] - gpu.rgba[n]) > 8;
  EXPECT_LE(far, cpu.rgba.size() / 200);
}

TEST_F(RenderTest, CpuAndGpuDrawTheSameStep) {
  const char* const shape = "--no-scan --random 3 --n 512 --d 64 --causal ";
  const std::vector<const char*> tiled{"1", "77", "134", "135", "136", "139", "140"}, whole{"1", "33", "79", "80"};
  for (const char* recipe : {"", "--algorithm flash1", "--algorithm standard", "--dtype bfloat16 --br 128",
                             "--dtype float64", "--guard none --order reverse"}) {
    for (const char* at : std::string_view(recipe).ends_with("standard") ? whole : tiled) {
      const std::string problem = std::string(shape) + recipe + " --at " + at;
      SCOPED_TRACE(problem);
      expect_same(render(problem, "cpu"), render(problem, "cuda"));
      if (lost_) GTEST_SKIP() << "drawn alike, but OpenGL's context was lost when it shared with CUDA";
    }
  }
}

// The scan's tile map and |O| of the CPU, and those that tile_stats left in OpenGL's buffers.
TEST_F(RenderTest, CpuAndGpuDrawTheSameMap) {
  const char* const shape = "--random 3 --n 1000 --d 64 --causal --br 48 --bc 32 --at 150 ";
  for (const char* recipe :
       {"", "--algorithm flash1", "--algorithm standard", "--dtype bfloat16", "--guard none --order reverse"}) {
    for (const char* colour : {"score", "rescaled", "mass", "nan"}) {
      const std::string problem = std::string(shape) + recipe + " --map-colour " + colour;
      SCOPED_TRACE(problem);
      expect_same(render(problem, "cpu"), render(problem, "cuda"));
      if (lost_) GTEST_SKIP() << "drawn alike, but OpenGL's context was lost when it shared with CUDA";
    }
  }
}

}  // namespace
}  // namespace flashscope::gpu
