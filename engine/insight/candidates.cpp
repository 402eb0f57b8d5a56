#include "engine/insight/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

#include "engine/attention/schedule.h"
#include "engine/insight/mask_report.h"

namespace flashscope {
namespace {

constexpr double kLargestMask = 3e8;  // cells of a keep mask that is made for a convention
constexpr double kSmallMask = 4e6;    // of one that is made for each of many block sizes

class Builder {
 public:
  Builder(std::shared_ptr<const Problem> problem, const Recipe& recipe, bool other_blocks,
          std::span<const std::int64_t> head_of)
      : problem_(std::move(problem)),
        shape_(problem_->shape()),
        given_(recipe),
        other_blocks_(other_blocks),
        head_of_(head_of) {
    given_.defect = Defect::none;
    given_.sram.reset();
    guarded_ = given_;
    if (guarded_.guard == Guard::none) guarded_.guard = Guard::clamp;
  }

  std::vector<Candidate> build() {
    defects();
    unguarded();
    blocks_left_out();
    causal();
    window();
    masks();
    bias();
    rules();
    empty_rows();
    scales();
    heads_and_layouts();
    return std::move(all_);
  }

 private:
  void add(std::string name, std::string detail, std::shared_ptr<const Problem> problem, const Recipe& recipe) {
    Candidate candidate;
    candidate.name = std::move(name), candidate.detail = std::move(detail);
    candidate.problem = std::move(problem), candidate.recipe = recipe;
    candidate.as_given =
        recipe.Br == given_.Br && recipe.Bc == given_.Bc && recipe.order == given_.order && recipe.skip == given_.skip;
    if (!candidate.as_given) candidate.detail += (candidate.detail.empty() ? "" : ", ") + walk_text(recipe);
    all_.push_back(std::move(candidate));
  }
  void add_mask(std::string name, std::string detail, Mask mask) {
    add(std::move(name), std::move(detail), with_mask(problem_, std::move(mask)), guarded_);
  }
  void add_scale(std::string name, std::string detail, double scale) {
    if (std::abs(scale / problem_->scale - 1) > 1e-9)
      add(std::move(name), std::move(detail), with_scale(problem_, scale), guarded_);
  }

  // What differs from the recipe given: "Bc 32, reverse".
  std::string walk_text(const Recipe& recipe) const {
    std::vector<std::string> parts;
    if (recipe.Br != given_.Br) parts.push_back(fmt::format("Br {}", recipe.Br));
    if (recipe.Bc != given_.Bc) parts.push_back(fmt::format("Bc {}", recipe.Bc));
    if (recipe.order != given_.order) parts.emplace_back(name(recipe.order));
    if (recipe.skip != given_.skip) parts.push_back(fmt::format("skip {}", name(recipe.skip)));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  // Block sizes near the one given and the usual ones, that one first.
  std::vector<std::int64_t> sizes(std::int64_t given, std::int64_t N) const {
    std::vector<std::int64_t> list = {given};
    if (!other_blocks_) return list;
    std::set<std::int64_t> others = {given / 2, given * 2, 16, 32, 64, 128, 256};
    for (const std::int64_t size : others)
      if (size >= 1 && size != given && size < 2 * N) list.push_back(size);
    return list;
  }
  std::vector<Order> orders() const {
    if (!other_blocks_) return {given_.order};
    return {given_.order, given_.order == Order::forward ? Order::reverse : Order::forward};
  }

  void defects() {
    using enum Defect;
    for (const Defect defect :
         {no_rescale, no_rescale_l, no_rescale_o, inverse_rescale, tile_max, local_causal, unscaled, double_scale,
          no_final_divide, unmasked_tail, mask_twice, gqa_interleaved, k_untransposed, bf16_row_sum}) {
      Recipe recipe = guarded_;
      recipe.defect = defect;
      if (recipe.algorithm == Algorithm::standard && defect != unscaled && defect != double_scale) {
        // A tiled kernel's mistake is still a candidate for an output of unknown origin.
        if (!why_defect_cannot_show(recipe, *problem_).empty()) recipe.algorithm = Algorithm::flash2;
      }
      if (defect == no_final_divide) recipe.normalise = Normalise::end;
      const bool by_order = defect <= tile_max || defect == bf16_row_sum;
      const bool by_Bc = defect <= local_causal || defect == unmasked_tail;
      for (const Order order : by_order ? orders() : std::vector{given_.order})
        for (const std::int64_t Bc : by_Bc                      ? sizes(given_.Bc, shape_.Nk)
                                     : defect == k_untransposed ? std::vector{shape_.d}
                                                                : std::vector{given_.Bc})
          for (const std::int64_t Br : defect == local_causal ? sizes(given_.Br, shape_.Nq) : std::vector{given_.Br}) {
            recipe.order = order, recipe.Bc = Bc, recipe.Br = Br;
            if (why_defect_cannot_show(recipe, *problem_).empty()) add(std::string(name(defect)), "", problem_, recipe);
          }
    }
    if (problem_->mask.none()) return;
    Recipe recipe = guarded_;
    recipe.defect = finite_sentinel;
    for (const bool added : {false, true})
      for (const double value : {-1e4, -1e9, -1e30, -65504.0, -5e4, -1e5, -100.0, -50.0, 0.0}) {
        if (added && value == 0) continue;  // no mask at all
        recipe.sentinel = value, recipe.sentinel_added = added;
        add("finite-sentinel", fmt::format("{}{}", value, added ? " added" : ""), problem_, recipe);
      }
  }

  void unguarded() {
    if (problem_->mask.none()) return;
    std::vector<Skip> skips = {given_.skip};
    for (const Skip other : {Skip::geometry, Skip::none})
      if (other_blocks_ && other != given_.skip) skips.push_back(other);
    Recipe recipe = given_;
    recipe.guard = Guard::none;
    if (recipe.algorithm == Algorithm::standard) {
      add("unguarded", "", problem_, recipe);
      recipe.algorithm = Algorithm::flash2;
    }
    for (const Skip skip : skips)
      for (const Order order : orders())
        for (const std::int64_t Bc : sizes(given_.Bc, shape_.Nk))
          for (const std::int64_t Br : sizes(given_.Br, shape_.Nq)) {
            recipe.skip = skip, recipe.order = order, recipe.Bc = Bc, recipe.Br = Br;
            add("unguarded", "", problem_, recipe);
          }
  }

  // The mask as bits, changed cell by cell; none where those would be too many.
  using Kept = std::function<bool(std::int64_t h, std::int64_t r, std::int64_t c)>;
  std::optional<Mask> keeping(Mask mask, const Kept& kept, double most = kLargestMask) const {
    const std::int64_t heads = mask.keep ? mask.keep->heads : 1;
    if (static_cast<double>(heads * shape_.Nq) * static_cast<double>(shape_.Nk) > most) return {};
    auto keep = std::make_shared<KeepMask>(make_keep_mask(heads, shape_.Nq, shape_.Nk));
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t r = 0; r < shape_.Nq; ++r)
        for (std::int64_t c = 0; c < shape_.Nk; ++c)
          if (kept(h, r, c)) set_keep(*keep, h, r, c);
    mask.keep = keep;
    return mask;
  }
  void add_keep(const char* name, std::string detail, Mask mask, const Kept& kept) {
    if (auto changed = keeping(std::move(mask), kept)) add_mask(name, std::move(detail), std::move(*changed));
  }

  // The loop over the column blocks ends one block early, or begins one late.
  void blocks_left_out() {
    const Mask& mask = problem_->mask;
    const auto kept = [&](std::int64_t h, std::int64_t r, std::int64_t c) {
      return !mask.keep || mask.keep->keep(h, r, c);
    };
    for (const std::int64_t Bc : sizes(given_.Bc, shape_.Nk)) {
      if (Bc >= shape_.Nk) continue;  // one block alone: nothing is left
      Recipe recipe = guarded_;
      recipe.Bc = Bc;
      const auto add_block = [&](const char* which, std::optional<Mask> changed) {
        if (changed) add("block-left-out", which, with_mask(problem_, std::move(*changed)), recipe);
      };
      // The last one, of each head's length where it has one.
      Mask shorter = mask;
      std::vector<std::int64_t>& lengths = shorter.rules.lengths;
      if (lengths.empty()) lengths = {shape_.Nk};
      for (std::int64_t& length : lengths) length = std::max<std::int64_t>(0, (length - 1) / Bc * Bc);
      add_block("the last column block", shorter);
      // A mask of cells for each size: where it is small, or the size is the one given.
      const double most = Bc == given_.Bc ? kLargestMask : kSmallMask;
      add_block("the first column block",
                keeping(
                    mask, [&](auto h, auto r, auto c) { return c >= Bc && kept(h, r, c); }, most));
      if (mask.causal == Causal::none && !mask.window) continue;
      Recipe walk = recipe;
      walk.algorithm = Algorithm::flash2, walk.order = Order::forward, walk.skip = Skip::geometry;
      const Schedule schedule(shape_, mask, walk);
      std::vector<std::int64_t> end;  // first key of the last block that each row block visits
      for (std::int64_t i = 0; i < schedule.Tr(); ++i) {
        const std::int64_t visits = schedule.visits(0, i);
        end.push_back(visits == 0 ? 0 : schedule.visit_j(0, i, visits - 1) * Bc);
      }
      add_block("the last column block of each row block",
                keeping(
                    mask, [&](auto h, auto r, auto c) { return c < end[r / walk.Br] && kept(h, r, c); }, most));
    }
  }

  void causal() {
    const Mask& mask = problem_->mask;
    if (mask.causal == Causal::none) {
      Mask added = mask;
      added.causal = Causal::top_left;
      add_mask("mask-missing", "a causal mask that the problem does not have", added);
      return;
    }
    Mask changed = mask;
    if (shape_.Nq != shape_.Nk) {
      changed.causal = mask.causal == Causal::top_left ? Causal::bottom_right : Causal::top_left;
      add_mask("causal-alignment", std::string(name(changed.causal)), changed);
    }
    changed.causal = Causal::none;
    add_mask("mask-missing", "no causal mask", changed);
    const std::int64_t shift = mask.causal == Causal::bottom_right ? shape_.Nk - shape_.Nq : 0;
    const auto kept = [&](std::int64_t h, std::int64_t r, std::int64_t c) {
      return !mask.keep || mask.keep->keep(h, r, c);
    };
    add_keep("causal-diagonal", "c < r: the diagonal is hidden", mask,
             [&](auto h, auto r, auto c) { return c < r + shift && kept(h, r, c); });
    if (!mask.window) {
      Mask later = mask;
      later.causal = Causal::none;
      add_keep("causal-diagonal", "c <= r + 1: one key of the future is seen", later,
               [&](auto h, auto r, auto c) { return c <= r + shift + 1 && kept(h, r, c); });
    }
  }

  void window() {
    const Mask& mask = problem_->mask;
    if (!mask.window) return;
    Mask changed = mask;
    const auto [left, right] = *mask.window;
    for (const std::int64_t step : {-1, 1}) {
      if (left + step >= 0) {
        changed.window = Window{left + step, right};
        add_mask("window-bounds", fmt::format("left bound {}, not {}", left + step, left), changed);
      }
      if (right + step >= 0 && mask.causal == Causal::none) {
        changed.window = Window{left, right + step};
        add_mask("window-bounds", fmt::format("right bound {}, not {}", right + step, right), changed);
      }
    }
    changed.window.reset();
    add_mask("mask-missing", "no window", changed);
  }

  void masks() {
    const Mask& mask = problem_->mask;
    if (!mask.keep) return;
    Mask changed = mask;
    const KeepMask& old = *mask.keep;
    changed.keep = std::make_shared<const KeepMask>(flipped(old));
    add_mask("mask-polarity", "true means the other thing", changed);
    changed.keep = nullptr;
    add_mask("mask-missing", "no keep mask", changed);
    if (mask.bias || static_cast<double>(old.heads * old.rows) * static_cast<double>(old.cols) > kLargestMask / 8)
      return;
    Bias ones;
    ones.heads = old.heads, ones.rows = old.rows, ones.cols = old.cols;
    for (std::int64_t h = 0; h < old.heads; ++h)
      for (std::int64_t r = 0; r < old.rows; ++r)
        for (std::int64_t c = 0; c < old.cols; ++c) ones.f32.push_back(old.keep(h, r, c) ? 1.0f : 0.0f);
    changed.bias = std::make_shared<const Bias>(std::move(ones));
    add_mask("mask-added", "its 0s and 1s are added to the scores", changed);
  }

  void bias() {
    const Mask& mask = problem_->mask;
    if (!mask.bias) return;
    Mask changed = mask;
    changed.bias = nullptr;
    add_mask("mask-missing", "no bias", changed);
    Bias scaled = *mask.bias;
    for (float& x : scaled.f32) x = static_cast<float>(x * problem_->scale);
    for (double& x : scaled.f64) x *= problem_->scale;
    changed.bias = std::make_shared<const Bias>(std::move(scaled));
    if (problem_->scale > 0 && std::abs(problem_->scale - 1) > 1e-9) add_mask("bias-scaled", "", changed);
    if (!summarise(mask).looks_like_keep) return;
    changed.bias = nullptr;
    const Bias& values = *mask.bias;
    add_keep("mask-added", "its 1s are taken as keep", changed,
             [&](auto h, auto r, auto c) { return values.at(h, r, c) != 0; });
  }

  // Masks by rule: left out, and their conventions.
  void rules() {
    const Mask& mask = problem_->mask;
    const MaskRules& given = mask.rules;
    const auto changed = [&](const char* name, std::string detail, auto change) {
      Mask other = mask;
      change(other.rules);
      if (!(other.rules == given)) add_mask(name, std::move(detail), other);
    };
    if (!given.lengths.empty()) {
      changed("mask-missing", "the lengths are ignored", [](MaskRules& r) { r.lengths.clear(); });
      for (const std::int64_t by : {-1, 1})
        changed("length-bounds", fmt::format("lengths one {}", by > 0 ? "longer" : "shorter"), [&](MaskRules& r) {
          for (std::int64_t& length : r.lengths) length = std::clamp<std::int64_t>(length + by, 0, shape_.Nk);
        });
    }
    changed("mask-missing", "the documents are ignored", [](MaskRules& r) { r.documents = nullptr; });
    changed("mask-missing", "no prefix: causal alone", [](MaskRules& r) { r.prefix.reset(); });
    if (given.prefix) {
      for (const std::int64_t by : {-1, 1})
        changed("length-bounds", fmt::format("a prefix of {}, not {}", *given.prefix + by, *given.prefix),
                [&](MaskRules& r) { r.prefix = std::clamp<std::int64_t>(*r.prefix + by, 0, shape_.Nk); });
    }
    if (!given.alibi.empty()) {
      changed("mask-missing", "no ALiBi", [](MaskRules& r) { r.alibi.clear(); });
      const auto slopes = [&](const char* name, std::string detail, double factor) {
        changed(name, std::move(detail), [factor](MaskRules& r) {
          for (double& slope : r.alibi) slope *= factor;
        });
      };
      slopes("alibi-slope", "the other sign", -1);
      // The published slopes fall by 2^(8 / H) from head to head; counted from 0, every head has its neighbour's.
      const double ratio = std::exp2(8 / static_cast<double>(shape_.heads));
      slopes("alibi-slope", "the slope of the head before", ratio);
      slopes("alibi-slope", "the slope of the head behind", 1 / ratio);
      changed("alibi-slope", "the published slopes", [&](MaskRules& r) { r.alibi = alibi_slopes(shape_.heads); });
      slopes("bias-scaled", "ALiBi", problem_->scale);
    }
    if (given.softcap == 0) return;
    changed("mask-missing", "no softcap", [](MaskRules& r) { r.softcap = 0; });
    // cap tanh(q k / cap) scale = (cap scale) tanh(scale q k / (cap scale))
    if (problem_->scale > 0)
      changed("softcap-order", "before the scale", [&](MaskRules& r) { r.softcap *= problem_->scale; });
    // Behind the mask it makes -cap of -inf; what is added would be capped too, so only where nothing is.
    if (mask.adds()) return;
    Recipe recipe = guarded_;
    recipe.defect = Defect::finite_sentinel, recipe.sentinel = -given.softcap, recipe.sentinel_added = false;
    if (why_defect_cannot_show(recipe, *problem_).empty())
      add("softcap-order", "behind the mask: masked scores are -cap", problem_, recipe);
  }

  void empty_rows() {
    bool any = false;
    for (std::int64_t h = 0; h < shape_.heads && !any; ++h)
      any = !problem_->mask.none() && !flashscope::empty_rows(problem_->mask, shape_.Nq, shape_.Nk, h).empty();
    if (!any) return;
    for (const EmptyRow policy : {EmptyRow::zero, EmptyRow::nan, EmptyRow::mean}) {
      if (policy == given_.empty_row) continue;
      Recipe recipe = guarded_;
      recipe.empty_row = policy;
      add("empty-row", fmt::format("empty rows {}", name(policy)), problem_, recipe);
    }
  }

  void scales() {
    const auto root = [](std::int64_t n) { return 1 / std::sqrt(static_cast<double>(n)); };
    std::int64_t padded = 1;
    while (padded < shape_.d) padded *= 2;
    if (shape_.dv != shape_.d) add_scale("scale-of-dv", fmt::format("1/sqrt(dv = {})", shape_.dv), root(shape_.dv));
    if (padded != shape_.d) add_scale("scale-of-dv", fmt::format("1/sqrt({}), the padded width", padded), root(padded));
    const std::int64_t by_8 = (shape_.d + 7) / 8 * 8;
    if (by_8 != shape_.d && by_8 != padded)
      add_scale("scale-of-dv", fmt::format("1/sqrt({}), the padded width", by_8), root(by_8));
    if (shape_.heads > 1)
      add_scale("scale-of-dv", fmt::format("1/sqrt({}), all heads together", shape_.heads * shape_.d),
                root(shape_.heads * shape_.d));
    if (shape_.d > 1) add_scale("scale-of-dv", "1/d", 1 / static_cast<double>(shape_.d));
    add_scale("scale-log2e", "exp2 without the factor log2 e", problem_->scale * std::log(2.0));
    add_scale("scale-log2e", "the factor log2 e twice", problem_->scale / std::log(2.0));
  }

  // Tensors of the same values in which (head, row) are taken as (row, head).
  Tensor turned(const Tensor& from) const {
    Tensor to = from;
    const auto copy = [&](const auto& source, auto& target) {
      for (std::int64_t h = 0; h < from.heads; ++h)
        for (std::int64_t r = 0; r < from.rows; ++r)
          std::copy_n(source.begin() + (r * from.heads + h) * from.cols, from.cols,
                      target.begin() + (h * from.rows + r) * from.cols);
    };
    from.type == DType::float64 ? copy(from.f64, to.f64) : copy(from.f32, to.f32);
    return to;
  }

  Tensor first_head(const Tensor& from) const {
    Tensor to = make_tensor(from.type, 1, from.rows, from.cols);
    std::copy_n(from.f32.begin(), to.f32.size(), to.f32.begin());
    std::copy_n(from.f64.begin(), to.f64.size(), to.f64.begin());
    return to;
  }

  void heads_and_layouts() {
    if (shape_.kv_heads > 1) {
      add("kv-head-0", "",
          make_problem(problem_->name, Tensor(problem_->Q()), first_head(problem_->K()), first_head(problem_->V()),
                       problem_->scale, problem_->mask),
          guarded_);
      exchanged_kv_heads();
    }
    if (!head_of_.empty()) {
      add("heads-exchanged", heads_text(), problem_, guarded_);
      all_.back().row_of = [head_of = std::vector(head_of_.begin(), head_of_.end()), N = shape_.Nq](std::int64_t row) {
        return head_of[row / N] * N + row % N;
      };
    }
    if (shape_.heads == 1 || shape_.Nq == 1) return;
    const auto by_row = [H = shape_.heads, N = shape_.Nq](std::int64_t row) { return row % H * N + row / H; };
    add("output-layout", "", problem_, guarded_);
    all_.back().row_of = by_row;
    add("input-layout", "",
        make_problem(problem_->name, turned(problem_->Q()), turned(problem_->K()), turned(problem_->V()),
                     problem_->scale, problem_->mask),
        guarded_);
    all_.back().row_of = by_row;
    add("input-layout", "O in the right one",
        make_problem(problem_->name, turned(problem_->Q()), turned(problem_->K()), turned(problem_->V()),
                     problem_->scale, problem_->mask),
        guarded_);
  }

  // "O of head 1 in head 0, of head 0 in head 1"
  std::string heads_text() const {
    std::vector<std::string> parts;
    for (std::size_t h = 0; h < head_of_.size(); ++h)
      if (head_of_[h] != static_cast<std::int64_t>(h))
        parts.push_back(fmt::format("of head {} in head {}", head_of_[h], h));
    constexpr std::size_t kShown = 4;
    const bool more = parts.size() > kShown;
    if (more) parts.resize(kShown);
    return fmt::format("O {}{}", fmt::join(parts, ", "), more ? ", ..." : "");
  }

  void exchanged_kv_heads() {
    const std::int64_t n = shape_.kv_heads;
    const auto exchanged = [&](const Tensor& from, const auto& source) {
      Tensor to = from;
      const std::int64_t size = from.rows * from.cols;
      for (std::int64_t h = 0; h < n; ++h) {
        if (!from.f32.empty()) std::copy_n(from.f32.begin() + source(h) * size, size, to.f32.begin() + h * size);
        if (!from.f64.empty()) std::copy_n(from.f64.begin() + source(h) * size, size, to.f64.begin() + h * size);
      }
      return to;
    };
    const auto add_order = [&](const char* which, const auto& source) {
      add("kv-heads-exchanged", which,
          make_problem(problem_->name, Tensor(problem_->Q()), exchanged(problem_->K(), source),
                       exchanged(problem_->V(), source), problem_->scale, problem_->mask),
          guarded_);
    };
    add_order("the heads in reverse", [n](std::int64_t h) { return n - 1 - h; });
    if (n == 2) return;  // all the same
    add_order("each head reads the next", [n](std::int64_t h) { return (h + 1) % n; });
    add_order("each head reads the one before", [n](std::int64_t h) { return (h + n - 1) % n; });
  }

  std::shared_ptr<const Problem> problem_;
  Shape shape_;
  Recipe given_, guarded_;
  bool other_blocks_;
  std::span<const std::int64_t> head_of_;
  std::vector<Candidate> all_;
};

}  // namespace

std::vector<Candidate> candidates(const std::shared_ptr<const Problem>& problem, const Recipe& recipe,
                                  bool other_blocks, std::span<const std::int64_t> head_of) {
  return Builder(problem, recipe, other_blocks, head_of).build();
}

}  // namespace flashscope
