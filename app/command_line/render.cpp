// flashscope render: the stage in one state as a PNG, the same picture as in the window.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "app/command_line/beside.h"
#include "app/command_line/commands.h"
#include "app/command_line/interrupt.h"
#include "app/command_line/options.h"
#include "app/command_line/output.h"
#include "app/command_line/picture.h"
#include "app/gpu_child.h"

namespace flashscope::command_line {
namespace {

struct Options {
  ProblemOptions problem;
  KernelOptions kernel;
  Picture picture;
  std::optional<std::int64_t> at;
  std::optional<std::int64_t> row;
  bool on_gpu = false;
  std::optional<std::string> beside;
  bool no_scan = false;
  bool json = false;
};

int parse_side(std::string_view text) { return static_cast<int>(parse_integer("--size", text, 64, 16384)); }

void parse_size(std::string_view text, Picture& picture) {
  const std::size_t cross = text.find('x');
  if (cross == text.npos) throw InputError("--size", fmt::format("\"{}\"", text), "WIDTHxHEIGHT, as in 1920x1080");
  picture.width = parse_side(text.substr(0, cross));
  picture.height = parse_side(text.substr(cross + 1));
}

int render(Options& options) {
  if (!options.at) throw UsageError("--at K is needed: the state after K steps");
  if (options.picture.out.empty()) throw UsageError("--out FILE.png is needed");
  const Interrupt interrupt;
  const OpenedProblem opened = open_problem(options.problem, 0, interrupt.token());
  print_notes("flashscope render", opened, false);
  start_from(options.kernel, opened.recipe);
  const Recipe recipe = recipe_of(options.kernel, opened.problem->shape());
  const std::int64_t steps = Schedule(opened.problem->shape(), opened.problem->mask, recipe).steps();
  if (*options.at > steps) {
    throw InputError("--at", std::to_string(*options.at), fmt::format("0 to {}, the number of steps", steps));
  }
  const std::int64_t rows = opened.problem->shape().Nq;
  if (options.row && *options.row >= rows) {
    throw InputError("--row", std::to_string(*options.row), fmt::format("0 to {}", rows - 1));
  }
  Document document;
  document.set_problem(opened.problem, opened.found);
  document.set_recipe(recipe);
  if (options.on_gpu) {
    const gpu::GpuStatus status = gpu_status();
    if (status.devices.empty()) throw DeviceError(status.missing.empty() ? "no GPU" : status.missing.front());
    document.step_on(status.devices.front().index);
  }
  document.seek(*options.at);
  if (options.beside) document.set_beside(recipe_beside(*options.beside, recipe, opened.problem->shape()));
  document.wait_idle();
  if (!document.gpu_failed().empty()) throw DeviceError(document.gpu_failed());
  if (options.row) document.pin_row(*options.row, true);
  options.picture.scan = !options.no_scan;
  const std::string renderer = draw_picture(document, options.picture, interrupt.token());
  if (options.json) {
    print_json({{"out", options.picture.out.string()},
                {"width", options.picture.width},
                {"height", options.picture.height},
                {"step", *options.at},
                {"steps", steps},
                {"head", opened.first_head},
                {"renderer", renderer}});
  } else {
    fmt::print("{}: step {} of {}, head {}, {} x {}, drawn by {}\n", options.picture.out.string(), *options.at, steps,
               opened.first_head, options.picture.width, options.picture.height, renderer);
  }
  return kDone;
}

}  // namespace

void add_render(Command& command) {
  const auto options = std::make_shared<Options>();
  command.flag("--json", options->json, "one JSON object on standard output");
  command.group("PICTURE");
  command.integer("--at", "K", "the state after K steps", 0, std::int64_t{1} << 62,
                  [options](std::int64_t k) { options->at = k; });
  command.path("--out", "the PNG to write", options->picture.out);
  command.option("--size", "WIDTHxHEIGHT", "pixels (default: 1280x720)",
                 [options](const std::string& word) { parse_size(word, options->picture); });
  command.option("--pixel-ratio", "X", "size of text and lines, 0.5..4 (default: 1)",
                 [options](const std::string& word) {
                   const double ratio = parse_number("--pixel-ratio", word);
                   if (!(ratio >= 0.5 && ratio <= 4)) throw InputError("--pixel-ratio", word, "0.5 to 4");
                   options->picture.pixel_ratio = static_cast<float>(ratio);
                 });
  command.choice("--theme", {"dark", "light"}, "colours (default: dark)",
                 [options](const std::string& word) { options->picture.dark = word == "dark"; });
  command.choice("--map-colour", {"score", "rescaled", "mass", "nan"},
                 "the tile map: largest score, rescaled rows, softmax mass, NaN count (default: score)",
                 [options](const std::string& word) {
                   using enum viz::MapColour;
                   options->picture.map_colour = word == "rescaled" ? rescaled_rows
                                                 : word == "mass"   ? softmax_mass
                                                 : word == "nan"    ? nan_count
                                                                    : largest_score;
                 });
  command.choice("--device", {"cpu", "cuda"}, "what steps to the state (default: cpu)",
                 [options](const std::string& word) { options->on_gpu = word == "cuda"; });
  command.integer("--row", "R", "pin this query row and show its checks", 0, std::int64_t{1} << 40,
                  [options](std::int64_t row) { options->row = row; });
  command.option("--beside", "NAME=VALUE,...",
                 "a second recipe in step, by what it has other: algorithm br bc order skip guard empty-row normalise "
                 "numerators mask-apply defect; or the word same",
                 [options](const std::string& words) { options->beside = words; });
  command.flag("--no-scan", options->no_scan, "do not compute the whole run for the tile map's colours");
  add_problem(command, options->problem, options->kernel.recipe);
  add_kernel(command, options->kernel);
  command.footer(
      "Shows head 0 unless --head says another.\n"
      "Example: flashscope render --random 1 --n 512 --d 64 --causal --at 100 --out step.png");
  command.action([options] { return render(*options); });
}

}  // namespace flashscope::command_line
