// The traffic of one run from every source, side by side and in bytes: the closed form, the walk's count, the kernel's
// own count, and what the hardware's counters measured between the L2 and the SMs and at the DRAM (facts.md tells the
// three quantities that go by the name of traffic apart).
//
// The flash kernels' tile loads pass L1 by, so what L2 and SMs exchange must equal the formula. Standard attention's
// formula counts each operand once: there it is a floor, and what its matrix products read again is a line of its own.
// DRAM is compared with Q, K, V read once and O written once (flash1: with its running O, m, l once too): what the L2
// holds is not read twice. The counters are
// read from cold caches and right after the same run, warm: there DRAM may move next to nothing, and is compared with
// nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/attention/cpu_runner.h"

namespace flashscope {

enum class Label { formula, counted, measured };
std::string_view name(Label origin);

struct TrafficBytes {
  double read = 0, written = 0;
};

struct TrafficLine {
  Label origin = Label::formula;
  std::string source;  // "closed form", "ledger", "kernel", "L2 - SM", "DRAM"
  std::string caches;  // "cold", "warm": their state when the kernel began; empty where that has no meaning
  std::optional<TrafficBytes> bytes;
  std::string missing;    // why there are none
  std::string against;    // what it is compared with: "formula"; empty: nothing
  TrafficBytes baseline;  // the bytes of that
};

struct Difference {
  double bytes = 0;
  std::optional<double> percent;  // none against 0
};
Difference difference(double value, double baseline);

// Lines in the order in which they are shown. `mask` is null where it is not known: then there is no closed form.
// `report` may be null: nothing was run.
std::vector<TrafficLine> traffic_table(const Shape& shape, const Mask* mask, const Recipe& recipe,
                                       const Traffic& counted_bytes, const Report* report);

}  // namespace flashscope
