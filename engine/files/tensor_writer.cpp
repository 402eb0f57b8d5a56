// Writing .npy and .npz.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>

#include "engine/files/formats.h"
#include "engine/files/zip_writer.h"

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

}  // namespace

void write_npy(const std::filesystem::path& path, const OutArray& array) {
  check(array, path);
  files::PartFile part(path);
  std::FILE* file = std::fopen(part.name().c_str(), "wb");
  if (!file) files::cannot_write(path, errno);
  bool good = true;
  write_array(array, [&](const void* data, std::size_t bytes) { good &= std::fwrite(data, 1, bytes, file) == bytes; });
  good &= std::fclose(file) == 0;
  if (!good) files::cannot_write(path, errno);
  part.rename();
}

void write_npz(const std::filesystem::path& path, std::span<const OutArray> arrays) {
  for (const OutArray& array : arrays) check(array, path);
  files::ZipWriter zip(path);
  for (const OutArray& array : arrays) {
    zip.begin(array.name + ".npy", static_cast<std::int64_t>(array.values.size_bytes()));
    write_array(array, [&](const void* data, std::size_t bytes) { zip.write(data, bytes); });
    zip.end();
  }
  zip.finish();
}

}  // namespace flashscope
