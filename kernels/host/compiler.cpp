#include "kernels/host/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <regex>
#include <thread>

#include "embedded/kernel_source.h"
#include "engine/error.h"
#include "engine/files/cache.h"
#include "kernels/host/libraries.h"

namespace flashscope::gpu {
namespace {

constexpr std::array kHeaders{"common.cuh", "tile.cuh", "arguments.h", "step.h", "step.cuh"};

std::string source_text(const std::string& file, const CompileOptions& options) {
  if (options.source) return options.source(file);
  const std::span<const std::byte> bytes = kernel_source(file);
  if (bytes.empty()) throw CompileError("no kernel source " + file);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> compiler_options(const KernelCode& code, const std::string& architecture) {
  // Without NVRTC's own cache: what comes from it comes without the assembler's figures.
  std::vector<std::string> all{"--gpu-architecture=" + architecture, "-std=c++17", "-default-device", "--no-cache",
                               "--ptxas-options=-v"};
  if (!code.contract) all.emplace_back("--fmad=false");
  for (const auto& [name, value] : code.constants) all.push_back(fmt::format("-D{}={}", name, value));
  return all;
}

std::string constants_text(const KernelCode& code) {
  std::string text;
  for (const auto& [name, value] : code.constants) text += fmt::format(" {}={}", name, value);
  return text;
}

// What the assembler printed of each entry function.
std::vector<EntryFigures> figures(const std::string& log) {
  static const std::regex entry("Compiling entry function '([^']+)'"), used("Used ([0-9]+) registers"),
      spills("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  std::vector<EntryFigures> all;
  std::size_t begin = 0;
  while (begin < log.size()) {
    const std::size_t end = std::min(log.find('\n', begin), log.size());
    const std::string line = log.substr(begin, end - begin);
    std::smatch match;
    if (std::regex_search(line, match, entry)) all.push_back({match[1]});
    if (!all.empty() && std::regex_search(line, match, spills))
      all.back().spill_stores = std::stoi(match[1]), all.back().spill_loads = std::stoi(match[2]);
    if (!all.empty() && std::regex_search(line, match, used)) all.back().registers = std::stoi(match[1]);
    begin = end + 1;
  }
  return all;
}

// A cache file: its key, the assembler's log and the cubin, each after its length; a damaged one counts as absent.
void put(std::string& out, std::string_view part) {
  const std::uint64_t n = part.size();
  out.append(reinterpret_cast<const char*>(&n), sizeof n);
  out.append(part);
}
bool take(std::string_view& in, std::string_view& part) {
  std::uint64_t n = 0;
  if (in.size() < sizeof n) return false;
  std::memcpy(&n, in.data(), sizeof n);
  in.remove_prefix(sizeof n);
  if (in.size() < n) return false;
  part = in.substr(0, n);
  in.remove_prefix(n);
  return true;
}

bool read_cache(const std::filesystem::path& path, const std::string& key, Compiled& compiled) {
  const std::optional<std::string> bytes = read_cached(path);
  if (!bytes) return false;
  std::string_view rest = *bytes, name, log, cubin, check;
  if (!take(rest, name) || !take(rest, log) || !take(rest, cubin) || !take(rest, check) || name != key) return false;
  if (check != cache_name(std::array{std::string(log), std::string(cubin)})) return false;
  compiled.entries = figures(std::string(log));
  compiled.cubin.assign(cubin.begin(), cubin.end());
  compiled.from_cache = true;
  return true;
}

void write_cache(const std::filesystem::path& path, const std::string& key, const std::string& log,
                 const std::vector<char>& cubin) {
  std::string bytes;
  put(bytes, key);
  put(bytes, log);
  put(bytes, {cubin.data(), cubin.size()});
  put(bytes, cache_name(std::array{log, std::string(cubin.begin(), cubin.end())}));
  write_cached(path, bytes);
}

// Destroyed with its scope, also when compiling fails.
struct Program {
  nvrtcProgram handle = nullptr;
  ~Program() {
    if (handle) nvrtc().destroy_program(&handle);
  }
};

void check_nvrtc(nvrtcResult result, const char* what) {
  if (result != NVRTC_SUCCESS) throw CompileError(fmt::format("{}: {}", what, nvrtc().get_error_string(result)));
}

}  // namespace

std::string toolchain() { return "NVRTC " + nvrtc().version_text; }

std::string source_hash() {
  std::vector<std::string> parts;
  for (const char* file : {"flash1.cu", "flash2_simple.cu", "flash2_mma.cu", "softmax.cu", "sweep.cu", "random.cu"})
    parts.push_back(source_text(file, {}));
  for (const char* file : kHeaders) parts.push_back(source_text(file, {}));
  return cache_name(parts);
}

const EntryFigures& Compiled::entry(std::string_view name) const {
  for (const EntryFigures& figures : entries)
    if (figures.name == name) return figures;
  throw std::out_of_range(fmt::format("no entry function {}", name));
}

std::string nearest_architecture(const std::string& wanted, const std::vector<int>& known) {
  const int number = std::stoi(wanted.substr(3));
  int nearest = 0;
  for (const int other : known)
    if (other / 10 == number / 10 && other <= number) nearest = std::max(nearest, other);
  if (nearest == 0)
    throw Missing(fmt::format("this CUDA's run-time compiler does not know {}: install a newer CUDA Toolkit", wanted));
  return nearest == number ? wanted : fmt::format("sm_{}", nearest);
}

Compiled compile(const KernelCode& code, const std::string& device_architecture, const CompileOptions& options) {
  const Nvrtc& n = nvrtc();
  const std::string architecture = nearest_architecture(device_architecture, n.architectures);
  const std::string source = source_text(code.file, options);
  std::vector<std::string> headers;
  std::vector<const char*> header_texts, header_names(kHeaders.begin(), kHeaders.end()), words;
  headers.reserve(kHeaders.size());
  for (const char* name : kHeaders) headers.push_back(source_text(name, options));
  header_texts.reserve(headers.size());
  for (const std::string& header : headers) header_texts.push_back(header.c_str());
  const std::vector<std::string> flags = compiler_options(code, architecture);
  words.reserve(flags.size());
  for (const std::string& flag : flags) words.push_back(flag.c_str());

  std::vector<std::string> parts{n.version_text, code.file, source};
  parts.insert(parts.end(), headers.begin(), headers.end());
  parts.insert(parts.end(), flags.begin(), flags.end());
  const std::string key = cache_name(parts);
  const std::filesystem::path folder = options.use_cache ? cache_folder() : std::filesystem::path();
  const std::filesystem::path path = folder / (key + ".cubin");
  Compiled compiled;
  if (!folder.empty() && read_cache(path, key, compiled)) return compiled;

  const auto begin = std::chrono::steady_clock::now();
  Program program;
  check_nvrtc(n.create_program(&program.handle, source.c_str(), code.file.c_str(), static_cast<int>(headers.size()),
                               header_texts.data(), header_names.data()),
              "nvrtcCreateProgram");
  const nvrtcResult result = n.compile_program(program.handle, static_cast<int>(words.size()), words.data());
  std::size_t size = 0;
  check_nvrtc(n.get_program_log_size(program.handle, &size), "nvrtcGetProgramLogSize");
  std::string log(size, '\0');
  check_nvrtc(n.get_program_log(program.handle, log.data()), "nvrtcGetProgramLog");
  log.resize(std::strlen(log.c_str()));
  if (result != NVRTC_SUCCESS)
    throw CompileError(fmt::format("{} for {} with{}: {}\n{}", code.file, architecture, constants_text(code),
                                   n.get_error_string(result), log));
  check_nvrtc(n.get_cubin_size(program.handle, &size), "nvrtcGetCUBINSize");
  compiled.cubin.resize(size);
  check_nvrtc(n.get_cubin(program.handle, compiled.cubin.data()), "nvrtcGetCUBIN");
  compiled.entries = figures(log);
  compiled.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!folder.empty()) write_cache(path, key, log, compiled.cubin);
  return compiled;
}

std::vector<Compiled> compile_all(std::span<const CompileJob> jobs, int threads, const std::stop_token& stop,
                                  const std::function<void(std::int64_t, std::int64_t)>& progress,
                                  const CompileOptions& options) {
  if (threads <= 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const auto total = static_cast<std::int64_t>(jobs.size());
  std::vector<Compiled> all(jobs.size());
  std::atomic<std::size_t> next{0};
  std::atomic<bool> over{false};
  std::exception_ptr failed;
  std::int64_t done = 0;
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t n; !over && !stop.stop_requested() && (n = next++) < jobs.size();) {
      try {
        all[n] = compile(jobs[n].code, jobs[n].architecture, options);
        const std::lock_guard lock(mutex);
        ++done;
        if (progress) progress(done, total);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failed) failed = std::current_exception();
        over = true;
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int t = 1; t < threads; ++t) workers.emplace_back(work);
    work();
  }
  if (failed) std::rethrow_exception(failed);
  if (stop.stop_requested()) throw Cancelled();
  return all;
}

}  // namespace flashscope::gpu
