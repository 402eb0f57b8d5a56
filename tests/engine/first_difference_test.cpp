// Two recipes in step: what is compared, and that searching either way meets the states in which the picture of a
// row first differs.
#include "engine/insight/first_difference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/error.h"
#include "support.h"

namespace flashscope {
namespace {

struct Pair {
  std::string what;
  std::shared_ptr<const Problem> problem;
  Recipe a, b;
};

std::vector<Pair> pairs() {
  Mask causal, window;
  causal.causal = Causal::top_left;
  window.window = Window{6, 1};
  const auto plain = [](const Mask& mask, DType type) {
    return random_problem({2, 1, 29, 26, 4, 3, type}, 11, {}, mask);
  };
  Recipe base;
  base.Br = 8, base.Bc = 6;
  std::vector<Pair> list;
  const auto add = [&](std::string what, const Mask& mask, Recipe a, Recipe b) {
    for (const DType type : {DType::float32, DType::float64})
      list.push_back({what + " " + std::string(name(type)), plain(mask, type), a, b});
  };
  const auto with = [&](auto change) {
    Recipe recipe = base;
    change(recipe);
    return recipe;
  };
  add("same", causal, base, base);
  add("guard", causal, with([](Recipe& r) { r.order = Order::reverse, r.guard = Guard::none; }),
      with([](Recipe& r) { r.order = Order::reverse; }));
  add("guard, every tile", causal,
      with([](Recipe& r) { r.order = Order::reverse, r.skip = Skip::none, r.guard = Guard::none; }),
      with([](Recipe& r) { r.order = Order::reverse; }));
  add("flash1", causal, base, with([](Recipe& r) { r.algorithm = Algorithm::flash1; }));
  add("flash1 first", window, with([](Recipe& r) { r.algorithm = Algorithm::flash1; }), base);
  add("twice Bc", causal, base, with([](Recipe& r) { r.Bc = 12; }));
  add("half Bc", window, with([](Recipe& r) { r.Bc = 12; }), base);
  add("other Br", causal, base, with([](Recipe& r) { r.Br = 5; }));
  add("other Br and a mistake", causal, base, with([](Recipe& r) { r.Br = 12, r.defect = Defect::no_rescale_o; }));
  add("order", causal, base, with([](Recipe& r) { r.order = Order::reverse; }));
  add("standard", causal, base, with([](Recipe& r) { r.algorithm = Algorithm::standard; }));
  for (const Defect defect : {Defect::no_rescale, Defect::no_rescale_l, Defect::no_rescale_o, Defect::inverse_rescale,
                              Defect::tile_max, Defect::local_causal, Defect::unscaled, Defect::double_scale,
                              Defect::no_final_divide, Defect::unmasked_tail, Defect::finite_sentinel}) {
    add(std::string(name(defect)), causal, base, with([&](Recipe& r) { r.defect = defect; }));
    if (defect != Defect::no_final_divide)
      add(std::string(name(defect)) + " with each", causal, with([](Recipe& r) { r.normalise = Normalise::each; }),
          with([&](Recipe& r) { r.defect = defect; }));
  }
  return list;
}

// For each row, the first state in which the picture of the two shows that it differs.
std::map<std::int64_t, std::vector<std::int64_t>> first_states(const Pair& pair) {
  Trace a(pair.problem, pair.a), b(pair.problem, pair.b);
  std::map<std::pair<std::int64_t, std::int64_t>, bool> seen;  // (head, row)
  std::map<std::int64_t, std::vector<std::int64_t>> at;        // K: rows
  for (std::int64_t K = 1; K <= a.schedule().steps(); ++K) {
    const TraceState state = a.seek(K);
    for (std::int64_t row = state.row0; row < state.row0 + state.rows; ++row) {
      const TraceState beside = b.seek(paired_state(a.schedule(), K, b.schedule(), row));
      const Differences d = differences(a.schedule(), state, b.schedule(), beside, tolerance_for(*pair.problem));
      const auto any = [&](const std::vector<std::uint8_t>& marks) {
        const std::int64_t cols = static_cast<std::int64_t>(marks.size()) / state.rows;
        const auto first = marks.begin() + (row - state.row0) * cols;
        return !marks.empty() && std::any_of(first, first + cols, [](std::uint8_t mark) { return mark != 0; });
      };
      if (row < d.row0 || row >= d.row0 + d.rows) ADD_FAILURE() << pair.what << ": row " << row << " has no partner";
      EXPECT_EQ(d.largest_at.empty(), d.largest == 0);
      if (!d.largest_at.empty()) {
        EXPECT_EQ(std::abs(d.here - d.beside), d.largest) << pair.what << ' ' << d.largest_at;
      }
      if (!(any(d.S) || any(d.P) || any(d.m) || any(d.l) || any(d.alpha) || any(d.O) || any(d.LSE))) continue;
      if (std::exchange(seen[{state.head, row}], true)) continue;
      at[K].push_back(row);
    }
  }
  return at;
}

TEST(FirstDifference, is_found_where_the_picture_shows_it_from_either_side) {
  for (const Pair& pair : pairs()) {
    const auto expected = first_states(pair);
    std::vector<std::int64_t> states, forward, backward;
    for (const auto& [K, rows] : expected) states.push_back(K);
    for (auto f = first_difference(pair.problem, pair.a, pair.b, 0, true); f;
         f = first_difference(pair.problem, pair.a, pair.b, f->K, true)) {
      forward.push_back(f->K);
      const auto at = expected.find(f->K);
      if (at == expected.end()) continue;
      EXPECT_NE(std::find(at->second.begin(), at->second.end(), f->row), at->second.end()) << pair.what;
    }
    const std::int64_t steps = Schedule(pair.problem->shape(), pair.problem->mask, pair.a).steps();
    for (auto f = first_difference(pair.problem, pair.a, pair.b, steps + 1, false); f;
         f = first_difference(pair.problem, pair.a, pair.b, f->K, false))
      backward.push_back(f->K);
    std::reverse(backward.begin(), backward.end());
    EXPECT_EQ(forward, states) << pair.what << " forward";
    EXPECT_EQ(backward, states) << pair.what << " backward";
  }
}

TEST(FirstDifference, right_recipes_do_not_differ_and_mistakes_do) {
  for (const Pair& pair : pairs()) {
    const auto found = first_difference(pair.problem, pair.a, pair.b, 0, true);
    const bool right = pair.a.guard != Guard::none && pair.b.defect == Defect::none;
    EXPECT_EQ(!found, right) << pair.what;
  }
}

TEST(FirstDifference, of_a_missing_rescale_is_at_rescale_in_the_rows_that_have_one) {
  for (const Pair& pair : pairs()) {
    if (pair.b.defect != Defect::no_rescale_l || pair.a.normalise) continue;
    const auto found = first_difference(pair.problem, pair.a, pair.b, 0, true);
    ASSERT_TRUE(found) << pair.what;
    Trace trace(pair.problem, pair.a);
    const TraceState state = trace.seek(found->K);
    EXPECT_EQ(state.step->stage, Stage::rescale);
    EXPECT_TRUE(state.rescaled[found->row - state.row0]);
  }
}

TEST(FirstDifference, says_what_it_compared_and_why_not_the_rest) {
  const auto problem = random_problem({1, 1, 24, 24, 4, 4, DType::float32}, 3);
  Recipe a, b;
  a.Br = b.Br = 8, a.Bc = 6, b.Bc = 12;
  Trace x(problem, a), y(problem, b);
  const auto at = [&](std::int64_t j, Stage stage) {
    const TraceState state = x.seek(*x.schedule().find(0, 1, j, stage) + 1);
    const TraceState beside = y.seek(paired_state(x.schedule(), state.K, y.schedule()));
    return differences(x.schedule(), state, y.schedule(), beside, tolerance_for(*problem));
  };
  EXPECT_EQ(at(0, Stage::accumulate).compared, "");  // 6 keys here, 12 there
  EXPECT_NE(at(0, Stage::accumulate).reason, "");
  EXPECT_EQ(at(1, Stage::accumulate).compared, "m l O");
  EXPECT_EQ(at(1, Stage::accumulate).count, 0);
  EXPECT_EQ(at(-1, Stage::finish).compared, "m l LSE O");
  EXPECT_EQ(at(-1, Stage::finish).reason, "");
}

// The same tensors under another mask, and other tensors of one shape.
TEST(FirstDifference, of_two_problems) {
  const Shape shape{1, 1, 24, 24, 4, 4, DType::float32};
  Mask causal, window;
  causal.causal = Causal::top_left;
  window = causal, window.window = Window{9, 0};
  const auto a = random_problem(shape, 3, {}, causal), b = with_mask(a, window), c = random_problem(shape, 4);
  Recipe recipe;
  recipe.Br = 8, recipe.Bc = 6;
  const auto found = first_difference(a, recipe, b, recipe, 0, true);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->row, 10);  // the first row that the window cuts off from key 0
  EXPECT_EQ(Schedule(shape, causal, recipe).step(found->K - 1).stage, Stage::mask);
  Trace x(a, recipe), y(c, recipe);
  const std::int64_t K = *x.schedule().find(0, 0, 0, Stage::load_k) + 1;
  const Differences d = differences(x.schedule(), x.seek(K), y.schedule(),
                                    y.seek(paired_state(x.schedule(), K, y.schedule())), tolerance_for(*a));
  EXPECT_EQ(d.inputs, "Q K");
  EXPECT_EQ(d.count, 0);
  const auto smaller = random_problem({1, 1, 24, 23, 4, 4, DType::float32}, 3);
  EXPECT_THROW(first_difference(a, recipe, smaller, recipe, 0, true), InputError);
}

TEST(FirstDifference, of_lse_is_found_at_finish) {
  const auto problem = random_problem({1, 1, 24, 24, 4, 4, DType::float32}, 3);
  Recipe a, b;
  a.Br = a.Bc = b.Br = b.Bc = 8;
  b.defect = Defect::lse_base2;
  const auto found = first_difference(problem, a, b, 0, true);
  ASSERT_TRUE(found);
  Trace x(problem, a), y(problem, b);
  const TraceState state = x.seek(found->K);
  EXPECT_EQ(state.step->stage, Stage::finish);
  const Differences d =
      differences(x.schedule(), state, y.schedule(), y.seek(paired_state(x.schedule(), found->K, y.schedule())),
                  tolerance_for(*problem));
  EXPECT_EQ(std::count(d.LSE.begin(), d.LSE.end(), 1), 8);
  EXPECT_EQ(d.count, 8);
}

TEST(FirstDifference, can_be_cancelled) {
  const Pair pair = pairs().front();
  std::stop_source source;
  source.request_stop();
  SearchOptions options;
  options.stop = source.get_token();
  EXPECT_THROW(first_difference(pair.problem, pair.a, pair.b, 0, true, options), Cancelled);
}

}  // namespace
}  // namespace flashscope
