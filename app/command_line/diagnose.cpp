// flashscope diagnose: which rows are NaN, where the first NaN is born and why, which rows see no key.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/command_line/commands.h"
#include "app/command_line/interrupt.h"
#include "app/command_line/options.h"
#include "app/command_line/output.h"
#include "engine/insight/diagnosis.h"

namespace flashscope::command_line {
namespace {

struct Options {
  ProblemOptions problem;
  KernelOptions kernel;
  std::int64_t threads = 0;
  bool json = false;
};

using Rows = std::vector<std::vector<std::int64_t>>;

// One list for one head, a list of lists for more.
Json rows_json(const Rows& rows) { return rows.size() == 1 ? Json(rows[0]) : Json(rows); }

std::int64_t count_rows(const Rows& rows) {
  std::int64_t sum = 0;
  for (const auto& head : rows) sum += static_cast<std::int64_t>(head.size());
  return sum;
}

Json report_json(const Problem& problem, const Recipe& recipe, const Diagnosis& found, std::int64_t first_head) {
  Json object;
  object["problem"] = problem.name;
  object["nan_rows"] = rows_json(found.nan_rows);
  object["first_nan"] = nullptr;
  if (found.first_nan) {
    const FirstNan& first = *found.first_nan;
    object["first_nan"] = {{"head", first_head + first.head},
                           {"step", first.step},
                           {"i", first.i},
                           {"j", first.j},
                           {"row", first.row},
                           {"key", first.key},
                           {"stage", name(first.stage)},
                           {"cause", name(first.cause)}};
  }
  object["empty_rows"] = rows_json(found.empty_rows);
  object["against"] = nullptr;
  object["mask"] = {{"nan_cells", found.mask.nan_cells},
                    {"plus_inf_cells", found.mask.plus_inf_cells},
                    {"minus_inf_cells", found.mask.minus_inf_cells},
                    {"looks_like_zero_times_inf", found.mask.looks_like_zero_times_inf},
                    {"looks_like_keep", found.mask.looks_like_keep}};
  object["shape"] = json_of(problem.shape());
  object["recipe"] = json_of(recipe);
  object["conventions"] = conventions(recipe, problem.mask);
  return object;
}

std::string cause_text(Cause cause) {
  switch (cause) {
    case Cause::q_nan:
      return "Q holds a NaN";
    case Cause::k_nan:
      return "K holds a NaN";
    case Cause::v_nan:
      return "V holds a NaN";
    case Cause::mask_nan:
      return "the mask holds a NaN";
    case Cause::zero_times_nan:
      return "0 x NaN: a weight of 0 does not hide a NaN in V";
    case Cause::inf_minus_inf:
      return "(-inf) - (-inf): the row has seen no visible key so far";
    case Cause::fp16_overflow:
      return "a score overflowed to infinity";
    case Cause::mask_overflow:
      return "adding the mask overflowed to infinity";
    case Cause::empty_row:
      return "the row sees no key, and the policy for empty rows says NaN";
    case Cause::div_zero:
      return "0 / 0: l is 0 at the division";
  }
  return {};
}

void print_rows(const char* what, const Rows& rows, std::int64_t first_head) {
  for (std::size_t head = 0; head < rows.size(); ++head) {
    if (rows[head].empty()) continue;
    fmt::print("  {} of head {}: {}\n", what, first_head + static_cast<std::int64_t>(head), rows_text(rows[head]));
  }
}

void print(const Problem& problem, const Recipe& recipe, const Diagnosis& found, std::int64_t first_head) {
  fmt::print("{}: {}\n{}\n\n", problem.name, recipe_text(problem.shape(), recipe), conventions(recipe, problem.mask));
  const std::int64_t rows = problem.shape().heads * problem.shape().Nq;
  fmt::print("{} of {} rows of O are NaN, computed\n", grouped(count_rows(found.nan_rows)), grouped(rows));
  print_rows("NaN rows", found.nan_rows, first_head);
  if (found.first_nan) {
    const FirstNan& first = *found.first_nan;
    fmt::print("first NaN: state {}, head {}, ", first.step, first_head + first.head);
    if (first.j >= 0) {
      fmt::print("tile ({}, {}), row {}, stage {}\n", first.i, first.j, first.row, name(first.stage));
    } else {
      fmt::print("row block {}, row {}, stage {}\n", first.i, first.row, name(first.stage));
    }
    fmt::print("  {}: {}\n", name(first.cause), cause_text(first.cause));
  }
  fmt::print("{} of {} rows see no key\n", grouped(count_rows(found.empty_rows)), grouped(rows));
  print_rows("empty rows", found.empty_rows, first_head);
  if (found.mask.nan_cells > 0) {
    fmt::print(
        "the mask holds {} NaN{}\n", grouped(found.mask.nan_cells),
        found.mask.looks_like_zero_times_inf ? ", exactly where it is not -inf: built as (1 - keep) * -inf?" : "");
  }
  if (found.mask.looks_like_keep)
    fmt::print("the float mask holds only 0 and 1, and is added: meant as a keep mask?\n");
}

int diagnose_problem(const Options& options) {
  const Interrupt interrupt;
  const OpenedProblem opened = open_problem(options.problem, {}, interrupt.token());
  print_notes("flashscope diagnose", opened, !options.json);
  const Recipe recipe = recipe_of(options.kernel, opened.problem->shape());
  ProgressLine line("diagnosing");
  const Diagnosis found =
      diagnose(opened.problem, recipe, static_cast<int>(options.threads), interrupt.token(), line.callback());
  if (options.json) {
    print_json(report_json(*opened.problem, recipe, found, opened.first_head));
  } else {
    print(*opened.problem, recipe, found, opened.first_head);
  }
  return found.first_nan || count_rows(found.nan_rows) > 0 ? kFound : kDone;
}

}  // namespace

void add_diagnose(Command& command) {
  const auto options = std::make_shared<Options>();
  command.flag("--json", options->json, "one JSON object on standard output");
  command.integer("--threads", "N", "threads (default: all cores)", 1, 4096,
                  [options](std::int64_t n) { options->threads = n; });
  command.refused("--against", "comparing with another kernel's output is not built yet");
  add_problem(command, options->problem, options->kernel.recipe);
  add_kernel(command, options->kernel);
  command.footer(
      "Example: flashscope diagnose --random 1 --n 300 --d 16 --br 64 --bc 100 --causal --order reverse --guard none");
  command.action([options] { return diagnose_problem(*options); });
}

}  // namespace flashscope::command_line
