// The command line as a whole: what is refused, and help.
#include "tests/app/command_line.h"

namespace flashscope {
namespace {

TEST_F(CommandLine, BadInputExitsTwoWithOneMessage) {
  expect_refused("count", "--n N and --d D are needed");
  expect_refused("count --n 0 --d 4", "--n: found \"0\", expected a whole number from 1");
  expect_refused("count --n 4x --d 4", "--n: found \"4x\"");
  expect_refused("count --n 010x --d 4", "--n");
  expect_refused("count --n 99999999999999999999 --d 4", "--n: found");
  expect_refused("count --n -5 --d 4", "--n: found \"-5\"");
  expect_refused("count --n 8 --d 300", "--d: found \"300\", expected a whole number from 1 to 256");
  expect_refused("count --n 8 --d 4 --heads 4 --kv-heads 3", "3");
  expect_refused("count --n 8 --d 4 --br 0", "--br");
  expect_refused("count --n 8 --d 4 --sram 100 --br 4", "--sram");
  expect_refused("count --n 8 --d 4 --causal sideways", "top-left or bottom-right");
  expect_refused("count --n 8 --d 4 --window 3", "--window: found \"3\"");
  expect_refused("count --n 8 --d 4 --window -1,3", "--window: found \"-1\"");
  expect_refused("count --n 8 --d 4 --algorithm flash9", "one of standard|flash1|flash2");
  expect_refused("count --n 8 --d 4 --dtype int8", "float64|float32|float16|bfloat16");
  expect_refused("count --n 8 --d 4 --mask nowhere.npy", "nowhere.npy");
  expect_refused("count --n 8 --d 4 --n 9", "--n");
  expect_refused("count --n 1000000000000 --d 64", "counts below 2^63");
  expect_refused("count --n 8 --d 4 --frobnicate", "--frobnicate");
  const std::string file = source_path("tests/data/tile_max.npz");
  expect_refused("run " + file, "expected --input " + file);
  expect_refused("count --n", "--n");
  expect_refused("run", "a problem is needed");
  expect_refused("run --random 1", "--n N and --d D are needed");
  expect_refused("run --random 1 --n 8 --d 4 --input x.npz", "exclude each other");
  expect_refused("run --input nowhere.npz", "nowhere.npz");
  expect_refused("run --input nowhere.npz --n 4", "--n");
  expect_refused("run --q q.npy", "--q, --k and --v go together");
  expect_refused("run --random 1 --n 8 --d 4 --head 1", "--head: found 1, expected 0 to 0");
  expect_refused("run --random 1 --n 8 --d 4 --scale nan", "--scale");
  expect_refused("run --random 1 --n 8 --d 4 --check some", "--check");
  expect_refused("run --random 1 --n 8 --d 4 --layout nhd", "--layout");
  expect_refused("run --random 1 --n 100000000 --d 64", "--memory");
  expect_refused("run --random 1 --n 8 --d 4 --isa ABACUS", "ABACUS");
  expect_refused("run --random 1 --n 8 --d 4 --defect no-final-divide --normalise each", "normalise end");
  expect_refused("run --random 1 --n 8 --d 4 --device cpu --out /nowhere/o.npz", "/nowhere/o.npz");
  expect_refused("run --random 1 --n 8 --d 4 --device cpu --save /nowhere/s.fscope", "/nowhere/s.fscope");
  expect_refused("run --random 1 --n 8 --d 4 --device tpu", "one of auto|cpu|cuda");
  expect_refused("run --random 1 --n 8 --d 4 --device cpu --measure", "--measure: only on a GPU");
  expect_refused("run --random 1 --n 8 --d 4 --device cpu --kernel mma", "--kernel simple|mma: only on a GPU");
  expect_refused("run --random 1 --n 8 --d 4 --device cpu --timeline t.json", "--timeline: only on a GPU");
  expect_refused("run --random 1 --n 8 --d 4 --measure --no-measure", "exclude each other");
  expect_refused("step --random 1 --n 8 --d 4 --at 1 --kernel simple", "only `flashscope run` starts");
  expect_refused("step --random 1 --n 8 --d 4", "--at K or --until WHAT is needed");
  expect_refused("step --random 1 --n 8 --d 4 --at 1000", "--at: found 1000, expected 0 to 11");
  expect_refused("step --random 1 --n 8 --d 4 --until doom",
                 "found \"doom\", expected nan, inf, rescale:X, max, masked");
  expect_refused("render --random 1 --n 8 --d 4 --out x.png", "--at K is needed");
  expect_refused("render --random 1 --n 8 --d 4 --at 1", "--out FILE.png is needed");
  expect_refused("render --random 1 --n 8 --d 4 --at 12 --out x.png", "--at: found 12, expected 0 to 11");
  expect_refused("render --random 1 --n 8 --d 4 --at 1 --out x.png --size 100", "--size: found \"100\"");
  expect_refused("render --random 1 --n 8 --d 4 --at 1 --out x.png --size 1x100", "--size: found \"1\"");
  expect_refused("render --random 1 --n 8 --d 4 --at 1 --out /nowhere/x.png", "/nowhere/x.png");
  expect_refused("row --scores 1,x", "\"x\" as number 2");
  expect_refused("row --scores 1,2 --values 1", "values");
  expect_refused("row --chunk 0", "--chunk");
  expect_refused("nothing-of-the-sort", "no such file, and no command of that name");
  expect_refused("--frobnicate", "--frobnicate");
  expect_refused("--causal", "a problem is needed");
  expect_refused("--random 1", "--n N and --d D are needed");
  expect_refused("--random 1 --n 8 --d 4 --defect no-such", "no-such");
  expect_refused("--random 1 --n 8 --d 4 --br 9 --sram 100", "--sram chooses the block sizes");
  expect_refused("--input nowhere.npz", "nowhere.npz: found no such file");
  expect_refused("nothing-of-the-sort --br 4", "no such file, and no command of that name");
  expect_refused("out --input x.npz", "FILE and --input: one file is opened at a time");
  expect_refused("out --n 8", "--n, --nk, --d, --dv, --heads, --kv-heads and --dtype are for --random");
}

TEST_F(CommandLine, HelpAndVersion) {
  const Result help = run("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* command : {"count", "run", "step", "diagnose", "render", "row", "devices"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const Result one = run(std::string(command) + " --help");
    EXPECT_EQ(one.code, 0);
    EXPECT_THAT(one.out, HasSubstr("--json"));
    EXPECT_EQ(one.err, "");
  }
  EXPECT_THAT(run("out --help").out, HasSubstr("--guard"));  // the window's: any file will do
  const Result version = run("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, testing::StartsWith("flashscope "));
}

}  // namespace
}  // namespace flashscope
