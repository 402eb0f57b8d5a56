// Masks as a file brings them, seeded.
#pragma once

#include <limits>
#include <memory>
#include <random>

#include "engine/attention/mask.h"

namespace flashscope::gpu {

// About three quarters of the keys kept, rows without any among them.
inline std::shared_ptr<const KeepMask> random_keep(std::int64_t heads, std::int64_t rows, std::int64_t cols,
                                                   std::uint32_t seed) {
  std::mt19937 random(seed);
  KeepMask keep = make_keep_mask(heads, rows, cols);
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c)
        if (random() % 4 != 0 && r % 17 != 5) set_keep(keep, h, r, c);
  return std::make_shared<const KeepMask>(std::move(keep));
}
// As a file of float32 brings it.
inline Bias make_random_bias(std::int64_t heads, std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  std::mt19937 random(seed);
  Bias bias;
  bias.heads = heads, bias.rows = rows, bias.cols = cols;
  for (std::int64_t n = 0; n < heads * rows * cols; ++n) {
    const std::uint32_t x = random();
    bias.f32.push_back(x % 8 == 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(x % 1024) / 256 - 2);
  }
  return bias;
}
inline std::shared_ptr<const Bias> random_bias(std::int64_t heads, std::int64_t rows, std::int64_t cols,
                                               std::uint32_t seed) {
  return std::make_shared<const Bias>(make_random_bias(heads, rows, cols, seed));
}
// Of a file of 2, 4 or 8 bytes a number. Those of 2 are float16's as they are; those of 8 no float32's.
inline std::shared_ptr<const Bias> random_bias_of(int element_bytes, std::int64_t heads, std::int64_t rows,
                                                  std::int64_t cols, std::uint32_t seed) {
  Bias bias = make_random_bias(heads, rows, cols, seed);
  bias.element_bytes = element_bytes;
  if (element_bytes == 8) {
    for (const float value : bias.f32) bias.f64.push_back(value + 1.0 / 3);
    bias.f32.clear();
  }
  return std::make_shared<const Bias>(std::move(bias));
}

}  // namespace flashscope::gpu
