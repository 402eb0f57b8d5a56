// A process of this program itself that does what its caller must survive, and the folder through which the two speak:
// `flashscope COMMAND FOLDER`, JSON lines on its standard output. Whatever happens to it, the caller is told in words.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>

namespace flashscope {

// A folder that only this user can read, removed with all that is in it.
class ChildFolder {
 public:
  ChildFolder();  // throws InputError
  ~ChildFolder();
  ChildFolder(const ChildFolder&) = delete;
  ChildFolder& operator=(const ChildFolder&) = delete;
  std::filesystem::path operator/(const char* name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class ChildProcess {
 public:
  // Throws gpu::GpuError where it does not start. `program` empty: $FLASHSCOPE_GPU_CHILD, which tests set, else this
  // program.
  ChildProcess(const std::filesystem::path& program, std::string command, const ChildFolder& folder);
  ~ChildProcess();  // ends it
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  struct Patience {
    std::chrono::seconds limit;
    bool with_each_line = false;                     // the limit starts again with every line
    std::size_t most_output = std::size_t{1} << 16;  // bytes of a child that answers as it should
  };
  // Until it ends: each whole line of its output to `line`. Returns the status that waitpid gives; nothing where it
  // took too long, and is still there. Throws Cancelled, and what `line` throws.
  std::optional<int> wait(const std::stop_token& stop, const Patience& patience,
                          const std::function<void(const std::string&)>& line);

 private:
  int pid_ = 0, output_ = -1;
  std::string text_;
};

// "was ended by signal 11 (Segmentation fault)", "ended with code 127 and no result: its last words".
std::string how_it_ended(int status, const ChildFolder& folder);
std::string shown(std::string text);  // on one line, at most 80 characters

// A failure as one JSON object, and back: {"kind", "what"} or {"kind": "input", "where", "found", "expected"}. Made
// from what is being thrown; throws InputError, gpu::Missing, gpu::CompileError, gpu::GpuError.
nlohmann::json error_json(const std::exception& error);
[[noreturn]] void rethrow(const nlohmann::json& error);
void say(const nlohmann::json& line);  // the child's side: one line on standard output
void end_with_parent();                // the child's side: nobody else would end it

}  // namespace flashscope
