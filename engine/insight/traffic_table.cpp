#include "engine/insight/traffic_table.h"

#include "engine/attention/closed_form.h"

namespace flashscope {
namespace {

TrafficBytes bytes_of(const Moved& moved) {
  return {static_cast<double>(moved.read), static_cast<double>(moved.written)};
}

TrafficLine line(Label origin, std::string source) {
  TrafficLine result;
  result.origin = origin, result.source = std::move(source);
  return result;
}

// What crosses DRAM even where the L2 holds everything else, in bytes.
struct Once {
  std::string what;
  TrafficBytes bytes;
};
Once once(const Shape& shape, const Recipe& recipe) {
  Once result{"Q, K, V, O once", bytes_of(minimum(shape).bytes)};
  if (recipe.algorithm != Algorithm::flash1) return result;
  // The running O, m and l are float32; normalised in every tile, O is among them.
  const double running = 4.0 * static_cast<double>(shape.heads * shape.Nq * (shape.dv + 2));
  result.bytes.read += running;
  if (recipe.normalised() == Normalise::each)
    result = {"Q, K, V and the running O, m, l once", {result.bytes.read, running}};
  else
    result = {"Q, K, V, the running O, m, l and O once",
              {result.bytes.read,
               result.bytes.written + running + 4.0 * static_cast<double>(shape.heads * shape.Nq)}};  // and LSE
  return result;
}

std::string why_not_measured(const Report* report) {
  if (!report) return "only a GPU's counters measure these bytes, and nothing was run on one";
  if (!report->gpu) return "the run was on the CPU; only a GPU's counters measure these bytes";
  return report->gpu->not_measured.empty() ? "not measured in this run" : report->gpu->not_measured;
}

}  // namespace

std::string_view name(Label origin) {
  switch (origin) {
    case Label::formula:
      return "formula";
    case Label::counted:
      return "counted";
    case Label::measured:
      return "measured";
  }
  return "";
}

Difference difference(double value, double baseline) {
  Difference result;
  result.bytes = value - baseline;
  if (baseline != 0) result.percent = 100 * result.bytes / baseline;
  return result;
}

std::vector<TrafficLine> traffic_table(const Shape& shape, const Mask* mask, const Recipe& recipe,
                                       const Traffic& counted_bytes, const Report* report) {
  std::vector<TrafficLine> lines;
  const TrafficBytes walked = bytes_of(counted_bytes.total());
  const bool closed = mask && has_closed_form(*mask, recipe);
  // Without a closed form the walk's count stands in for it.
  const TrafficBytes baseline = closed ? bytes_of(closed_form(shape, *mask, recipe).bytes.total()) : walked;
  const std::string against = closed ? "formula" : "ledger";
  const auto compare = [&](TrafficLine& with) { with.against = against, with.baseline = baseline; };

  TrafficLine form = line(Label::formula, "closed form");
  if (closed)
    form.bytes = baseline;
  else
    form.missing = mask ? "which tiles are visited depends on a file's values" : "the run's mask is not known here";
  lines.push_back(form);

  TrafficLine ledger = line(Label::counted, "ledger");
  ledger.bytes = walked;
  if (closed) compare(ledger);
  lines.push_back(ledger);

  const bool standard = recipe.algorithm == Algorithm::standard;
  const bool on_gpu = report && report->gpu;
  TrafficLine kernel = line(Label::counted, "kernel");
  if (on_gpu && report->gpu->counted)
    kernel.bytes = bytes_of(report->gpu->counted->total()), compare(kernel);
  else if (!on_gpu)
    kernel.missing = report ? "the run was on the CPU; the kernels on a GPU count for themselves" : "no run on a GPU";
  else
    kernel.missing = standard ? "cuBLAS does not count what it moves" : "not counted in this run";
  lines.push_back(kernel);
  if (kernel.bytes) {
    const auto of_masks = [](const Traffic& traffic) {
      Moved moved = traffic[Operand::mask];
      return bytes_of(moved += traffic[Operand::bias]);
    };
    const TrafficBytes planes = of_masks(*report->gpu->counted), files = of_masks(counted_bytes);
    if (planes.read != files.read) {
      TrafficLine beyond = line(Label::counted, "of it, masks read as planes, beyond the ledger's");
      beyond.bytes = {planes.read - files.read, planes.written - files.written};
      lines.push_back(beyond);
    }
  }

  const auto measured = [&](std::optional<Caches> caches, const HardwareFigures* found) {
    TrafficLine l2 = line(Label::measured, "L2 - SM"), dram = line(Label::measured, "DRAM");
    if (caches) l2.caches = dram.caches = name(*caches);
    if (!found) {
      l2.missing = dram.missing = why_not_measured(report);
      lines.insert(lines.end(), {l2, dram});
      return;
    }
    l2.bytes = {found->l2_read, found->l2_written}, compare(l2);
    lines.push_back(l2);
    if (standard) {
      TrafficLine again = line(Label::measured, "less the formula: matrix products' re-reads");
      again.caches = l2.caches;
      again.bytes = {l2.bytes->read - baseline.read, l2.bytes->written - baseline.written};
      lines.push_back(again);
    }
    dram.bytes = {found->dram_read, found->dram_written};
    if (caches == Caches::warm) {  // what is in the L2 already need not be read: there is nothing to equal
    } else if (standard) {
      compare(dram);
    } else {
      const Once least = once(shape, recipe);
      dram.against = least.what, dram.baseline = least.bytes;
    }
    lines.push_back(dram);
  };
  if (on_gpu && report->gpu->measured) {
    const GpuFigures& gpu = *report->gpu;
    measured(Caches::cold, &*gpu.measured);
    measured(Caches::warm, gpu.measured_warm ? &*gpu.measured_warm : nullptr);
  } else {
    measured({}, nullptr);
  }
  return lines;
}

}  // namespace flashscope
