// flashscope run: the whole kernel on the CPU. O and LSE, their error, time and memory as measured, traffic as counted.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/command_line/commands.h"
#include "app/command_line/interrupt.h"
#include "app/command_line/options.h"
#include "app/command_line/output.h"
#include "engine/attention/cpu_runner.h"
#include "engine/files/tensor_file.h"

namespace flashscope::command_line {
namespace {

struct Options {
  ProblemOptions problem;
  KernelOptions kernel;
  RunOptions run;
  std::filesystem::path out;
  bool json = false;
};

constexpr const char* kNotMeasured = "a processor has no counter for the boundary between HBM and a chip's tiles";

Json json_of(const ErrorReport& error) {
  return {{"max", number(error.max)},           {"tolerance", number(error.tolerance)},
          {"rows_checked", error.rows_checked}, {"rows", error.rows},
          {"nan_mismatch", error.nan_mismatch}, {"worst_head", error.worst_head},
          {"worst_row", error.worst_row},       {"within", error.within()}};
}

// How far O and LSE are from those that came with the file. Values that are NaN, or unequal infinities, on one
// side only are counted apart.
struct Difference {
  double max = 0;
  std::int64_t mismatches = 0;
};

Difference difference(const Tensor& given, std::span<const double> computed) {
  Difference result;
  for (std::int64_t h = 0, n = 0; h < given.heads; ++h) {
    for (std::int64_t r = 0; r < given.rows; ++r) {
      for (std::int64_t c = 0; c < given.cols; ++c, ++n) {
        const double a = given.at(h, r, c), b = computed[static_cast<std::size_t>(n)];
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        const double distance = std::abs(a - b);
        if (std::isfinite(distance)) {
          result.max = std::max(result.max, distance);
        } else {
          ++result.mismatches;
        }
      }
    }
  }
  return result;
}

Json json_of(const Difference& found) { return {{"max", number(found.max)}, {"mismatches", found.mismatches}}; }

Json report_json(const Problem& problem, const Report& report) {
  Json object;
  object["problem"] = problem.name;
  object["shape"] = command_line::json_of(report.shape);
  object["recipe"] = command_line::json_of(report.recipe);
  object["conventions"] = conventions(report.recipe, problem.mask);
  object["device"] = report.device;
  object["kernel"] = report.kernel;
  object["o_checksum"] = {{"sum", number(report.sum)}, {"sum_abs", number(report.sum_abs)}};
  object["nan_rows"] = report.nan_row_count;
  object["error_vs_float64"] = report.error ? json_of(*report.error) : Json();
  if (problem.given_O) object["o_in_file"] = json_of(difference(*problem.given_O, report.O));
  if (problem.given_LSE) object["lse_in_file"] = json_of(difference(*problem.given_LSE, report.LSE));
  object["seconds"] = report.seconds;
  object["memory"] = {{"peak_bytes", report.peak_bytes}, {"tensor_bytes", report.tensor_bytes}};
  object["traffic"] = {{"counted",
                        {{"elements", command_line::json_of(report.traffic.elements)},
                         {"bytes", command_line::json_of(report.traffic.bytes)}}},
                       {"measured", nullptr},
                       {"reason", kNotMeasured}};
  const std::string hidden = why_defect_cannot_show(report.recipe, problem);
  if (!hidden.empty()) object["defect_cannot_show"] = hidden;
  return object;
}

void print(const Problem& problem, const Report& report, std::int64_t first_head) {
  fmt::print("{}: {}\n{}\n\n", problem.name, recipe_text(report.shape, report.recipe),
             conventions(report.recipe, problem.mask));
  Table table;
  table.line({"device", "", report.device + ", " + report.kernel});
  table.line({"time", fmt::format("{:.4g} s", report.seconds), "measured: wall clock, the kernel alone"});
  table.line({"peak memory", bytes_text(report.peak_bytes), "measured: allocator, without Q, K, V"});
  table.line({"Q, K, V", bytes_text(report.tensor_bytes), "in the problem's type"});
  const Traffic& bytes = report.traffic.bytes;
  table.line({"HBM traffic", grouped(report.traffic.elements.total().total()), "elements, counted"});
  table.line({"", grouped(bytes.total().total()),
              fmt::format("bytes, counted: {} read, {} written", grouped(bytes.total().read),
                          grouped(bytes.total().written))});
  table.line({"sum of O", number_text(report.sum), fmt::format("of |O| {}", number_text(report.sum_abs))});
  table.line(
      {"NaN rows", grouped(report.nan_row_count), fmt::format("of {}", grouped(report.shape.heads * report.shape.Nq))});
  if (report.error) {
    const ErrorReport& error = *report.error;
    table.line({"largest error", number_text(error.max),
                fmt::format("against float64, tolerance {}: {}; {} of {} rows checked", number_text(error.tolerance),
                            error.within() ? "within" : "EXCEEDED", grouped(error.rows_checked), grouped(error.rows))});
    if (!error.within()) {
      table.line({"", "",
                  fmt::format("worst in head {}, row {}; {} rows NaN on one side only", first_head + error.worst_head,
                              error.worst_row, error.nan_mismatch)});
    }
  }
  const auto compare = [&](const char* what, const std::shared_ptr<const Tensor>& given,
                           std::span<const double> computed) {
    if (!given) return;
    const Difference found = difference(*given, computed);
    table.line({what, number_text(found.max),
                fmt::format("largest difference; {} not finite on one side only", found.mismatches)});
  };
  compare("O in the file", problem.given_O, report.O);
  compare("LSE in the file", problem.given_LSE, report.LSE);
  fmt::print("{}", table.text());
  for (std::size_t head = 0; head < report.nan_rows.size(); ++head) {
    if (!report.nan_rows[head].empty())
      fmt::print("  NaN rows of head {}: {}\n", first_head + static_cast<std::int64_t>(head),
                 rows_text(report.nan_rows[head]));
  }
  const std::string hidden = why_defect_cannot_show(report.recipe, problem);
  if (!hidden.empty()) fmt::print("  the defect {} cannot show here: {}\n", defect_text(report.recipe), hidden);
}

void write(const Report& report, const std::filesystem::path& path) {
  const Shape& shape = report.shape;
  const ElementType type = shape.type == DType::float64 ? ElementType::float64 : ElementType::float32;
  const std::array arrays{OutArray{"o", type, {shape.heads, shape.Nq, shape.dv}, report.O},
                          OutArray{"lse", type, {shape.heads, shape.Nq}, report.LSE}};
  write_npz(path, arrays);
}

int run(Options& options) {
  const Interrupt interrupt;
  const OpenedProblem opened = open_problem(options.problem, {}, interrupt.token());
  print_notes("flashscope run", opened, !options.json);
  const Problem& problem = *opened.problem;
  const Recipe recipe = recipe_of(options.kernel, problem.shape());
  options.run.memory_limit = options.problem.memory;
  ProgressLine line("running");
  const Report report = run_on_cpu(problem, recipe, options.run, interrupt.token(), line.callback());
  if (!options.out.empty()) write(report, options.out);
  if (options.json) {
    print_json(report_json(problem, report));
  } else {
    print(problem, report, opened.first_head);
    if (!options.out.empty()) fmt::print("  O and LSE written to {}\n", options.out.string());
  }
  return report.nan_row_count > 0 || (report.error && !report.error->within()) ? kFound : kDone;
}

}  // namespace

void add_run(Command& command) {
  const auto options = std::make_shared<Options>();
  command.flag("--json", options->json, "one JSON object on standard output");
  command.group("RUN");
  command.option("--device", "auto|cpu", "where it runs (default: auto, the CPU)", [](const std::string& word) {
    if (word == "cuda") throw UsageError("--device cuda: the GPU half is not built yet");
    if (word != "auto" && word != "cpu") throw InputError("--device", '"' + word + '"', "auto or cpu");
  });
  command.integer("--threads", "N", "threads (default: all cores)", 1, 4096,
                  [options](std::int64_t n) { options->run.threads = static_cast<int>(n); });
  command.option("--check", "all|N|none",
                 "rows compared with float64: all, N a head, none (default: all up to 4e10 FLOP, else 256)",
                 [options](const std::string& word) {
                   CheckRows& check = options->run.check;
                   if (word == "all") {
                     check.kind = CheckRows::Kind::all;
                   } else if (word == "none") {
                     check.kind = CheckRows::Kind::none;
                   } else {
                     check = {CheckRows::Kind::some, parse_integer("--check", word, 1, std::int64_t{1} << 40)};
                   }
                 });
  command.path("--out", "write o (heads, N, dv) and lse (heads, N) to this .npz", options->out);
  command.refused("--save", "saving a session is not built yet; --out writes O and LSE");
  command.refused("--against", "comparing with another kernel's output is not built yet");
  command.refused("--measure", "measuring needs the GPU half, which is not built yet");
  add_problem(command, options->problem, options->kernel.recipe);
  add_kernel(command, options->kernel);
  command.footer("Example: flashscope run --random 1 --n 4096 --d 64 --causal");
  command.action([options] { return run(*options); });
}

}  // namespace flashscope::command_line
