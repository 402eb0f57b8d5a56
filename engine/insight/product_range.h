// How large the products q.k are before the scale makes them small: a kernel that holds them in float16 overflows
// beyond 65504, and the rows in which one does are NaN.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "engine/attention/recipe.h"
#include "engine/attention/trace.h"

namespace flashscope {

struct ProductRange {
  double largest = 0;                       // of the finite |q.k| of visible keys
  std::int64_t head = 0, row = 0, key = 0;  // where it is
  std::int64_t rows_beyond = 0;             // rows with one that float16 rounds to infinity
};
// Every product that the recipe's walk meets, in float32. None for inputs that are no float16, and where the longest
// rows of Q and K show that none can be that large. Threaded. Throws Cancelled.
std::optional<ProductRange> product_range(const std::shared_ptr<const Problem>& problem, const Recipe& recipe,
                                          int threads = 0, const std::stop_token& stop = {},
                                          const Progress& progress = {});
// "the largest |q.k| before the scale is 484,000, in ...: would overflow ..."; empty where no row is beyond.
std::string text(const ProductRange& range, std::int64_t first_head = 0);

}  // namespace flashscope
