#include "app/command_line/demo.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/command_line/commands.h"
#include "app/command_line/interrupt.h"
#include "app/command_line/options.h"
#include "app/command_line/output.h"
#include "app/command_line/picture.h"
#include "app/command_line/run_report.h"
#include "app/command_line/sweep_measure.h"
#include "engine/attention/trace.h"
#include "engine/files/session_file.h"

namespace flashscope::command_line {
namespace {

// A state worth a picture: the first rescale in the second half of the run, else its middle.
std::int64_t telling_state(const std::shared_ptr<const Problem>& problem, const Recipe& recipe,
                           const std::stop_token& stop) {
  Trace trace(problem, recipe);
  const std::int64_t middle = trace.schedule().steps() / 2;
  const auto rescale = trace.find(EventKind::rescale, middle, true, 1, stop);
  return rescale ? rescale->step : middle;
}

// At step `place`, or where there is none, at a telling one.
void draw(const std::shared_ptr<const Problem>& problem, const Recipe& recipe, std::int64_t place,
          const std::filesystem::path& out, const std::stop_token& stop) {
  Document document;
  document.set_problem(problem);
  document.set_recipe(recipe);
  const std::int64_t steps = Schedule(problem->shape(), problem->mask, recipe).steps();
  const std::int64_t K = place > 0 ? std::min(place, steps) : telling_state(problem, recipe, stop);
  document.wait_idle();  // a seek belongs to the plan that is there
  document.seek(K);
  Picture picture;
  picture.out = out;
  const std::string renderer = draw_picture(document, picture, stop);
  fmt::print("{}: step {}, {} x {}, drawn by {}\n\n", out.string(), grouped(K), picture.width, picture.height,
             renderer);
}

void report_first_minutes(const Problem& problem) {
  fmt::print("{}: {}, {}\n\nThe first three minutes\n", problem.name, recipe_text(problem.shape(), demo_recipe()),
             conventions(demo_recipe(), problem.mask));
  int number = 0;
  for (const FirstMinute& line : first_three_minutes()) {
    const FirstMinuteNumbers numbers = compute(problem, line);
    fmt::print(
        "  {}. {}\n     NaN rows {} of {}, rescales {}, tiles visited {} (counted), traffic {} bytes (counted)\n",
        ++number, line.title, grouped(numbers.nan_rows), grouped(problem.shape().Nq), grouped(numbers.rescales),
        grouped(numbers.tiles_visited), grouped(numbers.bytes));
    if (numbers.first_nan) fmt::print("     first NaN: {}\n", *numbers.first_nan);
  }
}

// Its picture as it was left, every report and every measured sweep in it.
int show_session(const std::filesystem::path& file, const std::stop_token& stop) {
  const SessionFile session = read_session(file, std::int64_t{8} << 30, stop);
  if (session.problem)
    draw(session.problem, session.recipe, session.K, fmt::format("flashscope-{}.png", file.stem().string()), stop);
  if (session.reports.empty() && session.sweeps.empty()) fmt::print("{}: no report of a run\n", file.string());
  for (std::size_t n = 0; n < session.reports.size(); ++n) {
    const SavedReport& saved = session.reports[n];
    fmt::print("{}report {} of {}\n", n > 0 ? "\n" : "", n + 1, session.reports.size());
    print_report({.report = saved.report.get(),
                  .problem = saved.problem.get(),
                  .first_head = 0,
                  .sheet = nullptr,
                  .made = Made{saved.date, saved.version, saved.conventions}});
  }
  for (std::size_t n = 0; n < session.sweeps.size(); ++n) {
    fmt::print("{}sweep {} of {}\n", n > 0 || !session.reports.empty() ? "\n" : "", n + 1, session.sweeps.size());
    print_table(swept_of(session.sweeps[n], std::int64_t{8} << 30, stop));
  }
  return kDone;
}

void show_demo(const std::stop_token& stop) {
  const std::shared_ptr<const Problem> problem = demo_problem();
  draw(problem, demo_recipe(), 0, "flashscope-demo.png", stop);
  report_first_minutes(*problem);
  fmt::print("\n`flashscope --help` lists the commands.\n");
}

void show_problem(const ProblemOptions& options, const KernelOptions& kernel, const std::stop_token& stop) {
  const bool demo = !options.seed && options.input.empty() && options.q.empty();
  const OpenedProblem opened = demo ? OpenedProblem{demo_problem(), 0, {}, {}, {}} : open_problem(options, 0, stop);
  print_notes("flashscope", opened, true);
  const Recipe recipe = recipe_of(kernel, opened.problem->shape());
  std::string name = demo ? "demo" : std::filesystem::path(opened.problem->name).stem().string();
  std::replace(name.begin(), name.end(), ' ', '-');
  draw(opened.problem, recipe, 0, fmt::format("flashscope-{}.png", name), stop);
  fmt::print("{}: {}\n{}\n", opened.problem->name, recipe_text(opened.problem->shape(), recipe),
             conventions(recipe, opened.problem->mask));
}

}  // namespace

int show_without_window(const std::string& reason, Shown what, const ProblemOptions& problem,
                        const KernelOptions& kernel) {
  fmt::print("{}\n", reason);
  const Interrupt interrupt;
  if (what == Shown::file && is_session(problem.input)) return show_session(problem.input, interrupt.token());
  if (what == Shown::demo)
    show_demo(interrupt.token());
  else
    show_problem(problem, kernel, interrupt.token());
  if (what == Shown::file) fmt::print("Try `flashscope run --input {} --causal`.\n", problem.input.string());
  return kDone;
}

}  // namespace flashscope::command_line
