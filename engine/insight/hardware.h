// Hardware sheets: what a GPU's data sheet or its driver says of it, each figure with its source.
//
// Roofline (Williams, Waterman, Patterson 2009): attainable FLOP/s = min(peak, intensity x bandwidth); the two meet at
// the balance point, peak / bandwidth. Peaks are dense: no structured sparsity; tensor peaks of float16 are those that
// accumulate in float32. A figure that no source gives is absent. KB and GB of memories are 2^10 and 2^30 bytes, as
// memories are built; bandwidths and peaks are decimal.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/attention/tensor.h"

namespace flashscope {

enum class Quantity : std::uint8_t {
  sms,
  shared_per_block,  // bytes, with opt-in
  shared_per_sm,     // bytes
  registers_per_sm,  // of 32 bits
  threads_per_block,
  threads_per_sm,
  l2,           // bytes
  dram,         // bytes
  bandwidth,    // of DRAM, bytes a second
  bf16_tensor,  // FLOP/s, as the others below
  fp16_tensor,
  fp32_vector,
  fp64_vector
};
inline constexpr int kQuantities = 13;
std::string_view name(Quantity quantity);  // "shared memory per block"
std::string_view unit(Quantity quantity);  // "", "bytes", "bytes/s", "FLOP/s"

struct Figure {
  double value = 0;
  std::string source;  // a document, "reported by the driver", "what-if", "entered"
};

struct HardwareSheet {
  std::string name;                // "H100 SXM"
  std::string compute_capability;  // "9.0"; empty where unknown
  std::array<std::optional<Figure>, kQuantities> figures;

  const std::optional<Figure>& operator[](Quantity q) const { return figures[static_cast<std::size_t>(q)]; }
  std::optional<Figure>& operator[](Quantity q) { return figures[static_cast<std::size_t>(q)]; }
  std::optional<double> value(Quantity q) const;
};

// The sheets that come with the program, in the order in which lists show them.
const std::vector<HardwareSheet>& hardware_sheets();
// By a sheet's name ("h200", "A100 80GB") or by the name that CUDA gives the device ("NVIDIA H100 80GB HBM3"), whatever
// its case; nullptr where there is none.
const HardwareSheet* find_sheet(std::string_view name);
// The same; throws InputError that lists the names.
const HardwareSheet& sheet_named(std::string_view name);

// A device as its driver reports it.
struct ReportedDevice {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  std::int64_t sms = 0, shared_per_block = 0, shared_per_sm = 0, l2 = 0, dram = 0;
};
// What the driver reports, over the sheet of that name (bandwidth and peaks are the sheet's: no driver reports them)
// and the limits of its compute capability.
HardwareSheet sheet_of_device(const ReportedDevice& device);

// One without figures, for those of a person: `what_if` enters them.
HardwareSheet custom_sheet();
// The same sheet with one figure changed, marked as such: its name gains ", what-if".
HardwareSheet what_if(HardwareSheet sheet, Quantity quantity, double value);

// The peak that a type's matrix products can reach: the tensor cores' for 16-bit types, the vector units' for float32
// and float64.
Quantity peak_quantity(DType type);
// Peak / bandwidth, FLOP per byte; absent where either is.
std::optional<double> balance(const HardwareSheet& sheet, DType type);
// min(peak, intensity x bandwidth), FLOP/s: an upper bound.
std::optional<double> attainable(const HardwareSheet& sheet, DType type, double flop_per_byte);
// bytes / bandwidth, in seconds: what they take where none of them hits in the L2. Of a tiled kernel's traffic that is
// no floor: most of it is tiles read again, which the L2 serves.
std::optional<double> dram_seconds(const HardwareSheet& sheet, double bytes);
// No kernel takes less from cold caches, and none is promised as little: the bytes that must cross the DRAM boundary
// over its bandwidth, or the FLOPs over the type's peak, whichever is larger. Unset where the sheet has neither.
struct TimeFloor {
  double seconds = 0;
  bool by_peak = false;  // else by bandwidth
};
std::optional<TimeFloor> time_floor(const HardwareSheet& sheet, DType type, double least_bytes, double flops);

// Softmax by itself on an N x N matrix of 2-byte scores: 5 FLOP an element (subtract the maximum, exponential, sum,
// divide; an assumption), 2 bytes read and 2 written.
inline constexpr double kSoftmaxFlopPerByte = 5.0 / (2 + 2);

}  // namespace flashscope
