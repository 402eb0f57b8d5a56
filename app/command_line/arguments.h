// One command's options, as the commands declare them: name, what it takes, what it means, and a function that
// checks and stores the word. A thin face over CLI11, so that its headers are compiled once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "engine/error.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own
class App;
}

namespace flashscope::command_line {

// Bad usage that has no "found, expected": an option that is not built, two that exclude each other. Exit 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Words of the command line to values. Throw InputError with `where` as its place.
std::int64_t parse_integer(std::string_view where, std::string_view text, std::int64_t min, std::int64_t max);
double parse_number(std::string_view where, std::string_view text);       // finite
std::int64_t parse_bytes(std::string_view where, std::string_view text);  // "8GiB", "512MiB", "1000000"

class Command {
 public:
  // Called with the option's word; throws InputError or UsageError.
  using Set = std::function<void(const std::string& word)>;

  // `chosen` receives the action of the command that the person named.
  Command(CLI::App& app, std::function<int()>& chosen) : app_(app), chosen_(chosen) {}

  // Options declared from here on are listed under this heading in --help.
  void group(std::string heading) { group_ = std::move(heading); }
  void footer(std::string text);

  void flag(const std::string& name, bool& value, const std::string& help);
  void option(const std::string& name, const std::string& takes, const std::string& help, const Set& set);
  // The word may be missing: `missing` stands in for it.
  void optional_word(const std::string& name, const std::string& takes, const std::string& missing,
                     const std::string& help, const Set& set);
  // May be given several times; `set` is called for each.
  void repeated(const std::string& name, const std::string& takes, const std::string& help, const Set& set);
  void integer(const std::string& name, const std::string& takes, const std::string& help, std::int64_t min,
               std::int64_t max, const std::function<void(std::int64_t)>& set);
  void path(const std::string& name, const std::string& help, std::filesystem::path& value);
  // One of some words, listed in --help.
  void choice(const std::string& name, const std::vector<std::string_view>& words, const std::string& help,
              const Set& set);
  // An option of a later version: not listed, refused with `why`.
  void refused(const std::string& name, const std::string& why);
  // The options declared so far that take a word, and what stores it: for sweeps over them.
  const std::map<std::string, Set>& setters() const { return setters_; }
  // What was given to options that take a word, in its order.
  struct Given {
    std::string option, group;
    std::function<void()> store;  // that word again
  };
  const std::vector<Given>& given() const { return given_; }
  // What the command does once its options are read; the result is the exit code.
  void action(std::function<int()> run);

 private:
  CLI::App& app_;
  std::function<int()>& chosen_;
  std::string group_ = "Options";
  std::map<std::string, Set> setters_;
  std::vector<Given> given_;
};

}  // namespace flashscope::command_line
