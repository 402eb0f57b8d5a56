// Kernels from source to machine code at run time: the embedded *.cu files, compiled by NVRTC for one architecture with
// block sizes, head dimensions, element type, masks and instrumentation as compile-time constants.
//
// The result is kept on disk under $XDG_CACHE_HOME/flashscope (else ~/.cache/flashscope), its name a hash of source,
// constants, architecture and NVRTC's version. Needs no GPU and no driver.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flashscope::gpu {

// One kernel to compile: a file, and the values of its constants.
struct KernelCode {
  std::string file;  // "flash2_mma.cu"
  std::vector<std::pair<std::string, int>> constants;
  bool contract = true;  // a b + c may round once; false: twice, as the engine does
};

// What the assembler says of the entry function `name`.
struct EntryFigures {
  std::string name;
  int registers = 0;                      // a thread
  int spill_stores = 0, spill_loads = 0;  // bytes a thread, as the code stands
};

struct Compiled {
  std::vector<char> cubin;
  std::vector<EntryFigures> entries;
  double seconds = 0;  // of compiling; 0 from the cache
  bool from_cache = false;
  const EntryFigures& entry(std::string_view name) const;  // throws std::out_of_range
};

// what() names the file and constants, then NVRTC's messages with file, line and the line's text.
class CompileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct CompileOptions {
  bool use_cache = true;
  // Replaces an embedded source, for tests.
  std::function<std::string(const std::string& file)> source;
};

// What to compile for, where a device is `wanted` ("sm_121") and the compiler knows `known` (80, 86, ...): that, or the
// nearest below it of the same generation, whose code it runs. Throws Missing where there is none.
std::string nearest_architecture(const std::string& wanted, const std::vector<int>& known);

// architecture: "sm_80". Throws Missing, CompileError.
Compiled compile(const KernelCode& code, const std::string& architecture, const CompileOptions& options = {});

// What a measurement depends on: "NVRTC 13.0" (throws Missing), and a hash of the text of all that it launches.
std::string toolchain();
std::string source_hash();

struct CompileJob {
  KernelCode code;
  std::string architecture;
};
// All of them, on `threads` threads (0: all cores). progress(done, total), called from any of them, one at a time.
// Throws what compile() throws first, or Cancelled.
std::vector<Compiled> compile_all(std::span<const CompileJob> jobs, int threads, const std::stop_token& stop = {},
                                  const std::function<void(std::int64_t, std::int64_t)>& progress = {},
                                  const CompileOptions& options = {});

}  // namespace flashscope::gpu
