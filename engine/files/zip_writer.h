// Writing a zip member by member, in constant memory. It is written beside its place and renamed when it is whole, so
// that a failure, or a writer that is dropped half-way, leaves what was there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace flashscope::files {

// The unfinished file; removed unless it was renamed to its place.
class PartFile {
 public:
  explicit PartFile(const std::filesystem::path& path) : path_(path), part_(path.string() + ".part") {}
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  const std::string& name() const { return part_; }
  void rename();  // throws InputError

 private:
  std::filesystem::path path_;
  std::string part_;
  bool done_ = false;
};

// Throws InputError: the place, and why it cannot be written.
[[noreturn]] void cannot_write(const std::filesystem::path& path, int error);

class ZipWriter {
 public:
  explicit ZipWriter(const std::filesystem::path& path);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  // `bytes`: how many will follow, at least roughly (zip64 is decided by it). Equal contents give equal files.
  void begin(const std::string& member, std::int64_t bytes, bool deflate = false);
  void write(const void* data, std::size_t bytes);
  void end();
  void finish();  // after the last member

 private:
  void check(bool good) const;
  std::filesystem::path path_;
  PartFile part_;
  void* zip_ = nullptr;
};

}  // namespace flashscope::files
