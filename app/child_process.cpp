#include "app/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "engine/error.h"
#include "kernels/host/compiler.h"
#include "kernels/host/errors.h"

namespace flashscope {
namespace {

using gpu::GpuError;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* kErrors = "errors.txt";

std::filesystem::path program_or_own(const std::filesystem::path& program) {
  if (!program.empty()) return program;
  const char* other = std::getenv("FLASHSCOPE_GPU_CHILD");
  return other && *other ? other : "/proc/self/exe";
}

[[noreturn]] void does_not_start(int error) {
  throw GpuError("the process of the GPU run does not start: " + std::generic_category().message(error));
}

std::string last_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) last = line;
  return last.empty() ? "" : ": " + shown(last);
}

}  // namespace

ChildFolder::ChildFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "flashscope-gpu-XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw InputError(name, std::generic_category().message(errno), "a place that can be written (see TMPDIR)");
  path_ = name;
}

ChildFolder::~ChildFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ChildProcess::ChildProcess(const std::filesystem::path& program, std::string command, const ChildFolder& folder) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) does_not_start(errno);
  output_ = ends[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, (folder / kErrors).c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);  // Ctrl+C in a terminal is the parent's, which then ends this one
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  std::string name = program_or_own(program).string(), where = folder.path().string();
  std::array<char*, 4> arguments{name.data(), command.data(), where.data(), nullptr};
  const int error = posix_spawn(&pid_, name.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(output_);
    does_not_start(error);
  }
}

ChildProcess::~ChildProcess() {
  close(output_);
  if (pid_ == 0) return;
  kill(-pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

std::optional<int> ChildProcess::wait(const std::stop_token& stop, const Patience& patience,
                                      const std::function<void(const std::string&)>& line) {
  Clock::time_point end = Clock::now() + patience.limit;
  std::size_t read_bytes = 0;
  for (bool open = true;;) {
    if (stop.stop_requested()) throw Cancelled();
    if (Clock::now() >= end) return {};
    pollfd waiting{output_, POLLIN, 0};
    if (!open) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    } else if (poll(&waiting, 1, 50) > 0) {
      std::array<char, 4096> part;
      const ssize_t got = read(output_, part.data(), part.size());
      if (got < 0 && errno == EINTR) continue;
      open = got > 0;
      if (open) text_.append(part.data(), static_cast<std::size_t>(got)), read_bytes += static_cast<std::size_t>(got);
      if (read_bytes > patience.most_output) return line(text_), 0;  // no child of ours: the line is told, and refused
      for (std::size_t at; (at = text_.find('\n')) != std::string::npos; text_.erase(0, at + 1)) {
        line(text_.substr(0, at));
        if (patience.with_each_line) end = Clock::now() + patience.limit;
      }
    }
    int status = 0;
    if (!open && waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = 0;
      if (!text_.empty()) line(text_);
      return status;
    }
  }
}

std::string how_it_ended(int status, const ChildFolder& folder) {
  if (WIFSIGNALED(status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with code {} and no result{}", WEXITSTATUS(status), last_line(folder / kErrors));
}

std::string shown(std::string text) {
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text;
}

Json error_json(const std::exception& error) {
  const auto of_kind = [&](const char* kind) -> Json { return {{"kind", kind}, {"what", error.what()}}; };
  if (const auto* input = dynamic_cast<const InputError*>(&error))
    return {{"kind", "input"}, {"where", input->where()}, {"found", input->found()}, {"expected", input->expected()}};
  if (dynamic_cast<const gpu::Missing*>(&error)) return of_kind("missing");
  if (dynamic_cast<const gpu::CompileError*>(&error)) return of_kind("compile");
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return {{"kind", "gpu"}, {"what", "not enough memory for the tensors of the run"}};
  return of_kind("gpu");
}

[[noreturn]] void rethrow(const Json& error) {
  const auto text = [&](const char* key) {
    const auto found = error.find(key);
    return found != error.end() && found->is_string() ? found->get<std::string>() : "unknown";
  };
  const std::string kind = text("kind"), what = text("what");
  if (kind == "input") throw InputError(text("where"), text("found"), text("expected"));
  if (kind == "missing") throw gpu::Missing(what);
  if (kind == "compile") throw gpu::CompileError(what);
  throw GpuError(what);
}

void say(const Json& line) {
  fmt::print("{}\n", line.dump(-1, ' ', true, Json::error_handler_t::replace));
  std::fflush(stdout);
}

void end_with_parent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

}  // namespace flashscope
