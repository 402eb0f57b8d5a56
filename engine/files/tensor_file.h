// Reading and writing arrays: .npy (versions 1-3), .npz (stored, deflated), .safetensors.
//
// open() reads headers only. Structural faults (header, declared size, type, overflowing shape,
// inflation ratio) are refused there, in well under 0.1 s and without allocating what a header claims.
// Content faults (CRC, truncated stream) are found in read(). Every fault is an InputError whose `where`
// is "FILE: ARRAY" or "FILE: byte N".
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/attention/tensor.h"

namespace flashscope {

enum class ElementType {
  float64,
  float32,
  float16,
  bfloat16,
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64
};
std::string_view name(ElementType type);
int size_of(ElementType type);
bool is_float(ElementType type);

struct ArrayInfo {
  std::string name;  // "" for a .npy
  ElementType type = ElementType::float32;
  std::vector<std::int64_t> shape;  // row-major meaning, as NumPy shows it
  bool fortran = false, big_endian = false;
  std::string spelled;  // the type as the file writes it: "<f4", "<V2", "BF16"
  std::int64_t elements() const;
};
// An array whose element type is not read here ("<f1", "|O", "F8_E4M3"): the rest of the file still is.
struct SkippedArray {
  std::string name, found;  // found: "type '<f1' (an 8-bit float)"
};
std::string shape_text(std::span<const std::int64_t> shape);  // "(4, 1024, 64)"

// An array in memory, C order, native endianness. 16-bit floats widened to float, exactly.
struct Array {
  ArrayInfo info;
  Buffer<float> f32;          // float32, float16, bfloat16
  Buffer<double> f64;         // float64
  Buffer<std::int64_t> ints;  // boolean and integers (uint64 beyond 2^63 is refused)
  double at(std::int64_t n) const {
    return !f32.empty() ? f32[n] : !f64.empty() ? f64[n] : static_cast<double>(ints[n]);
  }
};

using ReadProgress = std::function<void(std::int64_t bytes_done, std::int64_t bytes_total)>;

class TensorFile {
 public:
  static TensorFile open(const std::filesystem::path& path);  // by content, not by name; throws InputError
  ~TensorFile();
  TensorFile(TensorFile&&) noexcept;

  const std::filesystem::path& path() const;
  std::string_view format() const;  // "npy", "npz", "safetensors"
  const std::vector<ArrayInfo>& arrays() const;
  const ArrayInfo* find(std::string_view name) const;
  const std::vector<SkippedArray>& skipped() const;  // of an .npz or .safetensors; a .npy is refused instead
  // A short text that came with the arrays: a safetensors metadata entry, an .npz string (<U, |S) or 1-D uint8.
  std::optional<std::string> text(std::string_view name) const;
  Array read(std::string_view name, const std::stop_token& stop = {}, const ReadProgress& progress = {}) const;
  // Only `count` elements from `first` in C order; the result is one-dimensional.
  Array read_range(std::string_view name, std::int64_t first, std::int64_t count, const std::stop_token& stop = {},
                   const ReadProgress& progress = {}) const;
  // Calls `sink` with consecutive runs of values in C order, without holding the whole array: for keep
  // masks that are packed to bits while reading. Of a boolean or integer array; a value is 0, 1, or kOther for
  // an integer that is neither (a column-major array, held as bits, shows only the first of those).
  static constexpr std::uint8_t kOther = 2;
  using Sink = std::function<void(std::int64_t first, std::span<const std::uint8_t> values)>;
  void stream(std::string_view name, const Sink& sink, const std::stop_token& stop = {},
              const ReadProgress& progress = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit TensorFile(std::unique_ptr<Impl> impl);
};

// Writing, for `run --out` and for tests. Values are given in C order.
struct OutArray {
  std::string name;
  ElementType type = ElementType::float32;  // float32 or float64
  std::vector<std::int64_t> shape;
  std::span<const double> values;
};
void write_npy(const std::filesystem::path& path, const OutArray& array);
void write_npz(const std::filesystem::path& path, std::span<const OutArray> arrays);

}  // namespace flashscope
