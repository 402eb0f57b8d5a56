// flashscope sweep: what `count` gives at every point of a product of options, as a table, CSV, JSON or a chart.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/command_line/commands.h"
#include "app/command_line/interrupt.h"
#include "app/command_line/ledger_report.h"
#include "app/command_line/options.h"
#include "app/command_line/run_report.h"
#include "app/command_line/vary.h"
#include "engine/insight/advisor.h"
#include "engine/insight/chart.h"
#include "engine/insight/sweep.h"

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
};

struct Point {
  std::vector<std::string> words;  // one for each name that varies
  std::shared_ptr<const SweepProblem> problem;
  Recipe recipe;
  ElementsAndBytes moved;  // counted
  Formula form;
  SweepPoint cost;
  bool agrees() const { return !form.elements || *form.elements == moved.elements.total(); }
};

// Sets the options of every point and checks them. Masks from files are read once for each shape.
std::vector<Point> make_points(Options& options, const std::stop_token& stop) {
  const Parts base = options.parts;
  std::vector<Point> points(static_cast<std::size_t>(product_size(options.varied)));
  std::shared_ptr<const SweepProblem> last;
  MaskOptions last_mask;
  const auto same_mask = [&](const MaskOptions& mask) {
    return mask.causal == last_mask.causal && mask.window == last_mask.window && mask.mask == last_mask.mask &&
           mask.bias == last_mask.bias && mask.mask_means == last_mask.mask_means;
  };
  for (std::size_t n = 0; n < points.size(); ++n) {
    if (stop.stop_requested()) throw Cancelled();
    Point& point = points[n];
    point.words = nth_words(options.varied, static_cast<std::int64_t>(n));
    options.parts = base;
    for (std::size_t v = 0; v < options.varied.size(); ++v)
      options.setters.at("--" + options.varied[v].name)(point.words[v]);
    const Shape shape = shape_of(options.parts.shape);
    point.recipe = recipe_of(options.parts.kernel, shape);
    if (!last || last->shape != shape || !same_mask(options.parts.mask)) {
      last_mask = options.parts.mask;
      last = std::make_shared<const SweepProblem>(
          sweep_problem(shape, mask_of(options.parts.mask, shape, options.memory), stop));
    }
    point.problem = last;
  }
  options.parts = base;
  return points;
}

void count_point(Point& point, std::int64_t memory) {
  const SweepProblem& problem = *point.problem;
  const Schedule schedule(problem.shape, problem.mask, point.recipe, memory);
  point.moved = counted(schedule);
  point.form = formula(schedule);
  if (point.form.elements) {
    point.cost = sweep_point(problem, point.recipe);
    return;
  }
  const std::int64_t cells = matmul_flops(schedule) / (2 * (problem.shape.d + problem.shape.dv));
  point.cost = sweep_point(problem, point.recipe, {point.moved.elements, point.moved.bytes, schedule.tiles(), cells});
}

void count_all(std::vector<Point>& points, std::int64_t memory, const std::stop_token& stop) {
  ProgressLine line("points");
  const auto progress = line.callback();
  std::atomic<std::size_t> next = 0, done = 0;
  std::exception_ptr failed;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (std::size_t n = next++; n < points.size() && !stop.stop_requested(); n = next++) {
        count_point(points[n], memory);
        progress(static_cast<std::int64_t>(++done), static_cast<std::int64_t>(points.size()));
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failed) failed = std::current_exception();
      next = points.size();
    }
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t threads = std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()), points.size());
    for (std::size_t n = 1; n < threads; ++n) helpers.emplace_back(work);
    work();
  }
  if (failed) std::rethrow_exception(failed);
  if (stop.stop_requested()) throw Cancelled();
}

// ---- columns, for the table and the CSV

struct Column {
  std::string name, origin;
  std::function<std::string(const Point&)> text;
};

std::vector<Column> columns(const Options& options) {
  std::vector<Column> list;
  for (std::size_t v = 0; v < options.varied.size(); ++v)
    list.push_back({options.varied[v].name, "varied", [v](const Point& point) { return point.words[v]; }});
  const auto number = [&](const char* name, const char* origin, std::int64_t (*get)(const Point&)) {
    list.push_back({name, origin, [get](const Point& point) { return std::to_string(get(point)); }});
  };
  const auto varies = [&](std::string_view name) {
    return std::any_of(options.varied.begin(), options.varied.end(), [&](const Varied& v) { return v.name == name; });
  };
  if (!varies("br")) number("br", "recipe", [](const Point& p) { return p.recipe.Br; });
  if (!varies("bc")) number("bc", "recipe", [](const Point& p) { return p.recipe.Bc; });
  number("tiles", "counted: tiles visited", [](const Point& p) { return p.cost.form.tiles; });
  number("read", "counted: elements, source units", [](const Point& p) { return p.moved.elements.total().read; });
  number("written", "counted: elements, source units", [](const Point& p) { return p.moved.elements.total().written; });
  number("elements", "counted: read + written", [](const Point& p) { return p.moved.elements.total().total(); });
  list.push_back({"formula", "formula: elements; equals the count", [](const Point& p) {
                    return p.form.elements ? std::to_string(p.form.elements->total()) : std::string("none");
                  }});
  number("bytes", "counted: kernel units", [](const Point& p) { return p.moved.bytes.total().total(); });
  number("sram_bytes", "formula: one thread block's tiles, state and scores",
         [](const Point& p) { return on_chip(p.problem->shape, p.recipe).total(); });
  number("masked_flops", "formula: matmul FLOPs on masked scores", [](const Point& p) { return p.cost.masked_flops; });
  number("ragged_flops", "formula: matmul FLOPs beyond the edge in whole tiles",
         [](const Point& p) { return p.cost.ragged_flops; });
  list.push_back({"flop_per_byte", "matmul FLOPs / bytes, both counted",
                  [](const Point& p) { return fmt::format("{:.6g}", p.cost.intensity()); }});
  number("blocks", "formula: thread blocks launched", [](const Point& p) { return p.cost.blocks; });
  if (options.device) {
    const HardwareSheet* device = options.device;
    list.push_back({"floor_us", "bytes / bandwidth of the sheet: a floor, not a prediction", [device](const Point& p) {
                      const auto seconds = floor_seconds(*device, static_cast<double>(p.moved.bytes.total().total()));
                      return seconds ? fmt::format("{:.6g}", *seconds * 1e6) : std::string("none");
                    }});
    list.push_back({"fits", "limits of the sheet " + device->name, [device](const Point& p) {
                      const std::string why = why_infeasible(p.problem->shape, p.recipe, *device);
                      return why.empty() ? std::string("yes") : "no: " + why;
                    }});
  }
  return list;
}

void print_table(const Options& options, const std::vector<Point>& points) {
  const Point& first = points.front();
  fmt::print("{}\n{}\n\n", recipe_text(first.problem->shape, first.recipe),
             conventions(first.recipe, first.problem->mask));
  Table table;
  std::vector<std::string> names;
  const std::vector<Column> list = columns(options);
  names.reserve(list.size());
  for (const Column& column : list) names.push_back(column.name);
  table.line(names);
  for (const Point& point : points) {
    std::vector<std::string> cells;
    for (const Column& column : list) {
      std::string text = column.text(point);
      const bool digits = text.find_first_not_of("0123456789") == text.npos && text.size() < 19;
      cells.push_back(digits && column.origin != "varied" ? grouped(std::stoll(text)) : text);
    }
    table.line(std::move(cells));
  }
  fmt::print("{}\n", table.text());
  for (const Column& column : list) {
    if (column.origin != "varied" && column.origin != "recipe") fmt::print("  {}: {}\n", column.name, column.origin);
  }
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw InputError(path.string(), "a file that cannot be written", "a place that can");
}

std::string csv_text(const Options& options, const std::vector<Point>& points) {
  const Point& first = points.front();
  std::string text = fmt::format("# flashscope sweep: {}\n# {}\n", recipe_text(first.problem->shape, first.recipe),
                                 conventions(first.recipe, first.problem->mask));
  const std::vector<Column> list = columns(options);
  for (const Column& column : list) text += fmt::format("# {}: {}\n", column.name, column.origin);
  const auto line = [&](const auto& cell) {
    for (std::size_t n = 0; n < list.size(); ++n) text += (n == 0 ? "" : ",") + cell(list[n]);
    text += '\n';
  };
  line([](const Column& column) { return column.name; });
  for (const Point& point : points) {
    line([&](const Column& column) {
      const std::string cell = column.text(point);
      return cell.find(',') == cell.npos ? cell : '"' + cell + '"';
    });
  }
  return text;
}

// Elements against the last option whose values are numbers; a line for each combination of the others.
Chart make_chart(const Options& options, const std::vector<Point>& points) {
  const auto numeric = [](const Varied& varied) {
    return std::all_of(varied.values.begin(), varied.values.end(), [](const std::string& word) {
      return !word.empty() && word.find_first_not_of("0123456789") == word.npos;
    });
  };
  std::size_t across = options.varied.size();
  for (std::size_t v = 0; v < options.varied.size(); ++v) {
    if (numeric(options.varied[v])) across = v;
  }
  if (across == options.varied.size()) throw UsageError("--chart: a --vary whose values are numbers is needed");
  const Point& first = points.front();
  Chart chart;
  chart.name = "sweep";
  chart.title = recipe_text(first.problem->shape, first.recipe);
  const bool powers = options.varied[across].name != "d" && options.varied[across].name != "dv";
  chart.x = {options.varied[across].name, ChartUnit::number, powers, true, {}};
  chart.y = {"HBM traffic, elements (source units)", ChartUnit::number, true, true, {}};
  std::map<std::string, std::size_t> lines;
  for (const Point& point : points) {
    std::string name;
    for (std::size_t v = 0; v < options.varied.size(); ++v) {
      if (v != across) name += fmt::format("{}{} {}", name.empty() ? "" : ", ", options.varied[v].name, point.words[v]);
    }
    const auto [at, added] = lines.try_emplace(name, chart.series.size());
    if (added) {
      chart.series.push_back({name.empty() ? std::string(flashscope::name(point.recipe.algorithm)) : name, "counted",
                              SeriesStyle::line, static_cast<int>(chart.series.size())});
    }
    ChartSeries& series = chart.series[at->second];
    series.x.push_back(std::stod(point.words[across]));
    series.y.push_back(static_cast<double>(point.moved.elements.total().total()));
  }
  chart.notes.push_back(conventions(first.recipe, first.problem->mask));
  return chart;
}

Json point_json(const Options& options, const Point& point) {
  const SweepProblem& problem = *point.problem;
  const Schedule schedule(problem.shape, problem.mask, point.recipe, options.memory);
  Json object = {{"vary", Json::object()}};
  for (std::size_t v = 0; v < options.varied.size(); ++v) object["vary"][options.varied[v].name] = point.words[v];
  object.update(ledger_report(schedule, point.moved, point.form));
  object["masked_flops"] = point.cost.masked_flops;
  object["ragged_flops"] = point.cost.ragged_flops;
  object["flop_per_byte"] = number(point.cost.intensity());
  object["thread_blocks"] = blocks_json(problem.shape, point.recipe, options.device);
  if (options.device) {
    const std::string why = why_infeasible(problem.shape, point.recipe, *options.device);
    const auto floor = floor_seconds(*options.device, static_cast<double>(point.moved.bytes.total().total()));
    object["sheet"] = {{"name", options.device->name},
                       {"fits", why.empty()},
                       {"reason", why.empty() ? Json() : Json(why)},
                       {"floor_seconds", floor ? Json(*floor) : Json()}};
  }
  return object;
}

// A million points are a gigabyte of JSON: written as it is made.
void print_points(const Options& options, const std::vector<Point>& points) {
  const char* before = "{\n  \"points\": [\n";
  for (const Point& point : points) {
    fmt::print("{}{}", before, point_json(options, point).dump());
    before = ",\n";
  }
  fmt::print("\n  ]\n}}\n");
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

int advise_blocks(const Options& options) {
  if (!options.device) throw UsageError("--advise: --device-sheet NAME is needed");
  if (!options.varied.empty()) throw UsageError("--advise tries block sizes of its own: not together with --vary");
  const Shape shape = shape_of(options.parts.shape);
  const Recipe recipe = recipe_of(options.parts.kernel, shape);
  if (recipe.algorithm == Algorithm::standard) throw UsageError("--advise: standard attention has no block sizes");
  const Interrupt interrupt;
  const SweepProblem problem =
      sweep_problem(shape, mask_of(options.parts.mask, shape, options.memory), interrupt.token());
  if (!has_closed_form(problem.mask, recipe))
    throw UsageError("--advise: --skip all with a mask from a file has no closed form; --skip geometry has");
  const AdviceList list = advise(problem, recipe, *options.device);
  if (options.json) {
    Json best = Json::array(), fills = Json::array();
    for (const Advice& one : list.best) best.push_back(advice_json(one));
    for (const Advice& one : list.fills) fills.push_back(advice_json(one));
    print_json({{"sheet", options.device->name},
                {"advice", best},
                {"fills_the_device", fills},
                {"considered", list.considered},
                {"infeasible", list.infeasible},
                {"judged", list.note}});
    return kDone;
  }
  fmt::print("{}\n{}\n\n", recipe_text(shape, recipe), conventions(recipe, problem.mask));
  if (list.best.empty()) {
    fmt::print("No block sizes fit {}.\n", options.device->name);
    return kDone;
  }
  Table table;
  table.line({"", "br", "bc", "bytes", "shared memory", "blocks", "why"});
  const auto line = [&](const char* what, const Advice& one) {
    table.line({what, std::to_string(one.recipe.Br), std::to_string(one.recipe.Bc),
                grouped(one.cost.form.bytes.total().total()), bytes_text(one.demand.shared_bytes),
                grouped(one.cost.blocks), one.why});
  };
  for (std::size_t n = 0; n < list.best.size(); ++n) line(n == 0 ? "best" : "runner-up", list.best[n]);
  for (const Advice& one : list.fills) line("fills it", one);
  fmt::print("{}\n  judged {}\n", table.text(), list.note);
  return kDone;
}

int sweep(Options& options) {
  if (options.advise) return advise_blocks(options);
  if (options.varied.empty()) throw UsageError("--vary NAME=VALUES is needed, as in --vary sram=12500,25000");
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
  const Interrupt interrupt;
  std::vector<Point> points = make_points(options, interrupt.token());
  count_all(points, options.memory, interrupt.token());
  if (!options.csv.empty()) write_file(options.csv, csv_text(options, points));
  if (!options.chart.empty()) write_file(options.chart, svg(make_chart(options, points)));
  if (options.json) {
    print_points(options, points);
  } else {
    print_table(options, points);
  }
  if (std::all_of(points.begin(), points.end(), [](const Point& point) { return point.agrees(); })) return kDone;
  fmt::print(stderr, "flashscope sweep: counted and formula differ; this is a fault of the program\n");
  return kFound;
}

}  // namespace

void add_sweep(Command& command) {
  const auto options = std::make_shared<Options>();
  add_shape(command, options->parts.shape);
  add_mask(command, options->parts.mask, options->parts.kernel.recipe);
  add_kernel(command, options->parts.kernel);
  options->setters = command.setters();
  command.group("SWEEP");
  command.repeated("--vary", "NAME=VALUES", "an option above and its values: a,b,... | a:b:step | a:b:*factor",
                   [options](const std::string& word) { options->varied.push_back(parse_varied(word)); });
  command.path("--csv", "one line a point; its header says how each column was obtained", options->csv);
  command.path("--chart", "SVG of the elements against the last --vary of numbers", options->chart);
  command.option("--device-sheet", "NAME", "limits and bandwidth of a GPU: A100 80GB, H200, RTX 4090 ...",
                 [options](const std::string& word) { options->device = &sheet_named(word); });
  command.flag("--advise", options->advise, "the best Br and Bc for the shape and --device-sheet, and why");
  command.group("Options");
  command.flag("--json", options->json, "one JSON object on standard output");
  add_memory(command, options->memory);
  command.refused("--measure", "not built yet");
  command.footer("Example: flashscope sweep --algorithm flash1 --n 4096 --d 64 --vary sram=12500:200000:*2");
  command.action([options] { return sweep(*options); });
}

}  // namespace flashscope::command_line
