// flashscope step: the state of one head after K steps, or at the next event, place or condition.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "app/command_line/commands.h"
#include "app/command_line/interrupt.h"
#include "app/command_line/options.h"
#include "app/command_line/output.h"
#include "engine/attention/ledger.h"
#include "engine/attention/trace.h"
#include "engine/insight/search.h"

namespace flashscope::command_line {
namespace {

struct Options {
  ProblemOptions problem;
  KernelOptions kernel;
  std::optional<std::int64_t> at;
  std::optional<Stop> until;
  bool back = false;
  bool json = false;
};

Json json_of(const Event& event, std::int64_t head) {
  return {{"kind", name(event.kind)}, {"step", event.step}, {"head", head + event.head}, {"i", event.i}, {"j", event.j},
          {"row", event.row}};
}

// The value of row r, or null where the state has no such values yet.
Json value(const std::vector<double>& values, std::int64_t r) {
  return static_cast<std::size_t>(r) < values.size() ? number(values[static_cast<std::size_t>(r)]) : Json();
}

Json state_json(const Trace& trace, const TraceState& state, std::int64_t head) {
  const Schedule& schedule = trace.schedule();
  Json object;
  object["step"] = state.K;
  object["steps"] = state.steps;
  object["head"] = head + state.head;
  object["i"] = state.i;
  object["j"] = state.j;
  object["stage"] = state.step ? Json(name(state.step->stage)) : Json();
  Json& rows = object["rows"] = Json::array();
  for (std::int64_t r = 0; r < state.rows; ++r) {
    rows.push_back({{"row", state.row0 + r},
                    {"m", value(state.m, r)},
                    {"l", value(state.l, r)},
                    {"alpha", value(state.alpha, r)}});
  }
  Json& events = object["events"] = Json::array();
  for (const Event& event : state.events) events.push_back(json_of(event, head));
  Json& transfers_json = object["transfers"] = Json::array();
  if (state.step) {
    for (const Transfer& move : transfers(schedule, *state.step)) {
      transfers_json.push_back({{"tensor", name(move.operand)},
                                {"direction", move.read ? "read" : "written"},
                                {"elements", move.elements},
                                {"bytes", move.bytes}});
    }
  }
  const ElementsAndBytes traffic = counted(schedule, state.K);
  object["traffic"] = {{"elements", command_line::json_of(traffic.elements.total())},
                       {"bytes", command_line::json_of(traffic.bytes.total())}};
  object["recipe"] = command_line::json_of(schedule.recipe());
  object["conventions"] = conventions(schedule.recipe(), schedule.mask());
  return object;
}

void print(const Trace& trace, const TraceState& state, std::int64_t head) {
  const Schedule& schedule = trace.schedule();
  fmt::print("{}: {}\n{}\n\n", trace.problem().name, recipe_text(schedule.shape(), schedule.recipe()),
             conventions(schedule.recipe(), schedule.mask()));
  fmt::print("step {} of {}, head {}", grouped(state.K), grouped(state.steps), head + state.head);
  if (state.step) {
    fmt::print(": {}", name(state.step->stage));
    if (state.i >= 0) fmt::print(", row block {} (rows {}-{})", state.i, state.row0, state.row0 + state.rows - 1);
    if (state.j >= 0) fmt::print(", column block {} (keys {}-{})", state.j, state.col0, state.col0 + state.cols - 1);
    fmt::print("\n");
    for (const Transfer& move : transfers(schedule, *state.step)) {
      fmt::print("  {} {} {} x {}: {} bytes, counted\n", move.read ? "reads" : "writes", name(move.operand),
                 grouped(move.rows), grouped(move.cols), grouped(move.bytes));
    }
  } else {
    fmt::print(": nothing done yet\n");
  }
  const ElementsAndBytes so_far = counted(schedule, state.K), whole = counted(schedule);
  fmt::print("  HBM traffic so far {} of {} bytes, counted\n", grouped(so_far.bytes.total().total()),
             grouped(whole.bytes.total().total()));
  if (!state.m.empty()) {
    Table table;
    table.line({"row", "m", "l", "alpha", ""});
    for (std::int64_t r = 0; r < state.rows; ++r) {
      const auto text = [r](const std::vector<double>& values) {
        const auto at = static_cast<std::size_t>(r);
        return at < values.size() ? number_text(values[at]) : std::string();
      };
      const auto at = static_cast<std::size_t>(r);
      table.line({std::to_string(state.row0 + r), text(state.m), text(state.l), text(state.alpha),
                  at < state.rescaled.size() && state.rescaled[at] ? "rescale" : ""});
    }
    fmt::print("\n{}", table.text());
  }
  if (!state.events.empty()) fmt::print("\nEvents of this step\n");
  for (const Event& event : state.events) {
    fmt::print("  {} in tile ({}, {})", name(event.kind), event.i, event.j);
    if (event.row >= 0) fmt::print(", row {}", event.row);
    if (event.kind == EventKind::rescale) fmt::print(", alpha {}", number_text(event.alpha));
    fmt::print("\n");
  }
}

int step(Options& options) {
  if (!options.at && !options.until) throw UsageError("--at K or --until WHAT is needed");
  if (options.back && !options.until) throw UsageError("--back goes with --until WHAT");
  const Interrupt interrupt;
  const OpenedProblem opened = open_problem(options.problem, 0, interrupt.token());
  print_notes("flashscope step", opened, false);
  start_from(options.kernel, opened.recipe);
  Trace trace(opened.problem, recipe_of(options.kernel, opened.problem->shape()), options.problem.memory);
  const std::int64_t steps = trace.schedule().steps();
  std::int64_t K = options.at.value_or(options.back ? steps + 1 : 0);
  if (options.at && K > steps)
    throw InputError("--at", std::to_string(K), fmt::format("0 to {}, the number of steps", steps));
  std::int64_t row = -1;  // that it was found in
  if (options.until) {
    const std::string what = describe(*options.until);
    ProgressLine line(fmt::format("searching the {} {}", options.back ? "last" : "next", what));
    const auto found = search(opened.problem, trace.schedule().recipe(), std::span(&*options.until, 1), K,
                              !options.back, {0, interrupt.token(), line.callback()}, options.problem.memory);
    if (!found) {
      if (options.json) {
        print_json({{"step", nullptr},
                    {"steps", steps},
                    {"head", opened.first_head},
                    {"i", nullptr},
                    {"j", nullptr},
                    {"stage", nullptr},
                    {"rows", Json::array()},
                    {"events", Json::array()}});
      } else {
        fmt::print("no {} {} step {} of {}\n", what, options.back ? "before" : "after", std::min(K, steps), steps);
      }
      return kDone;
    }
    K = found->K;
    row = found->row;
  }
  const TraceState state = trace.seek(K, interrupt.token());
  if (options.json) {
    Json object = state_json(trace, state, opened.first_head);
    if (row >= 0) object["found_row"] = row;
    print_json(object);
  } else {
    print(trace, state, opened.first_head);
    if (row >= 0) fmt::print("\nfound in row {}\n", row);
  }
  return kDone;
}

}  // namespace

void add_step(Command& command) {
  const auto options = std::make_shared<Options>();
  command.flag("--json", options->json, "one JSON object on standard output");
  command.group("STEP");
  command.integer("--at", "K", "the state after K steps; with --until, where the search starts", 0,
                  std::int64_t{1} << 62, [options](std::int64_t k) { options->at = k; });
  command.integer("--from", "K", "where the search of --until starts (the same as --at)", 0, std::int64_t{1} << 62,
                  [options](std::int64_t k) { options->at = k; });
  command.option(
      "--until", "WHAT",
      "the first state with a nan, inf, rescale, rescale:X (the sums shrink by more), max, masked or partial "
      "tile, empty row, row:R, tile:I,J[,STAGE], or where a condition begins to hold for a row, as in "
      "\"alpha < 0.01 and row == 71\"",
      [options](const std::string& word) {
        try {
          options->until = parse_stop(word);
        } catch (const ConditionError& error) {
          throw InputError(fmt::format("--until, character {}", error.at() + 1), error.found(), error.expected());
        }
      });
  command.flag("--back", options->back, "search backward, from the end unless --from says where");
  add_problem(command, options->problem, options->kernel.recipe);
  add_kernel(command, options->kernel);
  command.footer(
      "Shows head 0 unless --head says another.\n"
      "Names in a condition: m l alpha m_old l_old LSE row_sum; S P key O, of which [n] is one and any all min max sum "
      "make one; head row i j r.\n"
      "Example: flashscope step --random 1 --n 300 --d 16 --causal --until \"alpha < 0.5 and row > 200\"");
  command.action([options] { return step(*options); });
}

}  // namespace flashscope::command_line
