#include "engine/files/problem_file.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/engine/files/fixtures.h"

namespace flashscope {
namespace {

using namespace fixtures;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kInff = std::numeric_limits<float>::infinity();

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  return count;
}
// Element n is first + n / 8.
Bytes ramp(const std::vector<std::int64_t>& shape, double first = 0) {
  std::vector<float> values;
  for (std::int64_t n = 0; n < count_of(shape); ++n) values.push_back(static_cast<float>(first + n / 8.0));
  return floats_npy(shape_text(shape), values);
}
Bytes bits(const std::vector<std::int64_t>& shape, const std::vector<std::uint8_t>& values,
           const std::string& descr = "|b1") {
  return npy_of(descr, shape_text(shape), as_bytes(values));
}

// An .npz of those arrays, and a load of it.
class ProblemFile : public testing::Test {
 protected:
  using Arrays = std::map<std::string, Bytes>;
  ProblemFiles put(const Arrays& arrays) {
    std::vector<Member> members;
    for (const auto& [name, npy] : arrays) members.push_back(stored(name + ".npy", npy));
    ProblemFiles files;
    files.input = folder_.put("p.npz", zip(members));
    return files;
  }
  // q, k, v of H heads on Hkv and the rest.
  Arrays with(Arrays more, std::int64_t heads = 2, std::int64_t kv_heads = 1) {
    more.insert({{"q", ramp({heads, 3, 4})}, {"k", ramp({kv_heads, 5, 4})}, {"v", ramp({kv_heads, 5, 2})}});
    return more;
  }
  LoadedProblem load(const Arrays& arrays) { return load_problem(put(arrays)); }
  std::string fault_of(const Arrays& arrays) {
    return fault([&] { load(arrays); });
  }
  Folder folder_;
};

std::vector<int> kept(const Problem& problem, std::int64_t h) {
  std::vector<int> out;
  for (std::int64_t r = 0; r < problem.Q().rows; ++r)
    for (std::int64_t c = 0; c < problem.K().rows; ++c) out.push_back(problem.mask.keep->keep(h, r, c));
  return out;
}

TEST_F(ProblemFile, RolesAreGuessedFromNames) {
  const auto roles = [&](const std::vector<std::string>& names) {
    std::vector<Member> members;
    for (const std::string& name : names) members.push_back(stored(name + ".npy", ramp({2, 2})));
    return inspect(folder_.put("r.npz", zip(members))).roles;
  };
  using Roles = std::map<std::string, std::string>;
  EXPECT_EQ(roles({"q", "k", "v"}), (Roles{{"q", "q"}, {"k", "k"}, {"v", "v"}}));
  EXPECT_EQ(roles({"Q", "K", "V", "attn_mask", "LSE"}),
            (Roles{{"q", "Q"}, {"k", "K"}, {"v", "V"}, {"mask", "attn_mask"}, {"lse", "LSE"}}));
  EXPECT_EQ(roles({"query", "key", "value", "out", "attn_bias", "softmax_scale"}), (Roles{{"q", "query"},
                                                                                          {"k", "key"},
                                                                                          {"v", "value"},
                                                                                          {"o", "out"},
                                                                                          {"bias", "attn_bias"},
                                                                                          {"scale", "softmax_scale"}}));
  EXPECT_EQ(roles({"layers.3.q", "layers.3.Key", "x/v"}),
            (Roles{{"q", "layers.3.q"}, {"k", "layers.3.Key"}, {"v", "x/v"}}));
  EXPECT_EQ(roles({"q", "Q", "query"})["q"], "q");
  EXPECT_TRUE(roles({"weights", "tokens"}).empty());
}

TEST_F(ProblemFile, InspectTellsWhatIsThere) {
  const Bytes text = npy_of("|S4", "()", "bnhd");
  const FileReport report = inspect(put({{"q", ramp({3, 2, 4, 8})}, {"layout", text}, {"tokens", ramp({5})}}).input);
  EXPECT_EQ(report.format, "npz");
  EXPECT_EQ(report.arrays.size(), 2u);
  EXPECT_EQ(report.layout, Layout::nhd);
  EXPECT_EQ(report.batches, 3);
  EXPECT_EQ(inspect(put({{"q", ramp({2, 4})}, {"layout", npy_of("|S3", "()", "odd")}}).input).layout, std::nullopt);
}

TEST_F(ProblemFile, TwoThreeAndFourDimensions) {
  const auto two = load({{"q", ramp({3, 4})}, {"k", ramp({5, 4})}, {"v", ramp({5, 2})}});
  EXPECT_EQ(two.problem->shape(), (Shape{1, 1, 3, 5, 4, 2, DType::float32}));
  EXPECT_EQ(two.problem->scale, 0.5);
  EXPECT_EQ(two.problem->name, "p.npz");
  EXPECT_EQ(two.problem->Q().at(0, 2, 3), 11 / 8.0);
  const auto three = load(with({}));
  EXPECT_EQ(three.problem->shape(), (Shape{2, 1, 3, 5, 4, 2, DType::float32}));
  EXPECT_EQ(three.problem->Q().at(1, 2, 3), 23 / 8.0);
  ProblemFiles files = put({{"q", ramp({2, 4, 3, 8})}, {"k", ramp({2, 2, 5, 8})}, {"v", ramp({2, 2, 5, 8})}});
  files.batch = 1;
  const auto four = load_problem(files);
  EXPECT_EQ(four.problem->shape(), (Shape{4, 2, 3, 5, 8, 8, DType::float32}));
  EXPECT_EQ(four.problem->Q().at(0, 0, 0), 96 / 8.0);
  EXPECT_EQ(four.problem->V().at(1, 4, 7), 159 / 8.0);
  EXPECT_THAT(four.found, Contains(HasSubstr("q (2, 4, 3, 8) float32; of batch 1: range 12 .. 23.88, 0 NaN, 0 Inf")));
  EXPECT_THAT(four.warnings, IsEmpty());
  files.batch = 2;
  EXPECT_THAT(fault([&] { load_problem(files); }), HasSubstr("batch: found 2, expected 0 to 1"));
}

TEST_F(ProblemFile, RowsBeforeHeads) {
  Arrays arrays = {{"q", ramp({2, 3, 4, 8})},
                   {"k", ramp({2, 5, 2, 8})},
                   {"v", ramp({2, 5, 2, 8})},
                   {"o", ramp({2, 3, 4, 8}, 100)},
                   {"lse", ramp({2, 4, 3}, 7)}};
  ProblemFiles files = put(arrays);
  files.layout = Layout::nhd;
  files.batch = 1;
  const auto all = load_problem(files).problem;
  EXPECT_EQ(all->shape(), (Shape{4, 2, 3, 5, 8, 8, DType::float32}));
  for (int h = 0; h < 4; ++h)
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 8; ++c) {
        EXPECT_EQ(all->Q().at(h, r, c), (96 + (r * 4 + h) * 8 + c) / 8.0);
        EXPECT_EQ(all->given_O->at(h, r, c), 100 + (96 + (r * 4 + h) * 8 + c) / 8.0);
      }
  EXPECT_EQ(all->given_LSE->at(2, 1, 0), 7 + (12 + 2 * 3 + 1) / 8.0);  // heads first, as FlashAttention returns it
  arrays["layout"] = npy_of("<U4", "()", Bytes("b\0\0\0s\0\0\0h\0\0\0d\0\0\0", 16));
  arrays["lse"] = ramp({2, 3, 4}, 7);
  const auto stated = load(arrays).problem;  // the file says the layout; lse by rows is taken too
  EXPECT_EQ(stated->Q().at(3, 2, 1), ((2 * 4 + 3) * 8 + 1) / 8.0);
  EXPECT_EQ(stated->given_LSE->at(2, 1, 0), 7 + (1 * 4 + 2) / 8.0);
  arrays["layout"] = npy_of("|S3", "()", "odd");
  EXPECT_THAT(fault_of(arrays), HasSubstr("layout: found 'odd', expected hnd"));
}

TEST_F(ProblemFile, OneHeadWithItsKeysAndValues) {
  for (const Layout layout : {Layout::hnd, Layout::nhd}) {
    const bool hnd = layout == Layout::hnd;
    ProblemFiles files = put({{"q", hnd ? ramp({4, 3, 8}) : ramp({3, 4, 8})},
                              {"k", hnd ? ramp({2, 5, 8}) : ramp({5, 2, 8})},
                              {"v", hnd ? ramp({2, 5, 8}) : ramp({5, 2, 8})},
                              {"mask", bits({4, 1, 5}, {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0})},
                              {"bias", ramp({4, 3, 5})}});
    files.layout = layout;
    const auto all = load_problem(files).problem;
    files.head = 2;
    const auto loaded = load_problem(files);
    const auto& one = loaded.problem;
    EXPECT_EQ(one->shape(), (Shape{1, 1, 3, 5, 8, 8, DType::float32}));
    EXPECT_THAT(loaded.found, Contains(HasSubstr("float32; of head 2: range ")));  // not of what the file's shape says
    EXPECT_THAT(loaded.found, Contains(HasSubstr("float32; of kv head 1: range ")));
    EXPECT_THAT(loaded.found, Contains("mask (4, 1, 5) bool, true means keep; of head 2, 3 of 5 cells keep"));
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 8; ++c) EXPECT_EQ(one->Q().at(0, r, c), all->Q().at(2, r, c));
    for (int r = 0; r < 5; ++r)
      for (int c = 0; c < 8; ++c) {
        EXPECT_EQ(one->K().at(0, r, c), all->K().at(1, r, c));
        EXPECT_EQ(one->V().at(0, r, c), all->V().at(1, r, c));
      }
    EXPECT_EQ(one->mask.keep->heads, 1);
    EXPECT_THAT(kept(*one, 0), ElementsAre(1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1));
    EXPECT_EQ(one->mask.bias->at(0, 1, 2), (2 * 15 + 7) / 8.0);
    files.head = 4;
    EXPECT_THAT(fault([&] { load_problem(files); }), HasSubstr("head: found 4, expected 0 to 3"));
  }
}

TEST_F(ProblemFile, OnlyAHeadOrBatchThatAnArrayHasIsNamed) {
  ProblemFiles files = put({{"q", ramp({2, 4, 3, 8})},
                            {"k", ramp({2, 1, 5, 8})},
                            {"v", ramp({2, 1, 5, 8})},
                            {"mask", bits({2, 1, 1, 5}, {0, 0, 0, 0, 0, 1, 1, 0, 1, 1})},
                            {"bias", ramp({4, 3, 5})}});
  files.batch = 1, files.head = 2;
  const std::vector<std::string> found = load_problem(files).found;
  EXPECT_THAT(found, Contains(HasSubstr("float32; of batch 1, head 2: range ")));
  EXPECT_THAT(found, Contains(HasSubstr("float32; of batch 1: range ")));  // one kv head
  EXPECT_THAT(found, Contains("mask (2, 1, 1, 5) bool, true means keep; of batch 1, 4 of 5 cells keep"));
  EXPECT_THAT(found, Contains(HasSubstr("added to the scores; of head 2, 0 of 15 cells -inf")));
}

TEST_F(ProblemFile, ThreeFilesAndAMaskOfItsOwn) {
  ProblemFiles files;
  files.q = folder_.put("a.npy", ramp({3, 4}));
  files.k = folder_.put("b.npy", ramp({5, 4}));
  files.v = folder_.put("c.npy", ramp({5, 2}));
  files.mask = folder_.put("m.npz", zip({stored("anything.npy", bits({5}, {1, 0, 1, 1, 0}))}));
  files.bias = folder_.put("bias.npy", ramp({3, 1}));
  const auto problem = load_problem(files).problem;
  EXPECT_EQ(problem->name, "a.npy");
  EXPECT_THAT(kept(*problem, 0), ElementsAre(1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0));
  EXPECT_EQ(problem->mask.bias->at(0, 2, 3), 0.25);
  EXPECT_EQ(problem->mask.bias->element_bytes, 4);
  files.v.clear();
  EXPECT_THAT(fault([&] { load_problem(files); }), HasSubstr("v: found no file"));
  files.v = folder_.put("two.npz", zip({stored("x.npy", ramp({1})), stored("y.npy", ramp({1}))}));
  EXPECT_THAT(fault([&] { load_problem(files); }), HasSubstr("found x, y, expected one array"));
}

TEST_F(ProblemFile, NamesCanBeGivenAndRolesLeftOut) {
  Arrays arrays = with({{"first", ramp({2, 3, 4}, 5)}, {"mask", bits({7}, std::vector<std::uint8_t>(7))}});
  ProblemFiles files = put(arrays);
  EXPECT_THAT(fault([&] { load_problem(files); }), HasSubstr("mask: found shape (7,)"));
  files.names = {{"q", "first"}, {"mask", ""}};
  EXPECT_EQ(load_problem(files).problem->Q().at(0, 0, 0), 5);
  files.names = {{"q", "absent"}};
  EXPECT_THAT(fault([&] { load_problem(files); }),
              HasSubstr("no array 'absent', expected one of: first, k, mask, q, v"));
  files.names = {{"w", "first"}};
  EXPECT_THAT(fault([&] { load_problem(files); }), HasSubstr("role 'w'"));
}

TEST_F(ProblemFile, MasksOfEveryShapeThatBroadcasts) {
  const std::int64_t B = 2, H = 2, Nq = 3, Nk = 70;  // rows of more than one word, and a ragged end
  const Arrays tensors = {{"q", ramp({B, H, Nq, 4})}, {"k", ramp({B, 1, Nk, 4})}, {"v", ramp({B, 1, Nk, 4})}};
  const std::vector<std::vector<std::int64_t>> shapes = {
      {},         {1},         {Nk},          {1, Nk},       {Nq, 1},        {Nq, Nk},       {H, 1, 1},
      {H, 1, Nk}, {H, Nq, Nk}, {1, 1, 1, Nk}, {B, 1, 1, Nk}, {B, 1, Nq, Nk}, {B, H, Nq, Nk}, {1, H, Nq, 1}};
  for (const auto& shape : shapes)
    for (const bool fortran : {false, true}) {
      SCOPED_TRACE(shape_text(shape) + (fortran ? " column-major" : ""));
      std::vector<std::int64_t> full(4 - shape.size(), 1);
      full.insert(full.end(), shape.begin(), shape.end());
      const auto expected = [&](std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t c) {
        b = full[0] == 1 ? 0 : b, h = full[1] == 1 ? 0 : h, r = full[2] == 1 ? 0 : r, c = full[3] == 1 ? 0 : c;
        return (b * 7 + h * 5 + r * 3 + c * c) % 4 != 1;
      };
      std::vector<std::uint8_t> values(static_cast<std::size_t>(count_of(full)));
      for (std::int64_t b = 0; b < full[0]; ++b)
        for (std::int64_t h = 0; h < full[1]; ++h)
          for (std::int64_t r = 0; r < full[2]; ++r)
            for (std::int64_t c = 0; c < full[3]; ++c) {
              const std::int64_t c_order = ((b * full[1] + h) * full[2] + r) * full[3] + c;
              const std::int64_t f_order = ((c * full[2] + r) * full[1] + h) * full[0] + b;
              values[static_cast<std::size_t>(fortran ? f_order : c_order)] = expected(b, h, r, c);
            }
      Arrays arrays = tensors;
      arrays["mask"] = npy_of("|b1", shape_text(shape), as_bytes(values), fortran);
      ProblemFiles files = put(arrays);
      files.batch = 1;
      for (const MaskMeans means : {MaskMeans::keep, MaskMeans::drop}) {
        files.mask_means = means;
        const auto problem = load_problem(files).problem;
        for (std::int64_t h = 0; h < H; ++h)
          for (std::int64_t r = 0; r < Nq; ++r)
            for (std::int64_t c = 0; c < Nk; ++c)
              ASSERT_EQ(problem->mask.keep->keep(h, r, c), expected(1, h, r, c) == (means == MaskMeans::keep))
                  << h << ' ' << r << ' ' << c;
        // Bits beyond the last column stay 0, also when the mask means drop.
        const KeepMask& mask = *problem->mask.keep;
        for (std::int64_t row = 0; row < mask.heads * mask.rows && mask.cols % 64 != 0; ++row)
          ASSERT_EQ(mask.bits[static_cast<std::size_t>((row + 1) * mask.words_per_row - 1)] >> (mask.cols % 64), 0u);
      }
    }
}

TEST_F(ProblemFile, MasksThatDoNotFitAreRefused) {
  const Arrays tensors = {{"q", ramp({2, 2, 3, 4})}, {"k", ramp({2, 1, 5, 4})}, {"v", ramp({2, 1, 5, 4})}};
  const auto mask = [&](const std::vector<std::int64_t>& shape) {
    Arrays arrays = tensors;
    arrays["mask"] = bits(shape, std::vector<std::uint8_t>(static_cast<std::size_t>(count_of(shape)), 1));
    return fault_of(arrays);
  };
  EXPECT_THAT(mask({4}), HasSubstr("p.npz: mask: found shape (4,), expected a shape that broadcasts to (batch, head, "
                                   "Nq, Nk) = (2, 2, 3, 5)"));
  EXPECT_THAT(mask({2, 5}), HasSubstr("(batch, 1, 1, Nk)"));
  EXPECT_THAT(mask({2, 2, 2, 3, 5}), HasSubstr("found shape (2, 2, 2, 3, 5)"));
}

TEST_F(ProblemFile, IntegersAreKeepMasksAndNothingElse) {
  const std::vector<std::uint8_t> row = {1, 0, 1, 1, 0};
  EXPECT_THAT(kept(*load(with({{"mask", bits({5}, row, "|u1")}})).problem, 1),
              ElementsAre(1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0));
  EXPECT_EQ(load(with({{"mask", bits({5}, row, "|u1")}})).problem->mask.bias, nullptr);
  EXPECT_THAT(fault_of(with({{"mask", npy_of("<i4", "(1, 5)", as_bytes<std::int32_t>({1, 1, 1, -10000, 1}))}})),
              HasSubstr("mask: found int32 other than 0 and 1 at (0, 3)"));
  EXPECT_THAT(fault_of(with({{"bias", bits({5}, row)}})), HasSubstr("bias: found type bool, expected a float type"));
  EXPECT_THAT(fault_of(with({{"mask", ramp({5})}, {"bias", ramp({5})}})), HasSubstr("second additive mask"));
  ProblemFiles files = put(with({{"mask", ramp({5})}}));
  files.mask_means = MaskMeans::drop;
  EXPECT_THAT(fault([&] { load_problem(files); }), HasSubstr("float mask is added"));
}

TEST_F(ProblemFile, AFloatMaskIsAnAdditiveBias) {
  const auto loaded = load(with({{"mask", npy_of("<f2", "(3, 5)", [] {
                                    Bytes raw;
                                    for (int n = 0; n < 15; ++n)
                                      raw += little(std::uint16_t(n == 7 ? 0xfc00 : 0x3c00 * (n % 2)));
                                    return raw;
                                  }())}}));
  ASSERT_TRUE(loaded.problem->mask.bias);
  EXPECT_EQ(loaded.problem->mask.keep, nullptr);
  EXPECT_EQ(loaded.problem->mask.bias->element_bytes, 2);
  EXPECT_EQ(loaded.problem->mask.bias->at(1, 1, 2), -kInf);
  EXPECT_EQ(loaded.problem->mask.bias->at(1, 0, 3), 1);
  EXPECT_THAT(loaded.found, Contains(HasSubstr("mask (3, 5) float16, added to the scores, 1 of 15 cells -inf")));
  const Bytes wide = npy_of("<f8", "(2, 1, 1)", as_bytes<double>({0.1, 1e-300}));
  EXPECT_EQ(load(with({{"bias", wide}})).problem->mask.bias->at(1, 2, 4), 1e-300);
}

// Case 06: a mask built as (1 - keep) * -inf holds NaN where it should hold 0; it loads, with a warning and the count.
TEST_F(ProblemFile, NanAndInfInAFloatMaskAreWarnedOf) {
  const auto all = test_case("open-06-zero-times-minus-inf");
  std::vector<float> causal;
  for (const auto& row : all["inputs"]["mask"]["values"])
    for (const auto& value : row) causal.push_back(value == "nan" ? std::nanf("") : -kInff);
  const Arrays tensors = {{"q", ramp({4, 4})}, {"k", ramp({4, 4})}, {"v", ramp({4, 4})}};
  Arrays arrays = tensors;
  arrays["mask"] = floats_npy("(4, 4)", causal);
  EXPECT_EQ(all["expected"]["mask_nan_cells"], 10);
  EXPECT_THAT(load(arrays).warnings,
              Contains("mask: 10 NaN cells, exactly where it is not -inf: built as (1 - keep) * -inf?"));
  causal[0] = 0;
  arrays["mask"] = floats_npy("(4, 4)", causal);
  EXPECT_THAT(load(arrays).warnings, Contains("mask: 9 NaN cells"));
  causal.assign(16, 0);
  causal[3] = kInff;
  arrays["mask"] = floats_npy("(4, 4)", causal);
  EXPECT_THAT(load(arrays).warnings, Contains(HasSubstr("mask: 1 cell is +inf")));
  causal[3] = 1;
  arrays["mask"] = floats_npy("(4, 4)", causal);
  EXPECT_THAT(load(arrays).warnings, Contains(HasSubstr("mask: a float mask of only 0 and 1")));
}

TEST_F(ProblemFile, NanInTensorsAndEmptyRowsAreWarnedOf) {
  const float nan = std::nanf("");
  Arrays arrays = {{"q", ramp({3, 2})}, {"k", floats_npy("(2, 2)", {nan, 1, kInff, -kInff})}, {"v", ramp({2, 2})}};
  auto loaded = load(arrays);
  EXPECT_THAT(loaded.warnings, ElementsAre("k: 1 NaN and 2 Inf values"));
  EXPECT_THAT(loaded.found, Contains("k (2, 2) float32, range 1 .. 1, 1 NaN, 2 Inf"));
  arrays["k"] = ramp({2, 2});
  arrays["mask"] = bits({3, 2}, {0, 0, 1, 0, 0, 0});
  loaded = load(arrays);
  EXPECT_THAT(loaded.warnings, ElementsAre("2 of 3 rows see no key under the mask"));
  EXPECT_THAT(loaded.found, Contains("mask (3, 2) bool, true means keep, 1 of 6 cells keep"));
  arrays["mask"] = bits({3, 2}, {0, 0, 0, 0, 0, 0});
  EXPECT_THAT(load(arrays).warnings, ElementsAre(HasSubstr("the other of keep and drop")));
  ProblemFiles files = put({{"q", ramp({3, 2})}, {"k", ramp({1, 2})}, {"v", ramp({1, 2})}});
  files.causal = Causal::bottom_right;
  EXPECT_THAT(load_problem(files).warnings, ElementsAre("2 of 3 rows see no key under the mask"));
  EXPECT_EQ(load_problem(files).problem->mask.causal, Causal::bottom_right);
}

TEST_F(ProblemFile, ScaleFromTheFileOrThePerson) {
  for (const Bytes& scale : {npy_of("<f8", "()", little(0.25)), floats_npy("(1,)", {0.25f}),
                             npy_of("<f2", "(1, 1)", little(std::uint16_t{0x3400}))})
    EXPECT_EQ(load(with({{"scale", scale}})).problem->scale, 0.25);
  ProblemFiles files = put(with({{"scale", floats_npy("(2,)", {1, 2})}}));
  EXPECT_THAT(fault([&] { load_problem(files); }), HasSubstr("scale: found shape (2,), expected one number"));
  files.scale = 3;
  EXPECT_EQ(load_problem(files).problem->scale, 3);
  EXPECT_THAT(fault_of(with({{"scale", floats_npy("()", {std::nanf("")})}})), HasSubstr("scale"));
}

TEST_F(ProblemFile, ShapesThatDoNotFitEachOtherAreRefused) {
  const auto says = [&](const Bytes& q, const Bytes& k, const Bytes& v) {
    return fault_of({{"q", q}, {"k", k}, {"v", v}});
  };
  EXPECT_THAT(says(ramp({3, 2, 4}), ramp({2, 2, 4}), ramp({2, 2, 4})),
              HasSubstr("q: found 3 query heads on 2 key/value heads"));
  EXPECT_THAT(says(ramp({2, 4}), ramp({3, 4}), ramp({5, 4})),
              HasSubstr("v: found keys: N 5 in shape (5, 4), expected 3 as in k (3, 4)"));
  EXPECT_THAT(says(ramp({2, 4}), ramp({3, 5}), ramp({3, 4})),
              HasSubstr("k: found d 5 in shape (3, 5), expected 4 as in q (2, 4)"));
  EXPECT_THAT(says(ramp({1, 2, 4}), ramp({3, 4}), ramp({3, 4})), HasSubstr("k: found dimensions: 2"));
  EXPECT_THAT(says(ramp({2, 1, 2, 4}), ramp({1, 1, 2, 4}), ramp({2, 1, 2, 4})), HasSubstr("k: found batch 1"));
  EXPECT_THAT(says(ramp({8}), ramp({8}), ramp({8})), HasSubstr("q: found shape (8,)"));
  EXPECT_THAT(says(ramp({1, 1, 1, 2, 2}), ramp({2, 2}), ramp({2, 2})), HasSubstr("q: found shape (1, 1, 1, 2, 2)"));
  EXPECT_THAT(says(ramp({0, 4}), ramp({3, 4}), ramp({3, 4})), HasSubstr("nothing of size 0"));
  EXPECT_THAT(says(ramp({1, 300}), ramp({1, 300}), ramp({1, 4})),
              HasSubstr("q: found head dimension 300, expected 1 to 256"));
  const Bytes ints = npy_of("<i2", "(2, 4)", Bytes(16, '\0')), half = npy_of("<f2", "(2, 4)", Bytes(16, '\0'));
  EXPECT_THAT(says(ints, ints, ints), HasSubstr("q: found type int16, expected float64, float32, float16 or bfloat16"));
  EXPECT_THAT(says(half, half, ramp({2, 4})), HasSubstr("v: found type float32, expected float16 as q"));
  EXPECT_THAT(says(npy_of("<f1", "(2, 4)", Bytes(8, '\0')), half, half), HasSubstr("q: found type '<f1'"));
  EXPECT_THAT(fault_of({{"q", half}, {"k", half}, {"w", half}}), HasSubstr("found k, q, w, expected an array named v"));
  EXPECT_THAT(fault_of(with({{"o", ramp({2, 3, 4})}})), HasSubstr("o: found shape (2, 3, 4), expected (2, 3, 2)"));
  EXPECT_THAT(fault_of(with({{"lse", ramp({2, 5})}})), HasSubstr("lse: found shape (2, 5), expected (2, 3)"));
  EXPECT_EQ(load(with({{"lse", ramp({2, 3, 1})}})).problem->given_LSE->at(1, 2, 0), 5 / 8.0);
  // A wrong layout is often seen from the numbers of heads.
  EXPECT_THAT(load({{"q", ramp({6, 2, 4})}, {"k", ramp({6, 2, 4})}, {"v", ramp({6, 2, 4})}}).warnings,
              ElementsAre(HasSubstr("choose layout nhd")));
}

TEST_F(ProblemFile, FilesOfOtherKindsAreNamed) {
  ProblemFiles files;
  files.input = folder_.put("q.npy", ramp({2, 4}));
  EXPECT_THAT(fault([&] { load_problem(files); }), HasSubstr("found (unnamed), expected an array named q"));
  files.input = folder_.put("empty.safetensors", safetensors(R"({"__metadata__":{"a":"b"}})", ""));
  EXPECT_THAT(fault([&] { load_problem(files); }), HasSubstr("no arrays at all"));
}

TEST_F(ProblemFile, MoreThanTheMemorySettingIsRefusedWithTheFigures) {
  ProblemFiles files = put(with({{"mask", bits({2, 3, 5}, std::vector<std::uint8_t>(30, 1))}}));
  const std::int64_t tensors = 4 * (2 * 3 * 4 + 5 * 4 + 5 * 2), mask = 2 * 3 * 8;
  files.memory_limit = tensors + mask;
  EXPECT_NO_THROW(load_problem(files));
  files.memory_limit = tensors + mask - 1;
  EXPECT_THAT(fault([&] { load_problem(files); }),
              HasSubstr("mask: found (2, 3, 5) = 48 bytes packed to bits beside 216 bytes of tensors, expected at most "
                        "263 bytes, the memory setting (one head alone needs less)"));
  files.memory_limit = tensors - 1;
  EXPECT_THAT(fault([&] { load_problem(files); }), HasSubstr("216 bytes for q, k, v and o"));
}

TEST_F(ProblemFile, LargeMasksAreNeverInMemoryAsBytes) {
  const std::int64_t N = 4096;
  Bytes raw(static_cast<std::size_t>(N * N), '\1');
  for (std::int64_t r = 0; r < N; ++r) raw[static_cast<std::size_t>(r * N + (r * 7) % N)] = 0;
  ProblemFiles files = put(
      {{"q", ramp({N, 2})}, {"k", ramp({N, 2})}, {"v", ramp({N, 2})}, {"mask", npy_of("|b1", "(4096, 4096)", raw)}});
  const std::int64_t before = process_memory().current();
  process_memory().reset_peak();
  const auto problem = load_problem(files).problem;
  const std::int64_t tensors = 3 * N * 2 * 4, bits = N * N / 8;
  EXPECT_LE(process_memory().peak() - before, tensors + bits);
  for (std::int64_t r = 0; r < N; ++r) {
    ASSERT_FALSE(problem->mask.keep->keep(0, r, (r * 7) % N));
    ASSERT_TRUE(problem->mask.keep->keep(0, r, (r * 7 + 1) % N));
  }
}

TEST_F(ProblemFile, ProgressGoesToTheEndAndCancelStops) {
  const ProblemFiles files = put({{"q", ramp({50000, 4})},
                                  {"k", ramp({50000, 4})},
                                  {"v", ramp({50000, 4})},
                                  {"mask", bits({50000}, std::vector<std::uint8_t>(50000, 1))}});
  std::int64_t last = 0, all = 0;
  load_problem(files, {}, [&](std::int64_t done, std::int64_t total) {
    EXPECT_GE(done, last);
    last = done;
    all = total;
  });
  EXPECT_EQ(all, 3 * 800000 + 50000);
  EXPECT_EQ(last, all);
  std::stop_source source;
  source.request_stop();
  EXPECT_THROW(load_problem(files, source.get_token()), Cancelled);
}

// q, k, v of a trained model: its o is the right answer, so row 0 of a causal head is the first row of V.
TEST_F(ProblemFile, TrainedModel) {
  ProblemFiles files;
  files.input = data("codelm_layer3.npz");
  files.head = 2;
  files.causal = Causal::top_left;
  const LoadedProblem loaded = load_problem(files);
  EXPECT_EQ(loaded.problem->shape(), (Shape{1, 1, 1024, 1024, 64, 64, DType::float16}));
  EXPECT_EQ(loaded.problem->scale, 0.125);
  EXPECT_THAT(loaded.warnings, IsEmpty());
  ASSERT_TRUE(loaded.problem->given_O && loaded.problem->given_LSE);
  EXPECT_EQ(loaded.problem->given_LSE->type, DType::float64);
  double score = 0;
  for (int c = 0; c < 64; ++c) {
    EXPECT_EQ(loaded.problem->given_O->at(0, 0, c), loaded.problem->V().at(0, 0, c));
    score += loaded.problem->Q().at(0, 0, c) * loaded.problem->K().at(0, 0, c);
  }
  EXPECT_LE(std::abs(loaded.problem->given_LSE->at(0, 0, 0) - score / 8), 1e-12);
}

TEST_F(ProblemFile, Bfloat16FromNumPySaysSo) {
  const auto bfloat = [](std::int64_t rows) {
    return npy_of("<V2", shape_text(std::vector<std::int64_t>{rows, 2}),
                  Bytes(static_cast<std::size_t>(rows * 4), '\x3f'));
  };
  const auto loaded = load({{"q", bfloat(2)}, {"k", bfloat(3)}, {"v", bfloat(3)}});
  EXPECT_EQ(loaded.problem->Q().type, DType::bfloat16);
  EXPECT_THAT(loaded.found, Contains(HasSubstr("q (2, 2) bfloat16 (written as '<V2', taken as bfloat16)")));
}

}  // namespace
}  // namespace flashscope
