// The .npz format: a zip of .npy members, as numpy.savez and numpy.savez_compressed write it.
#include <fmt/format.h>

#include <set>

#include "engine/files/formats.h"

namespace flashscope::files {
namespace {

constexpr std::int64_t kMaxText = 1024;  // bytes of a text such as a layout

// NumPy's text is UCS-4 (<U) or bytes (|S), padded with zeros; a layout is ASCII.
std::string read_text(Bytes& bytes, std::int64_t count, bool wide) {
  std::vector<unsigned char> raw(static_cast<std::size_t>(count));
  bytes.read(std::as_writable_bytes(std::span(raw)));
  std::string text;
  for (std::size_t n = 0; n + (wide ? 3 : 0) < raw.size(); n += wide ? 4 : 1) {
    if (raw[n] == 0) break;
    const bool ascii = raw[n] < 0x80 && (!wide || (raw[n + 1] == 0 && raw[n + 2] == 0 && raw[n + 3] == 0));
    text += ascii ? static_cast<char>(raw[n]) : '?';
  }
  return text;
}

void add_member(Directory& directory, const std::filesystem::path& path, const ZipMember& member, std::string name) {
  const std::string where = path.string() + ": " + name;
  const auto bytes = zip_bytes(path, member.place, where);
  NpyHeader header = read_npy_header(*bytes, member.place.inflated, where);
  const std::string& spelled = header.info.spelled;
  const std::int64_t held = member.place.inflated - header.bytes;
  if (header.unreadable) {
    const bool wide = spelled.starts_with("<U"), narrow = spelled.starts_with("|S");
    if ((wide || narrow) && header.info.elements() == 1 && held <= kMaxText)
      directory.texts[name] = read_text(*bytes, held, wide);
    else
      directory.skipped.push_back({name, *header.unreadable});
    return;
  }
  check_npy_size(header, member.place.inflated, where);
  if (header.info.type == ElementType::uint8 && header.info.shape.size() == 1 && held <= kMaxText)
    directory.texts[name] = read_text(*bytes, held, false);
  Entry entry{.info = std::move(header.info), .offset = header.bytes, .zip = member.place};
  entry.info.name = std::move(name);
  directory.entries.push_back(std::move(entry));
}

}  // namespace

Directory npz_directory(const std::filesystem::path& path, std::int64_t file_size) {
  Directory directory{.format = "npz", .entries = {}, .skipped = {}, .texts = {}};
  bool pytorch = false;
  const auto members = zip_members(path, file_size, [&](const std::string& name) {
    pytorch |= name.ends_with("/data.pkl");  // torch.save writes a zip as well
    return name.ends_with(".npy");
  });
  if (members.empty() && pytorch)
    throw InputError(path.string(), "a PyTorch checkpoint", "an .npz or .safetensors, as flashscope_dump.py writes");
  std::set<std::string_view> names;
  for (const ZipMember& member : members) {
    if (!names.insert(member.name).second)
      throw InputError(path.string(), "duplicate name " + shown(member.name), "each name once");
    add_member(directory, path, member, member.name.substr(0, member.name.size() - 4));
  }
  return directory;
}

}  // namespace flashscope::files
