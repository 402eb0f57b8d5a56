// The .npy format, versions 1 to 3: NEP 1, numpy/lib/format.py.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

#include "engine/files/formats.h"

namespace flashscope::files {
namespace {

// NumPy refuses a longer header too (max_header_size): a literal of a plain array needs about a hundred bytes.
constexpr std::int64_t kMaxHeader = 10000;
constexpr std::size_t kMaxDimensions = 64;

// The Python literal of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), }
class Literal {
 public:
  Literal(std::string_view text, std::int64_t at, const std::string& where) : text_(text), at_(at), where_(where) {}

  [[noreturn]] void fault(const std::string& expected) const {
    const std::string found = next_ < text_.size() ? shown(text_.substr(next_, 12)) : "the end of the header";
    throw InputError(fmt::format("{}: byte {}", where_, at_ + static_cast<std::int64_t>(next_)), found, expected);
  }
  bool accept(char c) {
    skip_space();
    if (next_ >= text_.size() || text_[next_] != c) return false;
    ++next_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fault(fmt::format("'{}'", c));
  }
  void expect_end() {
    skip_space();
    if (next_ != text_.size()) fault("the end of the header");
  }
  std::string string() {
    skip_space();
    const char quote = next_ < text_.size() ? text_[next_] : ' ';
    if (quote != '\'' && quote != '"') fault("a string");
    const std::size_t end = text_.find(quote, next_ + 1);
    if (end == std::string_view::npos) fault("a string that ends");
    const std::string_view inside = text_.substr(next_ + 1, end - next_ - 1);
    if (inside.find('\\') != std::string_view::npos) fault("a string without escapes");
    next_ = end + 1;
    return std::string(inside);
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}})
      if (text_.substr(next_).starts_with(word)) {
        next_ += std::string_view(word).size();
        return value;
      }
    fault("True or False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      if (values.size() == kMaxDimensions) fault(fmt::format("at most {} dimensions", kMaxDimensions));
      values.push_back(integer());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }
  // A structured type, [('x', '<f4'), ...]: taken as it stands, to be named in the message.
  std::string list() {
    skip_space();
    const std::size_t first = next_;
    int depth = 0;
    for (; next_ < text_.size(); ++next_) {
      if (text_[next_] == '[') ++depth;
      if (text_[next_] == ']' && --depth == 0) return std::string(text_.substr(first, ++next_ - first));
    }
    fault("']'");
  }
  bool at_list() {
    skip_space();
    return next_ < text_.size() && text_[next_] == '[';
  }

 private:
  void skip_space() {
    while (next_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[next_]))) ++next_;
  }
  std::int64_t integer() {
    skip_space();
    std::int64_t value = 0;
    const std::size_t first = next_;
    while (next_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[next_]))) {
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[next_] - '0', &value))
        fault("a dimension below 2^63");
      ++next_;
    }
    if (next_ == first) fault("a dimension (an integer >= 0)");
    if (next_ < text_.size() && text_[next_] == 'L') ++next_;  // written by NumPy on Python 2
    return value;
  }

  std::string_view text_;
  std::size_t next_ = 0;
  std::int64_t at_;
  const std::string& where_;
};

std::optional<ElementType> element_type(std::string_view kind_and_size) {
  static constexpr std::array<std::pair<std::string_view, ElementType>, 13> kTypes = {{
      {"f8", ElementType::float64},
      {"f4", ElementType::float32},
      {"f2", ElementType::float16},
      {"V2", ElementType::bfloat16},  // how NumPy stores ml_dtypes.bfloat16
      {"b1", ElementType::boolean},
      {"i1", ElementType::int8},
      {"i2", ElementType::int16},
      {"i4", ElementType::int32},
      {"i8", ElementType::int64},
      {"u1", ElementType::uint8},
      {"u2", ElementType::uint16},
      {"u4", ElementType::uint32},
      {"u8", ElementType::uint64},
  }};
  for (const auto& [spelled, type] : kTypes)
    if (spelled == kind_and_size) return type;
  return {};
}

std::string_view explain(std::string_view kind_and_size) {
  if (kind_and_size == "f1" || kind_and_size == "V1") return " (an 8-bit float)";
  if (kind_and_size.starts_with('f')) return " (an extended float)";
  if (kind_and_size.starts_with('c')) return " (complex numbers)";
  if (kind_and_size.starts_with('O')) return " (pickled Python objects, which are never loaded)";
  if (kind_and_size.starts_with('U') || kind_and_size.starts_with('S')) return " (text)";
  if (kind_and_size.starts_with('[')) return " (a structured type)";
  return "";
}

void set_type(NpyHeader& header, const std::string& descr) {
  header.info.spelled = descr;
  const char order = descr.empty() ? '?' : descr.front();
  const bool has_order = order == '<' || order == '>' || order == '|' || order == '=';
  const std::string_view kind = std::string_view(descr).substr(has_order ? 1 : 0);
  const auto type = element_type(kind);
  if (!type) {
    header.unreadable = fmt::format("type {}{}", shown(descr), explain(kind));
    return;
  }
  header.info.type = *type;
  header.info.big_endian = order == '>';
}

}  // namespace

NpyHeader read_npy_header(Bytes& bytes, std::int64_t total, const std::string& where) {
  const auto need = [&](std::int64_t upto, const std::string& what) {
    if (total < upto)
      throw InputError(where, fmt::format("{} bytes", total), fmt::format("{} bytes of {}", upto, what));
  };
  need(10, "a .npy's magic, version and header length");
  std::array<unsigned char, 12> start{};
  bytes.read(std::as_writable_bytes(std::span(start).first(10)));
  if (std::memcmp(start.data(), "\x93NUMPY", 6) != 0)
    throw InputError(where + ": byte 0", "another file type", "a .npy (\\x93NUMPY)");
  const int major = start[6], minor = start[7];
  if (major < 1 || major > 3 || minor != 0)
    throw InputError(where + ": byte 6", fmt::format(".npy version {}.{}", major, minor), "version 1.0, 2.0 or 3.0");

  NpyHeader header;
  std::int64_t length = start[8] | start[9] << 8;
  header.bytes = 10;
  if (major > 1) {
    need(12, "a .npy's magic, version and header length");
    bytes.read(std::as_writable_bytes(std::span(start).subspan(10, 2)));
    length |= static_cast<std::int64_t>(start[10]) << 16 | static_cast<std::int64_t>(start[11]) << 24;
    header.bytes = 12;
  }
  const std::int64_t at = header.bytes;
  if (length > kMaxHeader)
    throw InputError(where + ": byte 8", fmt::format("a header of {} bytes", length),
                     fmt::format("at most {} bytes", kMaxHeader));
  header.bytes += length;
  need(header.bytes, "header");
  std::string text(static_cast<std::size_t>(length), '\0');
  bytes.read(std::as_writable_bytes(std::span(text)));

  Literal literal(text, at, where);
  bool descr = false, order = false, shape = false;
  const auto once = [&](bool& seen) {
    if (seen) literal.fault("each of 'descr', 'fortran_order' and 'shape' once");
    seen = true;
    literal.expect(':');
  };
  literal.expect('{');
  while (!literal.accept('}')) {
    const std::string key = literal.string();
    if (key == "descr") {
      once(descr);
      set_type(header, literal.at_list() ? literal.list() : literal.string());
    } else if (key == "fortran_order") {
      once(order);
      header.info.fortran = literal.boolean();
    } else if (key == "shape") {
      once(shape);
      header.info.shape = literal.tuple();
    } else {
      throw InputError(where, "header key " + shown(key), "'descr', 'fortran_order' and 'shape'");
    }
    if (!literal.accept(',')) {
      literal.expect('}');
      break;
    }
  }
  literal.expect_end();
  if (!descr || !order || !shape)
    throw InputError(where,
                     fmt::format("a header without '{}'", !descr   ? "descr"
                                                          : !order ? "fortran_order"
                                                                   : "shape"),
                     "'descr', 'fortran_order' and 'shape'");
  if (!checked_elements(header.info.shape))
    throw InputError(where, "shape " + shape_text(header.info.shape), "fewer than 2^62 elements");
  return header;
}

void check_npy_size(const NpyHeader& header, std::int64_t total, const std::string& where) {
  const std::int64_t elements = header.info.elements(), held = total - header.bytes;
  const int size = size_of(header.info.type);
  std::int64_t claimed = 0;
  if (__builtin_mul_overflow(elements, size, &claimed) || claimed != held)
    throw InputError(where, fmt::format("{} bytes of data", held),
                     fmt::format("{} x {} bytes for shape {} of type {}", elements, size, shape_text(header.info.shape),
                                 shown(header.info.spelled)));
}

Directory npy_directory(const std::filesystem::path& path, std::int64_t file_size) {
  const std::string where = path.string();
  NpyHeader header = read_npy_header(*file_bytes(path, 0), file_size, where);
  if (header.unreadable) throw InputError(where, *header.unreadable, std::string(kNpyTypes));
  check_npy_size(header, file_size, where);
  Directory directory{.format = "npy", .entries = {}, .skipped = {}, .texts = {}};
  directory.entries.push_back({.info = std::move(header.info), .offset = header.bytes, .zip = {}});
  return directory;
}

std::string npy_header(ElementType type, std::span<const std::int64_t> shape) {
  const std::string descr = type == ElementType::boolean    ? "|b1"
                            : type == ElementType::bfloat16 ? "<V2"
                            : type == ElementType::int64    ? "<i8"
                                                            : fmt::format("<f{}", size_of(type));
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape_text(shape));
  text.append(63 - (10 + text.size()) % 64, ' ');  // data start on a multiple of 64 bytes, after the newline
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace flashscope::files
