// The kernels' machine code, made here without a GPU and without a driver.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>

#include "engine/error.h"
#include "kernels/host/compiler.h"
#include "kernels/host/libraries.h"

namespace flashscope::gpu {
namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};

// A kernel with the constants that are not named here at their plain values.
KernelCode kernel(const std::string& file, std::map<std::string, int> constants) {
  const std::map<std::string, int> plain{
      {"BR", 64},       {"BC", 64},   {"D", 64},       {"DV", 64},        {"TYPE", 2},     {"BAND", 0},    {"KEEP", 0},
      {"BIAS", 0},      {"EACH", 0},  {"MASK_ADD", 0}, {"GUARD", 0},      {"EMPTY", 0},    {"REVERSE", 0}, {"COUNT", 0},
      {"SKIP_NONE", 0}, {"WARPS", 4}, {"STAGES", 2},   {"MIN_BLOCKS", 1}, {"TIMELINE", 0}, {"ROW_FITS", 1}};
  constants.insert(plain.begin(), plain.end());
  return {file, {constants.begin(), constants.end()}};
}

// Bytes a thread that a kernel is known to store, where its tiles fill the registers: as NVRTC 13.0 compiles it.
struct Spills {
  int sm_8x = 0, sm_90a = 0, sm_100 = 0, sm_120 = 0;
  int on(const std::string& architecture) const {
    return architecture == "sm_90a"   ? sm_90a
           : architecture == "sm_100" ? sm_100
           : architecture == "sm_120" ? sm_120
                                      : sm_8x;
  }
};
constexpr int kOtherCompiler = 32;  // that another NVRTC may store beside them

// The menu: every kernel in its element types, with head dimensions, masks, guards and the count.
struct Item {
  KernelCode code;
  Spills spills = {};
};
std::vector<Item> menu() {
  std::vector<Item> all;
  const auto add = [&](const char* file, std::map<std::string, int> constants, const Spills& spills = {}) {
    all.push_back({kernel(file, std::move(constants)), spills});
  };
  for (const int type : {1, 2})
    for (const int band : {0, 1}) {
      add("flash2_mma.cu", {{"TYPE", type}, {"BAND", band}, {"BR", 128}});
      add("flash2_mma.cu", {{"TYPE", type}, {"BAND", band}, {"BR", 128}, {"BC", 128}, {"STAGES", 1}}, {8, 0, 16, 16});
      add("flash2_mma.cu", {{"TYPE", type}, {"BAND", band}, {"BR", 128}, {"D", 128}, {"DV", 128}},
          band ? Spills{20, 12, 48, 48} : Spills{20, 20, 44, 0});
    }
  // Masks of a file, at the sizes that a plan takes.
  const std::tuple<int, int, Spills> files[] = {
      {1, 0, {64, 60, 0, 0}}, {0, 1, {228, 208, 148, 148}}, {1, 1, {68, 68, 48, 28}}};
  for (const auto& [keep, bias, spills] : files) {
    add("flash2_mma.cu", {{"BR", 128}, {"KEEP", keep}, {"BIAS", bias}});
    add("flash2_mma.cu", {{"BR", 128}, {"KEEP", keep}, {"BIAS", bias}, {"BAND", 1}},
        keep ? Spills{} : Spills{0, 0, 8, 8});
    add("flash2_mma.cu", {{"BR", 128}, {"D", 128}, {"DV", 128}, {"KEEP", keep}, {"BIAS", bias}}, spills);
  }
  // Three blocks an SM, as a plan under a causal mask asks for: 168 registers a thread.
  add("flash2_mma.cu", {{"BAND", 1}, {"BR", 128}, {"MIN_BLOCKS", 3}}, {16, 0, 40, 0});
  for (const int d : {32, 96, 128}) add("flash2_mma.cu", {{"D", d}, {"DV", d}, {"BAND", 1}});
  add("flash2_mma.cu", {{"D", 256}, {"DV", 256}, {"BC", 32}});
  add("flash2_mma.cu", {{"D", 64}, {"DV", 128}, {"COUNT", 1}});
  add("flash2_mma.cu", {{"D", 128}, {"DV", 32}, {"KEEP", 1}, {"REVERSE", 1}, {"GUARD", 2}}, {0, 0, 8, 0});
  add("flash2_mma.cu", {{"BR", 16}, {"BC", 16}, {"WARPS", 1}, {"BIAS", 1}, {"BAND", 1}, {"MASK_ADD", 1}, {"EMPTY", 1}});
  for (const int type : {0, 1, 2}) {
    add("flash2_simple.cu", {{"TYPE", type}, {"BAND", 1}});
    add("flash1.cu", {{"TYPE", type}, {"EACH", 1}});
    add("softmax.cu", {{"TYPE", type}, {"BAND", 1}});
  }
  add("flash2_simple.cu", {{"TYPE", 0},
                           {"BR", 7},
                           {"BC", 5},
                           {"D", 6},
                           {"DV", 11},
                           {"KEEP", 1},
                           {"BIAS", 1},
                           {"GUARD", 1},
                           {"EMPTY", 2},
                           {"COUNT", 1},
                           {"EACH", 1}});
  add("flash1.cu",
      {{"TYPE", 0}, {"D", 256}, {"DV", 256}, {"BR", 16}, {"BC", 16}, {"BAND", 1}, {"COUNT", 1}, {"GUARD", 2}});
  add("flash2_simple.cu", {{"TYPE", 0}, {"TIMELINE", 1}});
  add("flash1.cu", {{"TYPE", 0}, {"EACH", 0}, {"TIMELINE", 1}});
  add("softmax.cu", {{"TYPE", 2}, {"TIMELINE", 1}, {"ROW_FITS", 0}});
  add("flash2_mma.cu", {{"TIMELINE", 1}, {"BAND", 1}});
  for (const char* file : {"flash2_mma.cu", "flash2_simple.cu", "flash1.cu"})
    add(file, {{"SKIP_NONE", 1}, {"BAND", 1}, {"COUNT", 1}});
  all.push_back({{"sweep.cu", {}}});
  for (const int type : {0, 1, 2}) all.push_back({{"random.cu", {{"TYPE", type}}}});
  // Their verbs are called, not inlined: what they save of their caller's registers counts as spilled.
  for (const char* file : {"tile_step.cu", "tile_stats.cu"})
    for (const int in_double : {0, 1}) all.push_back({{file, {{"DOUBLE", in_double}}, false}, {120, 108, 0, 86}});
  return all;
}

std::string text(const KernelCode& code) {
  std::string all = code.file;
  for (const auto& [name, value] : code.constants) all += " " + name + "=" + std::to_string(value);
  return all;
}

class KernelMenu : public ::testing::TestWithParam<const char*> {};

TEST_P(KernelMenu, compiles_and_does_not_spill) {
  const std::vector<Item> items = menu();
  std::vector<CompileJob> jobs;
  for (const Item& item : items) jobs.push_back({item.code, GetParam()});
  CompileOptions options;
  options.use_cache = false;
  const std::vector<Compiled> all = compile_all(jobs, 0, {}, {}, options);
  ASSERT_EQ(all.size(), items.size());
  const int more = nvrtc().version_text == "13.0" ? 0 : kOtherCompiler;
  for (std::size_t n = 0; n < all.size(); ++n) {
    EXPECT_GT(all[n].cubin.size(), 1000u) << text(items[n].code);
    ASSERT_FALSE(all[n].entries.empty()) << text(items[n].code);
    for (const EntryFigures& entry : all[n].entries) {
      EXPECT_GT(entry.registers, 0) << text(items[n].code);
      EXPECT_LE(entry.registers, 255) << text(items[n].code);
      EXPECT_LE(entry.spill_stores, items[n].spills.on(GetParam()) + more) << text(items[n].code);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Architectures, KernelMenu, ::testing::ValuesIn(kArchitectures),
                         [](const auto& info) { return std::string(info.param); });

TEST(Compiler, errors_name_file_line_and_text) {
  CompileOptions options;
  options.use_cache = false;
  options.source = [](const std::string& file) -> std::string {
    if (file != "broken.cu") return "";
    return "extern \"C\" __global__ void broken() {\n  int x = BR;\n  x = no_such_name;\n}\n";
  };
  try {
    compile(kernel("broken.cu", {{"BR", 48}}), "sm_80", options);
    FAIL() << "compiled";
  } catch (const CompileError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("broken.cu(3)"), what.npos) << what;
    EXPECT_NE(what.find("x = no_such_name;"), what.npos) << what;
    EXPECT_NE(what.find("BR=48"), what.npos) << what;
  }
}

// A chip that is newer than the compiler runs the code of an older one of its generation.
TEST(Compiler, finds_an_architecture_that_it_knows) {
  const std::vector<int> known{75, 80, 86, 87, 89, 90, 100, 120};
  EXPECT_EQ(nearest_architecture("sm_86", known), "sm_86");
  EXPECT_EQ(nearest_architecture("sm_90a", known), "sm_90a");
  EXPECT_EQ(nearest_architecture("sm_103", known), "sm_100");
  EXPECT_EQ(nearest_architecture("sm_121", known), "sm_120");
  EXPECT_EQ(nearest_architecture("sm_88", known), "sm_87");
  EXPECT_THROW(nearest_architecture("sm_130", known), Missing);
  for (const char* architecture : kArchitectures)
    EXPECT_EQ(nearest_architecture(architecture, nvrtc().architectures), architecture);
}

TEST(Compiler, spills_are_reported) {
  CompileOptions options;
  options.use_cache = false;
  const Compiled compiled =
      compile(kernel("flash2_mma.cu", {{"BR", 128}, {"BC", 128}, {"D", 128}, {"DV", 128}}), "sm_80", options);
  EXPECT_GT(compiled.entry("flash2_mma").spill_stores, 500);  // 128 x 128 x 128 at four warps cannot fit
}

class CompilerCache : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("flashscope-cache-" + std::to_string(getpid()));
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "flashscope")) all.push_back(entry.path());
    return all;
  }
  std::filesystem::path folder_;
};

TEST_F(CompilerCache, is_keyed_by_constants_and_architecture_and_survives_damage) {
  const KernelCode code = kernel("flash2_simple.cu", {{"BR", 8}, {"BC", 8}, {"D", 8}, {"DV", 8}});
  const Compiled first = compile(code, "sm_80");
  EXPECT_FALSE(first.from_cache);
  const Compiled second = compile(code, "sm_80");
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(second.cubin, first.cubin);
  EXPECT_EQ(second.entry("flash2_simple").registers, first.entry("flash2_simple").registers);
  EXPECT_FALSE(compile(code, "sm_86").from_cache);
  EXPECT_FALSE(compile(kernel("flash2_simple.cu", {{"BR", 9}, {"BC", 8}, {"D", 8}, {"DV", 8}}), "sm_80").from_cache);
  for (const std::filesystem::path& path : files())
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 100);
  EXPECT_FALSE(compile(code, "sm_80").from_cache);
  for (const std::filesystem::path& path : files()) {  // one byte in the middle of the code
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path) / 2));
    file.put('\x5a').put('\xa5');
  }
  const Compiled again = compile(code, "sm_80");
  EXPECT_FALSE(again.from_cache);
  EXPECT_EQ(again.cubin, first.cubin);
}

TEST(Compiler, compiling_many_reports_progress_and_can_be_cancelled) {
  CompileOptions options;
  options.use_cache = false;
  std::vector<CompileJob> jobs;
  for (int br = 1; br <= 12; ++br)
    jobs.push_back({kernel("flash2_simple.cu", {{"BR", br}, {"BC", 4}, {"D", 4}, {"DV", 4}}), "sm_80"});
  std::stop_source stop;
  std::int64_t last = 0;
  const auto progress = [&](std::int64_t done, std::int64_t total) {
    EXPECT_EQ(done, last + 1);
    EXPECT_EQ(total, 12);
    last = done;
    if (done == 3) stop.request_stop();
  };
  EXPECT_THROW(compile_all(jobs, 2, stop.get_token(), progress, options), Cancelled);
  EXPECT_GE(last, 3);
  EXPECT_LT(last, 12);
}

}  // namespace
}  // namespace flashscope::gpu
