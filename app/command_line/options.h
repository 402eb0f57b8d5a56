// The options that commands share, each group declared in one place: SHAPE, MASK, PROBLEM, KERNEL, and how they
// become a shape, a mask, a problem and a recipe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/command_line/arguments.h"
#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"
#include "engine/attention/trace.h"
#include "engine/files/problem_file.h"
#include "kernels/host/launch_plan.h"

namespace flashscope::command_line {

struct ShapeOptions {
  std::optional<std::int64_t> n, nk, d, dv, heads, kv_heads;
  std::optional<DType> type;
};
struct MaskOptions {
  Causal causal = Causal::none;
  std::optional<Window> window;
  std::filesystem::path mask, bias;
  MaskMeans mask_means = MaskMeans::keep;
  RulesWanted rules;
};
struct ProblemOptions {
  ShapeOptions shape;
  MaskOptions mask;
  std::optional<std::uint64_t> seed;  // --random
  std::filesystem::path input, q, k, v;
  std::map<std::string, std::string> names;
  std::optional<Layout> layout;
  std::int64_t batch = 0;
  std::optional<std::int64_t> head;
  std::optional<double> scale;
  std::int64_t memory = std::int64_t{8} << 30;  // bytes
};
struct KernelOptions {
  Recipe recipe;
  std::optional<std::int64_t> Br, Bc;
  gpu::KernelChoice kernel = gpu::KernelChoice::automatic;
  bool gpu_kernels = false;            // whether the command can run them
  std::function<void()> repeat_given;  // stores again what the command line gave for the recipe
  std::optional<bool> tensor_core;     // --numerics: what the options below leave unset; unset: as the recipe has it
  std::optional<DType> scores, P, accumulators;
  std::optional<ScaleWhen> scale;
  std::optional<Exponential> exponential;
  std::optional<double> rescale_threshold;
};

void add_shape(Command& command, ShapeOptions& options);
void add_mask(Command& command, MaskOptions& options, Recipe& recipe);        // --mask-apply is the recipe's
void add_problem(Command& command, ProblemOptions& options, Recipe& recipe);  // SHAPE and MASK included
void add_kernel(Command& command, KernelOptions& options);
void add_memory(Command& command, std::int64_t& bytes);

Shape shape_of(const ShapeOptions& options);
// The mask, with its files read and checked against the shape.
Mask mask_of(const MaskOptions& options, const Shape& shape, std::int64_t memory);
// The options start from this recipe, a session's, instead of the defaults; what was given still wins.
void start_from(KernelOptions& options, const std::optional<Recipe>& recipe);
// Checked against the shape; block sizes from --sram where given.
Recipe recipe_of(const KernelOptions& options, const Shape& shape);

// Whether it is drawn at random or read from files. Throws UsageError where neither is asked for, or both.
enum class ProblemSource { random, files };
ProblemSource source_of(const ProblemOptions& options);
// What is read from files. `head` where --head is not given; unset: all heads. Throws UsageError.
ProblemFiles files_of(const ProblemOptions& options, std::optional<std::int64_t> head);

// A problem, and the number of its first query head in the file or in the whole random problem.
struct OpenedProblem {
  std::shared_ptr<const Problem> problem;
  std::int64_t first_head = 0;
  std::vector<std::string> found, warnings;
  std::optional<Recipe> recipe;  // of a session
};
// Throws InputError, UsageError, Cancelled. `head` where --head is not given; unset: all heads. Drawing a random
// problem tells `progress`, or where there is none a line on the terminal.
OpenedProblem open_problem(const ProblemOptions& options, std::optional<std::int64_t> head, const std::stop_token& stop,
                           const Progress& progress = {});
// On standard error: warnings always, and what was found in the files where the output is for people.
void print_notes(std::string_view who, const OpenedProblem& opened, bool found);

}  // namespace flashscope::command_line
