// Pictures by the real binary against those in tests/baselines. A failure leaves the actual picture and the
// difference in the folder `baselines` where the test runs.
#include <gtest/gtest.h>
#include <stb_image.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/place.h"
#include "viz/offscreen.h"

namespace flashscope::viz {
namespace {

namespace fs = std::filesystem;

struct Baseline {
  std::string name, arguments;
};
void PrintTo(const Baseline& one, std::ostream* out) { *out << one.name; }

const fs::path kFolder = fs::path(source_path("tests/baselines"));

std::vector<Baseline> baselines(std::string* drawn_by = nullptr) {
  std::vector<Baseline> list;
  std::ifstream file(kFolder / "baselines.txt");
  const std::string key = "# drawn by: ";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key) && drawn_by) *drawn_by = line.substr(key.size());
    const std::size_t bar = line.find('|');
    if (line.empty() || line[0] == '#' || bar == line.npos) continue;
    list.push_back({line.substr(0, line.find(' ')), line.substr(bar + 1)});
  }
  return list;
}

// The vector width depends on the processor, the pixels do not.
std::string without_width(const std::string& renderer) {
  return std::regex_replace(renderer, std::regex(", [0-9]+ bits"), "");
}

struct Image {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgba;
};
Image read_png(const fs::path& path) {
  Image image;
  int channels = 0;
  stbi_uc* pixels = stbi_load(path.c_str(), &image.width, &image.height, &channels, 4);
  if (!pixels) return {};
  image.rgba.assign(pixels, pixels + std::size_t{4} * image.width * image.height);
  stbi_image_free(pixels);
  return image;
}

constexpr int kRounding = 2;  // of 255

struct Difference {
  std::int64_t pixels = 0;   // that differ by more than processors round apart: AVX2 and AVX-512, Intel and AMD
  std::int64_t visibly = 0;  // by more than 24 of 255
  Image image;               // the differences, brightened
};
Difference compare(const Image& a, const Image& b) {
  Difference d;
  d.image = {a.width, a.height, std::vector<std::uint8_t>(a.rgba.size(), 255)};
  for (std::size_t n = 0; n < a.rgba.size(); n += 4) {
    int largest = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const int by = std::abs(int{a.rgba[n + k]} - int{b.rgba[n + k]});
      largest = std::max(largest, by);
      d.image.rgba[n + k] = static_cast<std::uint8_t>(std::min(255, 4 * by));
    }
    d.pixels += largest > kRounding, d.visibly += largest > 24;
  }
  return d;
}

// Draws one picture; returns the renderer's name, or nothing with the program's messages in `errors`.
std::string render(const std::string& arguments, const fs::path& out, std::string* errors) {
  const fs::path said = fs::path(out).replace_extension(".json"), wrong = fs::path(out).replace_extension(".txt");
  // One instruction set, so that a number never rounds another way; software, so that the pixels are Mesa's.
  const std::string command = "cd '" + source_path("") + "' && LIBGL_ALWAYS_SOFTWARE=1 '" + program_path() +
                              "' render --isa SCALAR --json --out '" + out.string() + "' " + arguments + " >'" +
                              said.string() + "' 2>'" + wrong.string() + "'";
  const int status = std::system(command.c_str());
  std::stringstream json, text;
  json << std::ifstream(said).rdbuf();
  text << std::ifstream(wrong).rdbuf();
  *errors = text.str();
  fs::remove(said), fs::remove(wrong);
  if (status != 0) return {};
  return nlohmann::json::parse(json.str()).at("renderer");
}

class Pictures : public testing::TestWithParam<Baseline> {};

TEST_P(Pictures, AreAsTheyWere) {
  const Baseline one = GetParam();
  const fs::path folder = fs::current_path() / "baselines", actual = folder / (one.name + ".png");
  const fs::path expected = kFolder / (one.name + ".png"), difference = folder / (one.name + "_difference.png");
  fs::create_directories(folder);
  fs::remove(difference);
  std::string errors, drawn_by;
  baselines(&drawn_by);
  const std::string renderer = render(one.arguments, actual, &errors);
  ASSERT_FALSE(renderer.empty()) << errors;
  if (std::getenv("FLASHSCOPE_UPDATE_BASELINES")) {
    fs::copy_file(actual, expected, fs::copy_options::overwrite_existing);
    GTEST_SKIP() << "drawn anew by " << renderer;
  }
  const Image right = read_png(expected), drawn = read_png(actual);
  ASSERT_FALSE(right.rgba.empty()) << "no baseline " << expected;
  ASSERT_EQ(drawn.width, right.width);
  ASSERT_EQ(drawn.height, right.height);
  const Difference d = compare(drawn, right);
  const bool same_renderer = without_width(renderer) == without_width(drawn_by);
  const std::int64_t allowed = same_renderer ? 0 : std::int64_t{drawn.width} * drawn.height / 100;
  const std::int64_t found = same_renderer ? d.pixels : d.visibly;
  EXPECT_LE(found, allowed) << "drawn by " << renderer << "; see " << actual << " and " << difference;
  if (found > allowed)
    write_png(difference.string(), d.image.width, d.image.height, d.image.rgba);
  else
    fs::remove(actual);
}

INSTANTIATE_TEST_SUITE_P(Baselines, Pictures, testing::ValuesIn(baselines()),
                         [](const auto& info) { return info.param.name; });

// Two states are two pictures: a baseline that never changes would show nothing.
TEST(PicturesDiffer, StepByStep) {
  std::string errors;
  const fs::path folder = fs::current_path() / "baselines";
  fs::create_directories(folder);
  const std::string problem = "--random 1 --n 128 --d 16 --causal --br 32 --bc 16 --no-scan --at ";
  Image before;
  for (int K = 40; K < 50; ++K) {
    const fs::path out = folder / "step.png";
    ASSERT_FALSE(render(problem + std::to_string(K), out, &errors).empty()) << errors;
    const Image now = read_png(out);
    if (!before.rgba.empty()) {
      EXPECT_GT(compare(now, before).visibly, 500) << K;
    }
    before = now;
    fs::remove(out);
  }
}

}  // namespace
}  // namespace flashscope::viz
