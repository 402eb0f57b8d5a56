// The steps of load_problem: which array has which role, and how a mask from a file becomes bits or a bias.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/attention/mask.h"
#include "engine/files/problem_file.h"

namespace flashscope::files {

// One array of an open file.
struct Source {
  std::shared_ptr<const TensorFile> file;
  ArrayInfo info;
  std::string where() const;     // "FILE: NAME"
  std::string describe() const;  // "(4, 1024, 64) bfloat16 (written as '<V2')"
};

DType number_type(const Source& source);  // throws InputError for what is no floating-point type

constexpr std::string_view kRoles[] = {"q", "k", "v", "mask", "bias", "scale", "o", "lse"};

// Roles by the names that people use ("q", "Query", "layers.3.attn_mask"); a role that no name fits is absent.
std::map<std::string, std::string> guess_roles(const TensorFile& file);
// What the file says of its layout; throws InputError for a word that is none.
std::optional<Layout> stated_layout(const TensorFile& file);

// (batch, head, Nq, Nk) of the problem that a mask must broadcast to, and which part of it is wanted.
struct MaskTarget {
  std::int64_t batches, heads, Nq, Nk;
  std::int64_t batch = 0;
  std::optional<std::int64_t> head;
};
// Where the wanted part of a mask lies in its file: one run of elements in C order.
struct MaskPlan {
  Source source;
  std::int64_t first = 0, heads = 1, rows = 1, cols = 1;
  std::int64_t elements() const { return heads * rows * cols; }
  bool is_bias() const { return is_float(source.info.type); }
  std::int64_t bytes() const;  // in memory: packed bits, or the bias's numbers
};
MaskPlan plan_mask(const Source& source, const MaskTarget& target);
KeepMask load_keep(const MaskPlan& plan, MaskMeans means, const std::stop_token& stop, const ReadProgress& progress);
Bias load_bias(const MaskPlan& plan, const std::stop_token& stop, const ReadProgress& progress);

}  // namespace flashscope::files
