#include "engine/files/zip_writer.h"

#include <minizip/zip.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "engine/error.h"

namespace flashscope::files {

void cannot_write(const std::filesystem::path& path, int error) {
  throw InputError(path.string(), error ? std::generic_category().message(error) : "a write that failed",
                   "a place that can be written");
}

PartFile::~PartFile() {
  std::error_code ignored;
  if (!done_) std::filesystem::remove(part_, ignored);
}

void PartFile::rename() {
  std::error_code error;
  std::filesystem::rename(part_, path_, error);
  if (error) cannot_write(path_, error.value());
  done_ = true;
}

ZipWriter::ZipWriter(const std::filesystem::path& path) : path_(path), part_(path) {
  zip_ = zipOpen64(part_.name().c_str(), APPEND_STATUS_CREATE);
  if (!zip_) cannot_write(path_, errno);
}

ZipWriter::~ZipWriter() {
  if (zip_) zipClose(zip_, nullptr);
}

void ZipWriter::check(bool good) const {
  if (!good) cannot_write(path_, errno);
}

void ZipWriter::begin(const std::string& member, std::int64_t bytes, bool deflate) {
  zip_fileinfo info{};
  info.dosDate = 1 << 5 | 1;  // 1980-01-01
  const bool large = bytes >= 0xffff0000;
  check(zipOpenNewFileInZip64(zip_, member.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, deflate ? Z_DEFLATED : 0,
                              deflate ? Z_BEST_SPEED : 0, large) == ZIP_OK);
}

void ZipWriter::write(const void* data, std::size_t bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // minizip counts in unsigned int
  for (const auto* at = static_cast<const char*>(data); bytes > 0;) {
    const std::size_t count = std::min(bytes, kMost);
    check(zipWriteInFileInZip(zip_, at, static_cast<unsigned>(count)) == ZIP_OK);
    at += count, bytes -= count;
  }
}

void ZipWriter::end() { check(zipCloseFileInZip(zip_) == ZIP_OK); }

void ZipWriter::finish() {
  void* zip = zip_;
  zip_ = nullptr;
  check(zipClose(zip, nullptr) == ZIP_OK);
  part_.rename();
}

}  // namespace flashscope::files
