// What a full run holds on a device, in bytes by formula: known before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "engine/attention/mask.h"
#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"

namespace flashscope {

struct DeviceBytes {
  std::int64_t tensors = 0;    // one set of Q, K, V
  std::int64_t masks = 0;      // planes: a byte a cell that is kept or not, a float32 a cell that is added
  std::int64_t outputs = 0;    // O, LSE, running state (flash1), S and P (standard)
  std::int64_t workspace = 0;  // cuBLAS's, of standard
  std::int64_t total() const;
};
// Each is 2^61 at most: what is refused may pass 2^63.
std::string text(const DeviceBytes& bytes);  // "4,096 bytes of Q, K, V and ...", what there is none of left out
DeviceBytes device_bytes(const Shape& shape, const Mask& mask, const Recipe& recipe);

}  // namespace flashscope
