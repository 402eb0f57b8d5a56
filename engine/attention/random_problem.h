// random_problem of problem.h as long work: Q, K, V of N = 10^6 take seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>

#include "engine/attention/problem.h"
#include "engine/attention/trace.h"

namespace flashscope {

// The same numbers. Progress in elements, on any thread, one call at a time. Throws InputError, Cancelled.
std::shared_ptr<const Problem> random_problem(const Shape& shape, std::uint64_t seed, std::optional<double> scale,
                                              Mask mask, const std::stop_token& stop, const Progress& progress);

}  // namespace flashscope
