// What a run on a GPU adds to a report: how the kernel was launched, how long it took, what the kernel itself counted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/attention/ledger.h"

namespace flashscope {

// Read from the hardware's counters, in bytes, from one state of the caches. Cold: a read-only sweep of 4 x L2 goes
// before, and one after brings the lines that are still dirty to DRAM, where they are counted. Warm: right after the
// same run on the same data; a line that it writes again before it leaves the L2 never reaches DRAM.
struct HardwareFigures {
  double l2_read = 0, l2_written = 0;  // between the L2 and the SMs; stores include spilled registers
  double dram_read = 0,
         dram_written = 0;  // of the whole device: the least of several measurements, for others only add
  double l2_hit_percent = 0;
  double occupancy_percent = 0;  // warps on an SM, of the most it can hold
  double tensor_percent = 0;     // of the tensor pipes' peak
  double bank_conflicts = 0;
  std::optional<double> seconds;  // of the launch by the device's clock, no launch latency in it; unset: not read
  int passes = 0;                 // how often the kernel was run for it
  // Written to DRAM while the sweep alone ran, which writes nothing: by other processes, the display, the counters
  // themselves. Unset: not measured.
  std::optional<double> dram_written_idle;
};

// Of the matrix products of standard, handed to cuBLAS from the run's pool (what it recommends for Hopper): in the
// measured peak, and no tensor of the algorithm.
inline constexpr std::int64_t kProductsWorkspaceBytes = std::int64_t{32} << 20;

// What is in the caches when a run begins.
enum class Caches { cold, mixed, warm };
std::string_view name(Caches caches);

// When each tile was worked on and by which SM, written down by the kernel's blocks of threads themselves: measured by
// the device's global timer. flash1 shows its idle SMs here, a causal mask its uneven load.
struct Timeline {
  struct Span {
    int sm = 0;
    std::int64_t block = 0;  // of threads
    std::int64_t head = 0, i = 0;
    std::int64_t j = -1;                    // -1: no tile, a row of S (standard), or flash1's finish
    std::int64_t start_ns = 0, end_ns = 0;  // since the first start
  };
  std::vector<Span> spans;        // by SM, then start
  int sms = 0;                    // of the device, those that idle included
  std::int64_t lost = 0;          // spans beyond the buffer
  std::int64_t tick_ns = 0;       // the smallest step of the timer that was seen
  std::int64_t duration() const;  // ns, to the last end
};
// In the format of chrome://tracing and Perfetto: a process is the device, a thread an SM, arguments the tile's place.
std::string chrome_trace(const Timeline& timeline, const std::string& device, const std::string& run);

struct GpuFigures {
  // Time of one launch, measured by events after a warm-up; `input_sets` copies of Q, K, V take turns, so that a launch
  // finds them as `input_caches` says; O and LSE are written where the launch before wrote them.
  double median = 0, fastest = 0, slowest = 0;  // seconds
  int repeats = 0, input_sets = 1;
  std::optional<std::int64_t> l2_bytes;                                 // of the device
  std::optional<Caches> input_caches(std::int64_t tensor_bytes) const;  // of one set; unset: the L2 is not known
  double flops = 0;  // by the papers' convention: 2 Nq Nk (d + dv) a head, half of it under a causal mask
  double tflops() const { return flops / median / 1e12; }

  // The kernel, as its compiler and the driver report it.
  std::string architecture;                              // "sm_90a"
  int registers = 0, spill_stores = 0, spill_loads = 0;  // a thread; bytes
  std::int64_t shared_bytes = 0;                         // a block
  int threads = 0;                                       // a block
  std::int64_t blocks = 0;
  int blocks_per_sm = 0, sms = 0;

  // Measured by the memory pools: outputs and running state; what measuring takes (the sweep that empties the L2,
  // counts, spans); Q, K, V.
  std::int64_t peak_run_bytes = 0, peak_statistics_bytes = 0, peak_tensor_bytes = 0;

  std::optional<Traffic> counted;  // bytes, added up in the kernel, one thread a tile copy

  std::optional<Timeline> timeline;  // of one launch, of the kernel that was compiled to write it down

  std::optional<HardwareFigures> measured, measured_warm;  // caches cold; warm
  std::string not_measured;                                // why there is none
};

}  // namespace flashscope
