// A sweep that a GPU measured: points of shape, mask and recipe, and for each what the hardware said of it or why it
// said nothing. Plain data, readable without a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/attention/gpu_figures.h"
#include "engine/attention/mask.h"
#include "engine/attention/recipe.h"

namespace flashscope {

struct MeasuredPoint {
  Shape shape;
  Mask mask;  // structural: causal and window
  Recipe recipe;
  std::string kernel;             // which ran: "flash2_mma"
  std::string date;               // when, ISO 8601; empty: not yet
  std::optional<GpuFigures> gpu;  // none where it failed
  std::string failed;             // why: does not fit, does not compile, a fault of the GPU
  bool done() const { return gpu || !failed.empty(); }
};

// What a measurement depends on, beside the point itself.
struct MeasuredOn {
  std::string device, architecture;  // "NVIDIA H200", "sm_90a"
  std::string driver;                // the CUDA version that it supports: "13.0"
  std::string compiler;              // "NVRTC 13.0"
  std::string sources;               // hash of all kernels' text
  std::int64_t l2_bytes = 0;
  bool operator==(const MeasuredOn&) const = default;
};

struct MeasuredSweep {
  MeasuredOn on;
  std::string date, version;  // when it was begun; of the program
  std::int64_t seed = 1;      // of Q, K, V: standard normal
  std::vector<MeasuredPoint> points;
};

}  // namespace flashscope
