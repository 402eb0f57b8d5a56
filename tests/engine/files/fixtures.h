// Files for the tests of the readers, made byte by byte, well-formed or not.
#pragma once

#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/error.h"
#include "engine/files/tensor_file.h"
#include "tests/place.h"
#include "tests/temporary_folder.h"

namespace flashscope::fixtures {

using Bytes = std::string;

using Folder = TemporaryFolder;

inline std::filesystem::path data(const std::string& name) {
  return std::filesystem::path(source_path("tests/data")) / name;
}
inline Bytes content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline nlohmann::json test_case(const std::string& name) {
  return nlohmann::json::parse(content(data("cases/" + name + ".json")));
}

inline Bytes base64(const std::string& text) {
  static const std::string kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Bytes out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string::npos) continue;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) out += static_cast<char>(bits >> (count -= 8) & 0xff);
  }
  return out;
}

template <class T>
Bytes little(T value, std::size_t bytes = sizeof(T)) {
  Bytes out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out.substr(0, bytes);
}
template <class T>
Bytes as_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline Bytes npy(const std::string& header, const Bytes& data, int version = 1) {
  const auto length = static_cast<std::uint32_t>(header.size());
  return Bytes("\x93NUMPY") + static_cast<char>(version) + '\0' + little(length, version == 1 ? 2 : 4) + header + data;
}
inline Bytes npy_of(const std::string& descr, const std::string& shape, const Bytes& data, bool fortran = false) {
  return npy(
      "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }\n",
      data);
}
inline Bytes floats_npy(const std::string& shape, const std::vector<float>& values) {
  return npy_of("<f4", shape, as_bytes(values));
}

inline Bytes safetensors(const std::string& header, const Bytes& data) {
  return little(static_cast<std::uint64_t>(header.size())) + header + data;
}

inline Bytes deflated(const Bytes& data) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// One member of a zip; every field can lie.
struct Member {
  std::string name;
  Bytes raw;  // as it lies in the file
  std::uint32_t crc = 0;
  std::uint64_t inflated = 0;
  std::uint16_t method = 0, flags = 0;
  std::int64_t at = -1;  // local header there instead of its own place
};
inline Member stored(const std::string& name, const Bytes& data) {
  const auto crc =
      static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
  return {.name = name, .raw = data, .crc = crc, .inflated = data.size()};
}
inline Member squeezed(const std::string& name, const Bytes& data) {
  Member member = stored(name, data);
  member.raw = deflated(data);
  member.method = 8;
  return member;
}
inline Bytes zip(const std::vector<Member>& members) {
  Bytes out, directory;
  for (const Member& m : members) {
    const auto compressed = static_cast<std::uint32_t>(m.raw.size()), inflated = static_cast<std::uint32_t>(m.inflated);
    const Bytes common = little(std::uint16_t{20}) + little(m.flags) + little(m.method) +
                         little(std::uint32_t{0x210000}) + little(m.crc) + little(compressed) + little(inflated) +
                         little(static_cast<std::uint16_t>(m.name.size())) + little(std::uint16_t{0});
    const auto offset = static_cast<std::uint32_t>(m.at >= 0 ? m.at : static_cast<std::int64_t>(out.size()));
    if (m.at < 0) out += "PK\x03\x04" + common + m.name + m.raw;
    directory += "PK\x01\x02" + little(std::uint16_t{20}) + common + Bytes(10, '\0') + little(offset) + m.name;
  }
  const auto count = static_cast<std::uint16_t>(members.size());
  return out + directory + "PK\x05\x06" + Bytes(4, '\0') + little(count) + little(count) +
         little(static_cast<std::uint32_t>(directory.size())) + little(static_cast<std::uint32_t>(out.size())) +
         Bytes(2, '\0');
}

// Seconds of work of this thread, whatever else the machine does.
inline double seconds_of(const std::function<void()>& action) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  action();
  return now() - start;
}

// The message of the InputError that `action` must throw; another exception or none fails the test.
inline std::string fault(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    EXPECT_FALSE(error.where().empty());
    EXPECT_FALSE(error.found().empty());
    EXPECT_FALSE(error.expected().empty());
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}
inline std::string fault_of_open(const std::filesystem::path& path) {
  return fault([&] { TensorFile::open(path); });
}

inline std::vector<double> values(const Array& array) {
  std::vector<double> out;
  for (std::int64_t n = 0; n < array.info.elements(); ++n) out.push_back(array.at(n));
  return out;
}
inline std::vector<double> values(const std::filesystem::path& path, const std::string& name = "") {
  return values(TensorFile::open(path).read(name));
}

}  // namespace flashscope::fixtures
