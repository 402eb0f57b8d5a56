// flashscope gallery: the known mistakes and conventions; each with the smallest input that shows it and the first
// step at which it differs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/command_line/commands.h"
#include "app/command_line/output.h"
#include "engine/attention/cpu_runner.h"
#include "engine/insight/gallery.h"

namespace flashscope::command_line {
namespace {

struct Options {
  std::string entry;
  bool json = false;
};

Json entry_json(const GalleryEntry& entry) {
  return {{"name", entry.name},
          {"kind", name(entry.kind)},
          {"sentence", entry.sentence},
          {"seen_when", entry.seen_when},
          {"hidden_by", entry.hidden_by}};
}

Report run_of(const Problem& problem, const Recipe& recipe) {
  RunOptions options;
  options.threads = 1;
  options.check.kind = CheckRows::Kind::none;
  return run_on_cpu(problem, recipe, options);
}

Json numbers_of(const Buffer<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

std::string numbers_text(const Buffer<double>& values) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t n = 0; n < std::min(values.size(), kShown); ++n) text += (n ? ", " : "") + number_text(values[n]);
  return values.size() > kShown ? text + ", ..." : text;
}

int show_entry(const Options& options) {
  const GalleryPair pair = smallest_example(options.entry);
  const GalleryEntry& entry = *find_in_gallery(options.entry);
  const Report wrong = run_of(*pair.problem, pair.recipe), right = run_of(*pair.right_problem, pair.right);
  const auto first = first_difference(pair);
  if (options.json) {
    Json object = entry_json(entry);
    object["example"] = {{"shape", json_of(pair.problem->shape())},
                         {"scale", pair.problem->scale},
                         {"recipe", json_of(pair.recipe)},
                         {"right_recipe", json_of(pair.right)},
                         {"o", numbers_of(wrong.O)},
                         {"right_o", numbers_of(right.O)},
                         {"lse", numbers_of(wrong.LSE)},
                         {"right_lse", numbers_of(right.LSE)}};
    object["first_difference"] = nullptr;
    if (first)
      object["first_difference"] = {{"step", first->step},
                                    {"stage", name(first->stage)},
                                    {"head", first->head},
                                    {"i", first->i},
                                    {"j", first->j},
                                    {"row", first->row},
                                    {"quantity", first->quantity},
                                    {"value", number(first->value)},
                                    {"right", number(first->right)}};
    print_json(object);
    return kDone;
  }
  fmt::print("{} ({})\n  {}\n  seen when: {}\n  hidden by: {}\n\n", entry.name, name(entry.kind), entry.sentence,
             entry.seen_when, entry.hidden_by);
  fmt::print("smallest input: {}\n", recipe_text(pair.problem->shape(), pair.recipe));
  Table table;
  table.line({pair.left_title, "O", numbers_text(wrong.O)});
  table.line({"", "LSE", numbers_text(wrong.LSE)});
  table.line({pair.right_title, "O", numbers_text(right.O)});
  table.line({"", "LSE", numbers_text(right.LSE)});
  fmt::print("{}{}\n", table.text(),
             first ? "first difference: " + text(*first) : "both runs take the same steps to the same numbers");
  return kDone;
}

int show_all(const Options& options) {
  if (options.json) {
    Json list = Json::array();
    for (const GalleryEntry& entry : gallery()) list.push_back(entry_json(entry));
    print_json({{"gallery", std::move(list)}});
    return kDone;
  }
  Table table;
  for (const GalleryEntry& entry : gallery())
    table.line({std::string(entry.name), std::string(name(entry.kind)), std::string(entry.sentence)});
  fmt::print("{}`flashscope gallery NAME` shows the smallest input and the first step that differs\n", table.text());
  return kDone;
}

}  // namespace

void add_gallery(Command& command) {
  const auto options = std::make_shared<Options>();
  command.flag("--json", options->json, "one JSON object on standard output");
  command.option("NAME", "", "one entry, e.g. tile-max (default: the list)",
                 [options](const std::string& word) { options->entry = word; });
  command.footer("Example: flashscope gallery no-rescale-o");
  command.action([options] { return options->entry.empty() ? show_all(*options) : show_entry(*options); });
}

}  // namespace flashscope::command_line
