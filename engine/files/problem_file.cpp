#include "engine/files/problem_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "engine/digits.h"
#include "engine/error.h"
#include "engine/files/formats.h"
#include "engine/files/loading.h"
#include "engine/files/session_file.h"

namespace flashscope {
namespace {

using files::MaskPlan;
using files::Source;

// The extents of q, k, v or o; a missing batch or head dimension is 1.
struct Extents {
  std::int64_t batches = 1, heads = 1, rows = 1, cols = 1;
};

std::string bytes_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.1f} GB", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.1f} MB", value / 1e6);
  return fmt::format("{} bytes", bytes);
}

Extents extents_of(const Source& source, Layout layout) {
  const std::vector<std::int64_t>& shape = source.info.shape;
  const std::string expected = layout == Layout::hnd ? "(batch, heads, N, d), (heads, N, d) or (N, d)"
                                                     : "(batch, N, heads, d), (N, heads, d) or (N, d)";
  if (shape.size() < 2 || shape.size() > 4 || std::count(shape.begin(), shape.end(), 0))
    throw InputError(source.where(), "shape " + shape_text(shape), expected + ", nothing of size 0");
  Extents extents;
  extents.cols = shape.back();
  std::size_t n = 0;
  if (shape.size() == 4) extents.batches = shape[n++];
  if (shape.size() == 2) {
    extents.rows = shape[0];
  } else {
    extents.heads = shape[layout == Layout::hnd ? n : n + 1];
    extents.rows = shape[layout == Layout::hnd ? n + 1 : n];
  }
  return extents;
}

// One load, from names to a problem. Everything is checked from headers before any array is read.
class Loader {
 public:
  // `documents`: a session's, for where none are asked for.
  Loader(const ProblemFiles& wanted, std::shared_ptr<const Documents> documents, std::stop_token stop,
         const ReadProgress& progress)
      : wanted_(wanted), documents_(std::move(documents)), stop_(std::move(stop)), progress_(progress) {}

  LoadedProblem load() {
    find_sources();
    check_shapes();
    plan_masks();
    check_memory();
    return read();
  }

 private:
  std::shared_ptr<const TensorFile> open(const std::filesystem::path& path) {
    auto& file = open_[path];
    if (!file) file = std::make_shared<const TensorFile>(TensorFile::open(path));
    return file;
  }

  // The array of a role in one file: by the name that was asked for, else by a guess, else the only one there is.
  std::optional<Source> pick(const std::filesystem::path& path, std::string_view role, bool only_array_will_do) {
    const auto file = open(path);
    const auto named = wanted_.names.find(std::string(role));
    if (named != wanted_.names.end() && !only_array_will_do) {
      if (named->second.empty()) return {};
      if (const ArrayInfo* info = file->find(named->second)) return Source{file, *info};
      refuse_skipped(*file, named->second);
      throw InputError(fmt::format("{}: {}", path.string(), role), "no array " + files::shown(named->second),
                       "one of: " + names_in(*file));
    }
    if (only_array_will_do && file->arrays().size() == 1) return Source{file, file->arrays().front()};
    const auto roles = files::guess_roles(*file);
    const auto guessed = roles.find(std::string(role));
    if (guessed != roles.end()) return Source{file, *file->find(guessed->second)};
    refuse_skipped(*file, role);
    return {};
  }

  static void refuse_skipped(const TensorFile& file, std::string_view name) {
    for (const SkippedArray& skipped : file.skipped())
      if (skipped.name == name)
        throw InputError(file.path().string() + ": " + skipped.name, skipped.found,
                         "float64, float32, float16 or bfloat16 (bool or integers for a mask)");
  }
  static std::string names_in(const TensorFile& file) {
    std::vector<std::string> names;
    for (const ArrayInfo& info : file.arrays()) names.push_back(info.name.empty() ? "(unnamed)" : info.name);
    return names.empty() ? "no arrays at all" : fmt::format("{}", fmt::join(names, ", "));
  }

  void find_sources() {
    for (const auto& [role, name] : wanted_.names)
      if (std::find(std::begin(files::kRoles), std::end(files::kRoles), role) == std::end(files::kRoles))
        throw InputError("names", "role " + files::shown(role), fmt::format("{}", fmt::join(files::kRoles, ", ")));
    const std::map<std::string_view, const std::filesystem::path*> own = {
        {"q", &wanted_.q}, {"k", &wanted_.k}, {"v", &wanted_.v}, {"mask", &wanted_.mask}, {"bias", &wanted_.bias}};
    for (const std::string_view role : files::kRoles) {
      const auto path = own.find(role);
      const bool has_own = path != own.end() && !path->second->empty();
      if (!has_own && wanted_.input.empty()) continue;
      const auto source = pick(has_own ? *path->second : wanted_.input, role, has_own);
      if (source) sources_[role] = *source;
      if (has_own && !source)
        throw InputError(path->second->string(), names_in(*open(*path->second)),
                         fmt::format("one array, or one named {}", role));
    }
    for (const std::string_view role : {"q", "k", "v"})
      if (!sources_.contains(role)) {
        const bool tried = !wanted_.input.empty();
        throw InputError(tried ? wanted_.input.string() : std::string(role),
                         tried ? names_in(*open(wanted_.input)) : "no file",
                         fmt::format("an array named {0} (or a name given for the role {0})", role));
      }
    if (wanted_.scale) sources_.erase("scale");
    if (wanted_.layout)
      layout_ = *wanted_.layout;
    else if (!wanted_.input.empty())
      layout_ = files::stated_layout(*open(wanted_.input)).value_or(Layout::hnd);
  }

  void check_shapes() {
    const Source &q = sources_["q"], &k = sources_["k"], &v = sources_["v"];
    q_ = extents_of(q, layout_), k_ = extents_of(k, layout_), v_ = extents_of(v, layout_);
    const auto equal = [](const Source& one, std::int64_t found, const Source& other, std::int64_t expected,
                          std::string_view what) {
      if (found != expected)
        throw InputError(
            one.where(), fmt::format("{} {} in shape {}", what, found, shape_text(one.info.shape)),
            fmt::format("{} as in {} {}", expected, other.info.name.empty() ? other.where() : other.info.name,
                        shape_text(other.info.shape)));
    };
    const auto rank = [](const Source& source) { return static_cast<std::int64_t>(source.info.shape.size()); };
    equal(k, rank(k), q, rank(q), "dimensions:");
    equal(v, rank(v), q, rank(q), "dimensions:");
    equal(k, k_.batches, q, q_.batches, "batch");
    equal(v, v_.batches, q, q_.batches, "batch");
    equal(v, v_.rows, k, k_.rows, "keys: N");
    equal(v, v_.heads, k, k_.heads, "heads");
    equal(k, k_.cols, q, q_.cols, "d");
    for (const Source* source : {&q, &k, &v})
      if (const DType type = number_type(*source); type != number_type(q))
        throw InputError(source->where(), "type " + std::string(name(source->info.type)),
                         std::string(name(q.info.type)) + " as q");
    for (const auto& [source, cols] : {std::pair(&q, q_.cols), std::pair(&v, v_.cols)})
      if (cols > 256) throw InputError(source->where(), fmt::format("head dimension {}", cols), "1 to 256");
    if (q_.heads % k_.heads != 0)
      throw InputError(q.where(), fmt::format("{} query heads on {} key/value heads", q_.heads, k_.heads),
                       "a multiple of the key/value heads (is the layout right?)");
    const auto within = [](const char* what, std::int64_t value, std::int64_t count) {
      if (value < 0 || value >= count)
        throw InputError(what, fmt::format("{}", value), fmt::format("0 to {}", count - 1));
    };
    within("batch", wanted_.batch, q_.batches);
    if (wanted_.head) within("head", *wanted_.head, q_.heads);

    if (sources_.contains("o")) check_o(sources_["o"]);
    if (sources_.contains("lse")) check_lse(sources_["lse"]);
    const bool unstated = !wanted_.layout && layout_ == Layout::hnd;
    if (unstated && rank(q) > 2 && q_.heads > q_.rows && k_.heads > k_.rows)
      warnings_.push_back(
          fmt::format("q {} is read as {} heads of N = {}; if N comes before the heads, choose layout nhd",
                      shape_text(q.info.shape), q_.heads, q_.rows));
  }

  void check_o(const Source& o) {
    number_type(o);
    std::vector<std::int64_t> expected = sources_["q"].info.shape;
    expected.back() = v_.cols;
    if (o.info.shape != expected)
      throw InputError(o.where(), "shape " + shape_text(o.info.shape),
                       shape_text(expected) + ", one row for each of q");
  }

  // (batch, heads, Nq), whatever the layout, as FlashAttention returns it; with layout nhd also (batch, Nq, heads).
  void check_lse(const Source& lse) {
    number_type(lse);
    std::vector<std::int64_t> shape = lse.info.shape, by_head, by_row;
    const std::size_t rank = sources_["q"].info.shape.size();
    if (shape.size() == rank && shape.back() == 1) shape.pop_back();
    if (rank == 4) by_head = {q_.batches}, by_row = {q_.batches};
    if (rank > 2) {
      by_head.insert(by_head.end(), {q_.heads, q_.rows});
      by_row.insert(by_row.end(), {q_.rows, q_.heads});
    } else {
      by_head = by_row = {q_.rows};
    }
    lse_by_row_ = shape != by_head && layout_ == Layout::nhd && shape == by_row;
    if (shape != by_head && !lse_by_row_)
      throw InputError(lse.where(), "shape " + shape_text(lse.info.shape), shape_text(by_head) + ", one number a row");
  }

  void plan_masks() {
    const files::MaskTarget target{q_.batches, q_.heads, q_.rows, k_.rows, wanted_.batch, wanted_.head};
    for (const std::string_view role : {"mask", "bias"}) {
      const auto source = sources_.find(role);
      if (source == sources_.end()) continue;
      const MaskPlan plan = files::plan_mask(source->second, target);
      if (role == "bias" && !plan.is_bias())
        throw InputError(
            plan.source.where(), "type " + std::string(name(plan.source.info.type)),
            "a float type for a bias that is added (a boolean or integer array is a keep mask: role mask)");
      if (plan.is_bias() && bias_)
        throw InputError(plan.source.where(), "a second additive mask beside " + bias_->source.where(), "one");
      (plan.is_bias() ? bias_ : keep_) = plan;
      if (role == "mask" && plan.is_bias() && wanted_.mask_means == MaskMeans::drop)
        throw InputError(plan.source.where(), "type " + std::string(name(plan.source.info.type)),
                         "a boolean or integer mask, as it is said to mean drop (a float mask is added)");
    }
  }

  std::int64_t tensor_bytes(const Source& source, const Extents& extents) const {
    const std::int64_t heads = wanted_.head && layout_ == Layout::hnd ? 1 : extents.heads;
    const std::int64_t bytes = heads * extents.rows * extents.cols * (source.info.type == ElementType::float64 ? 8 : 4);
    return layout_ == Layout::hnd ? bytes : 2 * bytes;  // nhd is turned to hnd in memory
  }

  void check_memory() const {
    std::int64_t total = 0;
    for (const auto& [role, extents] : {std::pair("q", q_), std::pair("k", k_), std::pair("v", v_)})
      total += tensor_bytes(sources_.at(role), extents);
    if (sources_.contains("o"))
      total += tensor_bytes(sources_.at("o"), Extents{q_.batches, q_.heads, q_.rows, v_.cols});
    const std::string limit = fmt::format("at most {}, the memory setting", bytes_text(wanted_.memory_limit));
    if (total > wanted_.memory_limit)
      throw InputError(sources_.at("q").where(), fmt::format("{} for q, k, v and o in memory", bytes_text(total)),
                       limit);
    for (const std::optional<MaskPlan>& plan : {keep_, bias_}) {
      if (!plan) continue;
      const std::string what = plan->is_bias() ? "as numbers" : "packed to bits";
      const std::string found =
          fmt::format("{} = {} {}", shape_text(plan->source.info.shape), bytes_text(plan->bytes()), what);
      if (total + plan->bytes() > wanted_.memory_limit)
        throw InputError(plan->source.where(), found + (total ? " beside " + bytes_text(total) + " of tensors" : ""),
                         limit + (plan->heads > 1 ? " (one head alone needs less)" : ""));
      total += plan->bytes();
    }
  }

  // One array's share of the progress of the whole load.
  ReadProgress part_of_progress(const Source& source) {
    if (!progress_) return {};
    const std::int64_t before = bytes_done_, size = source.info.elements() * size_of(source.info.type);
    bytes_done_ += size;
    return [this, before, size](std::int64_t done, std::int64_t total) {
      const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
      progress_(before + static_cast<std::int64_t>(share * static_cast<double>(size)), bytes_total_);
    };
  }

  // The wanted batch and head as (heads, rows, cols).
  Tensor read_tensor(const Source& source, const Extents& all, std::optional<std::int64_t> head, bool rows_first) {
    const std::int64_t heads = head ? 1 : all.heads, head_size = all.rows * all.cols;
    const std::int64_t batch_size = all.heads * head_size, first_head = head.value_or(0);
    Tensor tensor;
    tensor.type = number_type(source);
    tensor.heads = heads, tensor.rows = all.rows, tensor.cols = all.cols;
    const bool in_place = !rows_first || all.heads == 1;
    const std::int64_t first = wanted_.batch * batch_size + (in_place ? first_head * head_size : 0);
    Array array = source.file->read_range(source.info.name, first, in_place ? heads * head_size : batch_size, stop_,
                                          part_of_progress(source));
    if (in_place) {
      tensor.f32 = std::move(array.f32), tensor.f64 = std::move(array.f64);
      return tensor;
    }
    const auto turn = [&](const auto& from, auto& to) {
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t r = 0; r < all.rows; ++r)
          std::copy_n(from.begin() + (r * all.heads + first_head + h) * all.cols, all.cols,
                      to.begin() + (h * all.rows + r) * all.cols);
    };
    Tensor turned = make_tensor(tensor.type, heads, all.rows, all.cols);
    if (tensor.type == DType::float64)
      turn(array.f64, turned.f64);
    else
      turn(array.f32, turned.f32);
    return turned;
  }

  // Which part of a file's array of so many batches and heads its numbers are of; empty where all of it was read.
  std::string part(std::int64_t batches, std::int64_t heads, const char* of, std::optional<std::int64_t> head) const {
    std::string text;
    if (batches > 1) text = fmt::format(", batch {}", wanted_.batch);
    if (heads > 1 && head) text += fmt::format(", {} {}", of, *head);
    return text.empty() ? text : "; of" + text.substr(1);
  }
  // A mask's last dimensions are (batch, head, Nq, Nk); it may lack the first ones.
  std::string part(const MaskPlan& plan) const {
    const std::vector<std::int64_t>& shape = plan.source.info.shape;
    const auto extent = [&](std::size_t from_end) {
      return shape.size() >= from_end ? shape[shape.size() - from_end] : std::int64_t{1};
    };
    return part(extent(4), extent(3), "head", wanted_.head);
  }

  void report(std::string_view role, const Extents& extents, const Tensor& tensor, std::optional<std::int64_t> head) {
    const Source& source = sources_.at(role);
    const TensorSummary summary = summarise(tensor);
    const std::string of = part(extents.batches, extents.heads, role == "k" || role == "v" ? "kv head" : "head", head);
    found_.push_back(fmt::format("{} {}{} range {:.4g} .. {:.4g}, {} NaN, {} Inf", role, source.describe(),
                                 of.empty() ? "," : of + ":", summary.min, summary.max, summary.nan, summary.inf));
    if (role != "lse" && summary.nan + summary.inf > 0)
      warnings_.push_back(fmt::format("{}: {} NaN and {} Inf values{}", role, summary.nan, summary.inf,
                                      of.empty() ? "" : of.substr(1)));
  }

  LoadedProblem read() {
    for (const auto& [role, source] : sources_) bytes_total_ += source.info.elements() * size_of(source.info.type);
    const std::optional<std::int64_t> head = wanted_.head;
    std::optional<std::int64_t> kv_head;
    if (head) kv_head = *head / (q_.heads / k_.heads);
    const bool rows_first = layout_ == Layout::nhd;
    const auto tensor = [&](std::string_view role, const Extents& extents, std::optional<std::int64_t> one,
                            bool turned) {
      Tensor read = read_tensor(sources_[role], extents, one, turned);
      report(role, extents, read, one);
      return read;
    };
    Tensor Q = tensor("q", q_, head, rows_first), K = tensor("k", k_, kv_head, rows_first),
           V = tensor("v", v_, kv_head, rows_first);
    Mask mask;
    mask.causal = wanted_.causal;
    mask.window = wanted_.window;
    mask.rules = make_rules(wanted_.rules, q_.heads, head, q_.rows, k_.rows, mask.causal == Causal::bottom_right);
    if (!mask.rules.documents) mask.rules.documents = documents_;
    read_masks(mask);
    const std::string name = (wanted_.input.empty() ? wanted_.q : wanted_.input).filename().string();
    const auto problem = std::make_shared<Problem>(
        *make_problem(name, std::move(Q), std::move(K), std::move(V), read_scale(), std::move(mask)));
    if (sources_.contains("o"))
      problem->given_O = std::make_shared<const Tensor>(
          tensor("o", Extents{q_.batches, q_.heads, q_.rows, v_.cols}, head, rows_first));
    if (sources_.contains("lse"))
      problem->given_LSE =
          std::make_shared<const Tensor>(tensor("lse", Extents{q_.batches, q_.heads, q_.rows, 1}, head, lse_by_row_));
    warn_of_empty_rows(*problem);
    for (const auto& [path, file] : open_)
      for (const SkippedArray& skipped : file->skipped())
        found_.push_back(fmt::format("{} was not read: {}", files::shown(skipped.name), skipped.found));
    return {problem, std::move(found_), std::move(warnings_)};
  }

  std::optional<double> read_scale() {
    if (wanted_.scale) return wanted_.scale;
    const auto source = sources_.find("scale");
    if (source == sources_.end()) return {};
    if (source->second.info.elements() != 1)
      throw InputError(source->second.where(), "shape " + shape_text(source->second.info.shape), "one number");
    const double scale =
        source->second.file->read(source->second.info.name, stop_, part_of_progress(source->second)).at(0);
    found_.push_back(fmt::format("scale {:.6g}", scale));
    return scale;
  }

  void read_masks(Mask& mask) {
    if (keep_) {
      auto keep = std::make_shared<const KeepMask>(
          files::load_keep(*keep_, wanted_.mask_means, stop_, part_of_progress(keep_->source)));
      const std::int64_t kept = std::transform_reduce(keep->bits.begin(), keep->bits.end(), std::int64_t{0},
                                                      std::plus<>(), [](std::uint64_t w) { return std::popcount(w); });
      found_.push_back(fmt::format("mask {}, {} means {}{}, {} of {} cells keep", keep_->source.describe(),
                                   keep_->source.info.type == ElementType::boolean ? "true" : "1",
                                   wanted_.mask_means == MaskMeans::keep ? "keep" : "drop", part(*keep_), kept,
                                   keep_->elements()));
      mask.keep = std::move(keep);
    }
    if (!bias_) return;
    mask.bias = std::make_shared<const Bias>(files::load_bias(*bias_, stop_, part_of_progress(bias_->source)));
    const MaskSummary summary = summarise(mask);
    const std::string what = bias_->source.info.name.empty() ? "bias" : bias_->source.info.name;
    found_.push_back(fmt::format("{} {}, added to the scores{}, {} of {} cells -inf", what, bias_->source.describe(),
                                 part(*bias_), summary.minus_inf_cells, bias_->elements()));
    if (summary.nan_cells > 0)
      warnings_.push_back(fmt::format(
          "{}: {}{}", what, counted(summary.nan_cells, "NaN cell"),
          summary.looks_like_zero_times_inf ? ", exactly where it is not -inf: built as (1 - keep) * -inf?" : ""));
    if (summary.plus_inf_cells > 0)
      warnings_.push_back(fmt::format("{}: {} +inf; every row that sees one becomes NaN", what,
                                      counted(summary.plus_inf_cells, "cell is", "cells are")));
    if (summary.looks_like_keep)
      warnings_.push_back(
          fmt::format("{}: a float mask of only 0 and 1, which are added to the scores; if it says keep "
                      "or drop, save it as bool",
                      what));
  }

  void warn_of_empty_rows(const Problem& problem) {
    const Shape shape = problem.shape();
    const bool by_head = mask_heads(problem.mask) > 1;
    const std::int64_t heads = by_head ? shape.heads : 1;
    std::int64_t count = 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      if (stop_.stop_requested()) throw Cancelled();
      count += static_cast<std::int64_t>(empty_rows(problem.mask, shape.Nq, shape.Nk, h).size());
    }
    if (count == 0) return;
    const bool all = count == heads * shape.Nq;
    warnings_.push_back(fmt::format("{} of {} rows{} see no key under the mask{}", count, heads * shape.Nq,
                                    by_head           ? " of all heads"
                                    : shape.heads > 1 ? " of every head"
                                                      : "",
                                    all && keep_ ? "; does the mask mean the other of keep and drop?" : ""));
  }

  const ProblemFiles& wanted_;
  std::shared_ptr<const Documents> documents_;
  std::stop_token stop_;
  const ReadProgress& progress_;
  std::map<std::filesystem::path, std::shared_ptr<const TensorFile>> open_;
  std::map<std::string_view, Source> sources_;
  Layout layout_ = Layout::hnd;
  Extents q_, k_, v_;
  bool lse_by_row_ = false;
  std::optional<MaskPlan> keep_, bias_;
  std::int64_t bytes_done_ = 0, bytes_total_ = 0;
  std::vector<std::string> found_, warnings_;
};

}  // namespace

std::vector<std::int64_t> read_integers(const std::filesystem::path& path) {
  const TensorFile file = TensorFile::open(path);
  if (file.arrays().size() != 1)
    throw InputError(path.string(), fmt::format("{} arrays", file.arrays().size()), "one array of whole numbers");
  const Array array = file.read(file.arrays().front().name);
  std::vector<std::int64_t> values;
  for (std::int64_t n = 0; n < array.info.elements(); ++n) {
    const double value = array.at(n);
    if (value != std::floor(value) || std::abs(value) > 0x1p53)
      throw InputError(path.string(), fmt::format("{} at {}", value, n), "whole numbers");
    values.push_back(static_cast<std::int64_t>(value));
  }
  return values;
}

LoadedProblem load_problem(const ProblemFiles& files, std::stop_token stop, const ReadProgress& progress) {
  if (files.input.empty() || !is_session(files.input)) return Loader(files, nullptr, std::move(stop), progress).load();
  // A session is an .npz with what the arrays do not say beside them; what is asked for here wins.
  const SessionOutline outline = read_session_outline(files.input);
  if (!outline.has_problem)
    throw InputError(
        files.input.string(),
        outline.sweeps > 0 ? "a session of measured sweeps, without a problem" : "a session of reports only",
        outline.sweeps > 0 ? "one with a problem (sweeps: flashscope sweep --from)" : "one with a problem");
  ProblemFiles wanted = files;
  if (!wanted.scale && !wanted.names.contains("scale")) wanted.scale = outline.scale;
  if (wanted.causal == Causal::none && !wanted.window)
    wanted.causal = outline.mask.causal, wanted.window = outline.mask.window;
  const MaskRules& rules = outline.mask.rules;  // each on its own
  if (wanted.rules.lengths.empty()) wanted.rules.lengths = rules.lengths;
  if (!wanted.rules.prefix) wanted.rules.prefix = rules.prefix;
  if (wanted.rules.alibi.empty() && !wanted.rules.published_alibi) wanted.rules.alibi = rules.alibi;
  if (wanted.rules.softcap == 0) wanted.rules.softcap = rules.softcap;
  LoadedProblem loaded = Loader(wanted, rules.documents, std::move(stop), progress).load();
  auto named = std::make_shared<Problem>(*loaded.problem);
  named->name = outline.name;
  loaded.problem = std::move(named);
  return loaded;
}

}  // namespace flashscope
