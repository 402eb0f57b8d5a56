// `diagnose --against FILE`: another kernel's output beside the right answer, and what reproduces it.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "app/command_line/interrupt.h"
#include "app/command_line/options.h"
#include "app/command_line/output.h"
#include "engine/insight/explain.h"

namespace flashscope::command_line {

struct Against {
  KernelOutput theirs;
  Comparison comparison;
  Causes causes;
};
struct AgainstOptions {
  std::filesystem::path file;
  LseConvention lse;
  std::optional<DType> type;  // of its O
};

// Throws InputError, Cancelled.
Against compare_with(const AgainstOptions& with, const ProblemOptions& options, const OpenedProblem& opened,
                     const Recipe& recipe, int threads, const std::stop_token& stop);
Json json_of(const Against& against, std::int64_t first_head);
// For people: what it is, where and why; then the figures.
void print(const Against& against, std::int64_t first_head);

}  // namespace flashscope::command_line
