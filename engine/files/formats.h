// Shared by the readers of the three formats. Each turns headers into a Directory (where the bytes of
// every array lie, checked against the real size of the file), and all arrays are then read through
// one interface, Bytes, whether they lie in the file itself or deflated in a zip member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/error.h"
#include "engine/files/tensor_file.h"

namespace flashscope::files {

// Where the bytes of a zip member lie in the file.
struct ZipPlace {
  std::int64_t at = 0, compressed = 0, inflated = 0;
  std::uint32_t crc = 0;  // of the inflated bytes
  bool deflated = false;  // else stored
};
struct ZipMember {
  std::string name;
  ZipPlace place;
};

struct Entry {
  ArrayInfo info;
  std::int64_t offset = 0;  // of the first data byte: in the file, or in the inflated zip member
  ZipPlace zip;             // of an .npz
};

struct Directory {
  std::string_view format;
  std::vector<Entry> entries;
  std::vector<SkippedArray> skipped;
  std::map<std::string, std::string, std::less<>> texts;
};

// A run of bytes that is read once, in order.
class Bytes {
 public:
  virtual ~Bytes() = default;
  virtual void read(std::span<std::byte> into) = 0;  // all of it, or InputError
  virtual void skip(std::int64_t count) = 0;
  virtual void finish() = 0;  // after the last byte: checks what only the end can tell (CRC)
};

std::unique_ptr<Bytes> file_bytes(const std::filesystem::path& path, std::int64_t offset);
// The inflated bytes of a member. `where` is for messages.
std::unique_ptr<Bytes> zip_bytes(const std::filesystem::path& path, const ZipPlace& place, std::string where);
// The members whose names are `wanted`, which is asked of each.
std::vector<ZipMember> zip_members(const std::filesystem::path& path, std::int64_t file_size,
                                   const std::function<bool(const std::string&)>& wanted);

Directory npy_directory(const std::filesystem::path& path, std::int64_t file_size);
Directory npz_directory(const std::filesystem::path& path, std::int64_t file_size);
Directory safetensors_directory(const std::filesystem::path& path, std::int64_t file_size);

// The header of a .npy, whether it is a file or a member of an .npz of `total` bytes.
struct NpyHeader {
  ArrayInfo info;
  std::int64_t bytes = 0;                 // of the header; data follow
  std::optional<std::string> unreadable;  // "type '<f1' (an 8-bit float)": shape and order are right, type is not
};
NpyHeader read_npy_header(Bytes& bytes, std::int64_t total, const std::string& where);
// Throws unless the data are exactly the bytes that the header's shape and type claim.
void check_npy_size(const NpyHeader& header, std::int64_t total, const std::string& where);
std::string npy_header(ElementType type,  // a float, boolean or int64
                       std::span<const std::int64_t> shape);

// Elements of a shape, or nothing if the product (of the dimensions that are not 0) passes 2^62.
std::optional<std::int64_t> checked_elements(std::span<const std::int64_t> shape);
// For messages: in single quotes, cut to 60 bytes, control bytes as \xNN.
std::string shown(std::string_view text);
// What a message lists as readable; a session (.fscope) is an .npz.
constexpr std::string_view kKinds = "a .npy, .npz, .safetensors or .fscope";
constexpr std::string_view kNpyTypes = "f2, f4, f8, V2 (bfloat16), b1, i1 to i8 or u1 to u8";
constexpr std::string_view kSafetensorsTypes = "F64, F32, F16, BF16, BOOL, I8 to I64 or U8 to U64";

}  // namespace flashscope::files
