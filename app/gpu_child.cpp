#include "app/gpu_child.h"

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
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "engine/error.h"
#include "engine/files/session_file.h"
#include "kernels/host/compiler.h"

namespace flashscope {
namespace {

using gpu::GpuError;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* kRequest = "request.fscope";
constexpr const char* kAnswer = "answer.fscope";
constexpr const char* kErrors = "errors.txt";
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMostOutput = std::size_t{1} << 16;  // bytes of a child that answers as it should
constexpr std::int64_t kShares = 1000;                     // of the progress: until written, run, compared
constexpr std::int64_t kWritten = 50, kRan = 500;

// A folder that only this user can read, removed with all that is in it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "flashscope-gpu-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw InputError(name, std::generic_category().message(errno), "a place that can be written (see TMPDIR)");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path operator/(const char* name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Where a person can start over.
constexpr const char* kNothingLost = "nothing else is lost, and the next run starts afresh";

class Child {
 public:
  Child(const std::filesystem::path& program, const Folder& folder) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno);
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
    std::string name = program.string(), command = "gpu-run", where = folder.path().string();
    std::array<char*, 4> arguments{name.data(), command.data(), where.data(), nullptr};
    const int error = posix_spawn(&pid_, name.c_str(), &actions, &attributes, arguments.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error != 0) {
      pid_ = 0;
      close(output_);
      fail(error);
    }
  }
  ~Child() {
    close(output_);
    if (pid_ == 0) return;
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Until it ends: each whole line of its output to `line`. Returns the status that waitpid gives.
  int wait(const std::stop_token& stop, std::chrono::seconds limit, const std::function<void(std::string)>& line) {
    const Clock::time_point end = Clock::now() + limit;
    std::size_t read_bytes = 0;
    for (bool open = true;;) {
      if (stop.stop_requested()) throw Cancelled();
      if (Clock::now() >= end)
        throw GpuError(
            fmt::format("the GPU run was ended after {} s without a result; {}", limit.count(), kNothingLost));
      pollfd waiting{output_, POLLIN, 0};
      if (!open) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      } else if (poll(&waiting, 1, 50) > 0) {
        std::array<char, 4096> part;
        const ssize_t got = read(output_, part.data(), part.size());
        if (got < 0 && errno == EINTR) continue;
        open = got > 0;
        if (open) text_.append(part.data(), static_cast<std::size_t>(got)), read_bytes += static_cast<std::size_t>(got);
        if (read_bytes > kMostOutput) return line(text_), 0;  // no child of ours: the line is told, and refused
        for (std::size_t at; (at = text_.find('\n')) != std::string::npos; text_.erase(0, at + 1))
          line(text_.substr(0, at));
      }
      int status = 0;
      if (!open && waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        if (!text_.empty()) line(text_);
        return status;
      }
    }
  }

 private:
  [[noreturn]] static void fail(int error) {
    throw GpuError("the process of the GPU run does not start: " + std::generic_category().message(error));
  }
  pid_t pid_ = 0;
  int output_ = -1;
  std::string text_;
};

std::string shown(std::string text) {
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text;
}

std::string last_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) last = line;
  return last.empty() ? "" : ": " + shown(last);
}

[[noreturn]] void refuse_answer(const std::string& text) {
  throw GpuError(
      fmt::format("the GPU run's process said \"{}\" where JSON is expected; {}", shown(text), kNothingLost));
}

// Throws what the child reports.
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

Json request_json(const ChildRun& options) {
  return {{"device", options.device},
          {"kernel", static_cast<int>(options.kernel)},
          {"measure", options.measure},
          {"timeline", options.timeline},
          {"repeats", options.repeats}};
}
gpu::GpuRunOptions options_from(const Json& json) {
  gpu::GpuRunOptions options;
  options.device = json.at("device"), options.kernel = static_cast<gpu::KernelChoice>(json.at("kernel").get<int>());
  options.measure = json.at("measure"), options.timeline = json.at("timeline"), options.repeats = json.at("repeats");
  options.check.kind = CheckRows::Kind::none;  // the parent's
  return options;
}

Report read_answer(const Folder& folder, const Problem& problem, const Recipe& recipe) {
  try {
    const SessionFile answer = read_session(folder / kAnswer, kUnlimited);
    if (answer.reports.size() != 1) throw InputError(kAnswer, fmt::format("{} reports", answer.reports.size()), "one");
    Report report = *answer.reports.front().report;
    if (report.shape != problem.shape() || report.recipe != recipe)
      throw InputError(kAnswer, "the report of another run", "this one's");
    return report;
  } catch (const InputError& error) {
    throw GpuError(fmt::format("the GPU run's answer cannot be read: {}; {}", error.what(), kNothingLost));
  }
}

std::filesystem::path program_of(const ChildRun& options) {
  if (!options.program.empty()) return options.program;
  const char* other = std::getenv("FLASHSCOPE_GPU_CHILD");
  return other && *other ? other : "/proc/self/exe";
}

}  // namespace

gpu::GpuStatus gpu_status() {
#ifdef FLASHSCOPE_GPU
  return gpu::gpu_status();
#else
  gpu::GpuStatus status;
  status.missing.emplace_back(
      "this flashscope was built without CUDA: install the CUDA Toolkit 12.8 or newer and build it again");
  return status;
#endif
}

std::vector<std::string> missing_gpu_libraries() {
#ifdef FLASHSCOPE_GPU
  return gpu::missing_libraries();
#else
  return {};
#endif
}

GpuBytes gpu_bytes(const Shape& s, const Recipe& recipe) {
  // In long double: what is refused may pass 2^63.
  const auto rows = static_cast<long double>(s.heads) * static_cast<long double>(s.Nq),
             element = size_of(s.type) * 1.0L;
  const auto keys = static_cast<long double>(s.kv_heads) * static_cast<long double>(s.Nk);
  const long double dv = static_cast<long double>(s.dv), d = static_cast<long double>(s.d);
  const bool flash1 = recipe.algorithm == Algorithm::flash1, each = recipe.normalised() == Normalise::each;
  long double outputs = flash1 && each ? 0 : rows * (dv * element + 4);
  if (flash1) outputs += rows * (dv + 2) * 4;
  if (recipe.algorithm == Algorithm::standard) outputs += 2 * rows * static_cast<long double>(s.Nk) * element;
  const auto whole = [](long double bytes) {
    return bytes < 0x1p62L ? static_cast<std::int64_t>(bytes) : std::int64_t{1} << 62;
  };
  return {whole((rows * d + keys * (d + dv)) * element), whole(outputs)};
}

void check_fits(const Shape& shape, const Recipe& recipe, const gpu::GpuDevice& device) {
  const GpuBytes bytes = gpu_bytes(shape, recipe);
  if (bytes.tensors + bytes.outputs <= device.memory_bytes) return;
  throw InputError("run on the GPU",
                   fmt::format("{} bytes of Q, K, V and {} of {}", bytes.tensors, bytes.outputs,
                               recipe.algorithm == Algorithm::standard ? "O, LSE, S and P (Nq x Nk a head)"
                                                                       : "O, LSE and running state"),
                   fmt::format("at most {} bytes, the memory of {}", device.memory_bytes, device.name));
}

Report run_in_child(const Problem& problem, const Recipe& recipe, const ChildRun& options, const std::stop_token& stop,
                    const Progress& progress, const std::function<void(const std::string&)>& on_stage) {
  const auto stage = [&](const std::string& what) {
    if (on_stage) on_stage(what);
  };
  const auto share = [&](std::int64_t from, std::int64_t to) -> Progress {
    if (!progress) return {};
    return [&progress, from, to](std::int64_t done, std::int64_t total) {
      const double part = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
      progress(from + static_cast<std::int64_t>(part * static_cast<double>(to - from)), kShares);
    };
  };
  const Folder folder;
  stage("writing the problem");
  {
    SessionFile request;
    auto asked = std::make_shared<Problem>(problem);
    asked->given_O.reset(), asked->given_LSE.reset();
    request.problem = std::move(asked), request.recipe = recipe, request.window = request_json(options).dump();
    write_session(folder / kRequest, request, stop, share(0, kWritten));
  }
  Json error;
  bool done = false;
  int status = 0;
  {
    const Progress ran = share(kWritten, kRan);
    stage("starting");
    Child child(program_of(options), folder);
    status = child.wait(stop, options.limit, [&](const std::string& line) {
      const Json said = Json::parse(line, nullptr, false);
      try {
        if (said.contains("error")) error = said.at("error");
        if (said.contains("progress")) {
          const std::int64_t part = said["progress"].at(0), all = said["progress"].at(1);
          if (ran) ran(part, all);
        }
        if (said.contains("stage")) stage(shown(said.at("stage").get<std::string>()));
        done = done || said.value("done", false);
      } catch (const Json::exception&) {
        refuse_answer(line);
      }
      if (!said.is_object()) refuse_answer(line);
    });
  }
  if (WIFSIGNALED(status))
    throw GpuError(fmt::format("the GPU run's process was ended by signal {} ({}); {}", WTERMSIG(status),
                               strsignal(WTERMSIG(status)), kNothingLost));
  if (error.is_object()) rethrow(error);
  if (!done || WEXITSTATUS(status) != 0)
    throw GpuError(fmt::format("the GPU run's process ended with code {} and no result{}; {}", WEXITSTATUS(status),
                               last_line(folder / kErrors), kNothingLost));
  Report report = read_answer(folder, problem, recipe);
  if (options.check.kind != CheckRows::Kind::none) {
    const int threads = options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
    stage("comparing with float64");
    report.error = error_vs_float64(problem, report.O, {recipe.empty_row, recipe.mask_apply}, options.check,
                                    std::max(threads, 1), stop, share(kRan, kShares));
  }
  return report;
}

int serve_gpu_run(const std::filesystem::path& folder, const GpuRunner& run) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody else would end it
  const auto say = [](const Json& line) {
    fmt::print("{}\n", line.dump(-1, ' ', true, Json::error_handler_t::replace));
    std::fflush(stdout);
  };
  const auto failed = [&](const char* kind, const char* what, int code) {
    say({{"error", {{"kind", kind}, {"what", what}}}});
    return code;
  };
  try {
    const SessionFile request = read_session(folder / kRequest, kUnlimited);
    if (!request.problem) throw InputError(kRequest, "no problem", "one");
    // 0..1000, of which reading and writing the files are the rest.
    const auto on_stage = [&](const std::string& stage, double done) {
      say({{"progress", {100 + std::llround(800 * done), 1000}}, {"stage", stage}});
    };
    Report report = run(*request.problem, request.recipe, options_from(Json::parse(request.window)), on_stage);
    say({{"progress", {900, 1000}}, {"stage", "handing the report over"}});
    SessionFile answer;
    answer.recipe = request.recipe;
    answer.reports.push_back(make_saved(std::make_shared<const Report>(std::move(report)), *request.problem, ""));
    write_session(folder / kAnswer, answer);
    say({{"done", true}});
    return 0;
  } catch (const InputError& error) {
    say({{"error",
          {{"kind", "input"}, {"where", error.where()}, {"found", error.found()}, {"expected", error.expected()}}}});
    return 2;
  } catch (const gpu::Missing& missing) {
    return failed("missing", missing.what(), 4);
  } catch (const gpu::CompileError& error) {
    return failed("compile", error.what(), 4);
  } catch (const std::bad_alloc&) {
    return failed("gpu", "not enough memory for the tensors of the run", 4);
  } catch (const std::exception& error) {
    return failed("gpu", error.what(), 4);
  }
}

int serve_gpu_run(const std::filesystem::path& folder) {
#ifdef FLASHSCOPE_GPU
  return serve_gpu_run(
      folder, [](const Problem& problem, const Recipe& recipe, const gpu::GpuRunOptions& options,
                 const gpu::OnStage& on_stage) { return gpu::run_on_gpu(problem, recipe, options, {}, on_stage); });
#else
  return serve_gpu_run(folder,
                       [](const Problem&, const Recipe&, const gpu::GpuRunOptions&, const gpu::OnStage&) -> Report {
                         throw gpu::Missing(gpu_status().missing.front());
                       });
#endif
}

}  // namespace flashscope
