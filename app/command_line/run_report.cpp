#include "app/command_line/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/gpu_child.h"
#include "engine/insight/nan_rows.h"
#include "engine/insight/sweep.h"
#include "engine/insight/traffic_table.h"

namespace flashscope::command_line {
namespace {

constexpr const char *kCold = "cold: a read-only sweep of 4 x L2 before each pass",
                     *kWarm = "warm: the same run before each pass";

std::int64_t whole(double value) { return static_cast<std::int64_t>(std::llround(value)); }

Json json_of(const ErrorReport& error, std::int64_t first_head) {
  const auto rows = [&](std::int64_t NanRows::*side) { return error.nan ? Json((*error.nan).*side) : Json(); };
  return {{"max", number(error.max)},
          {"tolerance", number(error.tolerance)},
          {"rows_checked", error.rows_checked},
          {"rows", error.rows},
          {"nan_mismatch", error.nan_mismatch},
          {"nan_here_only", rows(&NanRows::here)},
          {"nan_float64_only", rows(&NanRows::there)},
          {"nan_both", rows(&NanRows::both)},
          {"worst_head", first_head + error.worst_head},
          {"worst_row", error.worst_row},
          {"max_within", error.max <= error.tolerance},
          {"within", error.within()}};
}

// How far O and LSE are from those that came with the file. Values that are NaN, or unequal infinities, on one
// side only are counted apart.
struct Distance {
  double max = 0;
  std::int64_t mismatches = 0;
};

Distance distance(const Tensor& given, std::span<const double> computed) {
  Distance result;
  for (std::int64_t h = 0, n = 0; h < given.heads; ++h) {
    for (std::int64_t r = 0; r < given.rows; ++r) {
      for (std::int64_t c = 0; c < given.cols; ++c, ++n) {
        const double a = given.at(h, r, c), b = computed[static_cast<std::size_t>(n)];
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        const double apart = std::abs(a - b);
        if (std::isfinite(apart)) {
          result.max = std::max(result.max, apart);
        } else {
          ++result.mismatches;
        }
      }
    }
  }
  return result;
}

Json json_of(const Distance& found) { return {{"max", number(found.max)}, {"mismatches", found.mismatches}}; }

Json json_of(const TrafficBytes& bytes) {
  return {{"read", whole(bytes.read)}, {"written", whole(bytes.written)}, {"total", whole(bytes.read + bytes.written)}};
}

Json json_of(const HardwareFigures& found, const char* caches) {
  return {{"caches", caches},
          {"l2_sm", json_of(TrafficBytes{found.l2_read, found.l2_written})},
          {"dram", json_of(TrafficBytes{found.dram_read, found.dram_written})},
          {"dram_written_idle", found.dram_written_idle ? Json(whole(*found.dram_written_idle)) : Json()},
          {"l2_hit_percent", number(found.l2_hit_percent)},
          {"occupancy_percent", number(found.occupancy_percent)},
          {"tensor_pipe_percent", number(found.tensor_percent)},
          {"bank_conflicts", number(found.bank_conflicts)},
          {"seconds", found.seconds ? number(*found.seconds) : Json()},
          {"passes", found.passes}};
}

std::vector<TrafficLine> traffic_lines(const ReportView& view) {
  const Report& report = *view.report;
  return traffic_table(report.shape, view.problem ? &view.problem->mask : nullptr, report.recipe, report.traffic.bytes,
                       &report);
}

// Each source's bytes, and how far they are from what they are compared with.
Json sources_json(const std::vector<TrafficLine>& lines) {
  Json list = Json::array();
  for (const TrafficLine& line : lines) {
    Json item = {{"origin", name(line.origin)}, {"source", line.source}};
    if (!line.caches.empty()) item["caches"] = line.caches;
    item["bytes"] = line.bytes ? json_of(*line.bytes) : Json();
    if (!line.bytes) item["reason"] = line.missing;
    if (line.bytes && !line.against.empty()) {
      const auto apart = [](double value, double baseline) {
        const Difference found = difference(value, baseline);
        return Json{{"bytes", whole(found.bytes)}, {"percent", found.percent ? number(*found.percent) : Json()}};
      };
      item["difference"] = {{"against", line.against},
                            {"read", apart(line.bytes->read, line.baseline.read)},
                            {"written", apart(line.bytes->written, line.baseline.written)}};
    }
    list.push_back(std::move(item));
  }
  return list;
}

Json traffic_json(const ReportView& view) {
  const Report& report = *view.report;
  const std::vector<TrafficLine> lines = traffic_lines(view);
  Json object;
  const TrafficLine& form = lines.front();
  object["formula"] = form.bytes ? Json{{"bytes", json_of(*form.bytes)}} : Json();
  if (!form.bytes) object["formula_reason"] = form.missing;
  object["counted"] = {{"elements", command_line::json_of(report.traffic.elements)},
                       {"bytes", command_line::json_of(report.traffic.bytes)}};
  if (report.gpu)
    object["counted"]["in_kernel"] = report.gpu->counted ? command_line::json_of(*report.gpu->counted) : Json();
  object["measured"] = object["measured_warm"] = nullptr;
  if (report.gpu && report.gpu->measured) {
    object["measured"] = json_of(*report.gpu->measured, kCold);
    if (report.gpu->measured_warm)
      object["measured_warm"] = json_of(*report.gpu->measured_warm, kWarm);
    else
      object["warm_reason"] = "not measured in this run";
  } else {
    object["reason"] = report.gpu ? report.gpu->not_measured
                                  : "a processor has no counter for the boundary between HBM and a chip's tiles";
  }
  object["sources"] = sources_json(lines);
  return object;
}

// The device's sheet, if there is one of that name.
const HardwareSheet* sheet_of(const Report& report) { return report.gpu ? find_sheet(report.device) : nullptr; }

struct PeakShare {
  std::string sheet;
  const Figure* peak = nullptr;  // FLOP/s
  double share = 0;
};
std::optional<PeakShare> peak_share(const Report& report) {
  const HardwareSheet* sheet = sheet_of(report);
  if (!sheet) return {};
  const std::optional<Figure>& peak = (*sheet)[peak_quantity(report.shape.type)];
  if (!peak) return {};
  return PeakShare{sheet->name, &*peak, report.gpu->tflops() * 1e12 / peak->value};
}

Json time_json(const Report& report) {
  const GpuFigures& gpu = *report.gpu;
  Json object = {{"median", gpu.median},   {"fastest", gpu.fastest},
                 {"slowest", gpu.slowest}, {"spread", (gpu.slowest - gpu.fastest) / gpu.median},
                 {"repeats", gpu.repeats}, {"input_sets", gpu.input_sets},
                 {"flops", gpu.flops},     {"tflops", gpu.tflops()}};
  const std::optional<Caches> inputs = gpu.input_caches(report.tensor_bytes);
  object["input_caches"] = inputs ? Json(name(*inputs)) : Json();
  object["sheet_peak"] = nullptr;
  if (const auto peak = peak_share(report))
    object["sheet_peak"] = {{"sheet", peak->sheet},
                            {"flops_per_second", peak->peak->value},
                            {"source", peak->peak->source},
                            {"share", peak->share}};
  return object;
}

Json launch_json(const Report& report) {
  const GpuFigures& gpu = *report.gpu;
  const std::int64_t at_once = std::int64_t{gpu.blocks_per_sm} * gpu.sms;
  return {{"architecture", gpu.architecture},
          {"registers", gpu.registers},
          {"spill_store_bytes", gpu.spill_stores},
          {"spill_load_bytes", gpu.spill_loads},
          {"shared_bytes", gpu.shared_bytes},
          {"threads", gpu.threads},
          {"blocks", gpu.blocks},
          {"blocks_per_sm", gpu.blocks_per_sm},
          {"sms", gpu.sms},
          {"idle_sms", std::max<std::int64_t>(gpu.sms - gpu.blocks, 0)},
          {"waves", at_once > 0 ? Json(static_cast<double>(gpu.blocks) / static_cast<double>(at_once)) : Json()}};
}

Json memory_json(const Report& report) {
  Json object = {{"peak_bytes", report.peak_bytes}, {"tensor_bytes", report.tensor_bytes}};
  if (report.gpu) {
    const DeviceBytes bytes = device_bytes(report.shape, {}, report.recipe);
    object["expected_bytes"] = bytes.outputs + bytes.workspace, object["workspace_bytes"] = bytes.workspace;
    object["peak_tensor_bytes"] = report.gpu->peak_tensor_bytes;
    object["peak_statistics_bytes"] = report.gpu->peak_statistics_bytes;
  }
  return object;
}

// ---- for people

std::string difference_text(double value, double baseline) {
  const Difference found = difference(value, baseline);
  if (found.bytes == 0) return "equal";
  const std::string sign = found.bytes > 0 ? "+" : "";
  std::string text = sign + grouped(whole(found.bytes));
  if (found.percent) text += fmt::format(", {}{:.3f} %", sign, *found.percent);
  return text;
}

std::string traffic_text(const ReportView& view) {
  const Report& report = *view.report;
  const std::vector<TrafficLine> lines = traffic_lines(view);
  Table table;
  table.line({"bytes", "read", "against", "written", "against", ""});
  std::string against, reasons;
  for (const TrafficLine& line : lines) {
    if (!line.bytes) {
      const std::string caches = line.caches.empty() ? "" : fmt::format(", caches {}", line.caches);
      reasons += fmt::format("  {}, {}{}: missing: {}\n", line.source, name(line.origin), caches, line.missing);
      continue;
    }
    std::string from(name(line.origin));
    if (!line.caches.empty()) from += fmt::format(", caches {}", line.caches);
    const bool compared = !line.against.empty();
    if (compared && line.against != "formula") from += fmt::format("; against {}", line.against);
    table.line({line.source, grouped(whole(line.bytes->read)),
                compared ? difference_text(line.bytes->read, line.baseline.read) : "",
                grouped(whole(line.bytes->written)),
                compared ? difference_text(line.bytes->written, line.baseline.written) : "", std::move(from)});
  }
  if (report.gpu && report.gpu->measured) reasons += fmt::format("  {}; {}\n", kCold, kWarm);
  return "\nHBM traffic, bytes (kernel units), against the formula\n" + table.text() + reasons;
}

void add_time(Table& table, const Report& report) {
  if (!report.gpu) {
    table.line({"time", fmt::format("{:.4g} s", report.seconds), "measured: wall clock, the kernel alone"});
    return;
  }
  const GpuFigures& gpu = *report.gpu;
  const std::optional<Caches> inputs = gpu.input_caches(report.tensor_bytes);
  table.line({"time", fmt::format("{:.4g} ms", gpu.median * 1e3),
              fmt::format("measured: events, median of {}, {:.4g} to {:.4g} ms; {} of Q, K, V in turn{}",
                          counted(gpu.repeats, "launch", "launches"), gpu.fastest * 1e3, gpu.slowest * 1e3,
                          counted(gpu.input_sets, "set"), inputs ? fmt::format(", {} in the L2", name(*inputs)) : "")});
  const Shape& shape = report.shape;
  const double full = 2.0 * static_cast<double>(shape.heads) * static_cast<double>(shape.Nq) *
                      static_cast<double>(shape.Nk) * static_cast<double>(shape.d + shape.dv);
  table.line({"", fmt::format("{:.4g} TFLOP/s", gpu.tflops()),
              gpu.flops < full ? "half of 4 N^2 d a head: causal" : "4 N^2 d a head"});
  if (const auto peak = peak_share(report))
    table.line({"", fmt::format("{:.1f} %", 100 * peak->share),
                fmt::format("of the sheet's peak: {}, {:.4g} TFLOP/s ({})", peak->sheet, peak->peak->value / 1e12,
                            peak->peak->source)});
}

void add_launch(Table& table, const Report& report) {
  const GpuFigures& gpu = *report.gpu;
  table.line(
      {"kernel", gpu.architecture,
       fmt::format("{} registers and {} of spills a thread; {} threads and {} of shared memory a block", gpu.registers,
                   bytes_text(gpu.spill_stores + gpu.spill_loads), gpu.threads, bytes_text(gpu.shared_bytes))});
  const std::int64_t idle = gpu.sms - gpu.blocks;
  table.line({"blocks", grouped(gpu.blocks),
              fmt::format("on {} SMs, at most {} each at once{}", gpu.sms, gpu.blocks_per_sm,
                          idle > 0 ? fmt::format("; {} SMs IDLE", idle) : "")});
  for (const auto& [found, caches] :
       {std::pair{&gpu.measured, Caches::cold}, std::pair{&gpu.measured_warm, Caches::warm}})
    if (*found)
      table.line({"occupancy", fmt::format("{:.1f} %", (*found)->occupancy_percent),
                  fmt::format("measured, caches {}: warps; tensor pipes {:.1f} %, L2 hits {:.1f} %, {} bank conflicts",
                              name(caches), (*found)->tensor_percent, (*found)->l2_hit_percent,
                              grouped(whole((*found)->bank_conflicts)))});
}

void add_memory(Table& table, const Report& report) {
  if (!report.gpu) {
    table.line({"peak memory", bytes_text(report.peak_bytes), "measured: allocator, without Q, K, V"});
  } else {
    const DeviceBytes bytes = device_bytes(report.shape, {}, report.recipe);
    const bool each = report.recipe.normalised() == Normalise::each;
    const std::string what = report.recipe.algorithm == Algorithm::standard
                                 ? fmt::format("O, LSE, S, P and {} of cuBLAS's workspace", bytes_text(bytes.workspace))
                             : report.recipe.algorithm == Algorithm::flash1
                                 ? each ? "O, m, l" : "O, LSE and the running O, m, l"
                                 : "O, LSE";
    table.line({"extra memory", grouped(report.peak_bytes),
                fmt::format("bytes, measured: the pool's peak; {} are {} by formula", what,
                            grouped(bytes.outputs + bytes.workspace))});
  }
  table.line({"Q, K, V", bytes_text(report.tensor_bytes), "formula, in the problem's type"});
}

void add_answer(Table& table, const ReportView& view) {
  const Report& report = *view.report;
  table.line({"sum of O", number_text(report.sum), fmt::format("of |O| {}", number_text(report.sum_abs))});
  table.line(
      {"NaN rows", grouped(report.nan_row_count), fmt::format("of {}", grouped(report.shape.heads * report.shape.Nq))});
  if (report.error) {
    const ErrorReport& error = *report.error;
    const bool exceeded = !(error.max <= error.tolerance);
    table.line({"largest error", number_text(error.max),
                fmt::format("against float64{}, tolerance {}: {}; {} of {} rows checked",
                            error.nan_mismatch > 0 ? " in the rows that are not NaN" : "", number_text(error.tolerance),
                            exceeded ? "EXCEEDED" : "within", grouped(error.rows_checked), grouped(error.rows))});
    if (exceeded)
      table.line(
          {"", "", fmt::format("worst in head {}, row {}", view.first_head + error.worst_head, error.worst_row)});
    const std::string nan = error.nan ? text(*error.nan) : std::string("NaN in the run or in float64 only");
    if (error.nan_mismatch > 0)
      table.line({"NaN MISMATCH", grouped(error.nan_mismatch), "of the checked rows: " + nan});
    else if (!nan.empty() && error.nan)
      table.line({"NaN", "as in float64", nan});
  }
  const auto compare = [&](const char* what, const std::shared_ptr<const Tensor>& given,
                           std::span<const double> computed) {
    if (!given || given->size() != static_cast<std::int64_t>(computed.size())) return;
    const Distance found = distance(*given, computed);
    table.line({what, number_text(found.max),
                fmt::format("largest difference; {} not finite on one side only", found.mismatches)});
  };
  if (!view.problem) return;
  compare("O in the file", view.problem->given_O, report.O);
  compare("LSE in the file", view.problem->given_LSE, report.LSE);
}

}  // namespace

Json report_json(const ReportView& view) {
  const Report& report = *view.report;
  Json object;
  if (view.problem) object["problem"] = view.problem->name;
  if (view.made) object["date"] = view.made->date, object["version"] = view.made->version;
  object["shape"] = command_line::json_of(report.shape);
  object["recipe"] = command_line::json_of(report.recipe);
  object["conventions"] = view.made      ? view.made->conventions
                          : view.problem ? conventions(report.recipe, view.problem->mask)
                                         : "";
  object["device"] = report.device;
  object["kernel"] = report.kernel;
  object["o_checksum"] = {{"sum", number(report.sum)}, {"sum_abs", number(report.sum_abs)}};
  object["nan_rows"] = report.nan_row_count;
  object["error_vs_float64"] = report.error ? json_of(*report.error, view.first_head) : Json();
  if (view.problem) {
    const Problem& problem = *view.problem;
    if (problem.given_O) object["o_in_file"] = json_of(distance(*problem.given_O, report.O));
    if (problem.given_LSE) object["lse_in_file"] = json_of(distance(*problem.given_LSE, report.LSE));
  }
  object["seconds"] = report.seconds;
  if (report.gpu) object["time"] = time_json(report), object["launch"] = launch_json(report);
  object["thread_blocks"] = blocks_json(report.shape, report.recipe, view.sheet ? view.sheet : sheet_of(report));
  object["memory"] = memory_json(report);
  object["traffic"] = traffic_json(view);
  if (view.problem) {
    const std::string hidden = why_defect_cannot_show(report.recipe, *view.problem);
    if (!hidden.empty()) object["defect_cannot_show"] = hidden;
  }
  return object;
}

void print_report(const ReportView& view) {
  const Report& report = *view.report;
  const std::string in_force = view.made      ? view.made->conventions
                               : view.problem ? conventions(report.recipe, view.problem->mask)
                                              : "";
  fmt::print("{}{}\n{}\n", view.problem ? view.problem->name + ": " : "", recipe_text(report.shape, report.recipe),
             in_force);
  if (view.made) fmt::print("made {} by flashscope {}\n", view.made->date, view.made->version);
  fmt::print("\n");
  Table table;
  table.line({"device", "", report.device + ", " + report.kernel});
  add_time(table, report);
  if (report.gpu)
    add_launch(table, report);
  else
    table.line({"blocks", grouped(blocks_of(report.shape, report.recipe).launched),
                blocks_text(report.shape, report.recipe, view.sheet)});
  add_memory(table, report);
  table.line({"HBM traffic", grouped(report.traffic.elements.total().total()), "elements, counted"});
  add_answer(table, view);
  fmt::print("{}{}", table.text(), traffic_text(view));
  for (std::size_t head = 0; head < report.nan_rows.size(); ++head) {
    if (!report.nan_rows[head].empty())
      fmt::print("  NaN rows of head {}: {}\n", view.first_head + static_cast<std::int64_t>(head),
                 rows_text(report.nan_rows[head]));
  }
  if (!view.problem) return;
  const std::string hidden = why_defect_cannot_show(report.recipe, *view.problem);
  if (!hidden.empty()) fmt::print("  the defect {} cannot show here: {}\n", defect_text(report.recipe), hidden);
}

Blocks blocks_of(const Shape& shape, const Recipe& recipe) {
  const std::int64_t launched = thread_blocks(shape, recipe);
  switch (recipe.algorithm) {
    case Algorithm::flash1:
      return {launched, "one a head: K, V outside"};
    case Algorithm::flash2:
      return {launched, fmt::format("one a head and row block: {} x {}", shape.heads, launched / shape.heads)};
    case Algorithm::standard:
      return {launched, "of its softmax, one a row"};
  }
  return {};
}

Json blocks_json(const Shape& shape, const Recipe& recipe, const HardwareSheet* sheet) {
  const Blocks blocks = blocks_of(shape, recipe);
  Json object = {{"launched", blocks.launched}, {"of", blocks.of}, {"sms", nullptr}};
  if (sheet)
    if (const auto sms = sheet->value(Quantity::sms)) {
      object["sms"] = whole(*sms);
      object["idle_sms"] = std::max<std::int64_t>(whole(*sms) - blocks.launched, 0);
      object["source"] = "sheet: " + sheet->name;
    }
  return object;
}

std::string blocks_text(const Shape& shape, const Recipe& recipe, const HardwareSheet* sheet) {
  const Blocks blocks = blocks_of(shape, recipe);
  std::string text = fmt::format("thread block{} on a GPU, {}", blocks.launched == 1 ? "" : "s", blocks.of);
  if (!sheet) return text;
  const auto sms = sheet->value(Quantity::sms);
  if (!sms) return text;
  const std::int64_t idle = whole(*sms) - blocks.launched;
  text += fmt::format("; {} SMs (sheet: {})", whole(*sms), sheet->name);
  return idle > 0 ? text + fmt::format(", {} idle", idle) : text;
}

}  // namespace flashscope::command_line
