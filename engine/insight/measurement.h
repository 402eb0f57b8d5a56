// What measured points say: one figure of each, the difference from the formula, which points to measure next, and
// which was best.
//
// Three traffics are told apart (see HardwareFigures): the formula's is what the tiled loops ask of HBM; L2-SM is what
// the SMs really asked of the L2 and must equal it where loads bypass L1; DRAM is what the L2 could not answer, and
// stays at Q + K + V + O while K and V stay in the L2, whatever the block sizes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/attention/measured_sweep.h"
#include "engine/insight/sweep.h"

namespace flashscope {

enum class Gauge : std::uint8_t {
  l2_sm,          // bytes, read and written
  l2_sm_read,     // bytes
  l2_sm_written,  // bytes
  dram,           // bytes, read and written
  dram_read,      // bytes
  dram_written,   // bytes
  seconds,        // of one launch, the median
  tflops,         // by the papers' convention
  occupancy,      // achieved, % of the warps that an SM can hold
  registers,      // a thread
  spills,         // bytes a thread, stores and loads as the code stands
  difference      // bytes: L2-SM less the formula's, kernel units
};
inline constexpr int kGauges = 12;
std::string_view title(Gauge gauge);   // "L2 to SM, read"
std::string_view unit(Gauge gauge);    // "bytes"
std::string_view origin(Gauge gauge);  // "measured", "reported by the compiler", "measured - formula"
// How it was obtained, for the head of a table: counters, cache state, clocks.
std::string_view how(Gauge gauge);
bool less_is_better(Gauge gauge);
// Absent where the point failed or the counters were not read. Difference: absent where there is no formula.
std::optional<double> value(const MeasuredPoint& point, Gauge gauge);
// Bytes that the formula says, read and written; absent where it has none.
std::optional<double> formula_bytes(const MeasuredPoint& point);

// Two states of one sweep, perhaps with more points in the later.
inline bool same_sweep(const MeasuredSweep& a, const MeasuredSweep& b) { return a.on == b.on && a.date == b.date; }

// Points of a sweep that are the same but for Br and Bc.
bool same_but_blocks(const MeasuredPoint& a, const MeasuredPoint& b);

// Block sizes to measure first: from 16 to 256 (no kernel takes more; no larger than the sequence needs) in steps of a
// half octave, powers of two before the others, so that the plane fills from everywhere.
std::vector<BlockSizes> coarse_blocks(const Shape& shape);
// Then: multiples of 16 beside the fastest points so far that were not asked for yet; none once `most` were, or where
// the best are surrounded.
std::vector<BlockSizes> finer_blocks(std::span<const MeasuredPoint> points, const Shape& shape, std::size_t most = 300);

// The same problem and recipe with those block sizes, not measured yet.
std::vector<MeasuredPoint> points_with(const MeasuredPoint& like, const std::vector<BlockSizes>& blocks);

// The N at which K and V of all key/value heads are as large as the L2.
double rows_that_fill(double l2_bytes, const Shape& shape);

struct MeasuredAdvice {
  std::size_t point = 0;  // of the span
  std::string why;        // one line
};
struct MeasuredAdviceList {
  std::vector<MeasuredAdvice> best;  // ascending time, the best first; empty where nothing was measured
  std::size_t measured = 0, failed = 0;
  std::string note;  // how it was judged
};
// Of points that are the same but for Br and Bc.
MeasuredAdviceList advise_measured(std::span<const MeasuredPoint> points, const MeasuredOn& on,
                                   std::size_t runners_up = 4);

}  // namespace flashscope
