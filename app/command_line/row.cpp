// flashscope row: the online softmax of one row of scores in chunks, with and without the rescale.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "app/command_line/commands.h"
#include "app/command_line/output.h"
#include "engine/attention/row_demo.h"

namespace flashscope::command_line {
namespace {

struct Options {
  std::string built_in = "twelve";
  std::optional<std::vector<double>> scores, values;
  std::optional<std::int64_t> chunk;
  bool json = false;
};

// Numbers as people paste them: commas, spaces, semicolons, line ends and brackets between them.
std::vector<double> parse_numbers(const std::string& where, std::string_view text) {
  constexpr std::string_view between = " ,;\t\r\n[]()";
  std::vector<double> numbers;
  for (std::size_t at = text.find_first_not_of(between); at < text.size(); at = text.find_first_not_of(between, at)) {
    const std::size_t end = std::min(text.find_first_of(between, at), text.size());
    std::string_view word = text.substr(at, end - at);
    if (word.starts_with('+')) word.remove_prefix(1);
    double value = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || rest != word.data() + word.size()) {
      throw InputError(where, fmt::format("\"{}\" as number {}", word, numbers.size() + 1),
                       "numbers, -inf, inf or nan, with commas or spaces between them");
    }
    numbers.push_back(value);
    at = end;
  }
  if (numbers.empty()) throw InputError(where, "no number", "at least one");
  return numbers;
}

Json json_of(const RowDemo& demo, int chunk) {
  const auto maybe = [](const std::optional<double>& value) { return value ? number(*value) : Json(); };
  Json object;
  object["chunk"] = chunk;
  Json& chunks = object["chunks"] = Json::array();
  for (const RowChunk& part : demo.chunks) {
    Json scores = Json::array();
    for (const double score : part.scores) scores.push_back(number(score));
    chunks.push_back({{"scores", scores},
                      {"tile_max", number(part.tile_max)},
                      {"m", number(part.m)},
                      {"alpha", number(part.alpha)},
                      {"l", number(part.l)},
                      {"l_without_rescale", number(part.l_without_rescale)},
                      {"o", maybe(part.o)},
                      {"o_without_rescale", maybe(part.o_without_rescale)}});
  }
  object["lse"] = number(demo.LSE);
  Json& weights = object["weights"] = Json::array();
  for (const double weight : demo.weights) weights.push_back(number(weight));
  object["max_error"] = number(demo.max_error);
  object["max_error_without_rescale"] = number(demo.max_error_without_rescale);
  object["output"] = maybe(demo.output);
  object["output_without_rescale"] = maybe(demo.output_without_rescale);
  return object;
}

void print(const RowDemo& demo, const std::string& title, int chunk) {
  fmt::print("{}\nm_new = max(m, max of the chunk), alpha = exp(m - m_new), l = alpha l + sum of exp(s - m_new)\n\n",
             title);
  const bool values = demo.output.has_value();
  Table table;
  std::vector<std::string> head{"keys", "chunk max", "m", "alpha", "l", "l, no rescale"};
  if (values) head.insert(head.end(), {"o", "o, no rescale"});
  head.emplace_back("");
  table.line(head);
  std::int64_t first = 0;
  for (const RowChunk& part : demo.chunks) {
    const std::int64_t last = first + static_cast<std::int64_t>(part.scores.size()) - 1;
    std::vector<std::string> cells{first == last ? std::to_string(first) : fmt::format("{}-{}", first, last),
                                   number_text(part.tile_max),
                                   number_text(part.m),
                                   number_text(part.alpha),
                                   number_text(part.l),
                                   number_text(part.l_without_rescale)};
    if (values) cells.insert(cells.end(), {number_text(*part.o), number_text(*part.o_without_rescale)});
    cells.emplace_back(first > 0 && part.alpha < 1 ? "rescale" : "");
    table.line(cells);
    first = last + 1;
  }
  fmt::print("{}\nLSE = m + ln l = {} (natural log), chunks of {}\n", table.text(), number_text(demo.LSE), chunk);
  if (values) {
    fmt::print("o / l = {}; without the rescale {}\n", number_text(*demo.output),
               number_text(*demo.output_without_rescale));
  }
  fmt::print("largest error of a weight against the whole row's softmax: {}; without the rescale {}\n",
             number_text(demo.max_error), number_text(demo.max_error_without_rescale));
}

int row(const Options& options) {
  if (options.values && !options.scores) throw UsageError("--values needs --scores");
  BuiltInRow chosen;
  if (options.scores) {
    chosen = {"", "scores as given", *options.scores, options.values.value_or(std::vector<double>{}), 4};
  } else {
    for (const BuiltInRow& known : built_in_rows()) {
      if (known.name == options.built_in) chosen = known;
    }
  }
  if (options.chunk) chosen.chunk = static_cast<int>(*options.chunk);
  const RowDemo demo = run_row(chosen.scores, chosen.values, chosen.chunk);
  if (options.json) {
    print_json(json_of(demo, chosen.chunk));
  } else {
    print(demo, chosen.title, chosen.chunk);
  }
  return kDone;
}

}  // namespace

void add_row(Command& command) {
  const auto options = std::make_shared<Options>();
  std::vector<std::string_view> names;
  std::string titles;
  for (const BuiltInRow& known : built_in_rows()) {
    names.push_back(known.name);
    titles += fmt::format("\n  {}: {}", known.name, known.title);
  }
  command.flag("--json", options->json, "one JSON object on standard output");
  command.group("ROW");
  command.choice("--built-in", names, "a row of the source documents (default: twelve)",
                 [options](const std::string& word) { options->built_in = word; });
  command.option("--scores", "NUMBERS", "scores of your own, \"1, 2.5, -inf\"",
                 [options](const std::string& word) { options->scores = parse_numbers("--scores", word); });
  command.option("--values", "NUMBERS", "one value for each score",
                 [options](const std::string& word) { options->values = parse_numbers("--values", word); });
  command.integer("--chunk", "N", "scores a chunk (default: the built-in row's, else 4)", 1, 1 << 30,
                  [options](std::int64_t n) { options->chunk = n; });
  command.footer("Built in:" + titles + "\nExample: flashscope row --scores \"1, 3, 2, 5\" --chunk 2");
  command.action([options] { return row(*options); });
}

}  // namespace flashscope::command_line
