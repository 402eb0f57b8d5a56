#include "app/command_line/display.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace flashscope::command_line {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Connects to the X server's socket, in the abstract namespace or as a file.
bool answers(const std::string& path, bool abstract) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() + 1 >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path + (abstract ? 1 : 0), path.data(), path.size());
  const int handle = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return false;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  const bool connected = connect(handle, reinterpret_cast<const sockaddr*>(&address), length) == 0;
  close(handle);
  return connected;
}

}  // namespace

std::optional<std::string> why_no_display() {
  const std::string_view platform = variable("QT_QPA_PLATFORM"), x = variable("DISPLAY");
  if (!platform.empty() || !variable("WAYLAND_DISPLAY").empty()) return {};
  if (x.empty()) return "no display (DISPLAY and WAYLAND_DISPLAY are not set)";
  if (x.front() != ':') return {};  // another host's, as through ssh -X: Qt will tell
  const std::string path = fmt::format("/tmp/.X11-unix/X{}", x.substr(1, x.find('.') - 1));
  if (answers(path, true) || answers(path, false)) return {};
  return fmt::format("no display (nothing answers at DISPLAY={})", x);
}

}  // namespace flashscope::command_line
