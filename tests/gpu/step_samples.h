// Problems and recipes of every kind that the trace can step, and the comparison of a state with the engine's: shared
// by the tests that run tile_step's text on the host and those that run it on a GPU.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "engine/attention/online_softmax.h"
#include "engine/attention/trace.h"
#include "tests/gpu/masks.h"

namespace flashscope::gpu {

struct StepSample {
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
  std::string text;
};

inline StepSample draw_step_sample(int number) {
  std::mt19937 random(static_cast<std::uint32_t>(number) * 104729 + 3);
  const auto one_of = [&](std::initializer_list<std::int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  StepSample sample;
  Shape shape;
  shape.kv_heads = one_of({1, 1, 2}), shape.heads = shape.kv_heads * one_of({1, 2, 3});
  shape.Nq = one_of({1, 17, 45, 70}), shape.Nk = random() % 2 ? shape.Nq : one_of({1, 30, 64, 150});
  shape.d = one_of({1, 6, 16, 33}), shape.dv = random() % 2 ? shape.d : one_of({3, 40});
  const DType types[] = {DType::float32, DType::float32, DType::bfloat16, DType::float16, DType::float64};
  shape.type = types[random() % 5];
  Recipe& recipe = sample.recipe;
  recipe.algorithm = static_cast<Algorithm>(random() % 5 % 3);
  recipe.Br = one_of({1, 5, 16, 32, 100}), recipe.Bc = one_of({1, 7, 16, 64, 90, 200});
  recipe.order = random() % 2 ? Order::reverse : Order::forward;
  recipe.skip = static_cast<Skip>(random() % 3), recipe.guard = static_cast<Guard>(random() % 3);
  recipe.empty_row = static_cast<EmptyRow>(random() % 3);
  if (random() % 2) recipe.normalise = random() % 2 ? Normalise::each : Normalise::end;
  recipe.numerators = random() % 3 ? Numerators::running : Numerators::tile;
  recipe.mask_apply = random() % 3 ? MaskApply::select : MaskApply::add;
  Mask mask;
  if (random() % 2) mask.causal = random() % 2 ? Causal::top_left : Causal::bottom_right;
  if (random() % 4 == 0)
    mask.window = Window{static_cast<std::int64_t>(random() % 40), static_cast<std::int64_t>(random() % 20)};
  const auto plane = [&](std::int64_t n) { return random() % 3 ? n : 1; };
  if (random() % 4 == 0) mask.keep = random_keep(plane(shape.heads), plane(shape.Nq), shape.Nk, random());
  if (random() % 4 == 0) mask.bias = random_bias(plane(shape.heads), shape.Nq, plane(shape.Nk), random());
  const char* defects[] = {"",
                           "no-rescale",
                           "no-rescale-l",
                           "no-rescale-o",
                           "inverse-rescale",
                           "tile-max",
                           "local-causal",
                           "unscaled",
                           "double-scale",
                           "unmasked-tail",
                           "finite-sentinel=-9.5",
                           "finite-sentinel=-3,add",
                           "no-final-divide"};
  const char* defect = random() % 2 ? "" : defects[random() % std::size(defects)];
  try {
    if (*defect) set_defect(recipe, defect);
    check(recipe, shape);
  } catch (const std::exception&) {  // not with this normalisation
    recipe.defect = Defect::none;
  }
  auto problem = random_problem(shape, random(), {}, mask);
  if (random() % 3 == 0) {  // NaN, infinities, and numbers whose scores overflow
    Tensor tensors[3] = {problem->Q(), problem->K(), problem->V()};
    for (int n = 0; n < 3; ++n) {
      Tensor& tensor = tensors[random() % 3];
      const double bad[] = {std::nan(""), INFINITY, -INFINITY, 6e4, -6e4};
      set(tensor, static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(tensor.heads)),
          static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(tensor.rows)),
          static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(tensor.cols)), bad[random() % 5]);
    }
    problem = make_problem("bad", std::move(tensors[0]), std::move(tensors[1]), std::move(tensors[2]), {}, mask);
  }
  sample.problem = problem;
  sample.text = fmt::format("sample {}: {} {} H{}/{} {}x{} d{},{} {}x{} {} {} numerators {} {} defect '{}'", number,
                            name(recipe.algorithm), name(shape.type), shape.heads, shape.kv_heads, shape.Nq, shape.Nk,
                            shape.d, shape.dv, recipe.Br, recipe.Bc, conventions(recipe, mask), name(recipe.order),
                            name(recipe.numerators), name(recipe.normalised()), defect_text(recipe));
  return sample;
}

// Whether this machine's instruction set fuses a product and a sum as the kernels do: then states are equal bit for
// bit.
inline bool engine_fuses() {
  const std::string_view isa = current_isa();
  return isa.substr(0, 3) == "AVX" || isa.substr(0, 4) == "NEON";
}

// Equal numbers, NaN equal to NaN; or, with a tolerance, close ones.
inline void expect_numbers(const std::vector<double>& found, const std::vector<double>& expected, double tolerance,
                           const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  std::size_t wrong = 0, first = 0;
  for (std::size_t n = found.size(); n-- > 0;) {
    const double a = found[n], b = expected[n];
    const bool same =
        (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
    if (!same) ++wrong, first = n;
  }
  EXPECT_EQ(wrong, 0u) << what << " of " << found.size() << ", first at " << first << ": " << found[first] << " for "
                       << expected[first];
}

// `log_tolerance`: of LSE, whose logarithm is another library's on a GPU.
inline void expect_state(const TraceState& found, const TraceState& expected, double tolerance, double log_tolerance) {
  SCOPED_TRACE(fmt::format("K {} {}", expected.K, expected.step ? name(expected.step->stage) : "start"));
  EXPECT_EQ(found.K, expected.K);
  EXPECT_EQ(found.steps, expected.steps);
  EXPECT_EQ(found.step, expected.step);
  EXPECT_EQ(
      std::tuple(found.head, found.i, found.j, found.row0, found.rows, found.col0, found.cols),
      std::tuple(expected.head, expected.i, expected.j, expected.row0, expected.rows, expected.col0, expected.cols));
  EXPECT_EQ(found.tile_class, expected.tile_class);
  EXPECT_EQ(found.folded, expected.folded);
  EXPECT_EQ(found.visits, expected.visits);
  EXPECT_EQ(found.finished, expected.finished);
  expect_numbers(found.Q.values, expected.Q.values, 0, "Q");
  expect_numbers(found.K_tile.values, expected.K_tile.values, 0, "K");
  expect_numbers(found.V.values, expected.V.values, 0, "V");
  expect_numbers(found.S.values, expected.S.values, tolerance, "S");
  expect_numbers(found.P.values, expected.P.values, tolerance, "P");
  expect_numbers(found.O.values, expected.O.values, tolerance, "O");
  expect_numbers(found.m, expected.m, tolerance, "m");
  expect_numbers(found.m_old, expected.m_old, tolerance, "m_old");
  expect_numbers(found.l, expected.l, tolerance, "l");
  expect_numbers(found.l_old, expected.l_old, tolerance, "l_old");
  expect_numbers(found.alpha, expected.alpha, tolerance, "alpha");
  expect_numbers(found.o_factor, expected.o_factor, tolerance, "o_factor");
  expect_numbers(found.row_sum, expected.row_sum, tolerance, "row_sum");
  expect_numbers(found.LSE, expected.LSE, log_tolerance, "LSE");
  EXPECT_EQ(found.rescaled, expected.rescaled);
  EXPECT_EQ(found.visible, expected.visible);
  EXPECT_EQ(found.events.size(), expected.events.size()) << "events";
  for (std::size_t n = 0; n < std::min(found.events.size(), expected.events.size()); ++n) {
    Event event = found.events[n];
    if (std::abs(event.alpha - expected.events[n].alpha) <= tolerance) event.alpha = expected.events[n].alpha;
    EXPECT_EQ(event, expected.events[n]) << "event " << n;
  }
}

}  // namespace flashscope::gpu
