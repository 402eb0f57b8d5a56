// flashscope [FILE] [PROBLEM] [KERNEL]: the window on what the options say, which are those of `flashscope run`.
#include <fmt/format.h>

#include "app/command_line/commands.h"
#include "app/command_line/demo.h"
#include "app/command_line/display.h"
#include "app/command_line/options.h"
#include "app/document.h"
#include "engine/files/session_file.h"

namespace flashscope::command_line {
namespace {

struct Options {
  std::filesystem::path file;
  ProblemOptions problem;  // FILE becomes its input
  KernelOptions kernel;
};

void check_there(const ProblemFiles& files) {
  for (const std::filesystem::path* path : {&files.input, &files.q, &files.k, &files.v, &files.mask, &files.bias})
    if (!path->empty() && !std::filesystem::exists(*path))
      throw InputError(path->string(), "no such file", "a file to open");
}

int open(Options& options, const std::vector<Command::Given>& given,
         const std::function<int(const WindowStart&)>& window) {
  ProblemOptions& problem = options.problem;
  if (!options.file.empty()) {
    if (!std::filesystem::exists(options.file)) {
      throw UsageError(
          fmt::format("{}: no such file, and no command of that name (see flashscope --help)", options.file.string()));
    }
    if (!problem.input.empty()) throw UsageError("FILE and --input: one file is opened at a time");
    problem.input = options.file;
  }
  bool own_problem = false, own_kernel = false;  // options were given for them
  for (const Command::Given& one : given) {
    const bool of_problem = one.group == "PROBLEM" || one.group == "SHAPE" || one.group == "MASK";
    if (one.option != "FILE") (of_problem && one.option != "--mask-apply" ? own_problem : own_kernel) = true;
  }
  const bool demo = options.file.empty() && !own_problem;
  const bool session = !problem.input.empty() && is_session(problem.input);
  if (demo) start_from(options.kernel, demo_recipe());
  if (session) start_from(options.kernel, read_session_outline(problem.input).recipe);

  WindowStart start;
  if (own_problem && source_of(problem) == ProblemSource::random) {
    recipe_of(options.kernel, shape_of(problem.shape));  // told now rather than in the window
    start.make = [problem](const std::stop_token& stop, const Progress& progress) {
      return open_problem(problem, {}, stop, progress).problem;
    };
  } else if (own_problem) {
    start.files = files_of(problem, {});
    check_there(*start.files);
  } else {
    start.file = options.file;
  }
  if (own_problem || own_kernel)
    start.recipe = [kernel = options.kernel](const Shape& shape) { return recipe_of(kernel, shape); };
  std::string why_not = "This build has no window (FLASHSCOPE_WINDOW=OFF).";
  if (window) {
    const auto no_display = why_no_display();
    if (!no_display) return window(start);
    why_not = "No window: " + *no_display + ".";
  }
  return show_without_window(why_not,
                             start.recipe ? Shown::problem
                             : demo       ? Shown::demo
                                          : Shown::file,
                             problem, options.kernel);
}

}  // namespace

void add_window(Command& command, const std::function<int(const WindowStart&)>& window) {
  const auto options = std::make_shared<Options>();
  command.option("FILE", "", ".npz, .safetensors or session (.fscope)",
                 [options](const std::string& word) { options->file = word; });
  add_problem(command, options->problem, options->kernel.recipe);
  add_kernel(command, options->kernel);
  command.footer(
      "Without FILE and PROBLEM: what was open last time; with options of KERNEL the built-in demo under them.\n"
      "Example: flashscope mine.npz --causal --br 128 --bc 64 --order reverse --guard none");
  command.action([options, &command, window] { return open(*options, command.given(), window); });
}

}  // namespace flashscope::command_line
