#include "app/command_line/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <cmath>

namespace flashscope::command_line {
namespace {

std::string in_quotes(std::string_view text) { return fmt::format("\"{}\"", text); }

}  // namespace

std::int64_t parse_integer(std::string_view where, std::string_view text, std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < min || value > max) {
    throw InputError(std::string(where), in_quotes(text), fmt::format("a whole number from {} to {}", min, max));
  }
  return value;
}

double parse_number(std::string_view where, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
    throw InputError(std::string(where), in_quotes(text), "a finite number");
  }
  return value;
}

std::int64_t parse_bytes(std::string_view where, std::string_view text) {
  constexpr std::array<std::pair<std::string_view, int>, 8> units{
      {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"K", 10}, {"M", 20}, {"G", 30}, {"B", 0}}};
  std::string_view digits = text;
  int shift = 0;
  for (const auto& [unit, power] : units) {
    if (!digits.ends_with(unit)) continue;
    digits.remove_suffix(unit.size());
    shift = power;
    break;
  }
  try {
    return parse_integer(where, digits, 1, std::int64_t{1} << (62 - shift)) << shift;
  } catch (const InputError&) {
    throw InputError(std::string(where), in_quotes(text), "a number of bytes, as in 8GiB, 512MiB or 1000000");
  }
}

void Command::footer(std::string text) { app_.footer(std::move(text)); }

void Command::flag(const std::string& name, bool& value, const std::string& help) {
  app_.add_flag(name, value, help)->group(group_);
}

void Command::option(const std::string& name, const std::string& takes, const std::string& help, const Set& set) {
  const auto join = [this, set, name, group = group_](const CLI::results_t& words) {
    const std::string word = fmt::format("{}", fmt::join(words, ","));  // CLI11 takes "[1,2]" apart
    set(word);
    given_.push_back({name, group, [set, word] { set(word); }});
    return true;
  };
  app_.add_option(name, join, help)->type_name(takes)->group(group_);
  setters_[name] = set;
}

void Command::repeated(const std::string& name, const std::string& takes, const std::string& help, const Set& set) {
  const auto each = [set](const CLI::results_t& words) {
    for (const std::string& word : words) set(word);
    return true;
  };
  app_.add_option(name, each, help)
      ->type_name(takes)
      ->group(group_)
      ->type_size(1)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void Command::optional_word(const std::string& name, const std::string& takes, const std::string& missing,
                            const std::string& help, const Set& set) {
  const auto fill = [this, set, missing, name, group = group_](const CLI::results_t& words) {
    const bool none = words.empty() || words[0].empty() || words[0] == "true";
    const std::string word = none ? missing : words[0];
    set(word);
    given_.push_back({name, group, [set, word] { set(word); }});
    return true;
  };
  app_.add_option(name, fill, help)->type_name(takes)->expected(0, 1)->group(group_);
  setters_[name] = set;
}

void Command::integer(const std::string& name, const std::string& takes, const std::string& help, std::int64_t min,
                      std::int64_t max, const std::function<void(std::int64_t)>& set) {
  option(name, takes, help, [=](const std::string& word) { set(parse_integer(name, word, min, max)); });
}

void Command::path(const std::string& name, const std::string& help, std::filesystem::path& value) {
  option(name, "FILE", help, [name, &value](const std::string& word) {
    if (word.empty()) throw InputError(name, "an empty name", "a file");
    value = word;
  });
}

void Command::choice(const std::string& name, const std::vector<std::string_view>& words, const std::string& help,
                     const Set& set) {
  const std::string list = fmt::format("{}", fmt::join(words, "|"));
  option(name, list, help, [=](const std::string& word) {
    for (const std::string_view known : words) {
      if (known == word) return set(word);
    }
    throw InputError(name, in_quotes(word), "one of " + list);
  });
}

void Command::refused(const std::string& name, const std::string& why) {
  const auto refuse = [name, why](const CLI::results_t&) -> bool { throw UsageError(name + ": " + why); };
  app_.add_option(name, refuse)->expected(0, 1)->group("");
}

void Command::action(std::function<int()> run) {
  app_.final_callback([this_run = std::move(run), &chosen = chosen_] { chosen = this_run; });
}

}  // namespace flashscope::command_line
