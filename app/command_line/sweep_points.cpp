#include "app/command_line/sweep_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>

#include "app/command_line/arguments.h"
#include "app/command_line/interrupt.h"
#include "app/command_line/ledger_report.h"
#include "app/command_line/run_report.h"
#include "app/command_line/sweep_bounds.h"
#include "engine/insight/measured_chart.h"
#include "engine/insight/measurement.h"

namespace flashscope::command_line {
namespace {

void count_point(SweptPoint& point, std::int64_t memory) {
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

struct Column {
  std::string name, origin;
  std::function<std::string(const SweptPoint&)> text;
  bool in_table = true;
};

bool varies(const Swept& swept, std::string_view name) {
  return std::any_of(swept.varied.begin(), swept.varied.end(), [&](const Varied& v) { return v.name == name; });
}

// What a GPU measured of a point; "none" where it did not.
Column gauge_column(const char* name, Gauge gauge, double factor, const char* format, bool in_table) {
  const bool bytes = unit(gauge) == "bytes" && gauge <= Gauge::dram_written;
  return {name, (bytes ? "bytes, " : "") + std::string(how(gauge)),
          [gauge, factor, format](const SweptPoint& point) {
            const auto found = point.measured ? value(*point.measured, gauge) : std::nullopt;
            return found ? fmt::format(fmt::runtime(format), *found * factor) : std::string("none");
          },
          in_table};
}

void add_measured(std::vector<Column>& list) {
  list.push_back({"kernel", "which ran",
                  [](const SweptPoint& p) {
                    return p.measured && !p.measured->kernel.empty() ? p.measured->kernel : std::string("none");
                  },
                  false});
  list.push_back(gauge_column("time_us", Gauge::seconds, 1e6, "{:.6g}", true));
  list.push_back(gauge_column("tflops", Gauge::tflops, 1, "{:.5g}", true));
  list.push_back(gauge_column("l2_sm_read", Gauge::l2_sm_read, 1, "{:.0f}", false));
  list.push_back(gauge_column("l2_sm_written", Gauge::l2_sm_written, 1, "{:.0f}", false));
  list.push_back(gauge_column("l2_sm", Gauge::l2_sm, 1, "{:.0f}", true));
  list.push_back(gauge_column("l2_sm_less_formula", Gauge::difference, 1, "{:.0f}", true));
  list.push_back(gauge_column("dram_read", Gauge::dram_read, 1, "{:.0f}", true));
  list.push_back(gauge_column("dram_written", Gauge::dram_written, 1, "{:.0f}", true));
  list.push_back(gauge_column("occupancy_percent", Gauge::occupancy, 1, "{:.4g}", true));
  list.push_back(gauge_column("registers", Gauge::registers, 1, "{:.0f}", true));
  list.push_back(gauge_column("spilled_bytes", Gauge::spills, 1, "{:.0f}", true));
  list.push_back({"measured_at", "when this point was measured; earlier than the sweep where it was on disk",
                  [](const SweptPoint& p) { return p.measured ? p.measured->date : std::string(); }, false});
  list.push_back({"why_not", "why a point, or its counters, has no measurement", [](const SweptPoint& p) {
                    if (!p.measured) return std::string("not measured");
                    return p.measured->gpu ? p.measured->gpu->not_measured : p.measured->failed;
                  }});
}

// What `fits` compares with what.
std::string fits_text(const HardwareSheet& device) {
  std::string text;
  const auto add = [&](Quantity quantity, const char* what) {
    if (const auto most = device.value(quantity))
      text += fmt::format("{}{} with {}", text.empty() ? ": " : ", ", what, grouped(std::llround(*most)));
  };
  add(Quantity::shared_per_block, "shared_bytes");
  add(Quantity::threads_per_block, "threads a block");
  return "limits of the sheet " + device.name + text;
}

// S and O beyond the registers, by formula: where the compiler has not said what it did.
std::string warning(const SweptPoint& point, const HardwareSheet& device) {
  return point.measured && point.measured->gpu ? "" : why_spills(point.problem->shape, point.recipe, device);
}

std::vector<Column> columns(const Swept& swept) {
  std::vector<Column> list;
  const bool measured = swept.measured.has_value();
  for (std::size_t v = 0; v < swept.varied.size(); ++v)
    list.push_back({swept.varied[v].name, "varied", [v](const SweptPoint& point) { return point.words[v]; }});
  const auto number = [&](const char* name, const char* origin, std::int64_t (*get)(const SweptPoint&),
                          bool in_table = true) {
    list.push_back({name, origin, [get](const SweptPoint& point) { return std::to_string(get(point)); }, in_table});
  };
  if (!varies(swept, "br")) number("br", "recipe", [](const SweptPoint& p) { return p.recipe.Br; });
  if (!varies(swept, "bc")) number("bc", "recipe", [](const SweptPoint& p) { return p.recipe.Bc; });
  number(
      "tiles", "counted: tiles visited", [](const SweptPoint& p) { return p.cost.form.tiles; }, !measured);
  number(
      "read", "counted: elements, source units", [](const SweptPoint& p) { return p.moved.elements.total().read; },
      !measured);
  number(
      "written", "counted: elements, source units",
      [](const SweptPoint& p) { return p.moved.elements.total().written; }, !measured);
  number(
      "elements", "counted: read + written", [](const SweptPoint& p) { return p.moved.elements.total().total(); },
      !measured);
  list.push_back({"formula", "formula: elements; equals the count",
                  [](const SweptPoint& p) {
                    return p.form.elements ? std::to_string(p.form.elements->total()) : std::string("none");
                  },
                  !measured});
  number("bytes", "counted: kernel units", [](const SweptPoint& p) { return p.moved.bytes.total().total(); });
  number(
      "sram_bytes", "formula: one thread block's tiles, state and scores, in shared memory and registers",
      [](const SweptPoint& p) { return on_chip(p.problem->shape, p.recipe).total(); }, !measured);
  number(
      "masked_flops", "formula: matmul FLOPs on masked scores", [](const SweptPoint& p) { return p.cost.masked_flops; },
      !measured);
  number(
      "ragged_flops", "formula: matmul FLOPs beyond the edge in whole tiles",
      [](const SweptPoint& p) { return p.cost.ragged_flops; }, !measured);
  list.push_back({"flop_per_byte", "matmul FLOPs / bytes, both counted",
                  [](const SweptPoint& p) { return fmt::format("{:.6g}", p.cost.intensity()); }, !measured});
  number("blocks", "formula: thread blocks launched", [](const SweptPoint& p) { return p.cost.blocks; });
  if (swept.device) {
    const HardwareSheet* device = swept.device;
    list.push_back({"floor_us",
                    "formula and sheet: Q, K, V, O once / DRAM bandwidth, or the visible scores' FLOPs / peak, the "
                    "larger: no kernel takes less from cold caches (a floor, not a prediction)",
                    [device](const SweptPoint& p) {
                      const auto floor = time_floor(*p.problem, *device);
                      return floor ? fmt::format("{:.6g}", floor->seconds * 1e6) : std::string("none");
                    }});
    list.push_back(
        {"no_l2_hit_us",
         "counted bytes / DRAM bandwidth of the sheet: if nothing hit in the L2; no floor, for the L2 serves "
         "tiles that are read again",
         [device](const SweptPoint& p) {
           const auto seconds = dram_seconds(*device, static_cast<double>(p.moved.bytes.total().total()));
           return seconds ? fmt::format("{:.6g}", *seconds * 1e6) : std::string("none");
         }});
    list.push_back(
        {"shared_bytes",
         "formula: one thread block's shared memory, without what flash2 keeps in registers; with its threads "
         "what fits compares",
         [](const SweptPoint& p) { return std::to_string(block_demand(p.problem->shape, p.recipe).shared_bytes); }});
    list.push_back({"fits", fits_text(*device), [device](const SweptPoint& p) {
                      const std::string why = why_infeasible(p.problem->shape, p.recipe, *device);
                      const std::string spills = warning(p, *device);
                      return !why.empty() ? "no: " + why : spills.empty() ? "yes" : "yes, but " + spills;
                    }});
  }
  if (measured) add_measured(list);
  return list;
}

// Of an option that varies along the axis.
std::string axis_label(const std::string& option) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> labels{
      {{"sram", "M, elements on the chip"},
       {"n", "N, rows of Q"},
       {"nk", "Nk, rows of K and V"},
       {"d", "d, columns of Q and K"},
       {"br", "Br, rows of Q in a tile"},
       {"bc", "Bc, rows of K and V in a tile"}}};
  for (const auto& [name, label] : labels)
    if (option == name) return std::string(label);
  return option;
}

// Q, K, V and O once, and where DRAM leaves that.
void add_floor(Chart& chart, const std::vector<SweptPoint>& points) {
  std::vector<const SweptPoint*> ascending;  // the values of --vary stand in any order
  ascending.reserve(points.size());
  for (const SweptPoint& point : points) ascending.push_back(&point);
  std::stable_sort(ascending.begin(), ascending.end(), [](const SweptPoint* a, const SweptPoint* b) {
    return a->problem->shape.Nq < b->problem->shape.Nq;
  });
  ChartSeries floor{"Q, K, V, O once: the least", "formula", SeriesStyle::guide, kGuideColour};
  std::vector<const MeasuredPoint*> measured;
  for (const SweptPoint* point : ascending) {
    const Shape& shape = point->problem->shape;
    floor.x.push_back(static_cast<double>(shape.Nq));
    floor.y.push_back(static_cast<double>(minimum(shape).bytes.total()));
    if (point->measured) measured.push_back(&*point->measured);
  }
  chart.series.push_back(std::move(floor));
  chart.notes.push_back("DRAM moves each tensor once while K and V stay in the L2." + floor_text(measured));
}

// What a point's line is called: the options that vary, but for the one along the axis.
std::string line_name(const Swept& swept, std::size_t across, const SweptPoint& point) {
  std::string line;
  for (std::size_t v = 0; v < swept.varied.size(); ++v)
    if (v != across) line += fmt::format("{}{} {}", line.empty() ? "" : ", ", swept.varied[v].name, point.words[v]);
  return line;
}

// No more lines than a legend holds; measured, each is three series.
constexpr std::size_t kMostLines = 12, kMostMeasuredLines = 4;
struct DrawnLines {
  std::map<std::string, int> colours;  // of those that are drawn, by name
  std::size_t all = 0;
};
DrawnLines drawn_lines(const Swept& swept, std::size_t across, std::size_t most) {
  std::vector<std::string> names;
  std::unordered_set<std::string> known;
  for (const SweptPoint& point : swept.points)
    if (std::string name = line_name(swept, across, point); known.insert(name).second) names.push_back(std::move(name));
  DrawnLines drawn{{}, names.size()};
  const std::size_t count = std::min(most, names.size());
  for (std::size_t n = 0; n < count; ++n)
    drawn.colours[names[count == 1 ? 0 : n * (names.size() - 1) / (count - 1)]] = static_cast<int>(n);
  return drawn;
}

std::string quoted(std::string cell) {
  if (cell.find_first_of(",\"\n") == cell.npos) return cell;
  for (std::size_t at = 0; (at = cell.find('"', at)) != cell.npos; at += 2) cell.insert(at, 1, '"');
  return '"' + cell + '"';
}

Json point_json(const Swept& swept, const SweptPoint& point) {
  const SweepProblem& problem = *point.problem;
  const Schedule schedule(problem.shape, problem.mask, point.recipe, swept.memory);
  Json object = {{"vary", Json::object()}};
  for (std::size_t v = 0; v < swept.varied.size(); ++v) object["vary"][swept.varied[v].name] = point.words[v];
  object.update(ledger_report(schedule, point.moved, point.form));
  object["masked_flops"] = point.cost.masked_flops;
  object["ragged_flops"] = point.cost.ragged_flops;
  object["flop_per_byte"] = number(point.cost.intensity());
  if (const auto use = budget_use(point)) object["budget"] = budget_json(*use);
  object["thread_blocks"] = blocks_json(problem.shape, point.recipe, swept.device);
  if (swept.device) {
    const std::string why = why_infeasible(problem.shape, point.recipe, *swept.device);
    const std::string spills = warning(point, *swept.device);
    const auto shared = swept.device->value(Quantity::shared_per_block);
    const auto floor = time_floor(problem, *swept.device);
    const auto unhit = dram_seconds(*swept.device, static_cast<double>(point.moved.bytes.total().total()));
    object["sheet"] = {{"name", swept.device->name},
                       {"fits", why.empty()},
                       {"reason", why.empty() ? Json() : Json(why)},
                       {"warning", spills.empty() ? Json() : Json(spills)},
                       {"shared_bytes", block_demand(problem.shape, point.recipe).shared_bytes},
                       {"shared_bytes_limit", shared ? Json(std::llround(*shared)) : Json()},
                       {"floor_seconds", floor ? Json(floor->seconds) : Json()},
                       {"floor_by", floor ? Json(floor->by_peak ? "peak" : "bandwidth") : Json()},
                       {"no_l2_hit_seconds", unhit ? Json(*unhit) : Json()}};
  }
  if (swept.measured) object["measured"] = point.measured ? json_of(*point.measured) : Json();
  return object;
}

}  // namespace

void count_all(Swept& swept, const std::stop_token& stop) {
  std::vector<SweptPoint>& points = swept.points;
  ProgressLine line("points");
  const auto progress = line.callback();
  std::atomic<std::size_t> next = 0, done = 0;
  std::exception_ptr failed;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (std::size_t n = next++; n < points.size() && !stop.stop_requested(); n = next++) {
        count_point(points[n], swept.memory);
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

std::string measured_text(const MeasuredSweep& sweep) {
  return fmt::format("{} ({}), driver for CUDA {}, {}; begun {}, flashscope {}; Q, K, V standard normal, seed {}",
                     sweep.on.device, sweep.on.architecture, sweep.on.driver, sweep.on.compiler, sweep.date,
                     sweep.version, sweep.seed);
}

Json json_of(const MeasuredOn& on) {
  return {{"name", on.device},       {"architecture", on.architecture}, {"driver_cuda", on.driver},
          {"compiler", on.compiler}, {"kernel_sources", on.sources},    {"l2_bytes", on.l2_bytes}};
}

Json json_of(const MeasuredPoint& point) {
  Json object{{"kernel", point.kernel}, {"date", point.date}};
  if (!point.gpu) {
    object["failed"] = point.failed;
    return object;
  }
  const GpuFigures& gpu = *point.gpu;
  const auto gauge = [&](Gauge which) {
    const auto found = value(point, which);
    return found ? number(*found) : Json();
  };
  object["seconds"] = {{"median", number(gpu.median)},
                       {"fastest", number(gpu.fastest)},
                       {"slowest", number(gpu.slowest)},
                       {"launches", gpu.repeats},
                       {"input_sets", gpu.input_sets}};
  object["tflops"] = gauge(Gauge::tflops);
  object["traffic"] = {{"l2_sm", {{"read", gauge(Gauge::l2_sm_read)}, {"written", gauge(Gauge::l2_sm_written)}}},
                       {"dram", {{"read", gauge(Gauge::dram_read)}, {"written", gauge(Gauge::dram_written)}}},
                       {"l2_sm_less_formula", gauge(Gauge::difference)},
                       {"cache", "cold"}};
  object["reason"] = gpu.not_measured.empty() ? Json() : Json(gpu.not_measured);
  object["occupancy_percent"] = gauge(Gauge::occupancy);
  object["registers"] = gpu.registers;
  object["spilled_bytes"] = {{"stores", gpu.spill_stores}, {"loads", gpu.spill_loads}};
  object["threads"] = gpu.threads, object["blocks"] = gpu.blocks, object["shared_bytes"] = gpu.shared_bytes;
  object["blocks_per_sm"] = gpu.blocks_per_sm;
  return object;
}

void print_table(const Swept& swept) {
  const SweepHeading about = heading(swept);
  fmt::print("varied: {}\nfixed:  {}\n        {}\n", about.varied, about.fixed, about.conventions);
  if (swept.measured) fmt::print("measured on {}\n", measured_text(*swept.measured));
  fmt::print("\n");
  Table table;
  std::vector<std::string> names;
  std::vector<Column> list = columns(swept);
  std::erase_if(list, [](const Column& column) { return !column.in_table; });
  names.reserve(list.size());
  for (const Column& column : list) names.push_back(column.name);
  table.line(names);
  for (const SweptPoint& point : swept.points) {
    std::vector<std::string> cells;
    for (const Column& column : list) {
      std::string text = column.text(point);
      const bool digits = !text.empty() && text.find_first_not_of("0123456789") == text.npos && text.size() < 19;
      cells.push_back(digits && column.origin != "varied" ? grouped(std::stoll(text)) : text);
    }
    table.line(std::move(cells));
  }
  fmt::print("{}\n", table.text());
  for (const Column& column : list) {
    if (column.origin != "varied" && column.origin != "recipe") fmt::print("  {}: {}\n", column.name, column.origin);
  }
  const std::vector<std::string> bounds = bound_lines(swept);
  if (!bounds.empty()) fmt::print("\n  {}\n", fmt::join(bounds, "\n  "));
}

std::string csv_text(const Swept& swept) {
  const SweepHeading about = heading(swept);
  std::string text =
      fmt::format("# flashscope sweep\n# varied: {}\n# fixed: {}; {}\n", about.varied, about.fixed, about.conventions);
  if (swept.measured) text += fmt::format("# measured on {}\n", measured_text(*swept.measured));
  const std::vector<Column> list = columns(swept);
  for (const Column& column : list) text += fmt::format("# {}: {}\n", column.name, column.origin);
  for (const std::string& line : bound_lines(swept)) text += fmt::format("# {}\n", line);
  const auto line = [&](const auto& cell) {
    for (std::size_t n = 0; n < list.size(); ++n) text += (n == 0 ? "" : ",") + quoted(cell(list[n]));
    text += '\n';
  };
  line([](const Column& column) { return column.name; });
  for (const SweptPoint& point : swept.points) line([&](const Column& column) { return column.text(point); });
  return text;
}

void print_points(const Swept& swept) {
  fmt::print("{{\n");
  if (swept.measured) {
    Json on = json_of(swept.measured->on);
    on["date"] = swept.measured->date, on["version"] = swept.measured->version, on["seed"] = swept.measured->seed;
    fmt::print("  \"measured_on\": {},\n", on.dump());
  }
  if (const Json at = break_even_json(swept); !at.is_null()) fmt::print("  \"break_even\": {},\n", at.dump());
  const char* before = "  \"points\": [\n";
  for (const SweptPoint& point : swept.points) {
    fmt::print("{}{}", before, point_json(swept, point).dump());
    before = ",\n";
  }
  fmt::print("\n  ]\n}}\n");
}

Chart make_chart(const Swept& swept) {
  const auto numeric = [](const Varied& varied) {
    return std::all_of(varied.values.begin(), varied.values.end(), [](const std::string& word) {
      return !word.empty() && word.find_first_not_of("0123456789") == word.npos;
    });
  };
  std::size_t across = swept.varied.size();
  for (std::size_t v = 0; v < swept.varied.size(); ++v) {
    if (numeric(swept.varied[v])) across = v;
  }
  if (across == swept.varied.size()) throw UsageError("--chart: a --vary whose values are numbers is needed");
  const SweptPoint& first = swept.points.front();
  const std::string& name = swept.varied[across].name;
  const bool measured = swept.measured.has_value();
  Chart chart;
  chart.name = "sweep";
  const SweepHeading about = heading(swept);
  chart.title = fmt::format("{} against {}", measured ? "Traffic" : "HBM traffic", name);
  const bool powers = name != "d" && name != "dv";
  chart.x = {axis_label(name), ChartUnit::number, powers, true, {}};
  chart.y = measured ? ChartAxis{"traffic, bytes (kernel units)", ChartUnit::bytes, true, true, {}}
                     : ChartAxis{"HBM traffic, elements (source units)", ChartUnit::number, true, true, {}};
  const DrawnLines drawn = drawn_lines(swept, across, measured ? kMostMeasuredLines : kMostLines);
  std::map<std::string, std::size_t> lines;
  const auto add = [&](const SweptPoint& point, const std::string& what, const char* origin, SeriesStyle style,
                       double y) {
    std::string line = line_name(swept, across, point);
    const auto place = drawn.colours.find(line);
    if (place == drawn.colours.end()) return;
    if (line.empty() && what.empty()) line = flashscope::name(point.recipe.algorithm);
    if (!what.empty()) line += (line.empty() ? "" : ", ") + what;
    const auto [at, added] = lines.try_emplace(line, chart.series.size());
    // A line's figures share its colour; where it is alone, each has its own.
    if (added)
      chart.series.push_back(
          {line, origin, style, drawn.colours.size() > 1 ? place->second : static_cast<int>(chart.series.size())});
    ChartSeries& series = chart.series[at->second];
    series.x.push_back(std::stod(point.words[across]));
    series.y.push_back(y);
  };
  for (const SweptPoint& point : swept.points) {
    const auto counted = static_cast<double>((measured ? point.moved.bytes : point.moved.elements).total().total());
    add(point, measured ? "HBM traffic" : "", "counted", SeriesStyle::line, counted);
    if (!point.measured) continue;
    if (const auto moved = value(*point.measured, Gauge::l2_sm))
      add(point, "L2 to SM", "measured", SeriesStyle::points, *moved);
    if (const auto moved = value(*point.measured, Gauge::dram))
      add(point, "DRAM", "measured", SeriesStyle::points, *moved);
  }
  for (ChartSeries& series : chart.series)
    if (series.style == SeriesStyle::points) series.shape = series.name.ends_with("DRAM") ? 1 : 2;
  // The legend names an origin once for the series that follow.
  std::stable_partition(chart.series.begin(), chart.series.end(),
                        [](const ChartSeries& series) { return series.style == SeriesStyle::line; });
  if (measured) {
    chart.notes.push_back("Measured on " + measured_text(*swept.measured) + "; L2 and DRAM cold.");
    if (name == "n" && swept.measured->on.l2_bytes > 0) {
      const auto l2 = static_cast<double>(swept.measured->on.l2_bytes);
      chart.marks.push_back(
          {true, rows_that_fill(l2, first.problem->shape),
           fmt::format("K and V fill the L2, {} [formula]", bytes_text(swept.measured->on.l2_bytes))});
    }
    if (name == "n" && swept.varied.size() == 1) add_floor(chart, swept.points);
  } else {
    add_bounds(chart, swept, across);
  }
  if (drawn.colours.size() < drawn.all)
    chart.notes.push_back(fmt::format(
        "{} of {} lines are drawn, evenly spread; --csv has every point{}.", drawn.colours.size(), drawn.all,
        measured ? ", and the window shows a plane of block sizes as a map (flashscope SESSION)" : ""));
  chart.notes.push_back("Varied: " + about.varied + ".");
  chart.notes.push_back("Fixed: " + about.fixed + "; " + about.conventions + ".");
  return chart;
}

std::string chart_svg(const Swept& swept) {
  constexpr int kWidth = 960, kHeight = 600, kAnother = 40;
  constexpr std::size_t kFit = 7;  // entries of the legend, with the notes below
  const Chart chart = make_chart(swept);
  const std::size_t beyond = std::max(chart.series.size(), kFit) - kFit;
  return svg(chart, kWidth, kHeight + kAnother * static_cast<int>(beyond));
}

}  // namespace flashscope::command_line
