// The tiles that are not visited have no step: their `masked` events belong to the next one. Schedule only, no numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/attention/schedule.h"
#include "engine/attention/trace.h"

namespace flashscope {

// A state lists at most this many of them; there can be millions.
inline constexpr std::int64_t kMaskedListed = 1024;

// Those between the previous visited tile and this step, which leads to state K, in the order of the walk: the first
// `limit`.
std::vector<Event> skipped_before(const Schedule& schedule, const Step& step, std::int64_t K, std::int64_t limit);

}  // namespace flashscope
