// A short text that stands for all that a run computes from: Q, K, V, the scale and the masks. Runs of one problem are
// told by it from runs of another, across files. Every NaN counts as the same, as a file of float16 keeps no payload.
#pragma once

#include <stop_token>
#include <string>

#include "engine/attention/problem.h"

namespace flashscope {

// 16 hexadecimal digits. Reads every number: about a second for 4 GB. Throws Cancelled.
std::string fingerprint(const Problem& problem, const std::stop_token& stop = {});

}  // namespace flashscope
