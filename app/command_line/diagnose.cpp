// flashscope diagnose: which rows are NaN, where the first NaN is born and why, why any cell is what it is, and what
// the mask does. Of a session, the NaN of its runs too.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/command_line/against.h"
#include "app/command_line/commands.h"
#include "app/command_line/interrupt.h"
#include "app/command_line/numerics.h"
#include "app/command_line/options.h"
#include "app/command_line/run_nans.h"
#include "app/command_line/why_output.h"
#include "engine/insight/product_range.h"

namespace flashscope::command_line {
namespace {

struct Options {
  ProblemOptions problem;
  KernelOptions kernel;
  std::vector<std::string> cells;  // of --why
  AgainstOptions against;
  bool lse_given = false;
  std::int64_t threads = 0;
  bool json = false;
};

struct Findings {
  Diagnosis diagnosis;
  MaskFindings mask;
  std::vector<Convention> conventions;
  std::optional<Provenance> first_nan;  // of the first NaN
  std::vector<Provenance> answers;      // to the questions, in their order
  std::optional<ProductRange> products;
  std::vector<TracedRun> runs;  // of a session
};

Json report_json(const Problem& problem, const Recipe& recipe, const Findings& findings, const LseConvention& lse,
                 std::int64_t first_head) {
  const Diagnosis& found = findings.diagnosis;
  Json object;
  object["problem"] = problem.name;
  object["nan_rows"] = rows_json(found.nan_rows);
  object["nan_row_ranges"] = ranges_json(found.nan_rows);
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
    object["first_nan"]["why"] = json_of(*findings.first_nan, first_head);
  }
  Json& answers = object["why"] = Json::array();
  for (const Provenance& answer : findings.answers) answers.push_back(json_of(answer, first_head));
  object["empty_rows"] = rows_json(found.empty_rows);
  object["empty_row_ranges"] = ranges_json(found.empty_rows);
  object["against"] = nullptr;
  object["mask"] = json_of(findings.mask, first_head);
  object["mask"]["looks_like_zero_times_inf"] = found.mask.looks_like_zero_times_inf;
  object["mask"]["looks_like_keep"] = found.mask.looks_like_keep;
  object["products"] = nullptr;
  if (findings.products)
    object["products"] = {{"largest", findings.products->largest},
                          {"head", first_head + findings.products->head},
                          {"row", findings.products->row},
                          {"key", findings.products->key},
                          {"rows_beyond_float16", findings.products->rows_beyond}};
  object["shape"] = json_of(problem.shape());
  object["recipe"] = json_of(recipe);
  object["conventions"] = conventions(recipe, problem.mask, lse);
  object["other_conventions"] = json_of(findings.conventions);
  return object;
}

void print_rows(const char* what, const RowLists& rows, std::int64_t first_head) {
  for (std::size_t head = 0; head < rows.size(); ++head) {
    if (rows[head].empty()) continue;
    fmt::print("  {} of head {}: {}\n", what, first_head + static_cast<std::int64_t>(head), rows_text(rows[head]));
  }
}

void print(const Problem& problem, const Recipe& recipe, const Findings& findings, const LseConvention& lse,
           std::int64_t first_head) {
  const Diagnosis& found = findings.diagnosis;
  fmt::print("{}: {}\n{}\n\n", problem.name, recipe_text(problem.shape(), recipe),
             conventions(recipe, problem.mask, lse));
  const std::int64_t rows = problem.shape().heads * problem.shape().Nq;
  fmt::print("{} of {} rows of O are NaN, computed\n", grouped(count_rows(found.nan_rows)), grouped(rows));
  print_rows("NaN rows", found.nan_rows, first_head);
  if (found.first_nan) {
    const FirstNan& first = *found.first_nan;
    fmt::print("first NaN: step {}, head {}, ", first.step, first_head + first.head);
    if (first.j >= 0) {
      fmt::print("tile ({}, {}), row {}, stage {}\n", first.i, first.j, first.row, name(first.stage));
    } else {
      fmt::print("row block {}, row {}, stage {}\n", first.i, first.row, name(first.stage));
    }
    print_why(*findings.first_nan, problem.shape().heads, first_head);
  }
  fmt::print("{} of {} rows see no key\n", grouped(count_rows(found.empty_rows)), grouped(rows));
  print_rows("empty rows", found.empty_rows, first_head);
  for (const Provenance& answer : findings.answers) print_why(answer, problem.shape().heads, first_head);
  if (!problem.mask.none()) print_mask(problem, findings.mask, first_head);
  if (findings.products && findings.products->rows_beyond > 0)
    fmt::print("! {}\n", text(*findings.products, first_head));
  print_conventions(findings.conventions);
}

int diagnose_problem(Options& options) {
  const Interrupt interrupt;
  const OpenedProblem opened = open_problem(options.problem, {}, interrupt.token());
  print_notes("flashscope diagnose", opened, !options.json);
  start_from(options.kernel, opened.recipe);
  const Recipe recipe = recipe_of(options.kernel, opened.problem->shape());
  const Problem& problem = *opened.problem;
  const Schedule schedule(problem.shape(), problem.mask, recipe);
  const auto threads = static_cast<int>(options.threads);
  Findings found;
  // Questions first: a wrong one is refused before the work.
  const bool one_head = problem.shape().heads == 1;
  for (const std::string& cell : options.cells) {
    Question question = parse_question(cell, one_head ? std::optional(opened.first_head) : std::nullopt);
    question.head -= opened.first_head;
    found.answers.push_back(why(problem, schedule, question, interrupt.token()));
  }
  ProgressLine line("diagnosing");
  found.diagnosis = diagnose(opened.problem, recipe, threads, interrupt.token(), line.callback());
  if (const auto& first = found.diagnosis.first_nan)
    found.first_nan = why(problem, schedule, question_of(*first), interrupt.token());
  found.runs = trace_runs(options.problem.input, options.problem.memory, threads, interrupt.token());
  found.mask.report = mask_report(problem, schedule, interrupt.token());
  if (masked_scores_matter(found.mask.report, recipe))
    found.mask.scores = score_report(problem, schedule, found.mask.report, threads, interrupt.token());
  found.products = product_range(opened.problem, recipe, threads, interrupt.token(), line.callback());
  found.conventions = conventions_in_force(problem, recipe);
  std::optional<Against> against;
  if (!options.against.file.empty())
    against = compare_with(options.against, options.problem, opened, recipe, threads, interrupt.token());
  // Nothing that people are shown depends on them without an LSE.
  const bool lse_asked = std::any_of(found.answers.begin(), found.answers.end(),
                                     [](const Provenance& answer) { return answer.links.front().of == CellKind::LSE; });
  if (options.json || options.lse_given || lse_asked || (against && against->comparison.lse))
    for (Convention& one : lse_conventions(options.against.lse)) found.conventions.push_back(std::move(one));
  const std::vector<ErrorSource> cost = numerics_cost(problem, recipe, interrupt.token());
  if (options.json) {
    Json object = report_json(problem, recipe, found, options.against.lse, opened.first_head);
    if (against) object["against"] = json_of(*against, opened.first_head);
    object["numerics"] = json_of(cost, opened.first_head);
    object["runs"] = json_of(found.runs);
    print_json(object);
  } else {
    if (against) print(*against, opened.first_head), fmt::print("\n");
    print(problem, recipe, found, options.against.lse, opened.first_head);
    command_line::print(cost, opened.first_head);
    command_line::print(found.runs);
  }
  const bool mismatch = against && !against->comparison.right();
  return mismatch || found.diagnosis.first_nan || count_rows(found.diagnosis.nan_rows) + nan_rows(found.runs) > 0
             ? kFound
             : kDone;
}

}  // namespace

void add_diagnose(Command& command) {
  const auto options = std::make_shared<Options>();
  command.flag("--json", options->json, "one JSON object on standard output");
  command.integer("--threads", "N", "threads (default: all cores)", 1, 4096,
                  [options](std::int64_t n) { options->threads = n; });
  command.option(
      "--why", "CELLS",
      "the chain behind cells, e.g. \"O[0,71,3];m[0,71]@1200\": head (unless there is one), row, column or key; @K",
      [options](const std::string& word) {
        for (std::size_t at = 0; at <= word.size();) {
          const std::size_t end = std::min(word.find(';', at), word.size());
          options->cells.push_back(word.substr(at, end - at));
          at = end + 1;
        }
      });
  command.path("--against", "your kernel's O (.npy), or o, lse, m, l (.npz, .safetensors): compared and explained",
               options->against.file);
  command.choice("--against-dtype", {"float32", "float16", "bfloat16"},
                 "the type that O of --against is judged as, whatever its file stores; bfloat16 takes raw uint16 too",
                 [options](const std::string& word) { options->against.type = parse_dtype(word); });
  command.option(
      "--lse", "HOW", "how LSE is written, and read of --against: natural, or some of base2,negative,+inf",
      [options](const std::string& words) { options->against.lse = parse_lse(words), options->lse_given = true; });
  add_problem(command, options->problem, options->kernel.recipe);
  add_kernel(command, options->kernel);
  command.footer(
      "Example: flashscope diagnose --random 1 --n 300 --d 16 --br 64 --bc 100 --causal --order reverse --guard none");
  command.action([options] { return diagnose_problem(*options); });
}

}  // namespace flashscope::command_line
