#include "engine/insight/sweep.h"

#include <cmath>
#include <random>

#include "engine/error.h"
#include "support.h"

namespace flashscope::testing {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(engine_); }
  template <class Enum>
  Enum choice() {
    return static_cast<Enum>(number(0, static_cast<std::int64_t>(choices<Enum>().size()) - 1));
  }
  Shape shape() {
    Shape shape;
    shape.kv_heads = number(1, 2), shape.heads = shape.kv_heads * number(1, 2);
    shape.Nq = number(1, 90), shape.Nk = chance(0.5) ? shape.Nq : number(1, 90);
    shape.d = number(1, 20), shape.dv = chance(0.5) ? shape.d : number(1, 20);
    shape.type = static_cast<DType>(number(0, 3));
    return shape;
  }
  Mask mask(const Shape& shape, bool files) {
    Mask mask;
    mask.causal = static_cast<Causal>(number(0, 2));
    if (chance(0.4)) mask.window = Window{number(0, 40), number(0, 40)};
    if (files && chance(0.5)) {
      KeepMask keep = make_keep_mask(chance(0.5) ? 1 : shape.heads, chance(0.3) ? 1 : shape.Nq, shape.Nk);
      for (std::int64_t h = 0; h < keep.heads; ++h)
        for (std::int64_t r = 0; r < keep.rows; ++r)
          for (std::int64_t c = 0; c < keep.cols; ++c)
            if (chance(0.6)) set_keep(keep, h, r, c);
      mask.keep = std::make_shared<const KeepMask>(std::move(keep));
    }
    if (files && chance(0.4)) {
      Bias bias;
      bias.rows = shape.Nq, bias.cols = chance(0.3) ? 1 : shape.Nk;
      for (std::int64_t n = 0; n < bias.rows * bias.cols; ++n)
        bias.f32.push_back(chance(0.2) ? -std::numeric_limits<float>::infinity() : 0.5f);
      mask.bias = std::make_shared<const Bias>(std::move(bias));
    }
    return mask;
  }
  Recipe recipe() {
    Recipe recipe;
    recipe.algorithm = choice<Algorithm>();
    recipe.Br = number(1, 100), recipe.Bc = number(1, 100);
    recipe.order = choice<Order>();
    recipe.skip = choice<Skip>();
    recipe.guard = choice<Guard>();
    if (chance(0.5)) recipe.normalise = choice<Normalise>();
    return recipe;
  }

 private:
  std::mt19937_64 engine_;
};

// Every operand, both directions, both unit systems, tiles and FLOPs.
TEST(Sweep, formula_equals_count_for_random_recipes_under_masks) {
  Random random(5);
  int compared = 0;
  for (int n = 0; n < 2000; ++n) {
    const Shape shape = random.shape();
    const Mask mask = random.mask(shape, true);
    const Recipe recipe = random.recipe();
    if (!has_closed_form(mask, recipe)) continue;
    ++compared;
    const Schedule schedule(shape, mask, recipe);
    const ElementsAndBytes moved = counted(schedule);
    const ClosedForm form = closed_form(shape, mask, recipe);
    const std::string where = text(recipe) + " N " + std::to_string(shape.Nq) + " x " + std::to_string(shape.Nk);
    EXPECT_EQ(form.elements, moved.elements) << where;
    EXPECT_EQ(form.bytes, moved.bytes) << where;
    EXPECT_EQ(form.tiles, schedule.tiles()) << where;
    EXPECT_EQ(form.matmul_flops(shape), matmul_flops(schedule)) << where;
  }
  EXPECT_GE(compared, 1500);
}

TEST(Sweep, wasted_flops_are_those_of_cells_that_no_row_sees) {
  Random random(6);
  for (int n = 0; n < 200; ++n) {
    const Shape shape = random.shape();
    const Mask mask = random.mask(shape, n % 2 == 0);
    Recipe recipe = random.recipe();
    if (!has_closed_form(mask, recipe)) recipe.skip = Skip::geometry;
    const SweepProblem problem = sweep_problem(shape, mask);
    const SweepPoint point = sweep_point(problem, recipe);

    const Band limits = band(mask, shape.Nq, shape.Nk);
    const Schedule schedule(shape, mask, recipe);
    std::int64_t visible_cells = 0, masked = 0, hanging = 0;
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      for (std::int64_t r = 0; r < shape.Nq; ++r)
        for (std::int64_t c = 0; c < shape.Nk; ++c) visible_cells += visible(mask, limits, h, r, c);
      if (recipe.algorithm == Algorithm::standard) {
        masked += shape.Nq * shape.Nk;
        continue;
      }
      for (std::int64_t i = 0; i < schedule.Tr(); ++i)
        for (std::int64_t j = 0; j < schedule.Tc(); ++j) {
          if (!schedule.visited(h, i, j)) continue;
          masked += schedule.rows(i) * schedule.cols(j);
          hanging += recipe.Br * recipe.Bc - schedule.rows(i) * schedule.cols(j);
        }
    }
    masked -= visible_cells;
    EXPECT_EQ(problem.visible, visible_cells);
    EXPECT_EQ(point.masked_flops, 2 * masked * (shape.d + shape.dv)) << text(recipe);
    EXPECT_EQ(point.ragged_flops, 2 * hanging * (shape.d + shape.dv)) << text(recipe);
  }
}

TEST(Sweep, without_a_mask_one_block_size_matters_and_with_one_both) {
  const SweepProblem plain = sweep_problem({1, 1, 1000, 1000, 64, 64, DType::float16}, {});
  Mask mask;
  mask.causal = Causal::top_left;
  const SweepProblem causal = sweep_problem(plain.shape, mask);
  const auto elements = [](const SweepProblem& problem, Algorithm algorithm, std::int64_t Br, std::int64_t Bc) {
    Recipe recipe;
    recipe.algorithm = algorithm, recipe.Br = Br, recipe.Bc = Bc;
    return sweep_point(problem, recipe).form.elements;
  };
  Random random(7);
  for (int n = 0; n < 300; ++n) {
    const std::int64_t Br = random.number(1, 300), Bc = random.number(1, 300), other = random.number(1, 300);
    EXPECT_EQ(elements(plain, Algorithm::flash2, Br, Bc), elements(plain, Algorithm::flash2, Br, other));
    EXPECT_EQ(elements(plain, Algorithm::flash1, Br, Bc), elements(plain, Algorithm::flash1, other, Bc));
  }
  EXPECT_NE(elements(causal, Algorithm::flash2, 64, 64), elements(causal, Algorithm::flash2, 64, 100));
  EXPECT_NE(elements(causal, Algorithm::flash1, 64, 64), elements(causal, Algorithm::flash1, 100, 64));
}

TEST(Sweep, block_sizes_of_the_reports) {
  const Json expected = read_json("tests/data/cases/open-20-block-size-traffic.json")["expected"];
  const SweepProblem problem = sweep_problem({1, 1, 1024, 1024, 64, 64, DType::float16}, {});
  const auto total = [&](Algorithm algorithm, std::int64_t Br, std::int64_t Bc) {
    Recipe recipe;
    recipe.algorithm = algorithm, recipe.Br = Br, recipe.Bc = Bc;
    return sweep_point(problem, recipe).form.elements.total();
  };
  for (const Json& line : expected["sweep"]) {
    const std::int64_t block = line["block"];
    // Whatever the other block size.
    EXPECT_EQ(total(Algorithm::flash1, 77, block).total(), line["k_outer_total"].get<std::int64_t>());
    EXPECT_EQ(total(Algorithm::flash2, block, 77).total(), line["q_outer_total"].get<std::int64_t>());
  }
  const auto expect = [&](const Moved& moved, const char* name) {
    EXPECT_EQ(moved.read, expected[name]["reads"].get<std::int64_t>()) << name;
    EXPECT_EQ(moved.written, expected[name]["writes"].get<std::int64_t>()) << name;
  };
  expect(total(Algorithm::standard, 64, 64), "unfused");
  expect(total(Algorithm::flash1, 128, 128), "k_outer_block_k_128");
  expect(total(Algorithm::flash2, 128, 128), "q_outer_block_q_128");
  for (const Json& line : expected["block_formula_of_the_first_paper"]["values"]) {
    const BlockSizes sizes = block_sizes(line["M_elements"], line["d"], line["d"]);
    EXPECT_EQ(sizes.Br, line["Br"].get<std::int64_t>());
    EXPECT_EQ(sizes.Bc, line["Bc"].get<std::int64_t>());
  }
}

TEST(Sweep, a_point_is_infeasible_against_a_device_only_and_says_why) {
  // Both with d = 128 and one stage: float16 128 x 128 takes 96 KiB for Q, K, V, and fits all but a T4.
  const Shape shape{1, 1, 4096, 4096, 128, 128, DType::float16};
  Recipe recipe;
  recipe.Br = recipe.Bc = 128;
  EXPECT_EQ(block_demand(shape, recipe).shared_bytes, 98304);
  EXPECT_EQ(limit_broken(shape, recipe, sheet_named("T4")), Limit::shared_memory);
  EXPECT_EQ(why_infeasible(shape, recipe, sheet_named("T4")), "96.0 KiB of shared memory a block, T4 has 64 KiB");
  for (const char* fits : {"RTX 4090", "A100 40GB", "H200"})
    EXPECT_EQ(why_infeasible(shape, recipe, sheet_named(fits)), "") << fits;
  recipe.Br = 528, recipe.Bc = 16;
  EXPECT_EQ(limit_broken(shape, recipe, sheet_named("H200")), Limit::threads);
  EXPECT_EQ(why_infeasible(shape, recipe, sheet_named("H200")),
            "1056 threads a block (a warp for 16 rows), H200 has 1024");
  // flash1 keeps S and O in shared memory too.
  recipe.algorithm = Algorithm::flash1, recipe.Br = recipe.Bc = 128;
  EXPECT_EQ(block_demand(shape, recipe).shared_bytes, on_chip(shape, recipe).total());
  EXPECT_EQ(limit_broken(shape, recipe, HardwareSheet{}), Limit::none);  // a sheet that says nothing
  recipe.algorithm = Algorithm::standard;
  EXPECT_EQ(limit_broken(shape, recipe, sheet_named("T4")), Limit::none);
}

// The floor is the problem's: the mask lowers it, block sizes do not.
TEST(Sweep, the_floor_counts_visible_scores_and_every_tensor_once) {
  const Shape shape{16, 16, 4096, 4096, 64, 64, DType::bfloat16};
  Mask causal;
  causal.causal = Causal::top_left;
  const HardwareSheet& h200 = sheet_named("H200");
  EXPECT_DOUBLE_EQ(time_floor(sweep_problem(shape, {}), h200)->seconds, 4.0 * 4096 * 4096 * 64 * 16 / 989.5e12);
  EXPECT_DOUBLE_EQ(time_floor(sweep_problem(shape, causal), h200)->seconds,
                   4.0 * (4096.0 * 4097 / 2) * 64 * 16 / 989.5e12);
  const Shape decode{16, 16, 1, 4096, 64, 64, DType::bfloat16};  // one row: K and V once
  const TimeFloor floor = time_floor(sweep_problem(decode, {}), h200).value();
  EXPECT_FALSE(floor.by_peak);
  EXPECT_DOUBLE_EQ(floor.seconds, 16.0 * 2 * (2 * 4096 * 64 + 2 * 64) / 4.8e12);
}

TEST(Sweep, axes) {
  EXPECT_EQ(axis_values({16, 64, 4, false}), (std::vector<std::int64_t>{16, 32, 48, 64}));
  EXPECT_EQ(axis_values({1, 1000, 4, true}), (std::vector<std::int64_t>{1, 10, 100, 1000}));
  EXPECT_EQ(axis_values({7, 7, 1, true}), (std::vector<std::int64_t>{7}));
  EXPECT_THROW(axis_values({0, 4, 2, false}), InputError);
  EXPECT_THROW(axis_values({5, 4, 2, false}), InputError);
  EXPECT_THROW(axis_values({1, 4, 0, false}), InputError);
}

TEST(Sweep, a_map_holds_its_points_whatever_the_number_of_threads) {
  Mask mask;
  mask.causal = Causal::bottom_right;
  const SweepProblem problem = sweep_problem({2, 1, 700, 900, 64, 32, DType::bfloat16}, mask);
  const HardwareSheet& device = sheet_named("L4");
  Recipe recipe;
  for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2}) {
    recipe.algorithm = algorithm;
    for (int m = 0; m < kMeasures; ++m) {
      const Selection selection{static_cast<Measure>(m), Direction::read, Operand::K};
      EXPECT_FALSE(title(selection).empty());
      const SweepMap map = sweep_map(problem, recipe, {1, 900, 13, true}, {8, 512, 9, false}, selection, &device, 3);
      ASSERT_EQ(map.values.size(), 13u * 9u);
      EXPECT_EQ(map.values, sweep_map(problem, recipe, {1, 900, 13, true}, {8, 512, 9, false}, selection).values);
      for (std::size_t row = 0; row < map.Br.size(); ++row)
        for (std::size_t col = 0; col < map.Bc.size(); ++col) {
          Recipe at = recipe;
          at.Br = map.Br[row], at.Bc = map.Bc[col];
          EXPECT_EQ(map.at(row, col), value(sweep_point(problem, at), problem, at, selection));
          EXPECT_EQ(map.limits[row * map.Bc.size() + col], limit_broken(problem.shape, at, device));
        }
    }
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(sweep_map(problem, recipe, {1, 900, 13, true}, {8, 512, 9, false}, {}, nullptr, 0, stop.get_token()),
               Cancelled);
}

TEST(Sweep, intensity_is_flops_over_bytes_in_kernel_units) {
  const SweepProblem problem = sweep_problem({1, 1, 8192, 8192, 128, 128, DType::float16}, {});
  Recipe recipe;
  recipe.algorithm = Algorithm::standard;
  const Json interview = read_json("tests/data/seed_figures.json")["interview_bytes"];
  EXPECT_DOUBLE_EQ(sweep_point(problem, recipe).intensity(),
                   interview["matmul_flops"].get<double>() / interview["materializing_total"].get<double>());
}

}  // namespace
}  // namespace flashscope::testing
