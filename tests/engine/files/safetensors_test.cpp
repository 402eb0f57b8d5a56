#include <gmock/gmock.h>

#include "tests/engine/files/fixtures.h"

namespace flashscope {
namespace {

using namespace fixtures;
using testing::HasSubstr;

// Not a header of 2,308,734,252,949,701,243 bytes.
TEST(Safetensors, ATextIsToldAsOne) {
  const Folder folder;
  const auto json = folder.put("mine.json", "{\"q\": [[1, 2], [3, 4]]}");
  EXPECT_EQ(fault_of_open(json), json.string() + ": found a JSON file, expected a .npy, .npz, .safetensors or .fscope");
  EXPECT_THAT(fault_of_open(folder.put("list.json", "\n  [1, 2, 3]\n")), HasSubstr("a JSON file"));
  EXPECT_THAT(fault_of_open(folder.put("q.csv", "1.0,2.0,3.0\n")), HasSubstr("a text file"));
}

TEST(Safetensors, Case19MalformedFiles) {
  const auto all = test_case("open-19-safetensors-malformed");
  const std::map<std::string, const char*> says = {
      {"bad_shape_larger_than_bytes", "16 bytes in data_offsets"},
      {"bad_range_past_end_of_file", "the 16 bytes of data"},
      {"bad_reversed_range", "begin <= end"},
      {"bad_overlapping_ranges", "overlap"},
      {"bad_hole_between_tensors", "a hole of 4 bytes before 'K'"},
      {"bad_trailing_bytes", "8 bytes after the last tensor"},
      {"bad_header_length_huge", "a header length of 1099511627776 bytes"},
      {"bad_header_longer_than_file", "a header length of 100 bytes"},
      {"bad_header_not_an_object", "a JSON object"},
      {"bad_duplicate_name", "duplicate name 'Q'"},
      {"bad_unknown_dtype", "'Q4_K'"},
      {"bad_shape_product_overflows_64_bits", "2^62"},
      {"bad_four_byte_file", "a file of 4 bytes"},
  };
  const Folder folder;
  int accepted = 0, rejected = 0;
  for (const auto& [name, text] : all["inputs"]["files_base64"].items()) {
    SCOPED_TRACE(name);
    const auto path = folder.put(name + ".safetensors", base64(text));
    if (name.starts_with("ok_")) {
      ++accepted;
      const TensorFile file = TensorFile::open(path);
      EXPECT_EQ(file.format(), "safetensors");
      for (const ArrayInfo& info : file.arrays()) file.read(info.name);
      if (!all["expected"]["values"].contains(name)) continue;
      for (const auto& [tensor, rows] : all["expected"]["values"][name].items()) {
        std::vector<double> expected;
        for (const auto& row : rows)
          for (const auto& value : row) expected.push_back(value);
        EXPECT_EQ(values(file.read(tensor)), expected) << tensor;
      }
      continue;
    }
    ++rejected;
    ASSERT_TRUE(says.contains(name));
    process_memory().reset_peak();
    const auto before = process_memory().peak();
    const double took = seconds_of([&] { EXPECT_THAT(fault_of_open(path), HasSubstr(says.at(name))); });
    EXPECT_LE(took, 0.1);
    EXPECT_EQ(process_memory().peak(), before);
  }
  EXPECT_EQ(accepted, 5);
  EXPECT_EQ(rejected, 13);
  EXPECT_EQ(TensorFile::open(folder / "ok_empty_tensor.safetensors").find("E")->elements(), 0);
  EXPECT_TRUE(TensorFile::open(folder / "ok_metadata_only.safetensors").arrays().empty());
  EXPECT_EQ(TensorFile::open(folder / "ok_metadata_only.safetensors").text("made_by"), "test");
  EXPECT_EQ(TensorFile::open(folder / "ok_bfloat16.safetensors").arrays()[0].type, ElementType::bfloat16);
}

TEST(Safetensors, EveryType) {
  struct Written {
    const char* dtype;
    ElementType type;
    Bytes bytes;  // of 1, 0, 2 (1, 0, 1 for BOOL)
  };
  const std::vector<Written> all = {
      {"F64", ElementType::float64, as_bytes<double>({1, 0, 2})},
      {"F32", ElementType::float32, as_bytes<float>({1, 0, 2})},
      {"F16", ElementType::float16, as_bytes<std::uint16_t>({0x3c00, 0, 0x4000})},
      {"BF16", ElementType::bfloat16, as_bytes<std::uint16_t>({0x3f80, 0, 0x4000})},
      {"BOOL", ElementType::boolean, Bytes("\1\0\1", 3)},
      {"I8", ElementType::int8, as_bytes<std::int8_t>({1, 0, 2})},
      {"I16", ElementType::int16, as_bytes<std::int16_t>({1, 0, 2})},
      {"I32", ElementType::int32, as_bytes<std::int32_t>({1, 0, 2})},
      {"I64", ElementType::int64, as_bytes<std::int64_t>({1, 0, 2})},
      {"U8", ElementType::uint8, as_bytes<std::uint8_t>({1, 0, 2})},
      {"U16", ElementType::uint16, as_bytes<std::uint16_t>({1, 0, 2})},
      {"U32", ElementType::uint32, as_bytes<std::uint32_t>({1, 0, 2})},
      {"U64", ElementType::uint64, as_bytes<std::uint64_t>({1, 0, 2})},
  };
  nlohmann::json header;
  Bytes data;
  for (const Written& one : all) {
    header[one.dtype] = {
        {"dtype", one.dtype}, {"shape", {3, 1}}, {"data_offsets", {data.size(), data.size() + one.bytes.size()}}};
    data += one.bytes;
  }
  const Folder folder;
  const TensorFile file = TensorFile::open(folder.put("a.safetensors", safetensors(header.dump(), data)));
  for (const Written& one : all) {
    EXPECT_EQ(file.find(one.dtype)->type, one.type);
    const double last = one.type == ElementType::boolean ? 1 : 2;
    EXPECT_EQ(values(file.read(one.dtype)), (std::vector<double>{1, 0, last})) << one.dtype;
  }
  EXPECT_EQ(values(file.read_range("I64", 1, 2)), (std::vector<double>{0, 2}));
  fault([&] { file.read_range("I64", 2, 2); });
}

TEST(Safetensors, UnknownTypesAreSkippedBesideOthers) {
  const Folder folder;
  const std::string header = R"({"W":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]},)"
                             R"("Q":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}})";
  const TensorFile file =
      TensorFile::open(folder.put("a.safetensors", safetensors(header, Bytes("abc") + little(5.0f))));
  EXPECT_EQ(values(file.read("Q")), std::vector<double>{5});  // not aligned in the file
  EXPECT_EQ(file.find("W"), nullptr);
  EXPECT_THAT(fault([&] { file.read("W"); }), HasSubstr("'F8_E4M3'"));
}

TEST(Safetensors, HostileHeadersAreRefusedWithReason) {
  const auto entry = [](const std::string& shape, const std::string& offsets, const std::string& more = "") {
    return R"({"Q":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + more + "}}";
  };
  std::string list = R"({"Q":{"shape":[0)", metadata = R"({"__metadata__":{"":"")", names = R"({"":1)";
  while (list.size() < (4 << 20) - 10) list += ",0";
  for (int n = 0; metadata.size() < (4 << 20) - 20; ++n) metadata += ",\"" + std::to_string(n) + "\":\"\"";
  for (int n = 0; names.size() < (4 << 20) - 20; ++n) names += ",\"" + std::to_string(n) + "\":1";
  const std::vector<std::pair<std::string, const char*>> all = {
      {"{", "not JSON"},
      {"{}}", "not JSON"},
      {"{\"\xff\":1}", "not JSON"},
      {"{\"Q\":1e999}", "a number beyond float64"},
      {std::string(100'000, '['), "a JSON object"},
      {"{\"Q\":" + std::string(1'000'000, '['), "nested"},
      {"{\"Q\":" + std::string(100, '{'), "not JSON"},
      {list + "]}}", "more than 64 numbers"},
      {metadata + "}}", "more than 60000 keys"},
      {names + "}", "more than 60000 keys"},
      {std::string(5 << 20, ' '), "a header length of 5242880 bytes"},
      {"", "a JSON object"},
      {entry("[-1]", "[0,0]"), "'-1' in 'shape'"},
      {entry("[1.0]", "[0,0]"), "'1.0' in 'shape'"},
      {entry("[1]", "[0,18446744073709551616]"), "data_offsets"},
      {entry("[1]", "[0,4611686018427387905]"), "data_offsets"},
      {entry("[1]", "[0]"), "an array of two integers"},
      {entry("1", "[0,4]"), "an array"},
      {entry("[4611686018427387904,4]", "[0,0]"), "2^62"},
      {entry("[0,4611686018427387904,4]", "[0,0]"), "2^62"},
      {entry("[1]", "[0,4]", R"(,"shape":[1])"), "duplicate name 'shape'"},
      {entry("[1]", "[0,4]", R"(,"extra":1)"), "key 'extra'"},
      {R"({"Q":{"dtype":"F32","shape":[1]}})", "without 'data_offsets'"},
      {R"({"Q":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", "number for 'dtype'"},
      {R"({"Q":1})", "an object"},
      {R"({"__metadata__":{"a":1}})", "a string"},
      {R"({"__metadata__":[]})", "an object of strings"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "duplicate name 'a'"},
  };
  const Folder folder;
  for (const auto& [header, says] : all) {
    const auto path = folder.put("hostile.safetensors", safetensors(header, ""));
    std::string message;
    const double took = seconds_of([&] { message = fault_of_open(path); });
    EXPECT_THAT(message, HasSubstr(says)) << header.substr(0, 80);
    EXPECT_LE(message.size(), 400u) << header.substr(0, 80);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LE(took, 0.1) << header.substr(0, 80);
#endif
  }
}

TEST(Safetensors, CutAnywhereIsRefused) {
  const Folder folder;
  const auto all = test_case("open-19-safetensors-malformed");
  const Bytes whole = base64(all["inputs"]["files_base64"]["ok_two_tensors_header_not_in_offset_order"]);
  for (std::size_t length = 0; length < whole.size(); ++length)
    fault_of_open(folder.put("cut.safetensors", whole.substr(0, length)));
}

}  // namespace
}  // namespace flashscope
