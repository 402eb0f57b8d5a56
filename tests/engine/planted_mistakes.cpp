#include "tests/engine/planted_mistakes.h"

#include <algorithm>
#include <cmath>

#include "engine/insight/gallery.h"

namespace flashscope::testing {
namespace {

std::shared_ptr<const Problem> with_bias(const std::shared_ptr<const Problem>& problem, double factor) {
  const Shape shape = problem->shape();
  Bias bias;
  bias.rows = shape.Nq, bias.cols = shape.Nk;
  for (std::int64_t n = 0; n < shape.Nq * shape.Nk; ++n)
    bias.f32.push_back(static_cast<float>(factor * random_normal(77, static_cast<std::uint64_t>(n))));
  Mask mask = problem->mask;
  mask.bias = std::make_shared<const Bias>(std::move(bias));
  return with_mask(problem, std::move(mask));
}

}  // namespace

KernelOutput output_of(const Report& report, DType type) {
  KernelOutput output;
  output.name = "theirs", output.type = type;
  for (const double o : report.O) output.O.push_back(round_to(type, o));
  for (const double lse : report.LSE) output.LSE.push_back(lse);
  return output;
}

Mask random_keep(const Shape& shape, bool empty_row) {
  KeepMask keep = make_keep_mask(1, shape.Nq, shape.Nk);
  for (std::int64_t r = 0; r < shape.Nq; ++r)
    for (std::int64_t c = 0; c < shape.Nk; ++c)
      if (random_normal(5, static_cast<std::uint64_t>(r * shape.Nk + c)) > 0 && !(empty_row && r % 7 == 3))
        set_keep(keep, 0, r, c);
  Mask mask;
  mask.keep = std::make_shared<const KeepMask>(std::move(keep));
  return mask;
}

Mask causal(Causal alignment, std::optional<Window> window) {
  Mask mask;
  mask.causal = alignment, mask.window = window;
  return mask;
}

Planted plant(std::string_view name, int variant) {
  constexpr Shape kShapes[] = {{1, 1, 100, 100, 16, 16, DType::float32},
                               {2, 2, 130, 150, 24, 12, DType::float32},
                               {3, 3, 70, 90, 8, 8, DType::float64}};
  Shape shape = kShapes[variant];
  Planted planted;
  Recipe& recipe = planted.recipe;
  recipe.Br = variant == 1 ? 48 : 32, recipe.Bc = variant == 2 ? 16 : 32;
  if (variant == 1) recipe.order = Order::reverse;
  if (name == "gqa-interleaved") shape.heads = 4 + 2 * variant, shape.kv_heads = 2;
  if (name == "kv-head-0" || name.ends_with("layout") || name.ends_with("exchanged"))
    shape.heads = shape.kv_heads = 2 + variant;
  if (name == "kv-heads-exchanged" && variant == 1) shape.heads = 4, shape.kv_heads = 2;
  if (name == "bf16-row-sum") shape.Nk = 900 + 100 * variant;
  if (name == "k-untransposed") recipe.Bc = shape.d;
  if (name == "scale-of-dv") shape.dv = shape.d + 4;
  const auto seed = static_cast<std::uint64_t>(variant + 1);
  auto& problem = planted.problem;
  problem = random_problem(shape, seed);
  if (name == "block-left-out" && variant == 2) problem = with_mask(problem, causal(Causal::bottom_right));
  if (name == "local-causal" || name == "causal-alignment" || name == "causal-diagonal")
    problem = with_mask(problem, causal(variant == 1 ? Causal::bottom_right : Causal::top_left));
  if (name == "local-causal") recipe.Bc = recipe.Br / 2;
  if (name == "causal-alignment" && variant == 0)
    problem = random_problem({1, 1, 100, 120, 16, 16, DType::float32}, seed, {}, causal(Causal::top_left));
  if (name == "unguarded") problem = with_mask(problem, variant == 1 ? random_keep(shape) : causal(Causal::top_left));
  if (name == "unguarded") recipe.order = Order::reverse, recipe.Bc = 8, recipe.Br = 32;
  if (name == "window-bounds") problem = with_mask(problem, causal(Causal::top_left, Window{5 + variant, 0}));
  if (name == "mask-polarity" || name == "mask-missing" || name == "mask-added")
    problem = with_mask(problem, random_keep(shape));
  if (name == "empty-row") problem = with_mask(problem, random_keep(shape, true));
  if (name == "finite-sentinel")  // scores far beyond the sentinel; the first rows see few keys
    problem = with_scale(with_mask(problem, causal(Causal::top_left)), 1e4);
  if (name == "mask-twice" || name == "bias-scaled") problem = with_bias(problem, 1.5);
  if (name == "length-bounds" || name == "alibi-slope" || name == "softcap-order") {
    Mask mask = variant == 0 ? Mask{} : causal(Causal::top_left);
    if (name == "length-bounds" && variant < 2) mask.rules.lengths = {60};
    if (name == "length-bounds" && variant == 2) mask.rules.prefix = 20;
    if (name == "alibi-slope") mask.rules.alibi = {0.25};
    if (name == "softcap-order") mask.rules.softcap = 1.5;
    problem = with_mask(problem, std::move(mask));
  }

  // The kernel with the mistake.
  auto wrong = problem;
  Recipe made = recipe;
  if (find_in_gallery(name)->kind == GalleryEntry::Kind::defect)
    set_defect(made, name == "finite-sentinel" ? "finite-sentinel=-10000" : name);
  Mask mask = problem->mask;
  if (name == "unguarded") made.guard = Guard::none;
  if (name == "causal-alignment") {
    mask.causal = mask.causal == Causal::top_left ? Causal::bottom_right : Causal::top_left;
    wrong = with_mask(problem, mask);
  }
  if (name == "causal-diagonal") {
    const std::int64_t shift = variant == 1 ? shape.Nk - shape.Nq : 0;
    KeepMask keep = make_keep_mask(1, shape.Nq, shape.Nk);
    for (std::int64_t r = 0; r < shape.Nq; ++r)
      for (std::int64_t c = 0; c < std::min(shape.Nk, r + shift); ++c) set_keep(keep, 0, r, c);
    mask = {};
    mask.keep = std::make_shared<const KeepMask>(std::move(keep));
    wrong = with_mask(problem, mask);
  }
  if (name == "window-bounds") {
    mask.window->left += variant == 0 ? 1 : -1;
    wrong = with_mask(problem, mask);
  }
  if (name == "length-bounds") {
    for (std::int64_t& length : mask.rules.lengths) length += variant == 0 ? 1 : -1;
    if (mask.rules.prefix) ++*mask.rules.prefix;
    wrong = with_mask(problem, mask);
  }
  if (name == "alibi-slope") {
    mask.rules.alibi[0] *= variant == 1 ? std::exp2(8.0 / static_cast<double>(shape.heads)) : -1;
    wrong = with_mask(problem, mask);
  }
  if (name == "softcap-order") {
    if (variant == 1)
      set_defect(made, "finite-sentinel=-1.5");
    else
      mask.rules.softcap *= problem->scale;
    wrong = with_mask(problem, mask);
  }
  if (name == "mask-polarity" || name == "mask-added") {
    KeepMask other = make_keep_mask(1, shape.Nq, shape.Nk);
    Bias ones;
    ones.rows = shape.Nq, ones.cols = shape.Nk;
    for (std::int64_t r = 0; r < shape.Nq; ++r)
      for (std::int64_t c = 0; c < shape.Nk; ++c) {
        const bool kept = mask.keep->keep(0, r, c);
        if (!kept) set_keep(other, 0, r, c);
        ones.f32.push_back(kept ? 1.0f : 0.0f);
      }
    Mask changed;
    if (name == "mask-polarity") changed.keep = std::make_shared<const KeepMask>(std::move(other));
    if (name == "mask-added") changed.bias = std::make_shared<const Bias>(std::move(ones));
    wrong = with_mask(problem, changed);
  }
  if (name == "block-left-out") {
    mask.rules.lengths = {(shape.Nk - 1) / recipe.Bc * recipe.Bc};
    wrong = with_mask(problem, mask);
  }
  if (name == "mask-missing") wrong = with_mask(problem, {});
  if (name == "bias-scaled") {
    Bias scaled = *mask.bias;
    for (float& x : scaled.f32) x = static_cast<float>(x * problem->scale);
    mask.bias = std::make_shared<const Bias>(std::move(scaled));
    wrong = with_mask(problem, mask);
  }
  if (name == "empty-row") made.empty_row = variant == 1 ? EmptyRow::nan : EmptyRow::mean;
  if (name == "scale-of-dv") wrong = with_scale(problem, 1 / std::sqrt(static_cast<double>(shape.dv)));
  if (name == "scale-log2e") wrong = with_scale(problem, problem->scale * std::log(2.0));
  if (name == "kv-head-0") {
    Tensor K = problem->K(), V = problem->V();
    for (std::int64_t h = 1; h < shape.kv_heads; ++h)
      for (std::int64_t r = 0; r < shape.Nk; ++r) {
        for (std::int64_t e = 0; e < shape.d; ++e) set(K, h, r, e, K.at(0, r, e));
        for (std::int64_t e = 0; e < shape.dv; ++e) set(V, h, r, e, V.at(0, r, e));
      }
    wrong = make_problem("head 0", Tensor(problem->Q()), std::move(K), std::move(V));
  }
  if (name == "kv-heads-exchanged") {
    Tensor K = problem->K(), V = problem->V();
    for (std::int64_t h = 0; h < shape.kv_heads; ++h)
      for (std::int64_t r = 0; r < shape.Nk; ++r) {
        const std::int64_t next = (h + 1) % shape.kv_heads;
        for (std::int64_t e = 0; e < shape.d; ++e) set(K, h, r, e, problem->K().at(next, r, e));
        for (std::int64_t e = 0; e < shape.dv; ++e) set(V, h, r, e, problem->V().at(next, r, e));
      }
    wrong = make_problem("exchanged", Tensor(problem->Q()), std::move(K), std::move(V));
  }
  if (name == "input-layout") {
    const auto turned = [](const Tensor& from) {
      Tensor to = make_tensor(from.type, from.heads, from.rows, from.cols);
      for (std::int64_t n = 0; n < from.size(); ++n) {  // element n of (N, heads, d)
        const std::int64_t e = n % from.cols, h = n / from.cols % from.heads, r = n / from.cols / from.heads;
        set(to, h, r, e, from.type == DType::float64 ? from.f64[n] : from.f32[n]);
      }
      return to;
    };
    wrong = make_problem("turned", turned(problem->Q()), turned(problem->K()), turned(problem->V()));
  }
  const Report report = run(*wrong, made);
  planted.output = output_of(report, shape.type);
  if (name.ends_with("layout")) {
    Buffer<double>& O = planted.output.O;
    for (std::int64_t h = 0, n = 0; h < shape.heads; ++h)
      for (std::int64_t r = 0; r < shape.Nq; ++r)
        for (std::int64_t e = 0; e < shape.dv; ++e, ++n) O[(r * shape.heads + h) * shape.dv + e] = report.O[n];
    planted.output.LSE.clear();
  }
  if (name == "heads-exchanged") {  // the first and the last
    const auto exchange = [&](Buffer<double>& values) {
      const auto size = static_cast<std::int64_t>(values.size()) / shape.heads;
      std::swap_ranges(values.begin(), values.begin() + size, values.end() - size);
    };
    exchange(planted.output.O), exchange(planted.output.LSE);
  }
  if (name == "lse-negative")
    for (double& lse : planted.output.LSE) lse = -lse;
  return planted;
}

std::vector<std::string> gallery_names() {
  std::vector<std::string> names;
  for (const GalleryEntry& entry : gallery()) names.emplace_back(entry.name);
  return names;
}

}  // namespace flashscope::testing
