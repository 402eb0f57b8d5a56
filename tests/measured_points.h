// Points as a GPU's measurement leaves them, made by hand: traffic is the formula's and a known amount more, time has
// one minimum over Br and Bc. For tests of what is done with them.
#pragma once

#include <memory>

#include "engine/attention/closed_form.h"
#include "engine/attention/measured_sweep.h"

namespace flashscope {

constexpr double kMoreThanFormula = 4096;  // bytes
constexpr BlockSizes kFastest{112, 80};

inline MeasuredPoint asked_point(const Shape& shape, std::int64_t Br, std::int64_t Bc, Causal causal = Causal::none) {
  MeasuredPoint point;
  point.shape = shape;
  point.mask.causal = causal;
  point.recipe.Br = Br, point.recipe.Bc = Bc;
  return point;
}

inline MeasuredPoint measured_point(MeasuredPoint point) {
  const Shape& s = point.shape;
  const Moved moved = closed_form(s, point.mask, point.recipe).bytes.total();
  const auto rows = static_cast<double>(point.recipe.Br - kFastest.Br),
             cols = static_cast<double>(point.recipe.Bc - kFastest.Bc);
  point.kernel = "flash2_mma", point.date = "2026-11-30T13:00:00Z";
  GpuFigures& gpu = point.gpu.emplace();
  gpu.median = 1e-4 * (1 + (rows * rows + cols * cols) / 1e4), gpu.fastest = 0.9 * gpu.median;
  gpu.slowest = 1.5 * gpu.median, gpu.repeats = 10, gpu.input_sets = 3;
  gpu.flops = 2.0 * static_cast<double>(s.heads * s.Nq * s.Nk * (s.d + s.dv));
  gpu.architecture = "sm_90a", gpu.registers = static_cast<int>(64 + point.recipe.Bc / 2);
  if (point.recipe.Bc > 128) gpu.spill_stores = 12, gpu.spill_loads = 20;
  gpu.threads = 128, gpu.blocks = s.heads * ((s.Nq + point.recipe.Br - 1) / point.recipe.Br), gpu.sms = 132;
  HardwareFigures& counters = gpu.measured.emplace();
  counters.l2_read = static_cast<double>(moved.read) + kMoreThanFormula;
  counters.l2_written = static_cast<double>(moved.written);
  counters.dram_read = static_cast<double>((s.heads * s.Nq * s.d + s.kv_heads * s.Nk * (s.d + s.dv)) * size_of(s.type));
  counters.dram_written = static_cast<double>(s.heads * s.Nq * s.dv * size_of(s.type));
  counters.occupancy_percent = 12.5, counters.passes = 1;
  return point;
}

inline MeasuredOn measured_on_h200() {
  return {"NVIDIA H200", "sm_90a", "13.0", "NVRTC 13.0", "0123456789abcdef", std::int64_t{60} << 20};
}

}  // namespace flashscope
