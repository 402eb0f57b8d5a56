// Stepped = CPU = GPU: O and LSE of the same problem and recipe, computed three ways, value by value.
//
// Stepped is the trace at the end of each row block; CPU and GPU are full runs. Each may be as far from float64 as
// error_vs_float64 allows (twice plain attention's error plus 2 ulp of max |V|), so two may be twice that apart. A row
// that is NaN, or a value that is infinite, on one side only is no distance: it is counted apart, and never right.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "engine/attention/cpu_runner.h"

namespace flashscope {

enum class Side : std::uint8_t { stepped, cpu, gpu };
std::string_view name(Side side);

struct ParityPair {
  Side a = Side::stepped, b = Side::cpu;
  double max_O = 0, max_LSE = 0;               // largest distance where both sides are finite
  std::int64_t one_sided = 0;                  // rows with a NaN or an infinity that the other side has not
  std::int64_t rows = 0;                       // compared
  std::int64_t worst_head = 0, worst_row = 0;  // of max_O, or the first one-sided row
};

struct Parity {
  std::array<std::optional<ParityPair>, 3> pairs;  // stepped-cpu, cpu-gpu, stepped-gpu
  bool cpu = false, gpu = false;                   // which full runs there are
  double tolerance_O = 0, tolerance_LSE = 0;
  std::int64_t rows_stepped = 0, rows = 0;  // all rows up to 4e10 FLOP, else whole row blocks spread over the heads
  double max_O() const;
  double max_LSE() const;
  std::int64_t one_sided() const;
  bool equal() const;  // false where a distance is NaN
};

// `cpu`, `gpu`: reports of this problem and recipe, or null. Throws Cancelled, InputError (too large to step).
Parity parity(const std::shared_ptr<const Problem>& problem, const Recipe& recipe, const Report* cpu, const Report* gpu,
              const std::stop_token& stop = {}, const Progress& progress = {});

// "stepped = CPU = GPU", "stepped = CPU", "stepped = CPU, GPU differs".
std::string verdict(const Parity& parity);

}  // namespace flashscope
