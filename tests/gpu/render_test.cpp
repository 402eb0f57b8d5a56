// The stage of the same step, stepped by the CPU and by the GPU: the same picture, drawn by `flashscope render`.
#include <fmt/format.h>
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
#include <tuple>
#include <utility>
#include <vector>

#include "app/document.h"
#include "kernels/host/gpu_runner.h"
#include "tests/temporary_folder.h"
#include "viz/scene.h"

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
    if (std::string_view(device) == "cuda" && !lost_) {
      // Drawn where it was computed; a copy only where OpenGL is elsewhere, and that is said.
      const bool shared = said.str().find("shared with OpenGL on ") != std::string::npos,
                 copied = said.str().find("copied through the host: ") != std::string::npos;
      EXPECT_TRUE(shared || copied) << said.str();
      copied_ = copied_ || copied;
    }
    return read_png(file);
  }
  // The driver gives up what shares with CUDA after another process's illegal address, and takes 20 s for it.
  static inline bool lost_ = false;
  static inline bool copied_ = false;  // some picture was
  TemporaryFolder folder_;
};

bool far(const Picture& cpu, const Picture& gpu, std::size_t byte) {
  return std::abs(cpu.rgba[byte] - gpu.rgba[byte]) > 8;
}

// Numbers may differ in their last digit, colours by a neighbour in the palette.
void expect_same(const Picture& cpu, const Picture& gpu) {
  ASSERT_GT(cpu.width, 0);
  ASSERT_EQ(cpu.width, gpu.width);
  ASSERT_EQ(cpu.rgba.size(), gpu.rgba.size());
  std::size_t differ = 0;
  for (std::size_t n = 0; n < cpu.rgba.size(); ++n) differ += far(cpu, gpu, n);
  EXPECT_LE(differ, cpu.rgba.size() / 200);
}

// The same inside one buffer of the chip, closely: what differs is less than half of a row of its cells, so that not
// one row has another colour.
void expect_same_buffer(const Picture& cpu, const Picture& gpu, const viz::Rect& rect, std::int64_t rows,
                        const char* what) {
  const int x0 = static_cast<int>(std::ceil(rect.x)), x1 = static_cast<int>(rect.right());
  const int y0 = static_cast<int>(std::ceil(rect.y)), y1 = static_cast<int>(rect.bottom());
  ASSERT_LT(x0, x1) << what;
  ASSERT_LT(y0, y1) << what;
  ASSERT_GE(x0, 0) << what;
  ASSERT_GE(y0, 0) << what;
  ASSERT_LE(x1, cpu.width) << what;
  ASSERT_LE(y1, cpu.height) << what;
  std::int64_t differ = 0;
  for (int y = y0; y < y1; ++y)
    for (int x = x0; x < x1; ++x) {
      const auto byte = std::size_t{4} * (static_cast<std::size_t>(y) * cpu.width + x);
      differ += far(cpu, gpu, byte) || far(cpu, gpu, byte + 1) || far(cpu, gpu, byte + 2);
    }
  const std::int64_t pixels = std::int64_t{x1 - x0} * (y1 - y0);
  EXPECT_LT(2 * rows * differ, pixels) << what << ": " << differ << " of " << pixels << " pixels";
}

// A step of the problem that is drawn, and where its buffers lie in a picture of 1280 x 720.
struct Step {
  Recipe recipe;
  DType type = DType::float32;
  std::int64_t K = 0;
};
viz::Scene scene_of(const Step& step, std::int64_t& rows) {
  Mask mask;
  mask.causal = Causal::top_left;
  Document document;
  document.set_problem(random_problem({1, 1, 512, 512, 64, 64, step.type}, 3, {}, mask));
  document.set_recipe(step.recipe);
  document.seek(step.K);
  document.wait_idle();
  viz::StageData data = document.stage();
  data.map = nullptr, data.strip = nullptr, data.o_row_norm = nullptr, data.totals = {};
  rows = data.state->rows;
  return viz::make_scene(data, {}, {});
}

TEST_F(RenderTest, CpuAndGpuDrawTheSameStep) {
  const char* const shape = "--no-scan --random 3 --n 512 --d 64 --causal ";
  const std::vector<std::int64_t> tiled{1, 77, 134, 135, 136, 139, 140}, whole{1, 33, 79, 80};
  const auto recipe = [](Algorithm algorithm, std::int64_t Br = 64) {
    Recipe recipe;
    recipe.algorithm = algorithm, recipe.Br = Br;
    return recipe;
  };
  Recipe unguarded = recipe(Algorithm::flash2);
  unguarded.guard = Guard::none, unguarded.order = Order::reverse;
  const std::tuple<const char*, Recipe, DType> pictures[] = {
      {"", recipe(Algorithm::flash2), DType::float32},
      {"--algorithm flash1", recipe(Algorithm::flash1), DType::float32},
      {"--algorithm standard", recipe(Algorithm::standard), DType::float32},
      {"--dtype bfloat16 --br 128", recipe(Algorithm::flash2, 128), DType::bfloat16},
      {"--dtype float64", recipe(Algorithm::flash2), DType::float64},
      {"--guard none --order reverse", unguarded, DType::float32}};
  int strips = 0;
  for (const auto& [words, of, type] : pictures) {
    for (const std::int64_t at : of.algorithm == Algorithm::standard ? whole : tiled) {
      const std::string problem = fmt::format("{}{} --at {}", shape, words, at);
      SCOPED_TRACE(problem);
      const Picture cpu = render(problem, "cpu"), gpu = render(problem, "cuda");
      expect_same(cpu, gpu);
      if (HasFatalFailure()) return;
      std::int64_t rows = 0;
      const viz::Scene scene = scene_of({of, type, at}, rows);
      using enum viz::ChipBuffer;
      for (const auto& [buffer, what] : {std::pair{m, "m"}, {l, "l"}, {alpha, "alpha"}, {LSE, "LSE"}}) {
        const viz::Rect& rect = scene.chip[static_cast<std::size_t>(buffer)];
        if (rect.empty()) continue;  // alpha and LSE share a place; standard attention has none of these
        expect_same_buffer(cpu, gpu, rect, rows, what);
        ++strips;
      }
      if (lost_) GTEST_SKIP() << "drawn alike, but OpenGL's context was lost when it shared with CUDA";
    }
  }
  EXPECT_GT(strips, 60);
  if (copied_) GTEST_SKIP() << "drawn alike, but copied through the host";
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
  if (copied_) GTEST_SKIP() << "drawn alike, but copied through the host";
}

}  // namespace
}  // namespace flashscope::gpu
