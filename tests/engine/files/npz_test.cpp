#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <new>

#include "tests/engine/files/fixtures.h"

namespace flashscope {
namespace {

using namespace fixtures;
using testing::HasSubstr;
using testing::Not;

std::vector<double> quarters(int count) {
  std::vector<double> out;
  for (int n = 0; n < count; ++n) out.push_back(n / 4.0);
  return out;
}

// Written by NumPy itself, also into a pipe (sizes after the data); see tests/data/numpy/make_files.py.
TEST(Npz, WrittenByNumPy) {
  for (const char* name : {"stored", "deflated", "piped_stored", "piped_deflated", "zip64"}) {
    SCOPED_TRACE(name);
    const TensorFile file = TensorFile::open(data(std::string("numpy/") + name + ".npz"));
    EXPECT_EQ(file.format(), "npz");
    EXPECT_EQ(file.arrays().size(), 5u);
    EXPECT_EQ(values(file.read("q")), quarters(40));
    EXPECT_EQ(values(file.read("k")), quarters(30));
    EXPECT_EQ(values(file.read("v")), quarters(18));
    EXPECT_EQ(values(file.read("scale")), std::vector<double>{0.25});
    EXPECT_EQ(file.find("mask")->type, ElementType::boolean);
    EXPECT_EQ(file.text("layout"), "hnd");
    EXPECT_EQ(file.text("q"), std::nullopt);
    ASSERT_EQ(file.skipped().size(), 1u);
    EXPECT_EQ(file.skipped()[0].name, "label");
    EXPECT_THAT(fault([&] { file.read("label"); }), HasSubstr("'<U1' (text)"));
    const auto first = quarters(27);
    EXPECT_EQ(values(file.read_range("q", 7, 20)), std::vector<double>(first.begin() + 7, first.end()));
  }
}

TEST(Npz, TrainedModelsTensorsLoad) {
  const TensorFile file = TensorFile::open(data("codelm_layer3.npz"));
  EXPECT_EQ(file.find("q")->shape, (std::vector<std::int64_t>{4, 1024, 64}));
  EXPECT_EQ(file.find("k")->shape, (std::vector<std::int64_t>{2, 1024, 64}));
  EXPECT_EQ(file.find("q")->type, ElementType::float16);
  EXPECT_EQ(file.find("lse")->type, ElementType::float64);
  for (const ArrayInfo& info : file.arrays()) {
    const Array array = file.read(info.name);
    double sum = 0;
    for (std::int64_t n = 0; n < info.elements(); ++n) sum += array.at(n);
    EXPECT_LE(std::abs(sum), 1e8) << info.name;  // finite, so no NaN
  }
}

Bytes small_npz(bool deflate) {
  const Bytes q = floats_npy("(2, 3)", {1, 2, 3, 4, 5, 6}), k = floats_npy("(2,)", {7, 8});
  return zip(deflate ? std::vector{squeezed("q.npy", q), squeezed("k.npy", k)}
                     : std::vector{stored("q.npy", q), stored("k.npy", k)});
}

TEST(Npz, CutAnywhereIsRefused) {
  const Folder folder;
  for (const bool deflate : {false, true}) {
    const Bytes whole = small_npz(deflate);
    EXPECT_EQ(values(folder.put("whole.npz", whole), "q"), (std::vector<double>{1, 2, 3, 4, 5, 6}));
    for (std::size_t length = 0; length < whole.size(); ++length)
      fault_of_open(folder.put("cut.npz", whole.substr(0, length)));
  }
}

// A changed byte is refused, or it was none that matters: the values that are read are the right ones.
TEST(Npz, AnyChangedByteIsFoundOrHarmless) {
  const Folder folder;
  for (const bool deflate : {false, true}) {
    const Bytes whole = small_npz(deflate);
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (const int change : {0x01, 0x80, 0xff}) {
        Bytes changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ change);
        const auto path = folder.put("changed.npz", changed);
        try {
          const TensorFile file = TensorFile::open(path);
          for (const ArrayInfo& info : file.arrays()) {
            const auto found = values(file.read(info.name));
            const bool q = found == std::vector<double>{1, 2, 3, 4, 5, 6}, k = found == std::vector<double>{7, 8};
            EXPECT_TRUE(q || k) << "byte " << at;
          }
        } catch (const InputError&) {}
      }
  }
}

TEST(Npz, ChangedDataAreFoundByTheirCrcWhileReading) {
  const Folder folder;
  Bytes changed = small_npz(false);
  const Bytes needle = little(3.0f);
  changed[changed.find(needle)] ^= 1;
  const TensorFile file = TensorFile::open(folder.put("changed.npz", changed));
  EXPECT_THAT(fault([&] { file.read("q"); }), HasSubstr("CRC-32"));
  EXPECT_THAT(fault([&] { file.read_range("q", 0, 1); }), HasSubstr("CRC-32"));  // also of a part
  EXPECT_EQ(values(file.read("k")), (std::vector<double>{7, 8}));
}

struct Hostile {
  const char* what;
  Bytes bytes;
  const char* says;
};
std::vector<Hostile> hostile_files() {
  const Bytes good = floats_npy("(2,)", {7, 8});
  const auto with = [&](const std::function<void(Member&)>& change, bool deflate = false) {
    Member member = deflate ? squeezed("q.npy", good) : stored("q.npy", good);
    change(member);
    return zip({member});
  };
  const Bytes terabyte = npy_of("<f4", "(274877906944,)", Bytes(8, '\0'));
  Member bomb = squeezed("q.npy", npy_of("<f4", "(262144,)", Bytes(1 << 20, '\0')));
  bomb.inflated = 4'000'000'000;
  Member long_header = squeezed("q.npy", Bytes("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12) + Bytes(1 << 20, ' '));
  Member twin = stored("k.npy", good);
  twin.at = 0;
  Member same_bytes = stored("q.npy", good);
  std::vector<Member> many;
  for (int n = 0; n < 3000; ++n) many.push_back(stored(std::to_string(n) + ".npy", ""));
  return {
      {"claims 1 TB, stored", zip({stored("q.npy", terabyte)}), "8 bytes of data"},
      {"claims 1 TB, deflated", zip({squeezed("q.npy", terabyte)}), "8 bytes of data"},
      {"inflates 4000 : 1", zip({bomb}), "1100 : 1"},
      {"2 GB header", zip({long_header}), "a header of 2147483647 bytes"},
      {"compressed size beyond the file", with([](Member& m) {
         m.raw += Bytes(4, 'x');
         m.method = 8;
         m.inflated = 1 << 30;
       }),
       "1100 : 1"},
      {"stored with unequal sizes", with([](Member& m) { m.inflated += 1; }), "equal sizes"},
      {"encrypted", with([](Member& m) { m.flags = 1; }), "encrypted"},
      {"bzip2", with([](Member& m) { m.method = 12; }), "compression method 12"},
      {"not deflate", with([](Member& m) { m.raw = Bytes(m.raw.size(), '\xff'); }, true), "deflate"},
      {"float8", zip({stored("q.npy", npy_of("<f1", "(2,)", "ab"))}), "'<f1'"},
      {"not a npy", zip({stored("q.npy", "just some text")}), "another file type"},
      {"empty member", zip({stored("q.npy", "")}), "0 bytes"},
      {"name twice", zip({stored("q.npy", good), stored("q.npy", good)}), "duplicate name"},
      {"two names for the same bytes", zip({same_bytes, twin}), ""},
      {"local header elsewhere", with([](Member& m) { m.at = 1'000'000; }), ""},
      {"3000 members", zip(many), "3000 zip members"},
      {"a PyTorch checkpoint", zip({stored("archive/data.pkl", "x")}), "PyTorch"},
      {"directory cut", small_npz(true).substr(0, small_npz(true).size() - 30), "zip"},
  };
}

TEST(Npz, HostileFilesAreRefusedWithReason) {
  const Folder folder;
  for (const Hostile& hostile : hostile_files()) {
    const auto path = folder.put("hostile.npz", hostile.bytes);
    const auto before = process_memory().current();
    process_memory().reset_peak();
    std::string message;
    const double took = seconds_of([&] { message = fault_of_open(path); });
    EXPECT_THAT(message, HasSubstr(hostile.says)) << hostile.what;
    EXPECT_THAT(message, HasSubstr(path.string())) << hostile.what;
    EXPECT_LE(took, 0.1) << hostile.what;
    EXPECT_EQ(process_memory().peak(), before) << hostile.what;
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The same in a child that may have 64 MB more than it has: what a header claims is never allocated.
TEST(Npz, HostileFilesNeedNoMemory) {
  const Folder folder;
  int number = 0;
  for (const Hostile& hostile : hostile_files()) folder.put(std::to_string(number++) + ".npz", hostile.bytes);
  folder.put(std::to_string(number++) + ".npz", npy_of("<f8", "(1099511627776,)", "12345678"));
  folder.put(std::to_string(number++) + ".npz", Bytes("\x93NUMPY\x03\x00\xff\xff\xff\xff{}", 14));
  folder.put(std::to_string(number++) + ".npz", little(std::uint64_t{1} << 48) + "{}");
  folder.put(std::to_string(number++) + ".npz",
             safetensors(R"({"Q":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}})", ""));
  const pid_t child = fork();
  if (child == 0) {
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto limit = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (64 << 20));
    const rlimit room{limit, limit};
    if (setrlimit(RLIMIT_AS, &room) != 0) _exit(2);
    for (int n = 0; n < number; ++n) try {
        TensorFile::open(folder / (std::to_string(n) + ".npz"));
        _exit(3);
      } catch (const InputError&) {
      } catch (...) {
        _exit(4);
      }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

TEST(Npz, MembersThatAreNoArraysAreLeftOut) {
  const Folder folder;
  const auto path = folder.put("a.npz", zip({stored("README", "hello"), stored("folder/", ""),
                                             squeezed("layers/0/q.npy", floats_npy("(1,)", {5})),
                                             stored("scores.npy", npy_of("|O", "(1,)", "pickle"))}));
  const TensorFile file = TensorFile::open(path);
  ASSERT_EQ(file.arrays().size(), 1u);
  EXPECT_EQ(file.arrays()[0].name, "layers/0/q");
  EXPECT_EQ(values(file.read("layers/0/q")), std::vector<double>{5});
  EXPECT_THAT(file.skipped()[0].found, HasSubstr("never loaded"));
  EXPECT_TRUE(TensorFile::open(folder.put("none.npz", zip({}))).arrays().empty());
}

TEST(Npz, TextsOfEveryKind) {
  const Folder folder;
  const Bytes wide("b\0\0\0h\0\0\0n\0\0\0d\0\0\0", 16);
  const TensorFile file = TensorFile::open(folder.put(
      "a.npz",
      zip({stored("u.npy", npy_of("<U4", "()", wide)), stored("s.npy", npy_of("|S6", "(1,)", Bytes("bnhd\0\0", 6))),
           stored("b.npy", npy_of("|u1", "(3,)", "hnd")), stored("f.npy", floats_npy("(1,)", {1})),
           stored("long.npy", npy_of("|S2000", "()", Bytes(2000, 'x')))})));
  EXPECT_EQ(file.text("u"), "bhnd");
  EXPECT_EQ(file.text("s"), "bnhd");
  EXPECT_EQ(file.text("b"), "hnd");
  EXPECT_EQ(file.text("f"), std::nullopt);
  EXPECT_EQ(file.text("long"), std::nullopt);
}

TEST(Npz, ProgressAndCancelWhileInflating) {
  const Folder folder;
  const auto path = folder.put("a.npz", zip({squeezed("m.npy", npy_of("|b1", "(1000000,)", Bytes(1000000, '\1')))}));
  const TensorFile file = TensorFile::open(path);
  std::int64_t last = 0, set = 0;
  file.stream(
      "m",
      [&](std::int64_t, std::span<const std::uint8_t> run) {
        for (const std::uint8_t value : run) set += value;
      },
      {},
      [&](std::int64_t done, std::int64_t total) {
        EXPECT_GT(done, last);
        EXPECT_EQ(total, 1000000);
        last = done;
      });
  EXPECT_EQ(set, 1000000);
  EXPECT_EQ(last, 1000000);
  std::stop_source source;
  int calls = 0;
  EXPECT_THROW(file.stream(
                   "m", [&](auto, auto) { ++calls, source.request_stop(); }, source.get_token()),
               Cancelled);
  EXPECT_EQ(calls, 1);
}

// A member of more than 4 GiB, as numpy.savez writes it (zip64), in a file that is a hole on disk.
TEST(Npz, MembersBeyondFourGigabytes) {
  const Folder folder;
  const std::uint64_t count = std::uint64_t{5} << 30;
  const Bytes header = npy_of("|b1", "(5368709120,)", "");
  const std::uint64_t size = header.size() + count;
  const auto zip64 = [&](std::uint64_t offset, bool with_offset) {
    return little(std::uint16_t{1}) + little(static_cast<std::uint16_t>(with_offset ? 24 : 16)) + little(size) +
           little(size) + (with_offset ? little(offset) : Bytes());
  };
  const auto common = [&](std::uint16_t extra) {
    return little(std::uint16_t{45}) + little(std::uint16_t{0}) + little(std::uint16_t{0}) +
           little(std::uint32_t{0x210000}) + little(std::uint32_t{0}) + little(~std::uint32_t{0}) +
           little(~std::uint32_t{0}) + little(std::uint16_t{5}) + little(extra);
  };
  const auto path = folder / "large.npz";
  std::ofstream out(path, std::ios::binary);
  Bytes directory;
  for (const char* name : {"a.npy", "b.npy"}) {
    const auto offset = static_cast<std::uint64_t>(out.tellp());
    out << "PK\x03\x04" << common(20) << name << zip64(0, false) << header;
    out.seekp(static_cast<std::streamoff>(count), std::ios::cur);
    directory += "PK\x01\x02" + little(std::uint16_t{45}) + common(28) + Bytes(10, '\0') + little(~std::uint32_t{0}) +
                 name + zip64(offset, true);
  }
  const auto place = static_cast<std::uint64_t>(out.tellp());
  const std::uint64_t two = 2, length = directory.size();
  out << directory << "PK\x06\x06" << little(std::uint64_t{44}) << little(std::uint16_t{45})
      << little(std::uint16_t{45}) << Bytes(8, '\0') << little(two) << little(two) << little(length) << little(place)
      << "PK\x06\x07" << Bytes(4, '\0') << little(place + length) << little(std::uint32_t{1}) << "PK\x05\x06"
      << Bytes(4, '\0') << Bytes(4, '\xff') << Bytes(8, '\xff') << Bytes(2, '\0');
  out.close();
  if (!out) GTEST_SKIP() << "no room for a sparse file of 10 GiB";

  const double took = seconds_of([&] { TensorFile::open(path); });
  const TensorFile file = TensorFile::open(path);
  EXPECT_LE(took, 0.1);
  ASSERT_EQ(file.arrays().size(), 2u);
  EXPECT_EQ(file.arrays()[1].elements(), static_cast<std::int64_t>(count));
  std::int64_t seen = 0;
  std::stop_source source;
  const auto sink = [&](std::int64_t first, std::span<const std::uint8_t> run) {
    EXPECT_EQ(first, seen);
    seen += static_cast<std::int64_t>(run.size());
    if (seen >= 1 << 20) source.request_stop();
  };
  EXPECT_THROW(file.stream("b", sink, source.get_token()), Cancelled);
}

TEST(Npz, WrittenAndReadBack) {
  const Folder folder;
  const std::vector<double> o = {1, 2, 3, 0.1, 5, 6}, lse = {-std::numeric_limits<double>::infinity(), 0.5};
  const std::vector<OutArray> arrays = {{"o", ElementType::float32, {1, 2, 3}, o},
                                        {"lse", ElementType::float64, {1, 2}, lse}};
  write_npz(folder / "out.npz", arrays);
  const TensorFile file = TensorFile::open(folder / "out.npz");
  EXPECT_EQ(file.find("o")->shape, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(values(file.read("o"))[3], 0.1f);
  EXPECT_EQ(values(file.read("lse")), lse);
  const Bytes first = content(folder / "out.npz");
  write_npz(folder / "out.npz", arrays);
  EXPECT_EQ(content(folder / "out.npz"), first);

  // A refused write leaves what was there, and nothing beside it.
  const std::vector<OutArray> wrong = {arrays[0], {"lse", ElementType::float64, {3}, lse}};
  fault([&] { write_npz(folder / "out.npz", wrong); });
  EXPECT_EQ(content(folder / "out.npz"), first);
  EXPECT_FALSE(std::filesystem::exists(folder / "out.npz.part"));
  fault([&] { write_npz("/dev/full/x.npz", arrays); });
}

}  // namespace
}  // namespace flashscope
