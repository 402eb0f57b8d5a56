// Reports as a run on a GPU leaves them, made by hand: O and LSE are the CPU's, the figures of the hardware are those
// that were recorded on an H200 (kernels/README.md). For tests of what is done with them.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/attention/cpu_runner.h"

namespace flashscope::window {

inline Report gpu_report(const Problem& problem, const Recipe& recipe) {
  Report report = run_on_cpu(problem, recipe);
  report.device = "NVIDIA H200", report.kernel = "flash2_mma";
  report.seconds = 104.5e-6;
  GpuFigures& gpu = report.gpu.emplace();
  gpu.median = 104.5e-6, gpu.fastest = 103.9e-6, gpu.slowest = 108.2e-6, gpu.repeats = 20, gpu.input_sets = 5;
  gpu.flops = 4.0 * 4096 * 4096 * 64 * 16;
  gpu.architecture = "sm_90a", gpu.registers = 168, gpu.shared_bytes = 49'152, gpu.threads = 128;
  gpu.blocks = 512, gpu.blocks_per_sm = 3, gpu.sms = 132;
  gpu.peak_run_bytes = 8'650'752, gpu.peak_tensor_bytes = 125'829'120, gpu.peak_statistics_bytes = 176;
  HardwareFigures& measured = gpu.measured.emplace();
  measured.l2_read = 545'259'520, measured.l2_written = 8'650'752;
  measured.dram_read = 25'206'016, measured.dram_written = 8'390'000;
  measured.occupancy_percent = 17.9, measured.tensor_percent = 34.2, measured.l2_hit_percent = 95.1,
  measured.passes = 1, measured.dram_written_idle = 4'096;
  HardwareFigures& warm = gpu.measured_warm.emplace(measured);
  warm.dram_read = 40'960, warm.dram_written = 0, warm.l2_hit_percent = 99.9;
  gpu.l2_bytes = 62'914'560;
  return report;
}

// Two blocks at a time on every SM but the last four, tiles of 100 ns; row block i has i + 1 tiles, as under a causal
// mask.
inline Timeline simulated_timeline(int sms, int heads, int rows) {
  Timeline timeline;
  timeline.sms = sms, timeline.tick_ns = 32;
  std::vector<std::int64_t> free(static_cast<std::size_t>(2 * (sms - 4)), 0);
  std::int64_t block = 0;
  for (int i = rows - 1; i >= 0; --i) {
    for (int head = 0; head < heads; ++head, ++block) {
      const auto slot = std::min_element(free.begin(), free.end());
      const int sm = static_cast<int>(slot - free.begin()) / 2;
      for (int j = 0; j <= i; ++j, *slot += 100) timeline.spans.push_back({sm, block, head, i, j, *slot, *slot + 100});
    }
  }
  std::stable_sort(timeline.spans.begin(), timeline.spans.end(), [](const auto& a, const auto& b) {
    return std::pair(a.sm, a.start_ns) < std::pair(b.sm, b.start_ns);
  });
  return timeline;
}

}  // namespace flashscope::window
