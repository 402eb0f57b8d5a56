#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "engine/files/formats.h"
#include "engine/files/loading.h"

namespace flashscope::files {
namespace {

// The names that a role goes by, likeliest first, in lower case.
struct RoleNames {
  std::string_view role;
  std::vector<std::string_view> names;
};
const std::vector<RoleNames>& role_names() {
  static const std::vector<RoleNames> all = {
      {"q", {"q", "query", "queries", "query_states", "q_states", "query_layer", "xq"}},
      {"k", {"k", "key", "keys", "key_states", "k_states", "key_layer", "xk"}},
      {"v", {"v", "value", "values", "value_states", "v_states", "value_layer", "xv"}},
      {"mask", {"mask", "attn_mask", "attention_mask", "keep", "keep_mask"}},
      {"bias", {"bias", "attn_bias", "attention_bias", "alibi"}},
      {"scale", {"scale", "softmax_scale", "sm_scale", "scaling"}},
      {"o", {"o", "out", "output", "attn_output", "attn_out"}},
      {"lse", {"lse", "softmax_lse", "logsumexp"}},
  };
  return all;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

std::string last_part(std::string_view name) {
  const std::size_t at = name.find_last_of("./");
  return lower(at == std::string_view::npos ? name : name.substr(at + 1));
}

}  // namespace

std::map<std::string, std::string> guess_roles(const TensorFile& file) {
  std::map<std::string, std::string> roles;
  for (const RoleNames& candidates : role_names()) {
    const auto first_that = [&](const auto& fits) {
      for (const std::string_view name : candidates.names)
        for (const ArrayInfo& array : file.arrays())
          if (!roles.contains(std::string(candidates.role)) && fits(array.name, name))
            roles[std::string(candidates.role)] = array.name;
    };
    first_that([](const std::string& array, std::string_view name) { return array == name; });
    first_that([](const std::string& array, std::string_view name) { return lower(array) == name; });
    first_that([](const std::string& array, std::string_view name) { return last_part(array) == name; });
  }
  return roles;
}

std::optional<Layout> stated_layout(const TensorFile& file) {
  const auto text = file.text("layout");
  if (!text) return {};
  const std::string word = lower(*text);
  // n, s and t all name the sequence; the batch is there or not.
  for (const std::string_view hnd : {"hnd", "bhnd", "hsd", "bhsd", "htd", "bhtd"})
    if (word == hnd) return Layout::hnd;
  for (const std::string_view nhd : {"nhd", "bnhd", "shd", "bshd", "thd", "bthd"})
    if (word == nhd) return Layout::nhd;
  throw InputError(file.path().string() + ": layout", shown(*text), "hnd, bhnd, nhd or bnhd (s for n is as good)");
}

DType number_type(const Source& source) {
  switch (source.info.type) {
    case ElementType::float64:
      return DType::float64;
    case ElementType::float32:
      return DType::float32;
    case ElementType::float16:
      return DType::float16;
    case ElementType::bfloat16:
      return DType::bfloat16;
    default:
      throw InputError(source.where(), "type " + std::string(name(source.info.type)),
                       "float64, float32, float16 or bfloat16");
  }
}

std::string Source::where() const {
  return info.name.empty() ? file->path().string() : file->path().string() + ": " + info.name;
}

std::string Source::describe() const {
  const std::string text = shape_text(info.shape) + " " + std::string(name(info.type));
  const bool void_type = info.type == ElementType::bfloat16 && file->format() != "safetensors";
  return void_type ? fmt::format("{} (written as {}, taken as bfloat16)", text, shown(info.spelled)) : text;
}

}  // namespace flashscope::files

namespace flashscope {

FileReport inspect(const std::filesystem::path& path) {
  const TensorFile file = TensorFile::open(path);
  FileReport report;
  report.format = file.format();
  report.arrays = file.arrays();
  report.roles = files::guess_roles(file);
  try {
    report.layout = files::stated_layout(file);
  } catch (const InputError&) {  // an unknown word: the person chooses
  }
  const auto q = report.roles.find("q");
  const ArrayInfo* info = q == report.roles.end() ? nullptr : file.find(q->second);
  if (info && info->shape.size() == 4) report.batches = info->shape[0];
  return report;
}

}  // namespace flashscope
