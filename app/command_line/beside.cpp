#include "app/command_line/beside.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>

#include "app/command_line/arguments.h"

namespace flashscope::command_line {

Recipe recipe_beside(std::string_view words, Recipe recipe, const Shape& shape) {
  constexpr std::string_view kPlace = "--beside";
  const auto size = [&](std::int64_t& value) {
    return [&](const std::string& text) {
      value = parse_integer(kPlace, text, 1, std::int64_t{1} << 40);
      recipe.sram.reset();
    };
  };
  const auto choice = [](auto& value) {
    return [&value](const std::string& text) { value = parse<std::decay_t<decltype(value)>>(text); };
  };
  const std::map<std::string, std::function<void(const std::string&)>, std::less<>> options = {
      {"algorithm",
       [&](const std::string& text) {
         recipe.algorithm = parse<Algorithm>(text);
         recipe.normalise.reset();
       }},
      {"br", size(recipe.Br)},
      {"bc", size(recipe.Bc)},
      {"order", choice(recipe.order)},
      {"skip", choice(recipe.skip)},
      {"guard", choice(recipe.guard)},
      {"empty-row", choice(recipe.empty_row)},
      {"normalise", [&](const std::string& text) { recipe.normalise = parse<Normalise>(text); }},
      {"numerators", choice(recipe.numerators)},
      {"mask-apply", choice(recipe.mask_apply)},
      {"defect", [&](const std::string& text) { set_defect(recipe, text); }}};
  std::string known;
  for (const auto& [name, set] : options) known += (known.empty() ? "" : ", ") + name;
  if (words != "same") {
    while (!words.empty()) {
      std::size_t comma = std::min(words.find(','), words.size());
      if (words.substr(comma).starts_with(",add")) comma += 4;  // the end of a defect's own text
      const std::string_view pair = words.substr(0, comma);
      const std::size_t equals = std::min(pair.find('='), pair.size());
      const auto option = options.find(pair.substr(0, equals));
      if (option == options.end() || equals == pair.size())
        throw InputError(std::string(kPlace), fmt::format("\"{}\"", pair), "NAME=VALUE, with a name of " + known);
      option->second(std::string(pair.substr(equals + 1)));
      words.remove_prefix(std::min(comma + 1, words.size()));
    }
  }
  check(recipe, shape);
  return recipe;
}

}  // namespace flashscope::command_line
