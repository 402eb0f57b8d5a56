#include "engine/files/tensor_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include "engine/files/formats.h"

namespace flashscope {
namespace {

using files::Bytes;
using files::Entry;

constexpr std::int64_t kChunk = 1 << 16;  // elements between two looks at the stop token

struct TypeFacts {
  std::string_view name;
  int size;
};
constexpr std::array<TypeFacts, 13> kFacts = {{{"float64", 8},
                                               {"float32", 4},
                                               {"float16", 2},
                                               {"bfloat16", 2},
                                               {"bool", 1},
                                               {"int8", 1},
                                               {"int16", 2},
                                               {"int32", 4},
                                               {"int64", 8},
                                               {"uint8", 1},
                                               {"uint16", 2},
                                               {"uint32", 4},
                                               {"uint64", 8}}};
const TypeFacts& facts(ElementType type) { return kFacts[static_cast<std::size_t>(type)]; }

class FileBytes final : public Bytes {
 public:
  FileBytes(const std::filesystem::path& path, std::int64_t offset)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), at_(offset), where_(path.string()) {
    if (file_ < 0) throw InputError(where_, std::generic_category().message(errno), "a file that can be read");
  }
  ~FileBytes() override { ::close(file_); }
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  void read(std::span<std::byte> into) override {
    while (!into.empty()) {
      const ssize_t got = ::pread(file_, into.data(), into.size(), at_);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        throw InputError(fmt::format("{}: byte {}", where_, at_),
                         got == 0 ? "the end of the file" : std::generic_category().message(errno),
                         fmt::format("{} more bytes", into.size()));
      into = into.subspan(static_cast<std::size_t>(got));
      at_ += got;
    }
  }
  void skip(std::int64_t count) override { at_ += count; }
  void finish() override {}

 private:
  int file_;
  std::int64_t at_;
  std::string where_;
};

// What a file of text is; null for binary ones. None of these begins with six printable bytes: the length of a
// .safetensors' header is below 2^32.
const char* text_kind(std::string_view start) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  const auto printable = [&](char c) { return is_space(c) || (c > ' ' && c <= '~'); };
  if (!std::all_of(start.begin(), start.end(), printable)) return nullptr;
  const auto first = std::find_if_not(start.begin(), start.end(), is_space);
  return first != start.end() && (*first == '{' || *first == '[') ? "a JSON file" : "a text file";
}

template <class T>
T value_at(const std::byte* bytes, bool swap) {
  std::array<std::byte, sizeof(T)> raw;
  std::memcpy(raw.data(), bytes, sizeof(T));
  if (swap) std::reverse(raw.begin(), raw.end());
  return std::bit_cast<T>(raw);
}

template <class T, class Out, class Convert>
void decode(std::span<const std::byte> bytes, bool big_endian, Out* out, const Convert& convert) {
  const bool swap = big_endian == (std::endian::native == std::endian::little);
  const std::size_t count = bytes.size() / sizeof(T);
  for (std::size_t n = 0; n < count; ++n) out[n] = convert(value_at<T>(bytes.data() + n * sizeof(T), swap));
}

void decode_floats(const ArrayInfo& info, std::span<const std::byte> bytes, float* out) {
  if (info.type == ElementType::float16) return decode<std::uint16_t>(bytes, info.big_endian, out, half_to_float);
  if (info.type == ElementType::bfloat16) return decode<std::uint16_t>(bytes, info.big_endian, out, bfloat16_to_float);
  decode<float>(bytes, info.big_endian, out, [](float value) { return value; });
}

void decode_ints(const ArrayInfo& info, std::span<const std::byte> bytes, std::int64_t* out, const std::string& where) {
  const auto as = [&]<class T>(T) {
    decode<T>(bytes, info.big_endian, out, [](T value) { return static_cast<std::int64_t>(value); });
  };
  switch (info.type) {
    case ElementType::boolean:
      return decode<std::uint8_t>(bytes, false, out, [](std::uint8_t value) -> std::int64_t { return value != 0; });
    case ElementType::int8:
      return as(std::int8_t{});
    case ElementType::int16:
      return as(std::int16_t{});
    case ElementType::int32:
      return as(std::int32_t{});
    case ElementType::int64:
      return as(std::int64_t{});
    case ElementType::uint8:
      return as(std::uint8_t{});
    case ElementType::uint16:
      return as(std::uint16_t{});
    case ElementType::uint32:
      return as(std::uint32_t{});
    default:
      break;
  }
  decode<std::uint64_t>(bytes, info.big_endian, out, [&](std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw InputError(where, fmt::format("the value {}", value), "values below 2^63");
    return static_cast<std::int64_t>(value);
  });
}

// Positions in another order of an array's elements that are walked with the first extent fastest.
class Walk {
 public:
  Walk(std::vector<std::int64_t> extents, std::vector<std::int64_t> strides)
      : extents_(std::move(extents)), strides_(std::move(strides)), index_(extents_.size(), 0) {}
  std::int64_t next() {
    const std::int64_t now = position_;
    for (std::size_t n = 0; n < extents_.size(); ++n) {
      position_ += strides_[n];
      if (++index_[n] < extents_[n]) break;
      position_ -= strides_[n] * extents_[n];
      index_[n] = 0;
    }
    return now;
  }

 private:
  std::vector<std::int64_t> extents_, strides_, index_;
  std::int64_t position_ = 0;
};

// Where consecutive elements of a column-major array lie in C order...
Walk to_c_order(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t n = shape.size(); n-- > 1;) strides[n - 1] = strides[n] * shape[n];
  return {shape, strides};
}
// ... and where consecutive elements in C order lie in the column-major array.
Walk to_fortran_order(const std::vector<std::int64_t>& shape) { return to_c_order({shape.rbegin(), shape.rend()}); }

// Reads `count` elements from `first` in file order; `take` gets the raw bytes of runs of at most kChunk elements.
template <class Take>
void for_each_chunk(Bytes& bytes, std::int64_t size, std::int64_t first, std::int64_t count, std::int64_t elements,
                    const std::stop_token& stop, const ReadProgress& progress, const Take& take) {
  std::vector<std::byte> raw(static_cast<std::size_t>(std::min(kChunk, count) * size));
  bytes.skip(first * size);
  for (std::int64_t done = 0; done < count;) {
    if (stop.stop_requested()) throw Cancelled();
    const std::int64_t part = std::min(kChunk, count - done);
    const std::span<std::byte> chunk = std::span(raw).first(static_cast<std::size_t>(part * size));
    bytes.read(chunk);
    take(done, part, std::span<const std::byte>(chunk));
    done += part;
    if (progress) progress(done * size, count * size);
  }
  if (stop.stop_requested()) throw Cancelled();
  bytes.skip((elements - first - count) * size);
  bytes.finish();
}

}  // namespace

std::string_view name(ElementType type) { return facts(type).name; }
int size_of(ElementType type) { return facts(type).size; }
bool is_float(ElementType type) { return type <= ElementType::bfloat16; }

std::int64_t ArrayInfo::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t dimension : shape) product *= dimension;
  return product;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return shape.size() == 1 ? fmt::format("({},)", shape[0]) : fmt::format("({})", fmt::join(shape, ", "));
}

namespace files {

std::unique_ptr<Bytes> file_bytes(const std::filesystem::path& path, std::int64_t offset) {
  return std::make_unique<FileBytes>(path, offset);
}

std::optional<std::int64_t> checked_elements(std::span<const std::int64_t> shape) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    empty |= dimension == 0;
    if (dimension != 0 && (__builtin_mul_overflow(product, dimension, &product) || product >= kMost)) return {};
  }
  return empty ? 0 : product;
}

std::string shown(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 60)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out + (text.size() > 60 ? "...'" : "'");
}

}  // namespace files

struct TensorFile::Impl {
  std::filesystem::path path;
  files::Directory directory;
  std::vector<ArrayInfo> arrays;  // of the directory's entries, in their order

  const Entry& entry(std::string_view name) const {
    for (const Entry& entry : directory.entries)
      if (entry.info.name == name) return entry;
    for (const SkippedArray& skipped : directory.skipped)
      if (skipped.name == name) throw InputError(where(name), skipped.found, readable_types());
    std::vector<std::string_view> names;
    for (const ArrayInfo& info : arrays) names.push_back(info.name);
    throw InputError(where(name), "no array of that name", fmt::format("one of: {}", fmt::join(names, ", ")));
  }
  std::string where(std::string_view name) const {
    return name.empty() ? path.string() : fmt::format("{}: {}", path.string(), name);
  }
  std::string readable_types() const {
    return std::string(directory.format == "npz" ? files::kNpyTypes : files::kSafetensorsTypes);
  }
  std::unique_ptr<Bytes> bytes(const Entry& entry) const {
    if (directory.format != "npz") return files::file_bytes(path, entry.offset);
    auto member = files::zip_bytes(path, entry.zip, where(entry.info.name));
    member->skip(entry.offset);
    return member;
  }
};

TensorFile::TensorFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TensorFile::TensorFile(TensorFile&&) noexcept = default;
TensorFile::~TensorFile() = default;

TensorFile TensorFile::open(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw InputError(path.string(), "no such file", std::string(files::kKinds));
  if (!std::filesystem::is_regular_file(status))
    throw InputError(path.string(), "a directory or a device", std::string(files::kKinds));
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  std::array<char, 6> start{};
  if (size >= 6) files::file_bytes(path, 0)->read(std::as_writable_bytes(std::span(start)));
  const std::string_view magic(start.data(), start.size());
  if (const char* text = text_kind(magic)) throw InputError(path.string(), text, std::string(files::kKinds));

  auto impl = std::make_unique<Impl>();
  impl->path = path;
  if (magic == "\x93NUMPY") {
    impl->directory = files::npy_directory(path, size);
  } else if (magic.starts_with("PK\x03\x04") || magic.starts_with("PK\x05\x06")) {
    impl->directory = files::npz_directory(path, size);
  } else {
    impl->directory = files::safetensors_directory(path, size);
  }
  const files::Directory& directory = impl->directory;
  if (directory.entries.empty() && !directory.skipped.empty())
    throw InputError(impl->where(directory.skipped[0].name), directory.skipped[0].found, impl->readable_types());
  for (const Entry& entry : directory.entries) impl->arrays.push_back(entry.info);
  return TensorFile(std::move(impl));
}

const std::filesystem::path& TensorFile::path() const { return impl_->path; }
std::string_view TensorFile::format() const { return impl_->directory.format; }
const std::vector<ArrayInfo>& TensorFile::arrays() const { return impl_->arrays; }
const std::vector<SkippedArray>& TensorFile::skipped() const { return impl_->directory.skipped; }

const ArrayInfo* TensorFile::find(std::string_view name) const {
  const auto at =
      std::find_if(arrays().begin(), arrays().end(), [&](const ArrayInfo& info) { return info.name == name; });
  return at == arrays().end() ? nullptr : &*at;
}

std::optional<std::string> TensorFile::text(std::string_view name) const {
  const auto at = impl_->directory.texts.find(name);
  if (at == impl_->directory.texts.end()) return {};
  return at->second;
}

Array TensorFile::read_range(std::string_view name, std::int64_t first, std::int64_t count, const std::stop_token& stop,
                             const ReadProgress& progress) const {
  const Entry& entry = impl_->entry(name);
  const ArrayInfo& info = entry.info;
  const std::int64_t elements = info.elements();
  if (first < 0 || count < 0 || first > elements || count > elements - first)
    throw InputError(impl_->where(name), fmt::format("elements {} to {}", first, first + count),
                     fmt::format("a part of {} elements", elements));
  Array out;
  out.info = info;
  out.info.fortran = out.info.big_endian = false;
  out.info.shape = {count};
  const auto allocate = [&](auto& buffer) {
    using T = typename std::remove_reference_t<decltype(buffer)>::value_type;
    buffer = Buffer<T>(static_cast<std::size_t>(count), std::pmr::polymorphic_allocator<T>(&process_memory()));
  };
  const auto fill = [&](auto& buffer, const auto& decode_run) {
    using T = typename std::remove_reference_t<decltype(buffer)>::value_type;
    allocate(buffer);
    const auto bytes = impl_->bytes(entry);
    if (!info.fortran) {
      for_each_chunk(*bytes, size_of(info.type), first, count, elements, stop, progress,
                     [&](std::int64_t done, std::int64_t, std::span<const std::byte> raw) {
                       decode_run(raw, buffer.data() + done);
                     });
      return;
    }
    Walk walk = to_c_order(info.shape);
    std::vector<T> run(static_cast<std::size_t>(std::min(kChunk, elements)));
    for_each_chunk(*bytes, size_of(info.type), 0, elements, elements, stop, progress,
                   [&](std::int64_t, std::int64_t part, std::span<const std::byte> raw) {
                     decode_run(raw, run.data());
                     for (std::int64_t n = 0; n < part; ++n)
                       if (const std::int64_t at = walk.next() - first; at >= 0 && at < count) buffer[at] = run[n];
                   });
  };
  if (info.type == ElementType::float64) {
    fill(out.f64, [&](std::span<const std::byte> raw, double* to) {
      decode<double>(raw, info.big_endian, to, [](double value) { return value; });
    });
  } else if (is_float(info.type)) {
    fill(out.f32, [&](std::span<const std::byte> raw, float* to) { decode_floats(info, raw, to); });
  } else {
    fill(out.ints,
         [&](std::span<const std::byte> raw, std::int64_t* to) { decode_ints(info, raw, to, impl_->where(name)); });
  }
  return out;
}

Array TensorFile::read(std::string_view name, const std::stop_token& stop, const ReadProgress& progress) const {
  const ArrayInfo& info = impl_->entry(name).info;
  Array out = read_range(name, 0, info.elements(), stop, progress);
  out.info.shape = info.shape;
  return out;
}

void TensorFile::stream(std::string_view name, const Sink& sink, const std::stop_token& stop,
                        const ReadProgress& progress) const {
  const Entry& entry = impl_->entry(name);
  const ArrayInfo& info = entry.info;
  if (is_float(info.type))
    throw InputError(impl_->where(name), std::string(flashscope::name(info.type)), "a boolean or integer array");
  const int size = size_of(info.type);
  const std::int64_t elements = info.elements();
  const auto bytes = impl_->bytes(entry);
  std::vector<std::uint8_t> values(static_cast<std::size_t>(std::min(kChunk, elements)));
  const std::size_t low = info.big_endian ? static_cast<std::size_t>(size) - 1 : 0;
  const auto classify = [&](std::span<const std::byte> raw) {
    if (info.type == ElementType::boolean) {
      for (std::size_t n = 0; n < raw.size(); ++n) values[n] = raw[n] != std::byte{0};
      return;
    }
    if (size == 1) {
      for (std::size_t n = 0; n < raw.size(); ++n) values[n] = std::min(static_cast<std::uint8_t>(raw[n]), kOther);
      return;
    }
    const auto width = static_cast<std::size_t>(size);
    for (std::size_t n = 0; n < raw.size() / width; ++n) {
      auto rest = std::byte{0};
      for (std::size_t b = 0; b < width; ++b)
        if (b != low) rest |= raw[n * width + b];
      const auto least = std::min(static_cast<std::uint8_t>(raw[n * width + low]), kOther);
      values[n] = rest == std::byte{0} ? least : kOther;
    }
  };
  if (!info.fortran) {
    for_each_chunk(*bytes, size, 0, elements, elements, stop, progress,
                   [&](std::int64_t done, std::int64_t part, std::span<const std::byte> raw) {
                     classify(raw);
                     sink(done, std::span(values).first(static_cast<std::size_t>(part)));
                   });
    return;
  }
  // Column-major: as bits in the file's order, then handed on in C order.
  auto bits = make_buffer<std::uint64_t>(static_cast<std::size_t>((elements + 63) / 64));
  std::int64_t other = -1;
  Walk positions = to_c_order(info.shape);
  for_each_chunk(*bytes, size, 0, elements, elements, stop, progress,
                 [&](std::int64_t done, std::int64_t part, std::span<const std::byte> raw) {
                   classify(raw);
                   for (std::int64_t n = 0; n < part; ++n) {
                     const std::int64_t at = positions.next();
                     if (values[n] == kOther && (other < 0 || at < other)) other = at;
                     bits[(done + n) / 64] |= std::uint64_t{values[n] != 0} << ((done + n) % 64);
                   }
                 });
  Walk walk = to_fortran_order(info.shape);
  for (std::int64_t done = 0; done < elements;) {
    if (stop.stop_requested()) throw Cancelled();
    const std::int64_t part = std::min(kChunk, elements - done);
    for (std::int64_t n = 0; n < part; ++n) {
      const std::int64_t at = walk.next();
      values[n] = done + n == other ? kOther : static_cast<std::uint8_t>(bits[at / 64] >> (at % 64) & 1);
    }
    sink(done, std::span(values).first(static_cast<std::size_t>(part)));
    done += part;
  }
}

}  // namespace flashscope
