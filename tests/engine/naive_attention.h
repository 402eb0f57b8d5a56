// Tiled attention as the definitions read, one row and one cell at a time in double, for the tests of the
// fold: every guard, option and defect, with nothing shared with the engine but the mask's visible().
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"

namespace flashscope::naive {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Row {
  double m = -kInf, l = 0, LSE = 0;
  std::vector<double> O;
};

// Column blocks that row block [row0, row0 + rows) visits with --skip geometry or none, in fold order.
inline std::vector<std::int64_t> visited(const Problem& problem, const Recipe& recipe, std::int64_t row0,
                                         std::int64_t rows) {
  const Shape shape = problem.shape();
  Mask structure = problem.mask;
  structure.keep = nullptr, structure.bias = nullptr;
  const Band limits = band(structure, shape.Nq, shape.Nk);
  std::vector<std::int64_t> blocks;
  for (std::int64_t j = 0; j * recipe.Bc < shape.Nk; ++j) {
    bool any = recipe.skip == Skip::none;
    for (std::int64_t r = row0; r < row0 + rows && !any; ++r) {
      for (std::int64_t c = j * recipe.Bc; c < std::min(shape.Nk, (j + 1) * recipe.Bc) && !any; ++c)
        any = visible(structure, limits, 0, r, c);
    }
    if (any) blocks.push_back(j);
  }
  if (recipe.order == Order::reverse) blocks = {blocks.rbegin(), blocks.rend()};
  return blocks;
}

inline std::int64_t kv_head(const Problem& problem, const Recipe& recipe, std::int64_t h) {
  const Shape shape = problem.shape();
  return recipe.defect == Defect::gqa_interleaved ? h % shape.kv_heads : h / (shape.heads / shape.kv_heads);
}

inline double dot(const Tensor& A, std::int64_t ha, std::int64_t a, const Tensor& B, std::int64_t hb, std::int64_t b) {
  double sum = 0;
  for (std::int64_t e = 0; e < A.cols; ++e) sum += A.at(ha, a, e) * B.at(hb, b, e);
  return sum;
}

// A masked score and whether the kernel's own mask left the key visible.
struct Score {
  double value = 0;
  bool visible = true;
};

inline Score score(const Problem& problem, const Recipe& recipe, std::int64_t h, std::int64_t r, std::int64_t c,
                   std::int64_t r_local, std::int64_t c_local) {
  const Shape shape = problem.shape();
  const Mask& mask = problem.mask;
  const bool tail = c >= shape.Nk;
  double scale = problem.scale;
  if (recipe.defect == Defect::unscaled) scale = 1;
  if (recipe.defect == Defect::double_scale) scale *= problem.scale;
  Score s;
  const std::int64_t kv = kv_head(problem, recipe, h);
  s.value = tail ? 0 : scale * dot(problem.Q(), h, r, problem.K(), kv, c);
  if (recipe.defect == Defect::k_untransposed && recipe.Bc == shape.d) {
    s.value = 0;  // Q K_j instead of Q K_j^T: element c_local of the tile's keys, as far as there are keys
    for (std::int64_t e = 0; e < shape.d && c - c_local + e < shape.Nk; ++e)
      s.value += scale * problem.Q().at(h, r, e) * problem.K().at(kv, c - c_local + e, c_local);
  }
  const std::int64_t shift = mask.causal == Causal::bottom_right ? shape.Nk - shape.Nq : 0;
  if (mask.causal != Causal::none) {
    if (recipe.defect == Defect::local_causal)
      s.visible = s.visible && c_local <= r_local;
    else
      s.visible = s.visible && c <= r + shift;
  }
  if (mask.window) s.visible = s.visible && r + shift - mask.window->left <= c && c <= r + shift + mask.window->right;
  if (!tail && mask.keep) s.visible = s.visible && mask.keep->keep(h, r, c);
  if (!tail && mask.bias) {
    const double bias = mask.bias->at(h, r, c);
    if (bias == -kInf)
      s.visible = false;
    else
      s.value += recipe.defect == Defect::mask_twice ? 2 * bias : bias;
  }
  if (s.visible) return s;
  if (recipe.defect == Defect::finite_sentinel)
    s.value = recipe.sentinel_added ? s.value + recipe.sentinel : recipe.sentinel;
  else
    s.value = recipe.mask_apply == MaskApply::add ? s.value - kInf : -kInf;
  return s;
}

// Folds column block j into the row; the row block starts at row0.
inline void fold(const Problem& problem, const Recipe& recipe, std::int64_t h, std::int64_t row0, std::int64_t r,
                 std::int64_t j, Row& row) {
  const Shape shape = problem.shape();
  const std::int64_t c0 = j * recipe.Bc;
  std::int64_t c1 = std::min(shape.Nk, c0 + recipe.Bc);
  if (recipe.defect == Defect::unmasked_tail && c1 == shape.Nk) c1 = c0 + recipe.Bc;
  std::vector<double> P;
  double tile_max = -kInf;
  bool any_visible = false;
  for (std::int64_t c = c0; c < c1; ++c) {
    const Score s = score(problem, recipe, h, r, c, r - row0, c - c0);
    any_visible = any_visible || s.visible;
    P.push_back(s.value);
    if (s.value > tile_max) tile_max = s.value;
  }
  if (recipe.guard == Guard::skip && !any_visible) return;

  const double m_new = tile_max > row.m ? tile_max : row.m;
  const auto subtracted = [&](double m) { return recipe.guard == Guard::clamp && m == -kInf ? 0.0 : m; };
  const bool own_maximum = recipe.numerators == Numerators::tile || recipe.defect == Defect::tile_max;
  const bool corrected = own_maximum && recipe.defect != Defect::tile_max;
  double sum = 0;
  for (double& p : P) p = std::exp(p - subtracted(own_maximum ? tile_max : m_new)), sum += p;
  const double correction = corrected ? std::exp(tile_max - subtracted(m_new)) : 1;

  const double alpha = std::exp(row.m - subtracted(m_new));
  double alpha_l = alpha, alpha_o = alpha;
  if (recipe.defect == Defect::no_rescale || recipe.defect == Defect::no_rescale_l) alpha_l = 1;
  if (recipe.defect == Defect::no_rescale || recipe.defect == Defect::no_rescale_o) alpha_o = 1;
  if (recipe.defect == Defect::inverse_rescale) alpha_o = row.m == -kInf ? 1 : 1 / alpha;
  const bool each = recipe.normalised() == Normalise::each;
  if (each) alpha_o *= row.l;
  const double l_before = row.l;
  row.l = row.l * alpha_l + sum * correction;
  if (recipe.defect == Defect::bf16_row_sum) {
    row.l = round_to(DType::bfloat16, l_before * alpha_l);
    for (const double p : P) row.l = round_to(DType::bfloat16, row.l + p * correction);
  }
  row.m = m_new;
  for (std::int64_t e = 0; e < shape.dv; ++e) {
    double PV = 0;
    for (std::int64_t c = c0; c < std::min(c1, shape.Nk); ++c)
      PV += P[c - c0] * problem.V().at(kv_head(problem, recipe, h), c, e);
    double& o = row.O[e];
    o = o * alpha_o + PV * correction;
    if (each) o /= recipe.guard == Guard::clamp && row.l == 0 ? 1 : row.l;
  }
}

inline void finish(const Problem& problem, const Recipe& recipe, std::int64_t h, std::int64_t r, Row& row) {
  const Shape shape = problem.shape();
  if (recipe.normalised() == Normalise::end && recipe.defect != Defect::no_final_divide) {
    for (double& o : row.O) o /= row.l;
  }
  row.LSE = row.m + std::log(row.l);
  if (recipe.defect == Defect::lse_base2) row.LSE /= std::log(2.0);
  if (recipe.guard == Guard::none || row.m != -kInf || visible_keys(problem.mask, shape.Nq, shape.Nk, h, r) > 0) return;
  row.LSE = -kInf;
  for (std::int64_t e = 0; e < shape.dv; ++e) {
    double mean = 0;
    for (std::int64_t c = 0; c < shape.Nk; ++c)
      mean += problem.V().at(kv_head(problem, recipe, h), c, e) / static_cast<double>(shape.Nk);
    row.O[e] = recipe.empty_row == EmptyRow::zero ? 0 : recipe.empty_row == EmptyRow::nan ? kNaN : mean;
  }
}

// Rows [0, Nq) of one head.
inline std::vector<Row> attention(const Problem& problem, const Recipe& recipe, std::int64_t h) {
  const Shape shape = problem.shape();
  std::vector<Row> rows(shape.Nq);
  for (std::int64_t row0 = 0; row0 < shape.Nq; row0 += recipe.Br) {
    const std::int64_t end = std::min(shape.Nq, row0 + recipe.Br);
    const std::vector<std::int64_t> blocks = visited(problem, recipe, row0, end - row0);
    for (std::int64_t r = row0; r < end; ++r) {
      rows[r].O.assign(shape.dv, 0.0);
      for (const std::int64_t j : blocks) fold(problem, recipe, h, row0, r, j, rows[r]);
      finish(problem, recipe, h, r, rows[r]);
    }
  }
  return rows;
}

}  // namespace flashscope::naive
