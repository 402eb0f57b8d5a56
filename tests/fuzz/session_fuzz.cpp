// The bytes as the session.json of a session whose arrays fit a small problem. Whatever they are, the readers either
// succeed or throw InputError; and what could be read can be written and read again.
#include <array>
#include <optional>

#include "engine/files/formats.h"
#include "engine/files/session_file.h"
#include "engine/files/zip_writer.h"
#include "tests/fuzz/read_everything.h"
#include "tests/temporary_folder.h"

namespace flashscope::fuzz {
namespace {

void put(files::ZipWriter& zip, const std::string& member, const void* bytes, std::size_t size) {
  zip.begin(member, static_cast<std::int64_t>(size));
  zip.write(bytes, size);
  zip.end();
}

// Zeros; two heads of 6 rows and keys, as in the corpus.
void put_arrays(files::ZipWriter& zip) {
  struct Zeros {
    const char* name;
    ElementType type;
    std::vector<std::int64_t> shape;
  };
  static const std::array arrays{
      Zeros{"q", ElementType::float32, {2, 6, 2}},         Zeros{"k", ElementType::float32, {2, 6, 2}},
      Zeros{"v", ElementType::float32, {2, 6, 2}},         Zeros{"mask", ElementType::boolean, {1, 6, 6}},
      Zeros{"report0_o", ElementType::float32, {2, 6, 2}}, Zeros{"report0_lse", ElementType::float32, {2, 6}},
      Zeros{"report1_lse", ElementType::float32, {2, 6}}};
  for (const Zeros& array : arrays) {
    std::int64_t elements = 1;
    for (const std::int64_t n : array.shape) elements *= n;
    std::string bytes = files::npy_header(array.type, array.shape);
    bytes.append(static_cast<std::size_t>(elements * size_of(array.type)), '\0');
    put(zip, std::string(array.name) + ".npy", bytes.data(), bytes.size());
  }
}

std::optional<SessionFile> read(const std::filesystem::path& path) {
  try {
    return read_session(path, std::int64_t{1} << 20);
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace
}  // namespace flashscope::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flashscope;
  static const TemporaryFolder folder;
  const auto path = folder / "a.fscope", again = folder / "b.fscope";
  {
    files::ZipWriter zip(path);
    fuzz::put(zip, "session.json", data, size);
    fuzz::put_arrays(zip);
    zip.finish();
  }
  if (const auto session = fuzz::read(path)) {
    write_session(again, *session);
    if (!fuzz::read(again)) fuzz::broken("a session that cannot be read again");
  }
  try {
    ProblemFiles files;
    files.input = path;
    files.memory_limit = std::int64_t{64} << 20;
    load_problem(files);
  } catch (const InputError&) {}
  return 0;
}
