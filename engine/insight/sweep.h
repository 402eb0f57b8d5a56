// What block sizes cost: the closed forms of ledger.h at a point, and over a plane of Br x Bc.
//
// A point is infeasible only against a device's limit; the budget M of the first paper's rule is a share, never a
// limit. The FLOPs of a tile are 2 br bc (d + dv); of these, `masked` go to scores that no row may see, and a kernel
// that computes whole Br x Bc tiles spends `ragged` more on rows and keys beyond the sequence.
#pragma once

#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/attention/closed_form.h"
#include "engine/insight/hardware.h"

namespace flashscope {

// A shape under a mask, with what every point of a sweep shares.
struct SweepProblem {
  Shape shape;
  Mask mask;
  std::int64_t visible = 0;  // scores that some row may see, all heads
};
// Counts the visible scores: O(log N) for structural masks, a pass over the cells of a mask from a file.
SweepProblem sweep_problem(const Shape& shape, const Mask& mask, const std::stop_token& stop = {});

struct SweepPoint {
  ClosedForm form;
  std::int64_t matmul_flops = 0;  // of the visited tiles, ragged ones at their real size
  std::int64_t masked_flops = 0;  // of these, on scores that are masked
  std::int64_t ragged_flops = 0;  // beyond these, on whole tiles that hang over the edge
  std::int64_t blocks = 0;        // thread blocks launched
  double intensity() const {      // FLOP a byte that crosses the HBM boundary
    return static_cast<double>(matmul_flops) / static_cast<double>(form.bytes.total().total());
  }
};
// Precondition: has_closed_form(problem.mask, recipe).
SweepPoint sweep_point(const SweepProblem& problem, const Recipe& recipe);
// The same from what was counted, where there is no closed form.
SweepPoint sweep_point(const SweepProblem& problem, const Recipe& recipe, const ClosedForm& moved);

// The floor of any kernel's time: Q, K, V, O once (`minimum`), and the matrix products of the visible scores.
double least_flops(const SweepProblem& problem);
std::optional<TimeFloor> time_floor(const SweepProblem& problem, const HardwareSheet& device);

// Thread blocks that a GPU's kernel launches: flash2 a head and row block each, flash1 a head each; of a standard run
// those of its softmax, a row each.
std::int64_t thread_blocks(const Shape& shape, const Recipe& recipe);
// Bytes of shared memory and threads of one thread block, by the model of `on_chip`: flash2 keeps S, P, m, l and O in
// the registers of warps that own 16 rows each, flash1 keeps everything in shared memory. A standard run has no bound.
struct BlockDemand {
  std::int64_t shared_bytes = 0, threads = 0;
};
BlockDemand block_demand(const Shape& shape, const Recipe& recipe);
enum class Limit : std::uint8_t { none, shared_memory, threads };
// The first limit of the device that the recipe breaks. A figure that the sheet lacks limits nothing.
Limit limit_broken(const Shape& shape, const Recipe& recipe, const HardwareSheet& device);
// The reason in words; empty where it fits.
std::string why_infeasible(const Shape& shape, const Recipe& recipe, const HardwareSheet& device);

// 32-bit registers that S and O of a flash2 block take, by the model of block_demand: 16 (Bc + dv) of each warp.
std::int64_t accumulator_registers(const Shape& shape, const Recipe& recipe);  // 0 for the other algorithms
// No limit but a warning, for only a compiled kernel's registers are known: where S and O leave no register of a thread
// (255) or of an SM (the sheet's) to anything else, they spill, which is traffic that no formula counts. Else empty.
std::string why_spills(const Shape& shape, const Recipe& recipe, const HardwareSheet& device);

// ---- the plane

// Values of Br or Bc from first to last, both included, equally spaced in themselves or in their logarithm; rounded,
// so that neighbours may be equal where the range holds fewer whole numbers than `count`.
struct AxisRange {
  std::int64_t first = 16, last = 256, count = 200;
  bool logarithmic = false;
  bool operator==(const AxisRange&) const = default;
};
std::vector<std::int64_t> axis_values(const AxisRange& range);  // throws InputError

// What a map is coloured by.
enum class Measure : std::uint8_t {
  elements,      // source units
  bytes,         // kernel units
  on_chip,       // bytes, one thread block
  masked_share,  // of the FLOPs, %
  ragged_share,  // %
  intensity,     // FLOP/byte
  blocks
};
inline constexpr int kMeasures = 7;
enum class Direction : std::uint8_t { both, read, written };
struct Selection {
  Measure measure = Measure::elements;
  Direction direction = Direction::both;  // of elements and bytes, as the next
  std::optional<Operand> operand;         // unset: all
  bool operator==(const Selection&) const = default;
};
std::string title(const Selection& selection);  // "HBM traffic of K, read, elements"
std::string_view unit(const Selection& selection);
double value(const SweepPoint& point, const SweepProblem& problem, const Recipe& recipe, const Selection& selection);

struct SweepMap {
  std::vector<std::int64_t> Br, Bc;  // axis values, ascending
  std::vector<double> values;        // [Br.size()][Bc.size()]
  std::vector<Limit> limits;         // the same; empty without a device
  double at(std::size_t row, std::size_t col) const { return values[row * Bc.size() + col]; }
};
// The recipe with every Br and Bc of the ranges, on `threads` threads (0: as many as there are). A 200 x 200 map takes
// less than a frame. Precondition: has_closed_form. Throws InputError (ranges), Cancelled.
SweepMap sweep_map(const SweepProblem& problem, Recipe recipe, const AxisRange& Br, const AxisRange& Bc,
                   const Selection& selection, const HardwareSheet* device = nullptr, int threads = 0,
                   const std::stop_token& stop = {});

}  // namespace flashscope
