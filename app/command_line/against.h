// `diagnose --against FILE`: another kernel's output beside the right answer, and what reproduces it.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "app/command_line/interrupt.h"
#include "app/command_line/options.h"
#include "app/command_line/output.h"
#include "engine/insight/explain.h"

namespace flashscope::command_line {

struct Against {
  KernelOutput theirs;
  Comparison comparison;
  std::vector<Explanation> explanations;
};

// Throws InputError, Cancelled.
Against compare_with(const std::filesystem::path& file, const LseConvention& lse, const ProblemOptions& options,
                     const OpenedProblem& opened, const Recipe& recipe, int threads, const std::stop_token& stop);
Json json_of(const Against& against, std::int64_t first_head);
void print(const Against& against, std::int64_t first_head);  // for people

}  // namespace flashscope::command_line
