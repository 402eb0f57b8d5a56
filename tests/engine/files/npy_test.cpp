#include <gmock/gmock.h>

#include <limits>

#include "tests/engine/files/fixtures.h"

namespace flashscope {
namespace {

using namespace fixtures;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Npy, Case18Variants) {
  const auto all = test_case("open-18-npy-variants");
  const auto& inputs = all["inputs"]["files_base64"];
  const Folder folder;
  const auto put = [&](const char* name) { return folder.put(std::string(name) + ".npy", base64(inputs[name])); };
  const auto flat = [](const nlohmann::json& rows) {
    std::vector<double> out;
    for (const auto& row : rows)
      for (const auto& value : row) out.push_back(value);
    return out;
  };
  const auto square = flat(all["expected"]["fortran_square_f4"]);
  EXPECT_EQ(values(put("fortran_square_f4")), square);
  EXPECT_EQ(values(put("float16_square")), square);
  EXPECT_EQ(values(put("bool_mask")), flat(all["expected"]["bool_mask"]));
  EXPECT_EQ(values(put("uint8_mask")), flat(all["expected"]["bool_mask"]));
  EXPECT_FALSE(is_float(TensorFile::open(folder / "uint8_mask.npy").arrays()[0].type));

  const Array cube = TensorFile::open(put("fortran_cube_f8")).read("");
  EXPECT_EQ(cube.info.shape, (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(cube.at((1 * 3 + 2) * 4 + 3), 23.0);
  EXPECT_EQ(cube.at((0 * 3 + 1) * 4 + 2), 6.0);
  EXPECT_EQ(cube.at((1 * 3 + 0) * 4 + 0), 12.0);

  const TensorFile bfloat = TensorFile::open(put("bfloat16_as_void2"));
  EXPECT_EQ(bfloat.arrays()[0].type, ElementType::bfloat16);
  EXPECT_EQ(bfloat.arrays()[0].spelled, "<V2");
  EXPECT_EQ(values(bfloat.read("")), flat(all["expected"]["bfloat16_as_void2"]["values_as_bfloat16"]));

  EXPECT_THAT(fault_of_open(put("float8_descr_f1")), HasSubstr("'<f1'"));
}

// Every type in both byte orders and both element orders: value (r, c) = 3 r + c + 1 of a (2, 3) array.
struct Written {
  const char* kind;
  ElementType type;
  std::function<Bytes(double)> bytes;
};
void PrintTo(const Written& written, std::ostream* out) { *out << written.kind; }
class NpyTypes : public testing::TestWithParam<Written> {};

TEST_P(NpyTypes, BothByteOrdersBothElementOrders) {
  const Written& written = GetParam();
  const Folder folder;
  for (const bool big : {false, true})
    for (const bool fortran : {false, true}) {
      Bytes raw;
      for (int n = 0; n < 6; ++n) {
        Bytes one = written.bytes(fortran ? 3 * (n % 2) + n / 2 + 1 : n + 1);
        if (big) one.assign(one.rbegin(), one.rend());
        raw += one;
      }
      const bool single = written.bytes(1).size() == 1;
      const std::string descr = (single ? "|" : big ? ">" : "<") + std::string(written.kind);
      const auto path = folder.put("a.npy", npy_of(descr, "(2, 3)", raw, fortran));
      const TensorFile file = TensorFile::open(path);
      EXPECT_EQ(file.arrays()[0].type, written.type);
      const bool boolean = written.type == ElementType::boolean;
      EXPECT_EQ(values(file.read("")), boolean ? std::vector<double>(6, 1) : std::vector<double>({1, 2, 3, 4, 5, 6}))
          << descr << (fortran ? " column-major" : "");
      EXPECT_EQ(values(file.read_range("", 2, 3)),
                boolean ? std::vector<double>(3, 1) : std::vector<double>({3, 4, 5}));
    }
}

template <class T>
Bytes plain(double value) {
  return little(static_cast<T>(value));
}
INSTANTIATE_TEST_SUITE_P(
    All, NpyTypes,
    testing::Values(
        Written{"f8", ElementType::float64, plain<double>}, Written{"f4", ElementType::float32, plain<float>},
        Written{"f2", ElementType::float16, [](double v) { return little(float_to_half(v)); }},
        Written{"V2", ElementType::bfloat16, [](double v) { return little(float_to_bfloat16(v)); }},
        Written{"b1", ElementType::boolean, plain<std::uint8_t>}, Written{"i1", ElementType::int8, plain<std::int8_t>},
        Written{"i2", ElementType::int16, plain<std::int16_t>}, Written{"i4", ElementType::int32, plain<std::int32_t>},
        Written{"i8", ElementType::int64, plain<std::int64_t>}, Written{"u1", ElementType::uint8, plain<std::uint8_t>},
        Written{"u2", ElementType::uint16, plain<std::uint16_t>},
        Written{"u4", ElementType::uint32, plain<std::uint32_t>},
        Written{"u8", ElementType::uint64, plain<std::uint64_t>}),
    [](const auto& test) { return std::string(name(test.param.type)); });

TEST(Npy, ExtremeValuesSurvive) {
  const Folder folder;
  const float inf = std::numeric_limits<float>::infinity();
  const auto back = values(folder.put("f.npy", floats_npy("(5,)", {inf, -inf, 1e-45f, -0.0f, 3.4028235e38f})));
  EXPECT_THAT(back, ElementsAre(inf, -inf, 1e-45f, 0.0, 3.4028235e38f));
  EXPECT_TRUE(std::signbit(back[3]));
  EXPECT_TRUE(std::isnan(values(folder.put("n.npy", floats_npy("(1,)", {std::nanf("")})))[0]));
  EXPECT_EQ(values(folder.put("i.npy", npy_of("<i2", "(2,)", as_bytes<std::int16_t>({-32768, 32767})))),
            (std::vector<double>{-32768, 32767}));
  const auto huge = folder.put("u.npy", npy_of("<u8", "(1,)", little(~std::uint64_t{0})));
  EXPECT_THAT(fault([&] { TensorFile::open(huge).read(""); }), HasSubstr("18446744073709551615"));
  // Every float16 is widened exactly.
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t n = 0; n < halves.size(); ++n) halves[n] = static_cast<std::uint16_t>(n);
  const Array wide = TensorFile::open(folder.put("h.npy", npy_of("<f2", "(65536,)", as_bytes(halves)))).read("");
  for (std::size_t n = 0; n < halves.size(); ++n) {
    const bool nan = (n & 0x7c00) == 0x7c00 && (n & 0x3ff) != 0;
    ASSERT_EQ(std::isnan(wide.f32[n]), nan);
    ASSERT_TRUE(nan || float_to_half(wide.f32[n]) == halves[n]) << n;
  }
}

TEST(Npy, ShapesOfAnyRank) {
  const Folder folder;
  EXPECT_EQ(values(folder.put("s.npy", floats_npy("()", {2.5f}))), std::vector<double>{2.5});
  EXPECT_EQ(TensorFile::open(folder / "s.npy").arrays()[0].shape.size(), 0u);
  EXPECT_TRUE(values(folder.put("e.npy", floats_npy("(3, 0)", {}))).empty());
  EXPECT_TRUE(TensorFile::open(folder.put("ef.npy", npy_of("<f4", "(0, 3)", "", true))).read("").f32.empty());
  EXPECT_EQ(values(folder.put("l.npy", floats_npy("(2L, 1L)", {1, 2}))), (std::vector<double>{1, 2}));  // Python 2
  EXPECT_EQ(shape_text(std::vector<std::int64_t>{5}), "(5,)");
  EXPECT_EQ(shape_text({}), "()");
}

// Written by NumPy itself; see tests/data/numpy/make_files.py. Element n of the C order is n / 4.
TEST(Npy, WrittenByNumPy) {
  for (const char* name : {"v1", "v2", "v3", "fortran", "big_endian"}) {
    const TensorFile file = TensorFile::open(data(std::string("numpy/") + name + ".npy"));
    EXPECT_EQ(file.format(), "npy");
    const Array array = file.read("");
    EXPECT_EQ(array.info.shape, (std::vector<std::int64_t>{2, 3, 5})) << name;
    for (std::int64_t n = 0; n < 30; ++n) EXPECT_EQ(array.at(n), n / 4.0) << name;
  }
  EXPECT_TRUE(TensorFile::open(data("numpy/fortran.npy")).arrays()[0].fortran);
  EXPECT_TRUE(TensorFile::open(data("numpy/big_endian.npy")).arrays()[0].big_endian);
}

TEST(Npy, LargeColumnMajorArraysCrossChunks) {
  const std::int64_t rows = 300, cols = 500;  // more elements than one chunk of the reader
  std::vector<std::int32_t> raw;
  std::vector<std::uint8_t> mask;
  for (std::int64_t c = 0; c < cols; ++c)
    for (std::int64_t r = 0; r < rows; ++r) {
      raw.push_back(static_cast<std::int32_t>(r * cols + c));
      mask.push_back((r * cols + c) % 7 == 0);
    }
  const Folder folder;
  const Array array = TensorFile::open(folder.put("a.npy", npy_of("<i4", "(300, 500)", as_bytes(raw), true))).read("");
  for (std::int64_t n = 0; n < rows * cols; ++n) ASSERT_EQ(array.ints[n], n);
  std::int64_t next = 0;
  TensorFile::open(folder.put("m.npy", npy_of("|b1", "(300, 500)", as_bytes(mask), true)))
      .stream("", [&](std::int64_t first, std::span<const std::uint8_t> run) {
        ASSERT_EQ(first, next);
        for (const std::uint8_t value : run) ASSERT_EQ(value, next++ % 7 == 0);
      });
  EXPECT_EQ(next, rows * cols);
}

TEST(Npy, StreamTellsOtherIntegersApart) {
  const Folder folder;
  const auto streamed = [&](const std::string& descr, const Bytes& raw, bool fortran = false) {
    std::vector<int> out;
    TensorFile::open(folder.put("s.npy", npy_of(descr, "(2, 2)", raw, fortran)))
        .stream("", [&](std::int64_t, std::span<const std::uint8_t> run) {
          out.insert(out.end(), run.begin(), run.end());
        });
    return out;
  };
  EXPECT_THAT(streamed("|b1", Bytes("\0\1\2\xff", 4)), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(streamed("|u1", Bytes("\0\1\2\xff", 4)), ElementsAre(0, 1, 2, 2));
  EXPECT_THAT(streamed("<i8", as_bytes<std::int64_t>({0, 1, -1, 256})), ElementsAre(0, 1, 2, 2));
  EXPECT_THAT(streamed(">i2", Bytes("\0\0\0\1\1\0\1\1", 8)), ElementsAre(0, 1, 2, 2));
  EXPECT_THAT(streamed("<i4", as_bytes<std::int32_t>({0, 1, 1, -5}), true), ElementsAre(0, 1, 1, 2));
  const auto file = folder.put("f.npy", floats_npy("(1,)", {1}));
  EXPECT_THAT(fault([&] { TensorFile::open(file).stream("", [](auto, auto) {}); }), HasSubstr("float32"));
}

struct Hostile {
  const char* what;
  Bytes bytes;
  const char* says;
};
TEST(Npy, HostileHeadersAreRefusedWithReason) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  const auto header = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return npy(text.replace(text.find(from), from.size(), to), Bytes(8, '\0'));
  };
  std::string ones;
  for (int n = 0; n < 100; ++n) ones += "1,";
  const std::vector<Hostile> all = {
      {"empty file", "", "0 bytes"},
      {"magic only", Bytes("\x93NUMPY"), "6 bytes"},
      {"version 4", npy(good, Bytes(8, '\0'), 4), "version 4.0"},
      {"header longer than the file", Bytes("\x93NUMPY\x01\x00\xff\x20{", 11), "header"},
      {"4 GB header", Bytes("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14), "4294967295 bytes"},
      {"product wraps to 0", header("(2,)", "(4294967296, 4294967296)"), "2^62"},
      {"product wraps to the right size", header("(2,)", "(9223372036854775807, 2, 2)"), "2^62"},
      {"dimension wraps", header("(2,)", "(18446744073709551618,)"), "2^63"},
      {"huge beside a zero", header("(2,)", "(0, 9223372036854775807, 9223372036854775807)"), "2^62"},
      {"claims 1 TB", header("(2,)", "(274877906944,)"), "8 bytes of data"},
      {"one too many", header("(2,)", "(3,)"), "8 bytes of data"},
      {"trailing bytes", header("(2,)", "(1,)"), "8 bytes of data"},
      {"negative", header("(2,)", "(-2,)"), "dimension"},
      {"float dimension", header("(2,)", "(2.0,)"), "')'"},
      {"shape not a tuple", header("(2,)", "[2]"), "'('"},
      {"100 dimensions", header("(2,)", "(" + ones + ")"), "at most 64 dimensions"},
      {"float8", header("<f4", "<f1"), "'<f1'"},
      {"void 1", header("<f4", "|V1"), "'|V1'"},
      {"long double", header("<f4", "<f16"), "'<f16'"},
      {"complex", header("<f4", "<c8"), "complex"},
      {"pickled objects", header("<f4", "|O"), "never loaded"},
      {"structured", header("'<f4'", "[('a', '<f4'), ('b', '<f4')]"), "structured"},
      {"no type", header("<f4", ""), "''"},
      {"control bytes in the type", header("<f4", "\x01\x1b"), "\\x01\\x1b"},
      {"missing key", header("'fortran_order': False, ", ""), "'fortran_order'"},
      {"unknown key", header("'fortran_order'", "'order'"), "'order'"},
      {"key twice", header("'fortran_order': False", "'descr': '<f4'"), "once"},
      {"fortran_order a number", header("False", "0"), "True or False"},
      {"open string", npy("{'descr", ""), "a string that ends"},
      {"rubbish after the dict", header(", }", ", } x"), "the end of the header"},
      {"not a dict", npy("3", ""), "'{'"},
  };
  const Folder folder;
  for (const Hostile& hostile : all) {
    const auto path = folder.put("hostile.npy", hostile.bytes);
    process_memory().reset_peak();
    const auto before = process_memory().peak();
    std::string message;
    const double took = seconds_of([&] { message = fault_of_open(path); });
    EXPECT_THAT(message, HasSubstr(hostile.says)) << hostile.what;
    EXPECT_THAT(message, HasSubstr(path.string())) << hostile.what;
    EXPECT_LE(took, 0.1) << hostile.what;
    EXPECT_EQ(process_memory().peak(), before) << hostile.what;
  }
}

TEST(Npy, CutAnywhereIsRefused) {
  const Folder folder;
  const Bytes whole = content(data("numpy/v1.npy"));
  for (std::size_t length = 0; length < whole.size(); ++length)
    fault_of_open(folder.put("cut.npy", whole.substr(0, length)));
}

TEST(Npy, CutWhileItIsOpenIsFoundWhileReading) {
  const Folder folder;
  const auto path = folder.put("a.npy", floats_npy("(4,)", {1, 2, 3, 4}));
  const TensorFile file = TensorFile::open(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  EXPECT_THAT(fault([&] { file.read(""); }), HasSubstr("the end of the file"));
  std::filesystem::remove(path);
  fault([&] { file.read(""); });
}

TEST(Npy, WhatIsNoFileAtAll) {
  const Folder folder;
  EXPECT_THAT(fault_of_open(folder / "absent.npy"),
              HasSubstr("found no such file, expected a .npy, .npz, .safetensors or .fscope"));
  EXPECT_THAT(fault_of_open(folder.put("notes.txt", "not a tensor at all")), HasSubstr(".safetensors or .fscope"));
  EXPECT_THAT(fault_of_open(folder / ""), HasSubstr("directory"));
  EXPECT_THAT(fault_of_open("/dev/zero"), HasSubstr("device"));
  const auto path = folder.put("a.npy", floats_npy("(1,)", {1}));
  EXPECT_THAT(fault([&] { TensorFile::open(path).read("b"); }), HasSubstr("no array of that name"));
}

TEST(Npy, ProgressAndCancel) {
  const Folder folder;
  const std::int64_t count = 300'000;
  const auto path = folder.put("a.npy", npy_of("<f4", "(300000,)", Bytes(4 * count, '\0')));
  const TensorFile file = TensorFile::open(path);
  std::int64_t last = 0, calls = 0;
  file.read("", {}, [&](std::int64_t done, std::int64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, 4 * count);
    last = done;
    ++calls;
  });
  EXPECT_EQ(last, 4 * count);
  EXPECT_GE(calls, 4);
  std::stop_source source;
  EXPECT_THROW(file.read("", source.get_token(), [&](std::int64_t, std::int64_t) { source.request_stop(); }),
               Cancelled);
}

TEST(Npy, WrittenAndReadBack) {
  const Folder folder;
  const std::vector<double> numbers = {1, -0.1, 1e300, std::numeric_limits<double>::infinity(), 0, 5};
  write_npy(folder / "d.npy", {"", ElementType::float64, {2, 3}, numbers});
  EXPECT_EQ(values(folder / "d.npy"), numbers);
  EXPECT_EQ(std::filesystem::file_size(folder / "d.npy"), 128u + 48u);  // data on a multiple of 64, as NumPy's
  write_npy(folder / "f.npy", {"", ElementType::float32, {6}, numbers});
  EXPECT_EQ(values(folder / "f.npy")[1], -0.1f);
  fault([&] { write_npy(folder / "x.npy", {"", ElementType::float16, {6}, numbers}); });
  fault([&] { write_npy(folder / "x.npy", {"", ElementType::float64, {5}, numbers}); });
  fault([&] { write_npy(folder / "no/such/place.npy", {"", ElementType::float64, {6}, numbers}); });
  EXPECT_FALSE(std::filesystem::exists(folder / "x.npy"));
}

}  // namespace
}  // namespace flashscope
