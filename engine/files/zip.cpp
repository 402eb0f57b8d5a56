// The directory of a zip (PKWARE's APPNOTE 4.3.12 to 4.3.16, with zip64) and its members, stored or
// deflated; zlib inflates. Debian 12's minizip reads no zip64 sizes, which NumPy writes for every
// member beyond 2 GiB, and takes a directory that is cut short.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <new>

#include "engine/files/formats.h"

namespace flashscope::files {
namespace {

constexpr std::int64_t kMaxMembers = 2048;                     // each costs a header to inflate when a file is opened
constexpr std::int64_t kMaxDirectory = std::int64_t{1} << 20;  // bytes
constexpr std::int64_t kMaxInflation = 1100;                   // deflate itself ends at 1032 : 1
constexpr std::int64_t kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20, kLocalSize = 30;
constexpr std::uint32_t kIn64 = 0xffffffff;  // a 32-bit field whose value stands in the zip64 record

using Raw = std::vector<std::byte>;

Raw read_at(const std::filesystem::path& path, std::int64_t at, std::int64_t count) {
  Raw raw(static_cast<std::size_t>(count));
  file_bytes(path, at)->read(raw);
  return raw;
}

// Little-endian numbers of a record, each checked to lie in it.
class Record {
 public:
  Record(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}
  std::int64_t left() const { return static_cast<std::int64_t>(bytes_.size()); }
  std::span<const std::byte> take(std::int64_t count) {
    if (count > left()) throw InputError(where_, "a zip record that is cut short", fmt::format("{} more bytes", count));
    const auto taken = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(static_cast<std::size_t>(count));
    return taken;
  }
  std::string text(std::int64_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  bool signature(std::string_view expected) { return text(4) == expected; }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::int64_t i64() {
    const std::uint64_t value = number(8);
    if (value >> 62) throw InputError(where_, fmt::format("the size {}", value), "fewer than 2^62 bytes");
    return static_cast<std::int64_t>(value);
  }

 private:
  std::uint64_t number(int count) {
    const auto taken = take(count);
    std::uint64_t value = 0;
    for (std::size_t n = taken.size(); n-- > 0;) value = value << 8 | static_cast<std::uint8_t>(taken[n]);
    return value;
  }
  std::span<const std::byte> bytes_;
  const std::string& where_;
};

struct Place {
  std::int64_t at, size, count;  // of the directory
};

Place find_directory(const std::filesystem::path& path, std::int64_t file_size, const std::string& where) {
  const InputError cut(where, "a zip without its end", "a whole .npz or .fscope (is it cut short?)");
  if (file_size < kEndSize) throw cut;
  const std::int64_t tail_size = std::min(file_size, kEndSize + 0xffff);
  const Raw tail = read_at(path, file_size - tail_size, tail_size);
  std::int64_t end = tail_size - kEndSize;
  for (; end >= 0; --end) {
    Record record{std::span(tail).subspan(static_cast<std::size_t>(end)), where};
    if (!record.signature("PK\x05\x06")) continue;
    record.take(16);
    if (record.u16() == record.left()) break;  // the comment ends with the file
  }
  if (end < 0) throw cut;

  Record record{std::span(tail).subspan(static_cast<std::size_t>(end) + 4), where};
  const bool one_disk = record.u16() == 0 && record.u16() == 0;
  record.take(2);
  Place place{};
  place.count = record.u16();
  place.size = record.u32();
  place.at = record.u32();
  std::int64_t after = file_size - tail_size + end;  // what follows the directory
  // Python writes the zip64 records from 2 GiB on, also while the fields above still hold the values.
  const bool needs64 = place.count == 0xffff || place.size == kIn64 || place.at == kIn64;
  const bool room64 = after >= kLocatorSize + kEnd64Size;
  const Raw locator_bytes = room64 ? read_at(path, after - kLocatorSize, kLocatorSize) : Raw(kLocatorSize);
  Record locator(locator_bytes, where);
  const bool has64 = locator.signature("PK\x06\x07");
  if (needs64 && !has64) throw cut;
  if (has64) {
    locator.take(4);
    const std::int64_t at = locator.i64();
    if (at > after - kLocatorSize - kEnd64Size) throw cut;
    const Raw end64_bytes = read_at(path, at, kEnd64Size);
    Record end64(end64_bytes, where);
    if (!end64.signature("PK\x06\x06")) throw cut;
    end64.take(28);
    place.count = end64.i64();
    place.size = end64.i64();
    place.at = end64.i64();
    after = at;
  } else if (!one_disk) {
    throw InputError(where, "a zip of several disks", "one file");
  }
  if (place.count > kMaxMembers)
    throw InputError(where, fmt::format("{} zip members", place.count), fmt::format("at most {}", kMaxMembers));
  if (place.size > kMaxDirectory)
    throw InputError(where, fmt::format("a zip directory of {} bytes", place.size),
                     fmt::format("at most {}", kMaxDirectory));
  if (place.at + place.size != after)
    throw InputError(where, fmt::format("a zip directory at bytes {} to {}", place.at, place.at + place.size),
                     fmt::format("one that ends at byte {}", after));
  return place;
}

// The zip64 extra field holds, in this order, those of the three that did not fit 32 bits.
void read_zip64(Record extra, bool inflated, bool compressed, bool at, ZipPlace& place) {
  while (extra.left() >= 4) {
    const std::uint16_t id = extra.u16();
    const std::int64_t size = extra.u16();
    Record field = extra;
    extra.take(size);
    if (id != 1) continue;
    if (inflated) place.inflated = field.i64();
    if (compressed) place.compressed = field.i64();
    if (at) place.at = field.i64();
    return;
  }
}

void check_sizes(const ZipPlace& place, const std::string& where) {
  if (!place.deflated && place.compressed != place.inflated)
    throw InputError(where, fmt::format("a stored member of {} bytes in {}", place.inflated, place.compressed),
                     "equal sizes");
  if (place.inflated > 1024 && (place.inflated - 1024) / kMaxInflation > place.compressed)
    throw InputError(where, fmt::format("{} bytes inflated from {}", place.inflated, place.compressed),
                     fmt::format("at most {} : 1", kMaxInflation));
}

// From the local header, which must say what the directory says, to the data behind it.
void find_data(const std::filesystem::path& path, std::int64_t directory_at, std::uint16_t method, ZipMember& member,
               const std::string& where) {
  ZipPlace& place = member.place;
  const auto name_size = static_cast<std::int64_t>(member.name.size());
  const InputError mismatch(where, fmt::format("no local header that matches at byte {}", place.at),
                            "a whole .npz or .fscope");
  if (place.at > directory_at - kLocalSize - name_size) throw mismatch;
  const Raw bytes = read_at(path, place.at, kLocalSize + name_size);
  Record local(bytes, where);
  if (!local.signature("PK\x03\x04")) throw mismatch;
  local.take(2);
  const bool sizes_follow = (local.u16() & 8) != 0;  // after the data, when it was written into a pipe
  if (local.u16() != method) throw mismatch;
  local.take(4);
  const std::uint32_t crc = local.u32(), compressed = local.u32(), inflated = local.u32();
  const auto fits = [](std::uint32_t here, std::int64_t there) { return here == kIn64 || here == there; };
  if (!sizes_follow && (crc != place.crc || !fits(compressed, place.compressed) || !fits(inflated, place.inflated)))
    throw mismatch;
  if (local.u16() != name_size) throw mismatch;
  const std::int64_t extra = local.u16();
  if (local.text(name_size) != member.name) throw mismatch;
  place.at += kLocalSize + name_size + extra;
  if (place.compressed > directory_at - place.at || place.at > directory_at)
    throw InputError(where, fmt::format("{} compressed bytes from byte {}", place.compressed, place.at),
                     fmt::format("an end before the directory at byte {}", directory_at));
}

class ZipBytes final : public Bytes {
 public:
  ZipBytes(const std::filesystem::path& path, const ZipPlace& place, std::string where)
      : file_(file_bytes(path, place.at)), place_(place), where_(std::move(where)) {
    if (place_.deflated && inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~ZipBytes() override {
    if (place_.deflated) inflateEnd(&stream_);
  }
  ZipBytes(const ZipBytes&) = delete;
  ZipBytes& operator=(const ZipBytes&) = delete;

  void read(std::span<std::byte> into) override {
    const auto want = static_cast<std::int64_t>(into.size());
    if (want > place_.inflated - done_) fault("the end of the member", want - (place_.inflated - done_));
    if (place_.deflated)
      inflate_into(into);
    else
      file_->read(into);
    done_ += want;
    crc_ = crc32_z(crc_, reinterpret_cast<const Bytef*>(into.data()), into.size());
  }
  // What is skipped is read as well: the CRC is of all bytes.
  void skip(std::int64_t count) override {
    std::vector<std::byte> scratch(static_cast<std::size_t>(std::min(count, kBuffer)));
    while (count > 0) {
      const std::int64_t part = std::min(count, kBuffer);
      read(std::span(scratch).first(static_cast<std::size_t>(part)));
      count -= part;
    }
  }
  void finish() override {
    if (place_.deflated && !ended_) {
      std::byte beyond{};
      if (inflate_some({&beyond, 1}) != 0)
        throw InputError(where_, "more data than the zip's directory says", fmt::format("{} bytes", place_.inflated));
      if (!ended_) fault("a deflate stream without its end", 0);
    }
    if (crc_ != place_.crc)
      throw InputError(where_, fmt::format("data with CRC-32 {:08x}", crc_), fmt::format("{:08x}", place_.crc));
  }

 private:
  [[noreturn]] void fault(const std::string& found, std::int64_t missing) const {
    throw InputError(fmt::format("{}: byte {}", where_, done_), found,
                     missing > 0 ? fmt::format("{} more bytes", missing) : "whole data");
  }
  void inflate_into(std::span<std::byte> into) {
    while (!into.empty()) {
      const std::size_t got = inflate_some(into);
      if (got == 0) fault("the end of the deflate stream", static_cast<std::int64_t>(into.size()));
      into = into.subspan(got);
    }
  }
  // At least one byte, unless the stream or its input ends.
  std::size_t inflate_some(std::span<std::byte> into) {
    const std::size_t room = std::min(into.size(), std::size_t{1} << 30);  // zlib counts in unsigned int
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(room);
    while (stream_.avail_out == room && !ended_) {
      if (stream_.avail_in == 0) {
        const std::int64_t part = std::min(kBuffer, place_.compressed - taken_);
        buffer_.resize(static_cast<std::size_t>(part));
        file_->read(buffer_);
        taken_ += part;
        stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
        stream_.avail_in = static_cast<uInt>(part);
      }
      const int state = inflate(&stream_, Z_NO_FLUSH);
      ended_ = state == Z_STREAM_END;
      if (state == Z_BUF_ERROR && taken_ == place_.compressed) break;
      if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR) fault("a broken deflate stream", 0);
    }
    return room - stream_.avail_out;
  }

  static constexpr std::int64_t kBuffer = 1 << 16;
  std::unique_ptr<Bytes> file_;
  ZipPlace place_;
  std::string where_;
  z_stream stream_{};
  std::vector<std::byte> buffer_;      // compressed
  std::int64_t taken_ = 0, done_ = 0;  // compressed bytes read, inflated bytes handed out
  bool ended_ = false;                 // the deflate stream
  uLong crc_ = 0;
};

}  // namespace

std::unique_ptr<Bytes> zip_bytes(const std::filesystem::path& path, const ZipPlace& place, std::string where) {
  return std::make_unique<ZipBytes>(path, place, std::move(where));
}

std::vector<ZipMember> zip_members(const std::filesystem::path& path, std::int64_t file_size,
                                   const std::function<bool(const std::string&)>& wanted) {
  const std::string file = path.string();
  const Place directory = find_directory(path, file_size, file);
  const Raw bytes = read_at(path, directory.at, directory.size);
  Record record(bytes, file);
  std::vector<ZipMember> members;
  for (std::int64_t n = 0; n < directory.count; ++n) {
    if (!record.signature("PK\x01\x02"))
      throw InputError(file, fmt::format("{} members in the zip directory", n), fmt::format("{}", directory.count));
    record.take(4);
    const std::uint16_t flags = record.u16(), method = record.u16();
    record.take(4);
    ZipMember member;
    ZipPlace& place = member.place;
    place.crc = record.u32();
    place.compressed = record.u32();
    place.inflated = record.u32();
    const std::int64_t name = record.u16(), extra = record.u16(), comment = record.u16();
    record.take(8);
    place.at = record.u32();
    place.deflated = method == Z_DEFLATED;
    member.name = record.text(name);
    const std::string where = file + ": " + shown(member.name);
    read_zip64(Record(record.take(extra), where), place.inflated == kIn64, place.compressed == kIn64, place.at == kIn64,
               place);
    record.take(comment);
    if (!wanted(member.name)) continue;
    if (flags & 1) throw InputError(where, "an encrypted member", "a plain .npz");
    if (method != 0 && method != Z_DEFLATED)
      throw InputError(where, fmt::format("compression method {}", method),
                       "0 (stored) or 8 (deflated), as numpy.savez writes");
    find_data(path, directory.at, method, member, where);
    check_sizes(place, where);
    members.push_back(std::move(member));
  }
  if (record.left() > 0)
    throw InputError(file, fmt::format("{} bytes after the zip's last member", record.left()), "the end");

  std::vector<const ZipMember*> by_place;
  by_place.reserve(members.size());
  for (const ZipMember& member : members) by_place.push_back(&member);
  std::sort(by_place.begin(), by_place.end(),
            [](const ZipMember* a, const ZipMember* b) { return a->place.at < b->place.at; });
  for (std::size_t n = 1; n < by_place.size(); ++n)
    if (by_place[n]->place.at <
        by_place[n - 1]->place.at + std::max<std::int64_t>(1, by_place[n - 1]->place.compressed))
      throw InputError(
          file, fmt::format("{} and {} in the same bytes", shown(by_place[n - 1]->name), shown(by_place[n]->name)),
          "members that share no bytes");
  return members;
}

}  // namespace flashscope::files
