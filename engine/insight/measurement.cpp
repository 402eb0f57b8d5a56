#include "engine/insight/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "engine/attention/closed_form.h"
#include "engine/digits.h"

namespace flashscope {
namespace {

constexpr std::int64_t kStep = 16, kLargest = 256;
constexpr std::size_t kRefined = 6;  // so many of the best are looked around

struct Named {
  std::string_view title, unit, how;
};
constexpr std::string_view kL2 =
    "measured by l1tex__m_xbar2l1tex_read_bytes.sum (read), l1tex__m_l1tex2xbar_write_bytes.sum (written) of one "
    "launch; L2 and DRAM cold (a read-only sweep of 4 x L2 before)";
constexpr std::string_view kDram =
    "measured by dram__bytes_read.sum and dram__bytes_write.sum (on some chips dram__bytes_op_*), cold as L2-SM; "
    "written lines that stay in the L2 are swept out and counted";
constexpr std::string_view kDramRead =
    "measured by dram__bytes_read.sum (on some chips dram__bytes_op_read.sum), cold as L2-SM";
constexpr std::string_view kDramWritten =
    "measured by dram__bytes_write.sum (on some chips dram__bytes_op_write.sum), cold as L2-SM; lines that stay in the "
    "L2 are swept out and counted";
constexpr std::array<Named, kGauges> kNames{
    Named{"L2 to SM, read and written", "bytes", kL2},
    Named{"L2 to SM, read", "bytes", kL2},
    Named{"SM to L2, written", "bytes", kL2},
    Named{"DRAM, read and written", "bytes", kDram},
    Named{"DRAM, read", "bytes", kDramRead},
    Named{"DRAM, written", "bytes", kDramWritten},
    Named{"time of a launch", "seconds",
          "measured by events: median of single launches after a warm-up, copies of Q, K, V taking turns so that none "
          "is left in the L2; clocks as they were"},
    Named{"throughput", "TFLOP/s", "FLOPs by the papers' convention, 2 N N (d + dv), half under a causal mask, / time"},
    Named{"achieved occupancy", "%", "measured by the counter sm__warps_active, % of the warps that an SM can hold"},
    Named{"registers a thread", "", "reported by the compiler"},
    Named{"spilled bytes a thread", "bytes", "reported by the compiler: stores and loads as the code stands"},
    Named{"L2 to SM less formula", "bytes", "measured L2-SM, read and written, less the formula's bytes"}};

const Named& named(Gauge gauge) { return kNames[static_cast<std::size_t>(gauge)]; }

std::int64_t largest_block(std::int64_t rows) { return std::min(kLargest, (rows + kStep - 1) / kStep * kStep); }

using Blocks = std::pair<std::int64_t, std::int64_t>;
Blocks blocks_of(const MeasuredPoint& point) { return {point.recipe.Br, point.recipe.Bc}; }

std::string percent(double share) {
  return std::abs(share) >= 10 ? fmt::format("{:.0f} %", share) : fmt::format("{:.2g} %", share);
}

// Where no figure stands out: those that differ at all, traffic by half a percent.
std::string differences(const MeasuredPoint& one, const MeasuredPoint& best) {
  std::string list;
  const auto add = [&list](const std::string& part) { list += (list.empty() ? "" : ", ") + part; };
  const auto traffic = [&](Gauge gauge, const char* what) {
    const auto a = value(one, gauge), b = value(best, gauge);
    if (a && b && *b > 0 && std::abs(*a / *b - 1) >= 0.005)
      add(fmt::format("{} {} {} traffic", percent(100 * std::abs(*a / *b - 1)), *a > *b ? "more" : "less", what));
  };
  const auto counts = [&](std::int64_t a, std::int64_t b, const char* what) {
    if (a != b) add(fmt::format("{} {} in place of {}", a, what, b));
  };
  traffic(Gauge::l2_sm, "L2-SM");
  traffic(Gauge::dram, "DRAM");
  const auto a = value(one, Gauge::occupancy), b = value(best, Gauge::occupancy);
  if (a && b && percent(*a) != percent(*b)) add(percent(*a) + " of an SM's warps in place of " + percent(*b));
  counts(one.gpu->spill_stores + one.gpu->spill_loads, best.gpu->spill_stores + best.gpu->spill_loads, "spilled bytes");
  counts(one.gpu->registers, best.gpu->registers, "registers a thread");
  counts(one.gpu->blocks, best.gpu->blocks, "blocks");
  const std::string counters = one.gpu->measured && best.gpu->measured ? "" : "; the counters were not read";
  return (list.empty() ? "the figures that were read are the same" : "no figure stands out: " + list) + counters;
}

// What the counters and the compiler say of why one is slower than the best: the largest of their differences.
std::string because(const MeasuredPoint& one, const MeasuredPoint& best) {
  const auto ratio = [&](Gauge gauge) -> std::optional<double> {
    const auto a = value(one, gauge), b = value(best, gauge);
    return a && b && *b > 0 ? std::optional(*a / *b) : std::nullopt;
  };
  if (one.gpu->spill_stores > 0 && best.gpu->spill_stores == 0)
    return fmt::format("spills {} bytes a thread", one.gpu->spill_stores);
  if (const auto moved = ratio(Gauge::l2_sm); moved && *moved > 1.02)
    return percent(100 * (*moved - 1)) + " more L2-SM traffic";
  const auto idle = [](const MeasuredPoint& point) { return point.gpu->blocks < point.gpu->sms; };
  if (idle(one) && !idle(best)) return fmt::format("only {} blocks for {} SMs", one.gpu->blocks, one.gpu->sms);
  if (const auto warps = ratio(Gauge::occupancy); warps && *warps < 0.95)
    return fmt::format("{} of an SM's warps in place of {}", percent(*value(one, Gauge::occupancy)),
                       percent(*value(best, Gauge::occupancy)));
  if (const auto moved = ratio(Gauge::l2_sm); moved && *moved < 0.98)
    return percent(100 * (1 - *moved)) + " less L2-SM traffic does not pay for it";
  return differences(one, best);
}

}  // namespace

std::string_view title(Gauge gauge) { return named(gauge).title; }
std::string_view unit(Gauge gauge) { return named(gauge).unit; }
std::string_view how(Gauge gauge) { return named(gauge).how; }

std::string_view origin(Gauge gauge) {
  switch (gauge) {
    case Gauge::registers:
    case Gauge::spills:
      return "reported by the compiler";
    case Gauge::difference:
      return "measured - formula";
    default:
      return "measured";
  }
}

bool less_is_better(Gauge gauge) { return gauge != Gauge::tflops && gauge != Gauge::occupancy; }

std::optional<double> formula_bytes(const MeasuredPoint& point) {
  if (!has_closed_form(point.mask, point.recipe)) return {};
  return static_cast<double>(closed_form(point.shape, point.mask, point.recipe).bytes.total().total());
}

std::optional<double> value(const MeasuredPoint& point, Gauge gauge) {
  if (!point.gpu) return {};
  const GpuFigures& gpu = *point.gpu;
  switch (gauge) {
    case Gauge::seconds:
      return gpu.median;
    case Gauge::tflops:
      return gpu.tflops();
    case Gauge::registers:
      return gpu.registers;
    case Gauge::spills:
      return gpu.spill_stores + gpu.spill_loads;
    default:
      break;
  }
  if (!gpu.measured) return {};
  const HardwareFigures& counters = *gpu.measured;
  switch (gauge) {
    case Gauge::l2_sm:
      return counters.l2_read + counters.l2_written;
    case Gauge::l2_sm_read:
      return counters.l2_read;
    case Gauge::l2_sm_written:
      return counters.l2_written;
    case Gauge::dram:
      return counters.dram_read + counters.dram_written;
    case Gauge::dram_read:
      return counters.dram_read;
    case Gauge::dram_written:
      return counters.dram_written;
    case Gauge::occupancy:
      return counters.occupancy_percent;
    case Gauge::difference: {
      const std::optional<double> formula = formula_bytes(point);
      return formula ? std::optional(counters.l2_read + counters.l2_written - *formula) : std::nullopt;
    }
    default:
      return {};
  }
}

bool same_but_blocks(const MeasuredPoint& a, const MeasuredPoint& b) {
  Recipe recipe = b.recipe;
  recipe.Br = a.recipe.Br, recipe.Bc = a.recipe.Bc, recipe.sram = a.recipe.sram;
  return a.shape == b.shape && a.mask == b.mask && a.recipe == recipe;
}

std::vector<BlockSizes> coarse_blocks(const Shape& shape) {
  // Powers of two first, between them later: the n-th square ring of this list is the n-th to be measured.
  constexpr std::array<std::int64_t, 8> sizes{64, 128, 32, 256, 16, 96, 48, 192};
  std::vector<BlockSizes> blocks;
  for (std::size_t ring = 0; ring < sizes.size(); ++ring)
    for (std::size_t n = 0; n <= ring; ++n)
      for (const auto& [r, c] : {std::pair(ring, n), std::pair(n, ring)}) {
        const BlockSizes one{std::min(sizes[r], largest_block(shape.Nq)), std::min(sizes[c], largest_block(shape.Nk))};
        const bool known = std::any_of(blocks.begin(), blocks.end(),
                                       [&](const BlockSizes& b) { return b.Br == one.Br && b.Bc == one.Bc; });
        if (!known) blocks.push_back(one);
      }
  return blocks;
}

std::vector<BlockSizes> finer_blocks(std::span<const MeasuredPoint> points, const Shape& shape, std::size_t most) {
  std::set<Blocks> known;
  std::vector<const MeasuredPoint*> best;
  for (const MeasuredPoint& point : points) {
    known.insert(blocks_of(point));
    if (point.gpu) best.push_back(&point);
  }
  std::sort(best.begin(), best.end(),
            [](const MeasuredPoint* a, const MeasuredPoint* b) { return a->gpu->median < b->gpu->median; });
  best.resize(std::min(best.size(), kRefined));
  std::vector<BlockSizes> blocks;
  for (const MeasuredPoint* point : best)
    for (const std::int64_t r : {0, -1, 1})
      for (const std::int64_t c : {0, -1, 1}) {
        const Blocks one{point->recipe.Br + r * kStep, point->recipe.Bc + c * kStep};
        if (one.first < kStep || one.second < kStep || one.first > largest_block(shape.Nq) ||
            one.second > largest_block(shape.Nk) || points.size() + blocks.size() >= most || !known.insert(one).second)
          continue;
        blocks.push_back({one.first, one.second});
      }
  return blocks;
}

std::vector<MeasuredPoint> points_with(const MeasuredPoint& like, const std::vector<BlockSizes>& blocks) {
  std::vector<MeasuredPoint> points;
  for (const BlockSizes& size : blocks) {
    MeasuredPoint& point = points.emplace_back();
    point.shape = like.shape, point.mask = like.mask, point.recipe = like.recipe;
    point.recipe.Br = size.Br, point.recipe.Bc = size.Bc, point.recipe.sram.reset();
  }
  return points;
}

double rows_that_fill(double l2_bytes, const Shape& shape) {
  return l2_bytes / static_cast<double>(shape.kv_heads * (shape.d + shape.dv) * size_of(shape.type));
}

MeasuredAdviceList advise_measured(std::span<const MeasuredPoint> points, const MeasuredOn& on,
                                   std::size_t runners_up) {
  MeasuredAdviceList list;
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < points.size(); ++n) {
    if (points[n].gpu) order.push_back(n);
    if (!points[n].failed.empty()) ++list.failed;
  }
  list.measured = order.size();
  list.note = fmt::format("by the measured time of a launch on {}: {} {} measured, {} failed", on.device,
                          counted(static_cast<std::int64_t>(list.measured), "block size"),
                          list.measured == 1 ? "was" : "were", list.failed);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return points[a].gpu->median < points[b].gpu->median; });
  for (std::size_t n = 0; n < order.size() && n <= runners_up; ++n) {
    const MeasuredPoint &one = points[order[n]], &best = points[order[0]];
    const double slower = 100 * (one.gpu->median / best.gpu->median - 1);
    list.best.push_back({order[n], n == 0 ? fmt::format("fastest: {:.4g} us, {:.4g} TFLOP/s, {} registers a thread{}",
                                                        one.gpu->median * 1e6, one.gpu->tflops(), one.gpu->registers,
                                                        one.gpu->spill_stores > 0 ? ", which spills" : "")
                                          : percent(slower) + " slower: " + because(one, best)});
  }
  return list;
}

}  // namespace flashscope
