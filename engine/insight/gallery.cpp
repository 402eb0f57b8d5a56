#include "engine/insight/gallery.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "engine/attention/trace.h"
#include "engine/digits.h"
#include "engine/error.h"

namespace flashscope {
namespace {

using Kind = GalleryEntry::Kind;

constexpr std::array kGallery = {
    GalleryEntry{
        "no-rescale", Kind::defect, "When a larger score arrives, neither l nor O is multiplied by alpha.",
        "some row maximum grows after its first tile",
        "Tests with one tile, or with the largest score in the first tile; weights that still look like weights."},
    GalleryEntry{"no-rescale-l", Kind::defect, "O is multiplied by alpha but the running sum l is not.",
                 "some row maximum grows after its first tile",
                 "O only shrinks towards 0, which a loose tolerance on small outputs accepts."},
    GalleryEntry{"no-rescale-o", Kind::defect, "The running sum l is multiplied by alpha but O is not.",
                 "some row maximum grows after its first tile",
                 "LSE is right, so a test of LSE alone passes; so does every row whose first tile holds its maximum."},
    GalleryEntry{"inverse-rescale", Kind::defect,
                 "O is multiplied by 1/alpha: exp(m_new - m_old), the factor printed upside down.",
                 "some row maximum grows after its first tile",
                 "Scores of nearly equal size, for which alpha is close to 1."},
    GalleryEntry{"tile-max", Kind::defect,
                 "Numerators subtract the tile's own maximum and nothing corrects them to the running one: a published "
                 "recurrence.",
                 "a tile's maximum is below the running one",
                 "Rows whose maximum rises in every tile are right; one tile alone is right."},
    GalleryEntry{"local-causal", Kind::defect,
                 "The causal mask compares indices inside the tile, in every visited tile.",
                 "a visited tile is off the diagonal, or Br != Bc",
                 "Tests with a single tile, in which both indices are the same."},
    GalleryEntry{"unscaled", Kind::defect, "The scores are not multiplied by the scale.", "scale != 1",
                 "Tests with d = 1 or scale 1, and V that hardly varies."},
    GalleryEntry{"double-scale", Kind::defect, "The scale is applied to Q and again to the product.", "scale != 1",
                 "Flat attention: the output is near the mean of V either way."},
    GalleryEntry{"no-final-divide", Kind::defect, "O is stored without the division by l.",
                 "always, with normalise end", "Rows whose maximum dominates: l is close to 1."},
    GalleryEntry{"unmasked-tail", Kind::defect, "Keys beyond Nk in the last tile count as score 0 and value 0.",
                 "Nk is not a multiple of Bc and some row's reach goes beyond Nk",
                 "N that is a multiple of the block; causal masks, which hide the tail; large scores, beside which 0 "
                 "is nothing."},
    GalleryEntry{"finite-sentinel", Kind::defect,
                 "Masked scores become a finite number, such as -10000, in place of -inf.",
                 "a real score lies below that number, or a row is empty",
                 "Ordinary scores and no empty row: exp(-10000) is 0 all the same."},
    GalleryEntry{"mask-twice", Kind::defect, "The additive mask is added once by the caller and once by the kernel.",
                 "the bias has finite values other than 0", "Masks of 0 and -inf, which adding twice does not change."},
    GalleryEntry{"lse-base2", Kind::defect, "LSE is handed out in base 2, as kernels that use exp2 hold it.",
                 "LSE is looked at",
                 "O is right; merging by exp is off by little where the parts weigh about the same."},
    GalleryEntry{"gqa-interleaved", Kind::defect,
                 "Query head h reads key/value head h mod Hkv in place of h / (H / Hkv).", "1 < Hkv < H",
                 "Tests with as many key/value heads as heads, or with one; the first and last heads are right."},
    GalleryEntry{"k-untransposed", Kind::defect, "The product is Q K_j in place of Q K_j^T.",
                 "Bc = d: any other tile does not fit",
                 "Symmetric keys, such as the identity; any other block size fails to compile or to launch."},
    GalleryEntry{"bf16-row-sum", Kind::defect,
                 "The row sum l is accumulated in bfloat16: beyond 256 it no longer takes in a 1.", "long rows",
                 "Short rows, where the sum is off by a fraction of a percent."},
    GalleryEntry{"unguarded", Kind::guard,
                 "A row whose first tiles hold no visible key computes (-inf) - (-inf), and the NaN stays.",
                 "a visited tile holds no key for some row before that row's first key",
                 "Dense softmax is clean; other block sizes or the other order avoid such a tile."},
    GalleryEntry{
        "block-left-out", Kind::convention,
        "The loop over the column blocks ends one block early, or begins one late: a block is never folded in.",
        "more than one column block",
        "Long rows with a last block of few keys; causal masks, under which few rows see the last block."},
    GalleryEntry{"causal-alignment", Kind::convention,
                 "Causal from the top left corner (c <= r) or the bottom right one (c <= r + Nk - Nq).",
                 "causal and Nq != Nk", "Square problems, for which both are the same."},
    GalleryEntry{"causal-diagonal", Kind::convention, "The diagonal itself is hidden: c < r in place of c <= r.",
                 "causal", "Long rows, in which one key more or less weighs little."},
    GalleryEntry{"window-bounds", Kind::convention,
                 "A window of W keys counts the query's own position, or is W neighbours beside it.", "a window",
                 "The first rows, which the edge cuts off either way."},
    GalleryEntry{"length-bounds", Kind::convention, "The length of a padded row, or of a prefix, is one key off.",
                 "key padding by lengths, or a prefix",
                 "Long rows, in which one key more or less weighs little; padding that repeats the last key."},
    GalleryEntry{"alibi-slope", Kind::convention,
                 "ALiBi's slope has the other sign, or is that of the neighbouring head.", "ALiBi",
                 "Many heads, whose slopes lie close together; short rows."},
    GalleryEntry{"softcap-order", Kind::convention,
                 "The cap is applied before the scale, or behind the mask, where it makes -cap of -inf.", "a softcap",
                 "Scores far below the cap, which it leaves as they are; caps so large that exp(-cap) is 0."},
    GalleryEntry{"mask-polarity", Kind::convention, "True in a boolean mask means keep, or it means drop.",
                 "a keep mask", "Nothing hides it for long; a mask of half ones looks plausible."},
    GalleryEntry{"mask-missing", Kind::convention, "The mask from the file is not applied.",
                 "a mask that hides something", "Batches without padding."},
    GalleryEntry{"mask-added", Kind::convention, "The 0s and 1s of a keep mask are added to the scores.", "a keep mask",
                 "No NaN and no error: visible keys weigh e times more, hidden ones still count."},
    GalleryEntry{"bias-scaled", Kind::convention, "The bias is added before the scale, so it is scaled too.",
                 "a finite bias and scale != 1", "Masks of 0 and -inf."},
    GalleryEntry{"empty-row", Kind::convention, "A row without a visible key is 0, NaN, or the mean of all V.",
                 "a row without any visible key", "Tests without such a row."},
    GalleryEntry{"scale-of-dv", Kind::convention,
                 "The scale is 1/sqrt(dv), or of the padded width, in place of 1/sqrt(d).",
                 "dv != d, or d is not a power of 2", "Heads with d = dv, a power of 2."},
    GalleryEntry{"scale-log2e", Kind::convention,
                 "exp2 is used without the factor log2 e, or the factor is applied twice.", "scores other than 0",
                 "Flat attention."},
    GalleryEntry{"kv-head-0", Kind::convention, "Every query head reads key/value head 0.",
                 "more than one key/value head", "Tests with one head."},
    GalleryEntry{"kv-heads-exchanged", Kind::convention,
                 "Query heads read the key/value heads in another order: in reverse, or the neighbour's.",
                 "more than one key/value head", "Tests with one key/value head."},
    GalleryEntry{"heads-exchanged", Kind::convention, "O of one head is written where that of another belongs.",
                 "more than one head", "Tests with one head; sums over all heads."},
    GalleryEntry{"output-layout", Kind::convention, "O is written as (N, heads, dv) and read as (heads, N, dv).",
                 "more than one head and row", "Tests with one head."},
    GalleryEntry{"input-layout", Kind::convention,
                 "Q, K, V and O are taken as (N, heads, d) in place of (heads, N, d).", "more than one head and row",
                 "Tests with one head."},
    GalleryEntry{"lse-negative", Kind::convention, "LSE is handed out with the other sign.", "LSE is looked at",
                 "O is right."},
};

// [row][column] for each head in turn.
Tensor tensor_of(DType type, std::int64_t heads, std::int64_t rows, std::int64_t cols,
                 const std::function<double(std::int64_t h, std::int64_t r, std::int64_t c)>& value) {
  Tensor tensor = make_tensor(type, heads, rows, cols);
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) set(tensor, h, r, c, value(h, r, c));
  return tensor;
}

// Small numbers that repeat late: (a i + b c + h) mod m, centred.
double pattern(std::int64_t h, std::int64_t r, std::int64_t c, int a, int b, int m) {
  const int middle = m / 2;
  return static_cast<double>((a * r + b * c + 4 * h + 1) % m - middle) / 2;
}

std::shared_ptr<const Problem> small_problem(std::int64_t heads, std::int64_t kv_heads, std::int64_t Nq,
                                             std::int64_t Nk, std::int64_t d, std::int64_t dv, Mask mask = {}) {
  const auto of = [](int a, int b, int m) {
    return [=](std::int64_t h, std::int64_t r, std::int64_t c) { return pattern(h, r, c, a, b, m); };
  };
  return make_problem("gallery", tensor_of(DType::float32, heads, Nq, d, of(3, 5, 7)),
                      tensor_of(DType::float32, kv_heads, Nk, d, of(5, 3, 9)),
                      tensor_of(DType::float32, kv_heads, Nk, dv, of(2, 7, 11)), {}, std::move(mask));
}

// One query of 1 and keys that are the scores themselves; values 10, 20, 30, ...
std::shared_ptr<const Problem> scores_problem(const std::vector<double>& scores, Mask mask = {}, double q = 1) {
  const auto Nk = static_cast<std::int64_t>(scores.size());
  return make_problem(
      "gallery", tensor_of(DType::float32, 1, 1, 1, [&](auto, auto, auto) { return q; }),
      tensor_of(DType::float32, 1, Nk, 1, [&](auto, std::int64_t c, auto) { return scores[c]; }),
      tensor_of(DType::float32, 1, Nk, 1, [](auto, std::int64_t c, auto) { return 10.0 * static_cast<double>(c + 1); }),
      1.0, std::move(mask));
}

Mask causal(Causal alignment) {
  Mask mask;
  mask.causal = alignment;
  return mask;
}
Mask keep_mask(std::int64_t Nq, std::int64_t Nk, const std::function<bool(std::int64_t r, std::int64_t c)>& kept) {
  KeepMask keep = make_keep_mask(1, Nq, Nk);
  for (std::int64_t r = 0; r < Nq; ++r)
    for (std::int64_t c = 0; c < Nk; ++c)
      if (kept(r, c)) set_keep(keep, 0, r, c);
  Mask mask;
  mask.keep = std::make_shared<const KeepMask>(std::move(keep));
  return mask;
}
Mask bias_mask(std::vector<float> row, double factor = 1) {
  Bias bias;
  bias.cols = static_cast<std::int64_t>(row.size());
  for (const float value : row) bias.f32.push_back(static_cast<float>(value * factor));
  Mask mask;
  mask.bias = std::make_shared<const Bias>(std::move(bias));
  return mask;
}

GalleryPair pair_of(std::shared_ptr<const Problem> problem, std::int64_t Br, std::int64_t Bc) {
  GalleryPair pair;
  pair.problem = pair.right_problem = std::move(problem);
  pair.recipe.Br = Br, pair.recipe.Bc = Bc;
  pair.right = pair.recipe;
  return pair;
}

// Two problems, for conventions.
GalleryPair pair_of(std::shared_ptr<const Problem> other, std::shared_ptr<const Problem> right) {
  GalleryPair pair = pair_of(std::move(other), 2, 2);
  pair.right_problem = std::move(right);
  return pair;
}

GalleryPair build(std::string_view name) {
  const double ln2 = std::log(2.0);
  if (name.starts_with("no-rescale") || name == "inverse-rescale") return pair_of(scores_problem({0, ln2}), 1, 1);
  if (name == "tile-max") {
    GalleryPair pair = pair_of(scores_problem({ln2, 0}), 1, 1);
    pair.right.numerators = Numerators::tile;
    pair.right_title = "numerators tile, corrected as printed";
    return pair;
  }
  if (name == "local-causal") return pair_of(small_problem(1, 1, 2, 2, 1, 1, causal(Causal::top_left)), 2, 1);
  if (name == "unscaled" || name == "double-scale") return pair_of(small_problem(1, 1, 1, 2, 4, 1), 1, 2);
  if (name == "no-final-divide") return pair_of(scores_problem({0, 0}), 1, 2);
  if (name == "unmasked-tail") return pair_of(scores_problem({0}), 1, 2);
  if (name == "finite-sentinel")
    return pair_of(scores_problem({100, 1}, keep_mask(1, 2, [](auto, auto c) { return c == 0; }), -150), 1, 2);
  if (name == "mask-twice") return pair_of(scores_problem({0, 0}, bias_mask({0, 1})), 1, 2);
  if (name == "lse-base2") return pair_of(scores_problem({0, 0}), 1, 2);
  if (name == "gqa-interleaved") return pair_of(small_problem(4, 2, 1, 1, 1, 1), 1, 1);
  if (name == "k-untransposed") return pair_of(small_problem(1, 1, 1, 2, 2, 1), 1, 2);
  if (name == "bf16-row-sum") return pair_of(scores_problem(std::vector<double>(512, 0.0)), 1, 64);
  if (name == "unguarded") {
    GalleryPair pair = pair_of(scores_problem({0, 0}, keep_mask(1, 2, [](auto, auto c) { return c == 1; })), 1, 1);
    pair.recipe.guard = Guard::none;
    pair.right_title = "guard clamp";
    return pair;
  }
  if (name == "causal-alignment")
    return pair_of(small_problem(1, 1, 1, 2, 1, 1, causal(Causal::bottom_right)),
                   small_problem(1, 1, 1, 2, 1, 1, causal(Causal::top_left)));
  if (name == "causal-diagonal")
    return pair_of(small_problem(1, 1, 2, 2, 1, 1, keep_mask(2, 2, [](auto r, auto c) { return c < r; })),
                   small_problem(1, 1, 2, 2, 1, 1, causal(Causal::top_left)));
  if (name == "window-bounds") {
    Mask narrow = causal(Causal::top_left), wide = narrow;
    narrow.window = Window{1, 0}, wide.window = Window{2, 0};
    return pair_of(small_problem(1, 1, 3, 3, 1, 1, wide), small_problem(1, 1, 3, 3, 1, 1, narrow));
  }
  if (name == "length-bounds" || name == "alibi-slope" || name == "softcap-order") {
    Mask right, other;
    if (name == "length-bounds") right.rules.lengths = {1}, other.rules.lengths = {2};
    if (name == "alibi-slope") right.rules.alibi = {0.5}, other.rules.alibi = {-0.5};
    if (name == "softcap-order") right.rules.softcap = 1, other.rules.softcap = 0.5;  // the scale is 1/2
    return pair_of(small_problem(1, 1, 1, 2, 4, 1, other), small_problem(1, 1, 1, 2, 4, 1, right));
  }
  if (name == "mask-polarity")
    return pair_of(scores_problem({0, 0}, keep_mask(1, 2, [](auto, auto c) { return c == 1; })),
                   scores_problem({0, 0}, keep_mask(1, 2, [](auto, auto c) { return c == 0; })));
  if (name == "mask-missing")
    return pair_of(scores_problem({0, 0}),
                   scores_problem({0, 0}, keep_mask(1, 2, [](auto, auto c) { return c == 0; })));
  if (name == "mask-added")
    return pair_of(scores_problem({0, 0}, bias_mask({1, 0})),
                   scores_problem({0, 0}, keep_mask(1, 2, [](auto, auto c) { return c == 0; })));
  if (name == "bias-scaled")
    return pair_of(small_problem(1, 1, 1, 2, 4, 1, bias_mask({0, 1}, 0.5)),
                   small_problem(1, 1, 1, 2, 4, 1, bias_mask({0, 1})));
  if (name == "empty-row") {
    GalleryPair pair = pair_of(scores_problem({0, 0}, keep_mask(1, 2, [](auto, auto) { return false; })), 1, 2);
    pair.recipe.empty_row = EmptyRow::mean;
    pair.left_title = "empty row: mean of V", pair.right_title = "empty row: zero";
    return pair;
  }
  if (name == "scale-of-dv") {
    const auto right = small_problem(1, 1, 1, 2, 4, 1);
    return pair_of(with_scale(right, 1), right);
  }
  if (name == "scale-log2e") {
    const auto right = small_problem(1, 1, 1, 2, 4, 1);
    return pair_of(with_scale(right, right->scale * ln2), right);
  }
  if (name == "kv-head-0") {
    const auto right = small_problem(2, 2, 1, 2, 1, 1);
    const auto head_0 = [&](const Tensor& from) {
      return tensor_of(from.type, 2, from.rows, from.cols, [&](auto, auto r, auto c) { return from.at(0, r, c); });
    };
    return pair_of(make_problem("gallery", Tensor(right->Q()), head_0(right->K()), head_0(right->V())), right);
  }
  if (name == "kv-heads-exchanged") {
    const auto right = small_problem(2, 2, 1, 2, 1, 1);
    const auto exchanged = [&](const Tensor& from) {
      return tensor_of(from.type, 2, from.rows, from.cols,
                       [&](auto h, auto r, auto c) { return from.at(1 - h, r, c); });
    };
    return pair_of(make_problem("gallery", Tensor(right->Q()), exchanged(right->K()), exchanged(right->V())), right);
  }
  if (name == "block-left-out") {
    Mask one;
    one.rules.lengths = {1};
    GalleryPair pair = pair_of(scores_problem({0, 0}, one), scores_problem({0, 0}));
    pair.recipe.Bc = pair.right.Bc = 1;
    return pair;
  }
  if (name == "input-layout") {
    const auto right = small_problem(2, 2, 2, 2, 1, 1);
    const auto turned = [&](const Tensor& from) {
      return tensor_of(from.type, 2, 2, from.cols, [&](auto h, auto r, auto c) { return from.at(r, h, c); });
    };
    return pair_of(make_problem("gallery", turned(right->Q()), turned(right->K()), turned(right->V())), right);
  }
  // The runs are the same, and only what is handed out differs.
  if (name == "output-layout" || name == "heads-exchanged") return pair_of(small_problem(2, 2, 2, 2, 1, 1), 2, 2);
  return pair_of(scores_problem({0, 0}), 1, 2);  // lse-negative
}

bool same(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::isfinite(a - b) && std::abs(a - b) <= 1e-6 * std::max({1.0, std::abs(a), std::abs(b)});
}

}  // namespace

std::string_view name(GalleryEntry::Kind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"defect", "guard", "convention"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::span<const GalleryEntry> gallery() { return kGallery; }

const GalleryEntry* find_in_gallery(std::string_view name) {
  const auto found =
      std::find_if(kGallery.begin(), kGallery.end(), [&](const auto& entry) { return entry.name == name; });
  return found == kGallery.end() ? nullptr : &*found;
}

GalleryPair smallest_example(std::string_view name) {
  const GalleryEntry* entry = find_in_gallery(name);
  if (!entry) {
    std::vector<std::string_view> names(kGallery.size());
    std::transform(kGallery.begin(), kGallery.end(), names.begin(), [](const auto& each) { return each.name; });
    throw InputError("gallery", fmt::format("\"{}\"", name), fmt::format("one of {}", fmt::join(names, ", ")));
  }
  GalleryPair pair = build(name);
  if (entry->kind == Kind::defect)
    set_defect(pair.recipe, name == "finite-sentinel" ? std::string_view("finite-sentinel=-10000") : name);
  if (pair.left_title.empty()) pair.left_title = name;
  if (pair.right_title.empty()) pair.right_title = entry->kind == Kind::convention ? "the other convention" : "right";
  return pair;
}

std::optional<FirstDifference> first_difference(const GalleryPair& pair, const std::stop_token& stop) {
  Trace wrong(pair.problem, pair.recipe), right(pair.right_problem, pair.right);
  const std::int64_t steps = std::max(wrong.schedule().steps(), right.schedule().steps());
  for (std::int64_t K = 1; K <= steps; ++K) {
    if (stop.stop_requested()) throw Cancelled();
    const TraceState a = wrong.seek(K, stop), b = right.seek(K, stop);
    FirstDifference found;
    found.step = K;
    if (a.step) found.stage = a.step->stage, found.head = a.step->head, found.i = a.step->i, found.j = a.step->j;
    if (a.step != b.step) {
      found.quantity = "step";
      return found;
    }
    const auto differs = [&](const char* what, std::span<const double> x, std::span<const double> y,
                             std::int64_t row_size) {
      for (std::size_t n = 0; n < std::min(x.size(), y.size()); ++n) {
        if (same(x[n], y[n])) continue;
        found.quantity = what, found.value = x[n], found.right = y[n];
        found.row = a.row0 + static_cast<std::int64_t>(n) / row_size;
        return true;
      }
      return false;
    };
    if (differs("S", a.S.values, b.S.values, a.S.cols) || differs("m", a.m, b.m, 1) ||
        differs("P", a.P.values, b.P.values, a.P.cols) || differs("alpha", a.alpha, b.alpha, 1) ||
        differs("l", a.l, b.l, 1) || differs("O", a.O.values, b.O.values, a.O.cols) || differs("LSE", a.LSE, b.LSE, 1))
      return found;
    if (differs("Q", a.Q.values, b.Q.values, a.Q.cols) ||
        differs("K", a.K_tile.values, b.K_tile.values, a.K_tile.cols) ||
        differs("V", a.V.values, b.V.values, a.V.cols)) {
      if (found.quantity != "Q") found.row = -1;
      return found;
    }
  }
  return {};
}

std::string text(const FirstDifference& difference) {
  const std::string where = difference.j >= 0
                                ? fmt::format("{} of tile ({}, {})", name(difference.stage), difference.i, difference.j)
                                : fmt::format("{} of row block {}", name(difference.stage), difference.i);
  if (difference.quantity == "step")
    return fmt::format("step {}, {}: the other run does something else", difference.step, where);
  const std::string row = difference.row >= 0 ? fmt::format(" of row {}", difference.row) : "";
  return fmt::format("step {}, {}: {}{} is {}, not {}", difference.step, where, difference.quantity, row,
                     number_text(difference.value), number_text(difference.right));
}

}  // namespace flashscope
