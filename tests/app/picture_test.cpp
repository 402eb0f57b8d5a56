// flashscope render, and what the program does where it cannot open its window.
#include "tests/app/command_line.h"

namespace flashscope {
namespace {

std::pair<int, int> png_size(const std::string& png) {
  if (png.size() < 24 || png.substr(1, 3) != "PNG") return {0, 0};
  const auto word = [&](std::size_t at) {
    int value = 0;
    for (std::size_t n = 0; n < 4; ++n) value = value << 8 | static_cast<unsigned char>(png[at + n]);
    return value;
  };
  return {word(16), word(20)};
}

TEST_F(CommandLine, RenderDrawsTwoDifferentStepsAndTheSameOneTwice) {
  const std::string problem = " --random 1 --n 512 --d 64 --causal --size 960x540";
  const json first = run_json("render --at 100 --out a.png" + problem);
  EXPECT_EQ(first["step"], 100);
  EXPECT_EQ(first["width"], 960);
  EXPECT_TRUE(first["renderer"].is_string());
  run_json("render --at 101 --out b.png" + problem);
  run_json("render --at 100 --out again.png" + problem);
  run_json("render --at 100 --theme light --out light.png" + problem);
  const std::string picture = contents(folder_ / "a.png");
  EXPECT_EQ(png_size(picture), std::pair(960, 540));
  EXPECT_EQ(picture, contents(folder_ / "again.png"));
  EXPECT_NE(picture, contents(folder_ / "b.png"));
  EXPECT_NE(picture, contents(folder_ / "light.png"));
}

TEST_F(CommandLine, RenderRefusesASecondRecipeThatMeansNothing) {
  const std::string problem = "render --random 1 --n 64 --d 16 --at 5 --no-scan --out p.png --beside ";
  for (const char* words : {"guard", "guard=maybe", "bc=0", "colour=red"}) EXPECT_EQ(run(problem + words).code, 2);
}

TEST_F(CommandLine, WithoutADisplayTheDemoIsRenderedAndReported) {
  const Result result = run("");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out.substr(0, result.out.find('\n')), HasSubstr("window"));
  EXPECT_EQ(png_size(contents(folder_ / "flashscope-demo.png")), std::pair(1280, 720));
  EXPECT_THAT(result.out, HasSubstr("rescales 3,734"));
  EXPECT_THAT(result.out, HasSubstr("NaN rows 512 of 1,024"));
  EXPECT_THAT(result.out, HasSubstr("tile (0, 1), row 0"));
  EXPECT_THAT(result.out, HasSubstr("2,494,464 bytes"));
  EXPECT_THAT(result.out, HasSubstr("  5. "));
}

TEST_F(CommandLine, WithoutADisplayAFileIsRenderedToo) {
  const Result result = run("'" + source_path("assets/codelm_layer1.npz") + "'");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(png_size(contents(folder_ / "flashscope-codelm_layer1.png")), std::pair(1280, 720));
}

// The window's own options, here in a picture of the same problem and recipe.
TEST_F(CommandLine, WithoutADisplayAProblemUnderARecipeIsRendered) {
  Result result = run("--random 1 --n 300 --d 16 --br 64 --bc 100 --causal --order reverse --guard none");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(png_size(contents(folder_ / "flashscope-random-1.png")), std::pair(1280, 720));
  EXPECT_THAT(result.out, HasSubstr("random 1: flash2, Br 64, Bc 100, reverse"));
  EXPECT_THAT(result.out, HasSubstr("causal top-left, skip geometry, guard none"));

  result = run("'" + source_path("assets/codelm_layer1.npz") + "' --causal --head 2 --br 96");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("codelm_layer1.npz: flash2, Br 96, Bc 64"));
  EXPECT_THAT(result.out, HasSubstr("causal top-left, skip geometry, guard clamp"));
  EXPECT_THAT(result.err, HasSubstr("of head 2: range"));

  result = run("--br 32");  // the demo, whose recipe has no guard
  EXPECT_THAT(result.out, HasSubstr("codelm layer 1, head 2 (kv head 1): flash2, Br 32, Bc 64"));
  EXPECT_THAT(result.out, HasSubstr("guard none"));

  run_json("run --random 1 --n 40 --d 8 --causal --guard skip --device cpu --save s.fscope");
  result = run("s.fscope --br 8");
  EXPECT_THAT(result.out, HasSubstr("random 1: flash2, Br 8, Bc 64"));
  EXPECT_THAT(result.out, HasSubstr("causal top-left, skip geometry, guard skip"));  // the session's
}

TEST_F(CommandLine, WithoutADisplayASessionShowsItsReports) {
  for (const char* algorithm : {"flash1", "flash2"})
    run_json(std::string("run --device cpu --save s.fscope --algorithm ") + algorithm +
             (algorithm[5] == '1' ? " --random 1 --n 100 --d 8 --causal" : " --input s.fscope"));
  const Result result = run("s.fscope");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(png_size(contents(folder_ / "flashscope-s.png")), std::pair(1280, 720));
  for (const char* part : {"report 1 of 2", "report 2 of 2", "random 1: flash1", "random 1: flash2", "made 20", "CPU, ",
                           "causal top-left", "L2 - SM, measured: missing"})
    EXPECT_THAT(result.out, HasSubstr(part));
}

}  // namespace
}  // namespace flashscope
