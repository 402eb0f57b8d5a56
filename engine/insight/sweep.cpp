#include "engine/insight/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "engine/digits.h"
#include "engine/error.h"
#include "engine/threads.h"

namespace flashscope {
namespace {

constexpr std::int64_t kRowsOfWarp = 16, kThreadsOfWarp = 32;
constexpr std::int64_t kRegistersOfThread = 255;  // CUDA C++ Programming Guide, all compute capabilities here

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double amount(const Moved& moved, Direction direction) {
  switch (direction) {
    case Direction::both:
      return static_cast<double>(moved.total());
    case Direction::read:
      return static_cast<double>(moved.read);
    case Direction::written:
      return static_cast<double>(moved.written);
  }
  return 0;
}

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

SweepProblem sweep_problem(const Shape& shape, const Mask& mask, const std::stop_token& stop) {
  SweepProblem problem{shape, mask, 0};
  if (mask.structural_only()) {
    problem.visible = band_cells(shape, mask);
    return problem;
  }
  const std::int64_t planes = mask_heads(mask);
  for (std::int64_t h = 0; h < planes; ++h) {
    for (std::int64_t r = 0; r < shape.Nq; ++r) {
      if (stop.stop_requested()) throw Cancelled();
      problem.visible += visible_keys(mask, shape.Nq, shape.Nk, h, r);
    }
  }
  problem.visible *= shape.heads / planes;
  return problem;
}

SweepPoint sweep_point(const SweepProblem& problem, const Recipe& recipe) {
  return sweep_point(problem, recipe, closed_form(problem.shape, problem.mask, recipe));
}

SweepPoint sweep_point(const SweepProblem& problem, const Recipe& recipe, const ClosedForm& moved) {
  const Shape& shape = problem.shape;
  SweepPoint point;
  point.form = moved;
  const std::int64_t a_score = 2 * (shape.d + shape.dv);
  point.matmul_flops = a_score * point.form.cells;
  point.masked_flops = a_score * (point.form.cells - problem.visible);
  point.blocks = thread_blocks(shape, recipe);
  if (recipe.algorithm != Algorithm::standard)
    point.ragged_flops = a_score * (point.form.tiles * recipe.Br * recipe.Bc - point.form.cells);
  return point;
}

double least_flops(const SweepProblem& problem) {
  return static_cast<double>(2 * (problem.shape.d + problem.shape.dv)) * static_cast<double>(problem.visible);
}

std::optional<TimeFloor> time_floor(const SweepProblem& problem, const HardwareSheet& device) {
  return time_floor(device, problem.shape.type, static_cast<double>(minimum(problem.shape).bytes.total()),
                    least_flops(problem));
}

std::int64_t thread_blocks(const Shape& shape, const Recipe& recipe) {
  switch (recipe.algorithm) {
    case Algorithm::standard:
      return shape.heads * shape.Nq;
    case Algorithm::flash1:
      return shape.heads;
    case Algorithm::flash2:
      return shape.heads * ceil_div(shape.Nq, recipe.Br);
  }
  return 0;
}

BlockDemand block_demand(const Shape& shape, const Recipe& recipe) {
  BlockDemand demand;
  if (recipe.algorithm == Algorithm::standard) return demand;
  for (const OnChip::BufferInfo& buffer : on_chip(shape, recipe).buffers)
    demand.shared_bytes += buffer.registers ? 0 : buffer.bytes;
  if (recipe.algorithm == Algorithm::flash2) demand.threads = ceil_div(recipe.Br, kRowsOfWarp) * kThreadsOfWarp;
  return demand;
}

Limit limit_broken(const Shape& shape, const Recipe& recipe, const HardwareSheet& device) {
  const BlockDemand demand = block_demand(shape, recipe);
  const auto beyond = [&](std::int64_t wanted, Quantity quantity) {
    const std::optional<double> most = device.value(quantity);
    return most && static_cast<double>(wanted) > *most;
  };
  if (beyond(demand.shared_bytes, Quantity::shared_per_block)) return Limit::shared_memory;
  if (beyond(demand.threads, Quantity::threads_per_block)) return Limit::threads;
  return Limit::none;
}

std::string why_infeasible(const Shape& shape, const Recipe& recipe, const HardwareSheet& device) {
  const BlockDemand demand = block_demand(shape, recipe);
  switch (limit_broken(shape, recipe, device)) {
    case Limit::none:
      return {};
    case Limit::shared_memory:
      return fmt::format("{:.1f} KiB of shared memory a block, {} has {:.0f} KiB",
                         static_cast<double>(demand.shared_bytes) / 1024, device.name,
                         *device.value(Quantity::shared_per_block) / 1024);
    case Limit::threads:
      return fmt::format("{} threads a block (a warp for {} rows), {} has {:.0f}", demand.threads, kRowsOfWarp,
                         device.name, *device.value(Quantity::threads_per_block));
  }
  return {};
}

std::int64_t accumulator_registers(const Shape& shape, const Recipe& recipe) {
  if (recipe.algorithm != Algorithm::flash2) return 0;
  const std::int64_t words = shape.type == DType::float64 ? 2 : 1;
  return ceil_div(recipe.Br, kRowsOfWarp) * kRowsOfWarp * (recipe.Bc + shape.dv) * words;
}

std::string why_spills(const Shape& shape, const Recipe& recipe, const HardwareSheet& device) {
  const std::int64_t all = accumulator_registers(shape, recipe);
  if (all == 0) return {};
  const std::int64_t of_thread = all / block_demand(shape, recipe).threads;
  const std::optional<double> of_sm = device.value(Quantity::registers_per_sm);
  if (of_sm && static_cast<double>(all) >= *of_sm)
    return fmt::format("S and O take {} registers a block, an SM of {} has {} [formula]: they would spill",
                       grouped(all), device.name, grouped(static_cast<std::int64_t>(*of_sm)));
  if (of_thread >= kRegistersOfThread)
    return fmt::format("S and O take {} registers a thread, which has {} [formula]: they would spill", of_thread,
                       kRegistersOfThread);
  return {};
}

std::vector<std::int64_t> axis_values(const AxisRange& range) {
  constexpr std::int64_t kMost = 4096;
  if (range.first < 1 || range.last < range.first)
    throw InputError("range of block sizes", fmt::format("{} to {}", range.first, range.last),
                     "two numbers >= 1, the smaller first");
  if (range.count < 1 || range.count > kMost)
    throw InputError("points of a range", std::to_string(range.count), fmt::format("1 to {}", kMost));
  std::vector<std::int64_t> values(static_cast<std::size_t>(range.count));
  const auto first = static_cast<double>(range.first), last = static_cast<double>(range.last);
  for (std::size_t n = 0; n < values.size(); ++n) {
    const double part = values.size() == 1 ? 0 : static_cast<double>(n) / static_cast<double>(values.size() - 1);
    const double value = range.logarithmic ? first * std::pow(last / first, part) : first + (last - first) * part;
    values[n] =
        std::clamp(std::llround(value), static_cast<long long>(range.first), static_cast<long long>(range.last));
  }
  return values;
}

std::string title(const Selection& selection) {
  switch (selection.measure) {
    case Measure::elements:
    case Measure::bytes: {
      std::string text = "HBM traffic";
      if (selection.operand) text += fmt::format(" of {}", name(*selection.operand));
      if (selection.direction != Direction::both)
        text += selection.direction == Direction::read ? ", read" : ", written";
      return text + (selection.measure == Measure::elements ? ", source units" : ", kernel units");
    }
    case Measure::on_chip:
      return "on chip, one thread block";
    case Measure::masked_share:
      return "FLOPs spent on masked scores";
    case Measure::ragged_share:
      return "FLOPs beyond the edge in whole tiles";
    case Measure::intensity:
      return "arithmetic intensity";
    case Measure::blocks:
      return "thread blocks launched";
  }
  return {};
}

std::string_view unit(const Selection& selection) {
  switch (selection.measure) {
    case Measure::elements:
      return "elements";
    case Measure::bytes:
    case Measure::on_chip:
      return "bytes";
    case Measure::masked_share:
    case Measure::ragged_share:
      return "%";
    case Measure::intensity:
      return "FLOP/byte";
    case Measure::blocks:
      return "blocks";
  }
  return "";
}

double value(const SweepPoint& point, const SweepProblem& problem, const Recipe& recipe, const Selection& selection) {
  const auto moved = [&](const Traffic& traffic) {
    return amount(selection.operand ? traffic[*selection.operand] : traffic.total(), selection.direction);
  };
  switch (selection.measure) {
    case Measure::elements:
      return moved(point.form.elements);
    case Measure::bytes:
      return moved(point.form.bytes);
    case Measure::on_chip:
      return static_cast<double>(on_chip(problem.shape, recipe).total());
    case Measure::masked_share:
      return share(point.masked_flops, point.matmul_flops);
    case Measure::ragged_share:
      return share(point.ragged_flops, point.matmul_flops + point.ragged_flops);
    case Measure::intensity:
      return point.intensity();
    case Measure::blocks:
      return static_cast<double>(point.blocks);
  }
  return 0;
}

SweepMap sweep_map(const SweepProblem& problem, Recipe recipe, const AxisRange& Br, const AxisRange& Bc,
                   const Selection& selection, const HardwareSheet* device, int threads, const std::stop_token& stop) {
  SweepMap map{axis_values(Br), axis_values(Bc), {}, {}};
  const std::size_t rows = map.Br.size(), cols = map.Bc.size();
  map.values.resize(rows * cols);
  if (device) map.limits.resize(rows * cols);
  recipe.sram.reset();
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    Recipe at = recipe;
    for (std::size_t row = next++; row < rows && !stop.stop_requested(); row = next++) {
      at.Br = map.Br[row];
      for (std::size_t col = 0; col < cols; ++col) {
        at.Bc = map.Bc[col];
        map.values[row * cols + col] = value(sweep_point(problem, at), problem, at, selection);
        if (device) map.limits[row * cols + col] = limit_broken(problem.shape, at, *device);
      }
    }
  };
  threads = threads_or_cores(threads);
  {
    std::vector<std::jthread> helpers;
    for (int n = 1; n < std::min<int>(threads, static_cast<int>(rows)); ++n) helpers.emplace_back(work);
    work();
  }
  if (stop.stop_requested()) throw Cancelled();
  return map;
}

}  // namespace flashscope
