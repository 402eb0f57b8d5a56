// From files to a Problem: which array is Q, K, V, mask, bias, o, lse; which layout, batch and head.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/attention/problem.h"
#include "engine/files/tensor_file.h"

namespace flashscope {

enum class Layout { hnd, nhd };  // (batch,) heads, N, d   or   (batch,) N, heads, d
enum class MaskMeans { keep, drop };

struct ProblemFiles {
  std::filesystem::path input;       // one .npz, .safetensors or session; or empty and:
  std::filesystem::path q, k, v;     // three .npy
  std::filesystem::path mask, bias;  // optional, of their own
  // Role -> array name in `input`; "" leaves the role out. Roles: q k v mask bias scale o lse.
  std::map<std::string, std::string> names;
  std::optional<Layout> layout;  // unset: as the file says, else hnd
  std::int64_t batch = 0;
  std::optional<std::int64_t> head;  // only this query head (with its kv head); unset: all
  std::optional<double> scale;
  MaskMeans mask_means = MaskMeans::keep;
  Causal causal = Causal::none;
  std::optional<Window> window;
  RulesWanted rules;
  std::int64_t memory_limit = std::int64_t{8} << 30;  // bytes; a mask beyond it is refused with the figures
};

// What was found, before anything is loaded: for the dialog and for `--json`.
struct FileReport {
  std::string format;
  std::vector<ArrayInfo> arrays;
  std::map<std::string, std::string> roles;  // guessed: role -> array name; a role that was not found is absent
  std::optional<Layout> layout;              // if the file says, in a word that is known
  std::int64_t batches = 1;
};
FileReport inspect(const std::filesystem::path& path);

struct LoadedProblem {
  std::shared_ptr<const Problem> problem;
  // For the person: "q (4, 1024, 64) float16, range -3.1 .. 4.2, 0 NaN, 0 Inf", and warnings such as
  // "mask: 10 NaN cells, exactly where it is not -inf: built as (1 - keep) * -inf?".
  std::vector<std::string> found, warnings;
};
// Throws InputError, Cancelled. Nothing that is open is touched.
// One array of whole numbers of any shape: lengths, ids of documents. Throws InputError.
std::vector<std::int64_t> read_integers(const std::filesystem::path& path);
LoadedProblem load_problem(const ProblemFiles& files, std::stop_token stop = {}, const ReadProgress& progress = {});

}  // namespace flashscope
