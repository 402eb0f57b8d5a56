// flashscope history: one row across all tiles, m, l, alpha and O before and after each.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "app/command_line/commands.h"
#include "app/command_line/interrupt.h"
#include "app/command_line/options.h"
#include "app/command_line/output.h"
#include "engine/insight/history_csv.h"

namespace flashscope::command_line {
namespace {

struct Options {
  ProblemOptions problem;
  KernelOptions kernel;
  std::optional<std::int64_t> row;
  std::int64_t channel = -1;
  std::filesystem::path csv;
  bool json = false;
};

Json json_of(const RowHistoryEntry& e, bool channel) {
  Json entry = {{"j", e.j}, {"visited", e.visited}};
  entry["step"] = e.visited ? Json(e.step) : Json();
  entry["tile_max"] = number(e.tile_max);
  entry["m"] = {{"before", number(e.m_before)}, {"after", number(e.m)}};
  entry["l"] = {{"before", number(e.l_before)}, {"after", number(e.l)}};
  entry["alpha"] = e.visited ? number(e.alpha) : Json();
  entry["rescaled"] = e.rescaled;
  entry["o_norm"] = {{"before", number(e.o_norm_before)}, {"after", number(e.o_norm)}};
  if (channel) entry["o"] = {{"before", number(e.o_before)}, {"after", number(e.o)}};
  return entry;
}

void print(const std::vector<RowHistoryEntry>& history, std::int64_t channel) {
  Table table;
  std::vector<std::string> heading = {"j", "step", "tile max", "m", "l", "alpha", "|O|"};
  if (channel >= 0) heading.push_back(fmt::format("O[{}]", channel));
  heading.emplace_back();
  table.line(heading);
  const auto both = [](double before, double after) {
    return before == after ? number_text(after) : number_text(before) + " -> " + number_text(after);
  };
  for (const RowHistoryEntry& e : history) {
    if (!e.visited) {
      std::vector<std::string> line(heading.size());
      line.front() = std::to_string(e.j), line.back() = "not visited";
      table.line(std::move(line));
      continue;
    }
    std::vector<std::string> line = {
        std::to_string(e.j),   grouped(e.step),      number_text(e.tile_max),        both(e.m_before, e.m),
        both(e.l_before, e.l), number_text(e.alpha), both(e.o_norm_before, e.o_norm)};
    if (channel >= 0) line.push_back(both(e.o_before, e.o));
    line.emplace_back(e.rescaled ? "rescale" : "");
    table.line(line);
  }
  fmt::print("{}", table.text());
}

int history(Options& options) {
  if (!options.row) throw UsageError("--row R is needed");
  const Interrupt interrupt;
  const OpenedProblem opened = open_problem(options.problem, 0, interrupt.token());
  print_notes("flashscope history", opened, false);
  start_from(options.kernel, opened.recipe);
  const Shape shape = opened.problem->shape();
  if (*options.row >= shape.Nq)
    throw InputError("--row", std::to_string(*options.row), fmt::format("0 to {}", shape.Nq - 1));
  if (options.channel >= shape.dv)
    throw InputError("--channel", std::to_string(options.channel), fmt::format("0 to {}", shape.dv - 1));
  Trace trace(opened.problem, recipe_of(options.kernel, shape), options.problem.memory);
  const auto entries = trace.row_history(0, *options.row, interrupt.token(), options.channel);
  if (!options.csv.empty()) {
    std::ofstream file(options.csv, std::ios::binary);
    file << history_csv(entries, options.channel);
    if (!file.flush()) throw InputError(options.csv.string(), "a place that cannot be written", "a file for --csv");
  }
  const Recipe& recipe = trace.schedule().recipe();
  if (options.json) {
    Json object = {{"head", opened.first_head}, {"row", *options.row}};
    object["channel"] = options.channel >= 0 ? Json(options.channel) : Json();
    object["recipe"] = command_line::json_of(recipe);
    object["conventions"] = conventions(recipe, opened.problem->mask);
    Json& list = object["tiles"] = Json::array();
    for (const RowHistoryEntry& entry : entries) list.push_back(json_of(entry, options.channel >= 0));
    print_json(object);
  } else {
    fmt::print("{}: {}\n{}\n\nhead {}, row {}, as its column blocks are folded in\n\n", opened.problem->name,
               recipe_text(shape, recipe), conventions(recipe, opened.problem->mask), opened.first_head, *options.row);
    print(entries, options.channel);
  }
  return kDone;
}

}  // namespace

void add_history(Command& command) {
  const auto options = std::make_shared<Options>();
  command.flag("--json", options->json, "one JSON object on standard output");
  command.group("HISTORY");
  command.integer("--row", "R", "the query row", 0, std::int64_t{1} << 40,
                  [options](std::int64_t row) { options->row = row; });
  command.integer("--channel", "C", "follow O[R, C] too", 0, 255,
                  [options](std::int64_t channel) { options->channel = channel; });
  command.path("--csv", "also write all of it, with every digit", options->csv);
  add_problem(command, options->problem, options->kernel.recipe);
  add_kernel(command, options->kernel);
  command.footer(
      "Shows head 0 unless --head says another.\n"
      "Example: flashscope history --random 1 --n 512 --d 64 --causal --row 300 --channel 3 --csv row300.csv");
  command.action([options] { return history(*options); });
}

}  // namespace flashscope::command_line
