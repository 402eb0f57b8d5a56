#include "engine/files/cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>

namespace flashscope {

std::filesystem::path cache_folder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg == '/')
    return std::filesystem::path(xdg) / "flashscope";
  if (const char* home = std::getenv("HOME"); home && *home == '/')
    return std::filesystem::path(home) / ".cache" / "flashscope";
  return {};
}

// FNV-1a, 64 bits, from two starts.
std::string cache_name(std::span<const std::string> parts) {
  std::uint64_t a = 0xcbf29ce484222325u, b = 0x84222325cbf29ce4u;
  const auto add = [&](unsigned char byte) {
    a = (a ^ byte) * 0x100000001b3u;
    b = (b ^ byte) * 0x100000001b3u;
    b ^= b >> 29;
  };
  for (const std::string& part : parts) {
    for (const char c : part) add(static_cast<unsigned char>(c));
    add(0);
  }
  return fmt::format("{:016x}{:016x}", a, b);
}

std::optional<std::string> read_cached(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

void write_cached(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  static std::atomic<int> number{0};
  std::filesystem::path part = path;
  part += fmt::format(".{}.{}", getpid(), number++);
  std::ofstream file(part, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) std::filesystem::rename(part, path, error);
  if (!file || error) std::filesystem::remove(part, error);
}

}  // namespace flashscope
