// The hardware's counters, by CUPTI's range profiler in this process: what really crossed from the L2 to the SMs and
// from DRAM. Names of counters differ between chips; they can be checked without a GPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/attention/gpu_figures.h"
#include "kernels/host/cuda.h"

namespace flashscope::gpu {

// Opens CUPTI; throws Missing where it is not there. Whether counters may be read shows only when they are.
void open_meters();

// The counters that are read on a chip ("GH100"), in the order of HardwareFigures without `passes`, and how many passes
// they take. Needs CUPTI, no GPU. Throws Missing (no CUPTI, chip or counter unknown).
struct Counters {
  std::vector<std::string> names;
  int passes = 0;
};
Counters counters_of(const std::string& chip);

// Runs `launch` as often as the counters need passes, twice: alone, and with a sweep after it that brings its written
// lines to DRAM. `prepare` goes before each, outside what is measured; then the caches are swept cold.
// Throws Missing where counters cannot be read: no CUPTI, no permission, unknown chip.
HardwareFigures measure(int device, const std::string& architecture, const Pool& pool, const Stream& stream,
                        const std::function<void()>& prepare, const std::function<void()>& launch);

}  // namespace flashscope::gpu
