// flashscope sweep: what `count` gives at every point of a product of options, as a table, CSV, JSON or a chart.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "app/command_line/commands.h"
#include "app/command_line/interrupt.h"
#include "app/command_line/options.h"
#include "app/command_line/sweep_measure.h"
#include "app/command_line/sweep_points.h"
#include "engine/insight/advisor.h"
#include "engine/insight/measurement.h"

namespace flashscope::command_line {
namespace {

// What a point is made of: set by the command line, then again by the words of every point.
struct Parts {
  ShapeOptions shape;
  MaskOptions mask;
  KernelOptions kernel;
};
struct Options {
  Parts parts;
  std::map<std::string, Command::Set> setters;  // of the options above
  std::vector<Varied> varied;
  const HardwareSheet* device = nullptr;
  std::filesystem::path csv, chart;
  std::int64_t memory = std::int64_t{8} << 30;
  bool advise = false, json = false;
  MeasureWanted wanted;
};

// Sets the options of every point and checks them. Masks from files are read once for each shape.
std::vector<SweptPoint> make_points(Options& options, const std::stop_token& stop) {
  const Parts base = options.parts;
  std::vector<SweptPoint> points(static_cast<std::size_t>(product_size(options.varied)));
  std::shared_ptr<const SweepProblem> last;
  MaskOptions last_mask;
  const auto all_of = [](const MaskOptions& m) {
    const RulesWanted& r = m.rules;
    return std::tie(m.causal, m.window, m.mask, m.bias, m.mask_means, r.lengths, r.document_ids, r.prefix, r.alibi,
                    r.published_alibi, r.softcap);
  };
  for (std::size_t n = 0; n < points.size(); ++n) {
    if (stop.stop_requested()) throw Cancelled();
    SweptPoint& point = points[n];
    point.words = nth_words(options.varied, static_cast<std::int64_t>(n));
    options.parts = base;
    for (std::size_t v = 0; v < options.varied.size(); ++v)
      options.setters.at("--" + options.varied[v].name)(point.words[v]);
    const Shape shape = shape_of(options.parts.shape);
    point.recipe = recipe_of(options.parts.kernel, shape);
    if (!last || last->shape != shape || all_of(options.parts.mask) != all_of(last_mask)) {
      last_mask = options.parts.mask;
      last = std::make_shared<const SweepProblem>(
          sweep_problem(shape, mask_of(options.parts.mask, shape, options.memory), stop));
    }
    point.problem = last;
  }
  options.parts = base;
  return points;
}

bool is_stdout(const std::filesystem::path& path) { return path == "-"; }

void write_file(const std::filesystem::path& path, const std::string& text) {
  if (is_stdout(path)) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw InputError(path.string(), "a file that cannot be written", "a place that can");
}

// What the options ask for together, before anything is counted or measured.
void check_outputs(const Options& options) {
  const bool csv = is_stdout(options.csv), chart = is_stdout(options.chart);
  if (csv + chart + options.json > 1)
    throw UsageError("--csv -, --chart - and --json write to standard output: one of them");
  if (options.advise && !(options.csv.empty() && options.chart.empty()))
    throw UsageError("--advise prints its answer, or --json: not together with --csv or --chart");
  std::string ending = options.chart.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!options.chart.empty() && !chart && ending != ".svg")
    throw InputError("--chart", options.chart.string(), "a name that ends in .svg, which is what is written, or -");
}

// ---- --advise

Json advice_json(const Advice& one) {
  return {{"recipe", json_of(one.recipe)},
          {"elements", json_of(one.cost.form.elements)},
          {"bytes", json_of(one.cost.form.bytes)},
          {"shared_bytes", one.demand.shared_bytes},
          {"blocks", one.cost.blocks},
          {"masked_flops", one.cost.masked_flops},
          {"ragged_flops", one.cost.ragged_flops},
          {"why", one.why}};
}

Json advice_json(const MeasuredSweep& sweep, const MeasuredAdviceList& list) {
  Json best = Json::array();
  for (const MeasuredAdvice& one : list.best) {
    const MeasuredPoint& point = sweep.points[one.point];
    best.push_back({{"recipe", json_of(point.recipe)}, {"measured", json_of(point)}, {"why", one.why}});
  }
  return {{"device", json_of(sweep.on)}, {"advice", best}, {"judged", list.note}};
}

void print_measured_advice(const MeasuredSweep& sweep, const MeasuredAdviceList& list) {
  fmt::print("Fastest, measured:\n");
  Table table;
  table.line({"", "br", "bc", "us", "TFLOP/s", "why"});
  for (std::size_t n = 0; n < list.best.size(); ++n) {
    const MeasuredPoint& point = sweep.points[list.best[n].point];
    table.line({n == 0 ? "fastest" : "next", std::to_string(point.recipe.Br), std::to_string(point.recipe.Bc),
                fmt::format("{:.4g}", point.gpu->median * 1e6), fmt::format("{:.4g}", point.gpu->tflops()),
                list.best[n].why});
  }
  fmt::print("{}\n  judged {}\n\n", table.text(), list.note);
}

// The median of the point with those block sizes; "not measured".
std::string time_text(const MeasuredSweep& sweep, const Recipe& recipe) {
  for (const MeasuredPoint& point : sweep.points)
    if (point.gpu && point.recipe.Br == recipe.Br && point.recipe.Bc == recipe.Bc)
      return fmt::format("{:.4g}", point.gpu->median * 1e6);
  return "not measured";
}

// `sweep`: null where nothing was measured.
void print_advice(const AdviceList& list, const HardwareSheet& device, const MeasuredSweep* sweep) {
  if (list.best.empty()) return fmt::print("No block sizes fit {}.\n", device.name);
  fmt::print("Least traffic by formula (not the fastest):\n");
  Table table;
  std::vector<std::string> names{"", "br", "bc", "bytes", "shared memory", "blocks"};
  if (sweep) names.emplace_back("us");
  names.emplace_back("why");
  table.line(names);
  const auto line = [&](const char* what, const Advice& one) {
    std::vector<std::string> cells{what,
                                   std::to_string(one.recipe.Br),
                                   std::to_string(one.recipe.Bc),
                                   grouped(one.cost.form.bytes.total().total()),
                                   bytes_text(one.demand.shared_bytes),
                                   grouped(one.cost.blocks)};
    if (sweep) cells.push_back(time_text(*sweep, one.recipe));
    cells.push_back(one.why);
    table.line(std::move(cells));
  };
  for (std::size_t n = 0; n < list.best.size(); ++n) line(n == 0 ? "least" : "next", list.best[n]);
  for (std::size_t n = 0; n < list.fills.size(); ++n) line(n == 0 ? "fills it" : "nearly", list.fills[n]);
  fmt::print("{}\n  judged {}\n", table.text(), list.note);
}

// What is asked of a GPU at a point.
MeasuredPoint asked_of(const SweepProblem& problem, const Recipe& recipe) {
  MeasuredPoint point;
  point.shape = problem.shape, point.mask = problem.mask, point.recipe = recipe;
  if (const std::string why = why_not_measurable(point); !why.empty()) throw UsageError("--measure: " + why);
  return point;
}

// A plane of block sizes of the command line's problem.
MeasuredSweep measure_plane(const Options& options, const MeasuredOn& on, const std::stop_token& stop) {
  const Shape shape = shape_of(options.parts.shape);
  const Recipe recipe = recipe_of(options.parts.kernel, shape);
  if (recipe.algorithm == Algorithm::standard)
    throw UsageError("--measure: standard attention has no block sizes to choose; --vary something else");
  const SweepProblem problem = sweep_problem(shape, mask_of(options.parts.mask, shape, options.memory), stop);
  MeasuredSweep sweep = begin_plane(on, options.wanted.options, asked_of(problem, recipe));
  measure(sweep, true, options.wanted, stop);
  return sweep;
}

// What --advise is asked about: the command line's problem, or that of a measured sweep.
struct AdvisedProblem {
  Shape shape;
  Mask mask;
  Recipe recipe;
};

// One problem's points of the sweep, whatever their block sizes: --n and --d say which, where it is of several.
AdvisedProblem take_plane(const Options& options, MeasuredSweep& sweep) {
  if (options.wanted.measure) throw UsageError("--from reads a sweep that was measured: not together with --measure");
  if (sweep.points.empty()) throw InputError("the sweep", "no points", "one or more");
  std::vector<MeasuredPoint>& points = sweep.points;
  // Keeps those of the size that is asked for; one must be asked for where they differ.
  const auto choose = [&points](const char* option, std::optional<std::int64_t> asked, std::int64_t Shape::*size) {
    std::vector<std::int64_t> sizes;
    for (const MeasuredPoint& point : points)
      if (std::find(sizes.begin(), sizes.end(), point.shape.*size) == sizes.end()) sizes.push_back(point.shape.*size);
    std::sort(sizes.begin(), sizes.end());
    if (!asked && sizes.size() > 1)
      throw UsageError(fmt::format("--advise is about one problem, and the sweep is of several: {} says which ({})",
                                   option, fmt::join(sizes, ", ")));
    if (asked && std::find(sizes.begin(), sizes.end(), *asked) == sizes.end())
      throw InputError(option, std::to_string(*asked), fmt::format("what was measured: {}", fmt::join(sizes, ", ")));
    if (asked) std::erase_if(points, [&](const MeasuredPoint& point) { return point.shape.*size != *asked; });
  };
  choose("--n", options.parts.shape.n, &Shape::Nq);
  choose("--d", options.parts.shape.d, &Shape::d);
  const MeasuredPoint like = points.front();
  if (!std::all_of(points.begin(), points.end(), [&](const MeasuredPoint& p) { return same_but_blocks(p, like); }))
    throw UsageError("--advise is about one problem, and the sweep's points differ in more than N, d, Br and Bc");
  return {like.shape, like.mask, like.recipe};
}

int advise_blocks(const Options& options) {
  if (!options.varied.empty()) throw UsageError("--advise tries block sizes of its own: not together with --vary");
  const Interrupt interrupt;
  std::optional<MeasuredSweep> sweep;
  std::optional<AdvisedProblem> of_sweep;
  if (!options.wanted.from.empty()) {
    sweep = saved_sweep(options.wanted);
    of_sweep = take_plane(options, *sweep);
  } else if (options.wanted.measure) {
    const MeasuredOn on = measured_on(options.wanted.options.device);
    sweep = measure_plane(options, on, interrupt.token());
    if (!options.wanted.save.empty()) save_sweep(*sweep, options.wanted.save);
  }
  const HardwareSheet* device = options.device ? options.device : sweep ? find_sheet(sweep->on.device) : nullptr;
  if (!device) throw UsageError("--advise: --device-sheet NAME is needed");
  const Shape shape = of_sweep ? of_sweep->shape : shape_of(options.parts.shape);
  const Recipe recipe = of_sweep ? of_sweep->recipe : recipe_of(options.parts.kernel, shape);
  if (recipe.algorithm == Algorithm::standard) throw UsageError("--advise: standard attention has no block sizes");
  const SweepProblem problem = sweep_problem(
      shape, of_sweep ? of_sweep->mask : mask_of(options.parts.mask, shape, options.memory), interrupt.token());
  if (!has_closed_form(problem.mask, recipe))
    throw UsageError("--advise: --skip all with a mask from a file has no closed form; --skip geometry has");
  const AdviceList list = advise(problem, recipe, *device);
  MeasuredAdviceList measured;
  if (sweep) measured = advise_measured(sweep->points, sweep->on);
  if (options.json) {
    Json best = Json::array(), fills = Json::array();
    for (const Advice& one : list.best) best.push_back(advice_json(one));
    for (const Advice& one : list.fills) fills.push_back(advice_json(one));
    print_json({{"sheet", device->name},
                {"measured", sweep ? advice_json(*sweep, measured) : Json()},
                {"advice_is", "least traffic by formula, not the fastest"},
                {"advice", best},
                {"fills_the_device", fills},
                {"considered", list.considered},
                {"infeasible", list.infeasible},
                {"spilling", list.spilling},
                {"judged", list.note}});
  } else {
    fmt::print("Br and Bc for {}, {}, normalise {}; {} of {} x {}, d {}, dv {}, {}\n{}\n\n", name(recipe.algorithm),
               name(recipe.order), name(recipe.normalised()), counted(shape.heads, "head"), grouped(shape.Nq),
               grouped(shape.Nk), shape.d, shape.dv, name(shape.type), conventions(recipe, problem.mask));
    if (sweep) print_measured_advice(*sweep, measured);
    print_advice(list, *device, sweep ? &*sweep : nullptr);
  }
  return sweep && measured.best.empty() ? kDevice : kDone;
}

void check_varied(const Options& options) {
  if (options.varied.empty())
    throw UsageError("--vary NAME=VALUES is needed, as in --vary sram=12500,25000, or --measure without it");
  for (std::size_t v = 0; v < options.varied.size(); ++v) {
    const std::string& name = options.varied[v].name;
    if (!options.setters.contains("--" + name)) {
      std::string known;
      for (const auto& [option, set] : options.setters) known += (known.empty() ? "" : ", ") + option.substr(2);
      throw InputError("--vary", fmt::format("\"{}\"", name), "one of " + known);
    }
    for (std::size_t other = 0; other < v; ++other) {
      if (options.varied[other].name == name) throw UsageError("--vary " + name + ": given twice");
    }
  }
}

// The points of the command line or of a session, counted, and measured where that is asked for.
Swept make_swept(Options& options, const std::stop_token& stop) {
  const MeasureWanted& wanted = options.wanted;
  Swept swept;
  if (!wanted.from.empty()) {
    if (wanted.measure || !options.varied.empty())
      throw UsageError("--from prints a sweep that was measured: not together with --vary or --measure");
    swept = swept_of(saved_sweep(wanted), options.memory, stop);
  } else {
    std::optional<MeasuredOn> on;
    if (wanted.measure) on = measured_on(wanted.options.device);
    if (on && options.varied.empty()) {
      swept = swept_of(measure_plane(options, *on, stop), options.memory, stop);
    } else {
      check_varied(options);
      swept.varied = options.varied, swept.memory = options.memory;
      swept.points = make_points(options, stop);
      count_all(swept, stop);
      if (on) {
        std::vector<MeasuredPoint> asked;
        for (const SweptPoint& point : swept.points) asked.push_back(asked_of(*point.problem, point.recipe));
        swept.measured = begin_sweep(*on, wanted.options, std::move(asked));
        measure(*swept.measured, false, wanted, stop);
        for (std::size_t n = 0; n < swept.points.size(); ++n) swept.points[n].measured = swept.measured->points[n];
      }
    }
    if (on && !wanted.save.empty()) save_sweep(*swept.measured, wanted.save);
  }
  swept.device = options.device;
  return swept;
}

int sweep(Options& options) {
  if (!options.wanted.measure && !options.wanted.save.empty()) throw UsageError("--save keeps what --measure measures");
  check_outputs(options);
  options.wanted.options.kernel = options.parts.kernel.kernel;
  if (!options.wanted.measure && options.wanted.options.kernel != gpu::KernelChoice::automatic)
    throw UsageError("--kernel: a GPU's kernel, which only --measure runs");
  if (options.advise) return advise_blocks(options);
  const Interrupt interrupt;
  const Swept swept = make_swept(options, interrupt.token());
  if (!options.csv.empty()) write_file(options.csv, csv_text(swept));
  if (!options.chart.empty()) write_file(options.chart, chart_svg(swept));
  if (options.json) {
    print_points(swept);
  } else if (!is_stdout(options.csv) && !is_stdout(options.chart)) {
    print_table(swept);
  }
  if (!std::all_of(swept.points.begin(), swept.points.end(), [](const SweptPoint& point) { return point.agrees(); })) {
    fmt::print(stderr, "flashscope sweep: counted and formula differ; this is a fault of the program\n");
    return kFound;
  }
  const bool nothing = options.wanted.measure && std::none_of(swept.points.begin(), swept.points.end(),
                                                              [](const SweptPoint& p) { return p.measured->gpu; });
  return nothing ? kDevice : kDone;
}

}  // namespace

void add_sweep(Command& command) {
  const auto options = std::make_shared<Options>();
  options->parts.kernel.gpu_kernels = true;
  add_shape(command, options->parts.shape);
  add_mask(command, options->parts.mask, options->parts.kernel.recipe);
  add_kernel(command, options->parts.kernel);
  options->setters = command.setters();
  options->setters.erase("--kernel");  // of all points
  command.group("SWEEP");
  command.repeated("--vary", "NAME=VALUES", "an option above and its values: a,b,... | a:b:step | a:b:*factor",
                   [options](const std::string& word) { options->varied.push_back(parse_varied(word)); });
  command.path("--csv", "one line a point; its header says how each column was obtained; - prints it", options->csv);
  command.path("--chart", "SVG of the traffic against the last --vary of numbers; - prints it", options->chart);
  command.option("--device-sheet", "NAME", "limits and bandwidth of a GPU: A100 80GB, H200, RTX 4090 ...",
                 [options](const std::string& word) { options->device = &sheet_named(word); });
  command.flag(
      "--advise", options->advise,
      "Br and Bc for the shape and --device-sheet, and why: the fastest measured, the least traffic by formula");
  command.group("MEASURE");
  MeasureWanted& wanted = options->wanted;
  command.flag("--measure", wanted.measure,
               "run every point on a GPU; without --vary a plane of block sizes, refined near the best");
  command.integer("--gpu", "N", "which GPU, as `flashscope devices` numbers them (default: 0)", 0, 1024,
                  [&wanted](std::int64_t n) { wanted.options.device = static_cast<int>(n); });
  command.integer("--repeats", "N", "timed launches a point, fewer where one takes long (default: 10)", 1, 100000,
                  [&wanted](std::int64_t n) { wanted.options.repeats = static_cast<int>(n); });
  command.flag("--fresh", wanted.fresh, "measure again what is known from before on this device");
  command.path("--save", "add the measured sweep to this session (.fscope), which opens without a GPU", wanted.save);
  command.path("--from", "print a measured sweep of this session; no GPU is needed", wanted.from);
  command.integer("--number", "N", "which of the sweeps in --from (default: the last)", 1, 1 << 20,
                  [&wanted](std::int64_t n) { wanted.number = n; });
  command.group("Options");
  command.flag("--json", options->json, "one JSON object on standard output");
  add_memory(command, options->memory);
  command.footer("Example: flashscope sweep --algorithm flash1 --n 4096 --d 64 --vary sram=12500:200000:*2");
  command.action([options] { return sweep(*options); });
}

}  // namespace flashscope::command_line
