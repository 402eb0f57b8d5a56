// Which kernel runs a problem under a recipe, with which constants, threads, blocks and shared memory; or why none
// can. Plain arithmetic: needs no GPU, so that `does not fit` and blocks against SMs can be shown anywhere.
#pragma once

#include <string>

#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"
#include "kernels/host/compiler.h"

namespace flashscope::gpu {

enum class KernelChoice { automatic, simple, mma };

// What a plan has to fit into. The defaults are an A100's.
struct DeviceLimits {
  int sms = 108;
  int shared_bytes_per_block = 163 << 10;  // with opt-in
  int shared_bytes_per_sm = 164 << 10;
  std::int64_t l2_bytes = 40 << 20;
};

struct LaunchPlan {
  KernelCode code;
  std::string entry;              // of the kernel itself
  std::string init_entry;         // flash1: what sets up O, m, l; else empty
  int threads = 0;                // a block
  std::int64_t blocks = 0;        // flash1: heads; flash2: heads x Tr
  std::int64_t shared_bytes = 0;  // dynamic, a block
  int heads_together = 1;         // heads whose row blocks take turns in the order of launch
};

// Tuning that is not part of a recipe; 0 lets the plan choose. For measurements and tests.
struct Tuning {
  int warps = 0, stages = 0, min_blocks = 0, heads_together = 0;
};

// `count`: with the in-kernel count of bytes; `timeline`: the blocks write down when they work on what. Throws
// InputError: what this recipe asks for that no kernel does, or by how much it does not fit.
LaunchPlan plan_launch(const Problem& problem, const Recipe& recipe, KernelChoice choice, bool count,
                       const DeviceLimits& limits, const Tuning& tuning = {}, bool timeline = false);

}  // namespace flashscope::gpu
