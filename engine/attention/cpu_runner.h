// The full run on the CPU: every head, every row block, threaded, by the same fold that is stepped.
// Counted traffic, peak memory measured by a counting allocator, wall time measured.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/attention/gpu_figures.h"
#include "engine/attention/ledger.h"
#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"
#include "engine/attention/reference.h"

namespace flashscope {

struct RunOptions {
  int threads = 0;  // 0: all cores
  CheckRows check;
  std::int64_t memory_limit = std::int64_t{8} << 30;  // bytes; a run that would exceed it is refused with the figures
};

struct Report {
  std::string device;  // "CPU, 2 threads"
  std::string kernel;  // "fold, AVX3"
  Shape shape;
  Recipe recipe;
  Buffer<double> O;                                 // heads x Nq x dv, exact values of the run
  Buffer<double> LSE;                               // heads x Nq
  std::vector<std::vector<std::int64_t>> nan_rows;  // per head, ascending
  std::int64_t nan_row_count = 0;
  std::optional<ErrorReport> error;  // none with --check none
  double sum = 0, sum_abs = 0;       // o_checksum, float64
  double seconds = 0;                // measured, wall clock, the kernel alone
  std::int64_t peak_bytes = 0;       // measured by the allocator: O, LSE, workspace; not Q, K, V
  std::int64_t tensor_bytes = 0;     // Q, K, V as the problem's type stores them
  ElementsAndBytes traffic;          // counted
  std::optional<GpuFigures> gpu;     // of a run on a GPU
};

// Throws InputError (too large), Cancelled.
Report run_on_cpu(const Problem& problem, const Recipe& recipe, const RunOptions& options = {},
                  const std::stop_token& stop = {}, const Progress& progress = {});

// Fills in what follows from a report's O, shape and recipe: NaN rows, checksums, the error. Throws Cancelled.
void complete(Report& report, const Problem& problem, const CheckRows& check, int threads,
              const std::stop_token& stop = {});

}  // namespace flashscope
