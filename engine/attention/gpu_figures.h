// What a run on a GPU adds to a report: how the kernel was launched, how long it took, what the kernel itself counted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/attention/ledger.h"

namespace flashscope {

// Read from the hardware's counters, in bytes; the L2 and DRAM start cold (a read-only sweep of 4 x L2 goes before).
struct HardwareFigures {
  double l2_read = 0, l2_written = 0;      // between the L2 and the SMs; stores include spilled registers
  double dram_read = 0, dram_written = 0;  // dirty lines that stay in the L2 are swept out and counted
  double l2_hit_percent = 0;
  double occupancy_percent = 0;  // warps on an SM, of the most it can hold
  double tensor_percent = 0;     // of the tensor pipes' peak
  double bank_conflicts = 0;
  int passes = 0;  // how often the kernel was run for it
};

struct GpuFigures {
  // Time of one launch, measured by events after a warm-up; `input_sets` copies of Q, K, V take turns.
  double median = 0, fastest = 0, slowest = 0;  // seconds
  int repeats = 0, input_sets = 1;
  double flops = 0;  // by the papers' convention: 2 Nq Nk (d + dv) a head, half of it under a causal mask
  double tflops() const { return flops / median / 1e12; }

  // The kernel, as its compiler and the driver report it.
  std::string architecture;                              // "sm_90a"
  int registers = 0, spill_stores = 0, spill_loads = 0;  // a thread; bytes
  std::int64_t shared_bytes = 0;                         // a block
  int threads = 0;                                       // a block
  std::int64_t blocks = 0;
  int blocks_per_sm = 0, sms = 0;

  // Measured by the memory pools: outputs and running state; counters of the kernel's own count; Q, K, V.
  std::int64_t peak_run_bytes = 0, peak_statistics_bytes = 0, peak_tensor_bytes = 0;

  std::optional<Traffic> counted;  // bytes, added up in the kernel, one thread a tile copy

  std::optional<HardwareFigures> measured;
  std::string not_measured;  // why there is none
};

}  // namespace flashscope
