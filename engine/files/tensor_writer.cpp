// Writing .npy and .npz. A file is written beside its place and renamed when it is whole, so that a
// failure leaves what was there.
#include <fmt/format.h>
#include <minizip/zip.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "engine/files/formats.h"

namespace flashscope {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they lie in memory");

void check(const OutArray& array, const std::filesystem::path& path) {
  const std::string where = array.name.empty() ? path.string() : path.string() + ": " + array.name;
  if (array.type != ElementType::float32 && array.type != ElementType::float64)
    throw InputError(where, std::string(name(array.type)), "float32 or float64");
  const auto elements = files::checked_elements(array.shape);
  if (!elements || *elements != static_cast<std::int64_t>(array.values.size()))
    throw InputError(where, fmt::format("{} values", array.values.size()),
                     "as many as shape " + shape_text(array.shape) + " has");
}

// Hands the header and the values to `write(data, bytes)` in pieces.
template <class Write>
void write_array(const OutArray& array, const Write& write) {
  const std::string header = files::npy_header(array.type, array.shape);
  write(header.data(), header.size());
  if (array.type == ElementType::float64) return write(array.values.data(), array.values.size_bytes());
  std::array<float, 4096> part;
  for (std::size_t done = 0; done < array.values.size();) {
    const std::size_t count = std::min(part.size(), array.values.size() - done);
    for (std::size_t n = 0; n < count; ++n) part[n] = static_cast<float>(array.values[done + n]);
    write(part.data(), count * sizeof(float));
    done += count;
  }
}

[[noreturn]] void cannot_write(const std::filesystem::path& path, int error) {
  throw InputError(path.string(), error ? std::generic_category().message(error) : "a write that failed",
                   "a place that can be written");
}

// Removes the unfinished file unless it was renamed to its place.
class PartFile {
 public:
  explicit PartFile(const std::filesystem::path& path) : path_(path), part_(path.string() + ".part") {}
  ~PartFile() {
    std::error_code ignored;
    if (!done_) std::filesystem::remove(part_, ignored);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  const std::string& name() const { return part_; }
  void rename() {
    std::error_code error;
    std::filesystem::rename(part_, path_, error);
    if (error) cannot_write(path_, error.value());
    done_ = true;
  }

 private:
  std::filesystem::path path_;
  std::string part_;
  bool done_ = false;
};

}  // namespace

void write_npy(const std::filesystem::path& path, const OutArray& array) {
  check(array, path);
  PartFile part(path);
  std::FILE* file = std::fopen(part.name().c_str(), "wb");
  if (!file) cannot_write(path, errno);
  bool good = true;
  write_array(array, [&](const void* data, std::size_t bytes) { good &= std::fwrite(data, 1, bytes, file) == bytes; });
  good &= std::fclose(file) == 0;
  if (!good) cannot_write(path, errno);
  part.rename();
}

void write_npz(const std::filesystem::path& path, std::span<const OutArray> arrays) {
  for (const OutArray& array : arrays) check(array, path);
  PartFile part(path);
  zipFile zip = zipOpen64(part.name().c_str(), APPEND_STATUS_CREATE);
  if (!zip) cannot_write(path, errno);
  bool good = true;
  for (const OutArray& array : arrays) {
    zip_fileinfo info{};
    info.dosDate = 1 << 5 | 1;  // 1980-01-01, so that equal results are equal files
    const std::string member = array.name + ".npy";
    const bool large = array.values.size_bytes() >= 0xffff0000;
    good &= zipOpenNewFileInZip64(zip, member.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, 0, 0, large) == ZIP_OK;
    write_array(array, [&](const void* data, std::size_t bytes) {
      constexpr std::size_t kMost = std::size_t{1} << 30;  // minizip counts in unsigned int
      for (const auto* at = static_cast<const char*>(data); good && bytes > 0;) {
        const std::size_t count = std::min(bytes, kMost);
        good = zipWriteInFileInZip(zip, at, static_cast<unsigned>(count)) == ZIP_OK;
        at += count, bytes -= count;
      }
    });
    good &= zipCloseFileInZip(zip) == ZIP_OK;
  }
  good &= zipClose(zip, nullptr) == ZIP_OK;
  if (!good) cannot_write(path, errno);
  part.rename();
}

}  // namespace flashscope
