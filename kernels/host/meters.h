// The hardware's counters, by CUPTI's range profiler in this process: what really crossed from the L2 to the SMs and
// from DRAM. Names of counters differ between chips; they can be checked without a GPU.
#pragma once

#include <functional>
#include <memory>
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

struct Measured {
  HardwareFigures cold, warm;  // warm: zeros where it was not asked for
};
// The counters of one device, ready to be read again and again: to open them takes about a quarter of a second. While
// one is open, no other may be.
class Meters {
 public:
  // Throws Missing where counters cannot be read: no CUPTI, no permission, unknown chip. Pool and stream outlive it.
  Meters(int device, const std::string& architecture, const Pool& pool, const Stream& stream);
  ~Meters();
  Meters(const Meters&) = delete;
  Meters& operator=(const Meters&) = delete;

  struct Options {
    bool warm = true;  // and what is written without the kernel; else the cold figures alone
    int repeats = 3;   // of a measurement, where it is short
  };
  using OnPass = std::function<void(const char* what, int done, int passes)>;
  // Runs `launch` as often as the counters need passes, in each state of the caches. `prepare` goes before each,
  // outside what is measured. `on_pass` hears of each: what it is for, and how many there were of how many (more, where
  // a run is short enough to be measured several times).
  Measured measure(const std::function<void()>& prepare, const std::function<void()>& launch, const Options& options,
                   const OnPass& on_pass = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashscope::gpu
