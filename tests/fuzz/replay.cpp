// Runs a fuzz target without a fuzzer: replay MUTATIONS FOLDER_OR_FILE... runs every file and then that
// many mutations of them, the same on every machine. What ends the process is left in ./fuzz-failure.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

Input now;

void keep_what_failed(int) {
  std::ofstream("fuzz-failure", std::ios::binary)
      .write(reinterpret_cast<const char*>(now.data()), static_cast<std::streamsize>(now.size()));
  std::fprintf(stderr, "the input of %zu bytes is in ./fuzz-failure\n", now.size());
  std::_Exit(1);
}

void run(Input input) {
  now = std::move(input);
  LLVMFuzzerTestOneInput(now.data(), now.size());
}

Input mutate(const std::vector<Input>& corpus, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random() % n); };
  static constexpr std::array<std::uint64_t, 12> kNumbers = {
      0, 1, 2, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, 0x100000000, 0x7fffffffffffffff, ~std::uint64_t{0}, 64};
  Input input = corpus[below(corpus.size())];
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    const std::size_t at = below(input.size());
    const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t rest = input.size() - at;
    switch (below(8)) {
      case 0:
        if (rest > 0) *place ^= static_cast<std::uint8_t>(1 << below(8));
        break;
      case 1:
        if (rest > 0) *place = static_cast<std::uint8_t>(random());
        break;
      case 2:
        input.insert(place, static_cast<std::uint8_t>(random()));
        break;
      case 3:
        input.erase(place, place + static_cast<std::ptrdiff_t>(below(std::min<std::size_t>(rest, 32) + 1)));
        break;
      case 4:
        input.resize(at);
        break;
      case 5: {  // a number that headers choke on, of 1, 2, 4 or 8 bytes
        const std::uint64_t number = kNumbers[below(kNumbers.size())];
        const std::size_t width = std::min(std::size_t{1} << below(4), rest);
        for (std::size_t n = 0; n < width; ++n) input[at + n] = static_cast<std::uint8_t>(number >> (8 * n));
        break;
      }
      case 6: {  // a piece of this or another file
        const Input other = corpus[below(corpus.size())];
        const std::size_t from = below(other.size()), count = std::min(below(64) + 1, other.size() - from);
        const auto first = other.begin() + static_cast<std::ptrdiff_t>(from);
        input.insert(place, first, first + static_cast<std::ptrdiff_t>(count));
        break;
      }
      default:  // a digit, which keeps a text header readable
        for (std::size_t n = at; n < input.size(); ++n)
          if (input[n] >= '0' && input[n] <= '9') {
            input[n] = static_cast<std::uint8_t>('0' + below(10));
            break;
          }
    }
  }
  return input;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return std::fprintf(stderr, "usage: %s MUTATIONS FOLDER_OR_FILE...\n", arguments[0]), 2;
  std::signal(SIGABRT, keep_what_failed);
  std::signal(SIGSEGV, keep_what_failed);
  std::vector<std::filesystem::path> paths;
  for (int n = 2; n < count; ++n) {
    if (!std::filesystem::is_directory(arguments[n])) {
      paths.emplace_back(arguments[n]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(arguments[n]))
      if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Input> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    run(corpus.back());
  }
  if (corpus.empty()) return std::fprintf(stderr, "no files to start from\n"), 2;
  std::mt19937_64 random(20220527);
  const long mutations = std::strtol(arguments[1], nullptr, 10);
  for (long n = 0; n < mutations; ++n) run(mutate(corpus, random));
  std::printf("%zu files and %ld mutations\n", corpus.size(), mutations);
  return 0;
}
