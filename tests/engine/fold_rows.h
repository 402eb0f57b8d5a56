// What the tests of the fold share: a small problem under every kind of mask, the rows of a head as the fold gives
// them, and their comparison with the definition in naive_attention.h.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/attention/fold_kernels.h"
#include "engine/attention/online_softmax.h"
#include "tests/engine/naive_attention.h"

namespace flashscope {

inline std::shared_ptr<const Problem> small_problem(DType type, Mask mask = {}, std::int64_t Nq = 37,
                                                    std::int64_t Nk = 29) {
  return random_problem({2, 1, Nq, Nk, 5, 7, type}, 11, {}, std::move(mask));
}

// Masks of every kind, for Nq x Nk with two heads. Row 5 of the keep mask is empty, keys 0..3 are padding.
inline std::vector<std::pair<std::string, Mask>> masks(std::int64_t Nq, std::int64_t Nk) {
  std::vector<std::pair<std::string, Mask>> all(1, {"none", {}});
  Mask causal, bottom, window, both, keep, bias, everything;
  causal.causal = Causal::top_left;
  bottom.causal = Causal::bottom_right;
  window.window = Window{3, 2};
  both.causal = Causal::bottom_right, both.window = Window{4, 9};
  auto bits = std::make_shared<KeepMask>(make_keep_mask(2, Nq, Nk));
  auto values = std::make_shared<Bias>();
  values->heads = 1, values->rows = Nq, values->cols = Nk;
  values->f32.resize(Nq * Nk);
  for (std::int64_t r = 0; r < Nq; ++r) {
    for (std::int64_t c = 0; c < Nk; ++c) {
      for (std::int64_t h = 0; h < 2; ++h) {
        if (r != 5 && c > 3 && (r * 7 + c * 3 + h) % 5 != 0) set_keep(*bits, h, r, c);
      }
      values->f32[r * Nk + c] =
          (r + 2 * c) % 7 == 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>((r * 5 + c) % 11) / 4 - 1;
    }
  }
  keep.keep = bits, bias.bias = values;
  everything.causal = Causal::top_left, everything.keep = bits, everything.bias = values;
  all.emplace_back("causal", causal);
  all.emplace_back("bottom-right", bottom);
  all.emplace_back("window", window);
  all.emplace_back("causal window", both);
  all.emplace_back("keep", keep);
  all.emplace_back("bias", bias);
  all.emplace_back("everything", everything);
  return all;
}

inline bool tile_is_full(const Problem& problem, std::int64_t h, std::int64_t row0, std::int64_t rows,
                         std::int64_t col0, std::int64_t cols) {
  if (problem.mask.bias) return false;
  const Band limits = band(problem.mask, problem.shape().Nq, problem.shape().Nk);
  for (std::int64_t r = row0; r < row0 + rows; ++r) {
    for (std::int64_t c = col0; c < col0 + cols; ++c) {
      if (!visible(problem.mask, limits, h, r, c)) return false;
    }
  }
  return true;
}

enum class How { verbs, fused, counted };

// The rows of one head, as the naive loop gives them. O has dv values a row.
template <class T>
std::vector<naive::Row> fold_rows(const Problem& problem, const Recipe& recipe, std::int64_t h, How how = How::fused) {
  const Shape shape = problem.shape();
  Fold<T> fold(problem, recipe);
  std::vector<naive::Row> rows(shape.Nq);
  for (std::int64_t row0 = 0; row0 < shape.Nq; row0 += recipe.Br) {
    const std::int64_t n = std::min(recipe.Br, shape.Nq - row0);
    fold.start(h, row0, n);
    const bool flash = recipe.algorithm != Algorithm::standard;
    if (!flash) {
      fold.begin_tile(0, shape.Nk, !tile_is_full(problem, h, row0, n, 0, shape.Nk));
      fold.scores();
      fold.mask();
      fold.softmax();
      fold.multiply();
    }
    for (const std::int64_t j : flash ? naive::visited(problem, recipe, row0, n) : std::vector<std::int64_t>()) {
      const std::int64_t col0 = j * recipe.Bc, cols = std::min(recipe.Bc, shape.Nk - col0);
      const bool needs_mask = !tile_is_full(problem, h, row0, n, col0, cols);
      if (how == How::fused) fold.fold_tile(col0, cols, needs_mask);
      if (how == How::counted) fold.fold_tile_counted(col0, cols, needs_mask);
      if (how != How::verbs) continue;
      fold.begin_tile(col0, cols, needs_mask);
      fold.scores();
      fold.mask();
      fold.max();
      fold.exponentials();
      fold.rescale();
      fold.accumulate();
    }
    fold.finish();
    for (std::int64_t r = 0; r < n; ++r) {
      naive::Row& row = rows[row0 + r];
      row.m = fold.m()[r], row.l = fold.l()[r], row.LSE = fold.LSE()[r];
      for (std::int64_t e = 0; e < shape.dv; ++e) row.O.push_back(fold.O()[e * fold.lanes() + r]);
    }
  }
  return rows;
}

inline bool close(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

inline testing::AssertionResult same_rows(const std::vector<naive::Row>& a, const std::vector<naive::Row>& b,
                                          double tolerance) {
  for (std::size_t r = 0; r < a.size(); ++r) {
    if (!close(a[r].LSE, b[r].LSE, tolerance) || !close(a[r].m, b[r].m, tolerance) || !close(a[r].l, b[r].l, tolerance))
      return testing::AssertionFailure() << "row " << r << ": m, l, LSE " << a[r].m << ' ' << a[r].l << ' ' << a[r].LSE
                                         << " against " << b[r].m << ' ' << b[r].l << ' ' << b[r].LSE;
    for (std::size_t e = 0; e < a[r].O.size(); ++e) {
      if (!close(a[r].O[e], b[r].O[e], tolerance))
        return testing::AssertionFailure()
               << "row " << r << ", O[" << e << "]: " << a[r].O[e] << " against " << b[r].O[e];
    }
  }
  return testing::AssertionSuccess();
}

inline bool same_bits(const std::vector<naive::Row>& a, const std::vector<naive::Row>& b) {
  const auto same = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  for (std::size_t r = 0; r < a.size(); ++r) {
    if (!same(a[r].m, b[r].m) || !same(a[r].l, b[r].l) || !same(a[r].LSE, b[r].LSE)) return false;
    for (std::size_t e = 0; e < a[r].O.size(); ++e) {
      if (!same(a[r].O[e], b[r].O[e])) return false;
    }
  }
  return true;
}

template <class Body>
void for_each_recipe(const Body& body) {
  for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2})
    for (const Order order : {Order::forward, Order::reverse})
      for (const Skip skip : {Skip::geometry, Skip::none})
        for (const Guard guard : {Guard::clamp, Guard::skip, Guard::none})
          for (const Normalise normalise : {Normalise::end, Normalise::each})
            for (const Numerators numerators : {Numerators::running, Numerators::tile})
              for (const MaskApply apply : {MaskApply::select, MaskApply::add}) {
                Recipe recipe;
                recipe.algorithm = algorithm, recipe.order = order, recipe.skip = skip, recipe.guard = guard;
                recipe.normalise = normalise, recipe.numerators = numerators, recipe.mask_apply = apply;
                recipe.Br = 16, recipe.Bc = 8;
                body(recipe);
              }
}

inline std::string words(const Recipe& recipe) {
  std::string text;
  for (const std::string_view word :
       {name(recipe.algorithm), name(recipe.order), name(recipe.skip), name(recipe.guard), name(recipe.normalised()),
        name(recipe.numerators), name(recipe.mask_apply), name(recipe.empty_row)})
    text += std::string(word) + ' ';
  return text + defect_text(recipe);
}

class OnEveryIsa : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override { use_isa(GetParam()); }
  void TearDown() override { use_isa("auto"); }
};

}  // namespace flashscope
