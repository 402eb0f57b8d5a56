// Where a map of measured points is flat, where it is not, and what the points themselves show of why: no reason is
// given that they do not show.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/insight/measurement.h"

namespace flashscope {

// Of points of one shape under one mask: Gauge::dram, dram_read or dram_written against the least, each tensor once,
// which is flat over Br and Bc. `l2_bytes` of the device; 0: not known. Empty where no counters were read.
std::string dram_text(std::span<const MeasuredPoint> points, Gauge gauge, std::int64_t l2_bytes);
// L2-SM against the formula's bytes, read and written. Empty where one of them is missing everywhere.
std::string difference_text(std::span<const MeasuredPoint> points);

}  // namespace flashscope
