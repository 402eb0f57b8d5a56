// What the fuzz targets share: the bytes as a file, opened, read and loaded as a problem.
//
// Whatever the bytes are, the readers either succeed or throw InputError, and they hold no more memory
// than the file could inflate to. Anything else ends the process, which is what a fuzzer looks for.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/error.h"
#include "engine/files/problem_file.h"

namespace flashscope::fuzz {

[[noreturn]] inline void broken(const char* what) {
  std::fprintf(stderr, "flashscope: broken promise: %s\n", what);
  std::abort();
}

inline void read_all(const TensorFile& file, std::int64_t most) {
  for (const ArrayInfo& info : file.arrays()) {
    if (info.elements() > most) broken("an array of more elements than the file can hold");
    try {
      const Array array = file.read(info.name);
      if (array.info.elements() > 0) array.at(array.info.elements() - 1);
      file.read_range(info.name, info.elements() / 2, info.elements() - info.elements() / 2);
      if (!is_float(info.type)) file.stream(info.name, [](std::int64_t, std::span<const std::uint8_t>) {});
    } catch (const InputError&) {}
  }
}

inline int read_everything(const std::uint8_t* data, std::size_t size, std::string_view format) {
  const int descriptor = memfd_create("fuzz", 0);
  if (descriptor < 0 || write(descriptor, data, size) != static_cast<ssize_t>(size)) broken("no memory for the file");
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const auto most = static_cast<std::int64_t>(1100 * size + 1024);  // what deflate can make of it
  process_memory().reset_peak();
  try {
    const TensorFile file = TensorFile::open(path);
    if (process_memory().peak() != 0) broken("memory for arrays while only headers were read");
    if (file.format() == format) read_all(file, most);
    ProblemFiles files;
    files.input = path;
    files.memory_limit = std::int64_t{64} << 20;
    load_problem(files);
  } catch (const InputError&) {}
  // A boolean is one byte in the file and eight as an integer; a problem holds a few copies for a moment.
  if (process_memory().peak() > 64 * most) broken("more memory than the file could need");
  close(descriptor);
  return 0;
}

}  // namespace flashscope::fuzz
