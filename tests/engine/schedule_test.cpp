// The walk by number against a walk by loops.
#include "engine/attention/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "engine/attention/staircase.h"

namespace flashscope {
namespace {

// Every step of the walk, by the loops of its definition: heads, then blocks, then stages.
std::vector<Step> walk_by_loops(const Shape& shape, const Mask& mask, const Recipe& recipe) {
  const std::int64_t Tr = (shape.Nq + recipe.Br - 1) / recipe.Br, Tc = (shape.Nk + recipe.Bc - 1) / recipe.Bc;
  const Band limits = band(mask, shape.Nq, shape.Nk);
  const auto any = [&](std::int64_t h, std::int64_t i, std::int64_t j, bool with_files) {
    Mask used = mask;
    if (!with_files) used.keep.reset(), used.bias.reset();
    for (std::int64_t r = i * recipe.Br; r < std::min((i + 1) * recipe.Br, shape.Nq); ++r)
      for (std::int64_t c = j * recipe.Bc; c < std::min((j + 1) * recipe.Bc, shape.Nk); ++c)
        if (visible(used, limits, h, r, c)) return true;
    return false;
  };
  const auto visited = [&](std::int64_t h, std::int64_t i, std::int64_t j) {
    return recipe.skip == Skip::none || any(h, i, j, recipe.skip == Skip::all);
  };
  std::vector<std::int64_t> columns;
  for (std::int64_t j = 0; j < Tc; ++j) columns.push_back(recipe.order == Order::reverse ? Tc - 1 - j : j);
  using enum Stage;
  std::vector<Step> steps;
  std::int64_t tile = 0;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    if (recipe.algorithm == Algorithm::flash2) {
      for (std::int64_t i = 0; i < Tr; ++i) {
        steps.push_back({h, i, -1, load_q, -1});
        for (const std::int64_t j : columns) {
          if (!visited(h, i, j)) continue;
          for (Stage stage : {load_k, scores, Stage::mask, max, exponentials, rescale, load_v, accumulate})
            steps.push_back({h, i, j, stage, tile});
          ++tile;
        }
        steps.push_back({h, i, -1, finish, -1});
        steps.push_back({h, i, -1, store, -1});
      }
    } else if (recipe.algorithm == Algorithm::flash1) {
      for (const std::int64_t j : columns) {
        bool loaded = false;
        for (std::int64_t i = 0; i < Tr; ++i) {
          if (!visited(h, i, j)) continue;
          if (!loaded) steps.push_back({h, -1, j, load_kv, -1});
          loaded = true;
          for (Stage stage : {load_rows, scores, Stage::mask, max, exponentials, rescale, accumulate, store_rows})
            steps.push_back({h, i, j, stage, tile});
          ++tile;
        }
      }
      for (std::int64_t i = 0; i < Tr; ++i) steps.push_back({h, i, -1, finish, -1});
    } else {
      const auto pass = [&](std::initializer_list<Stage> stages) {
        for (std::int64_t i = 0; i < Tr; ++i)
          for (Stage stage : stages) steps.push_back({h, i, -1, stage, h * Tr + i});
      };
      pass({load_q, scores, Stage::mask, store_s});
      pass({load_s, softmax, store_p});
      pass({load_p, accumulate, store_o});
    }
  }
  return steps;
}

std::string text(const Step& s) {
  std::ostringstream out;
  out << "head " << s.head << " i " << s.i << " j " << s.j << " " << name(s.stage) << " tile " << s.tile;
  return out.str();
}

struct RandomCase {
  Shape shape;
  Mask mask;
  Recipe recipe;
};

RandomCase random_case(std::mt19937& random) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  RandomCase c;
  c.shape = {pick(1, 2), 1, pick(1, 30), pick(1, 30), 4, 4, DType::float32};
  c.mask.causal = static_cast<Causal>(pick(0, 2));
  if (pick(0, 2) == 0) c.mask.window = Window{pick(0, 12), pick(0, 12)};
  if (pick(0, 2) == 0) {
    auto keep = std::make_shared<KeepMask>(make_keep_mask(pick(0, 1) ? c.shape.heads : 1, c.shape.Nq, c.shape.Nk));
    for (std::int64_t n = pick(0, c.shape.Nq * c.shape.Nk / 2); n > 0; --n)
      set_keep(*keep, pick(0, keep->heads - 1), pick(0, c.shape.Nq - 1), pick(0, c.shape.Nk - 1));
    c.mask.keep = keep;
  }
  c.recipe.algorithm = static_cast<Algorithm>(pick(0, 2));
  c.recipe.order = static_cast<Order>(pick(0, 1));
  c.recipe.skip = static_cast<Skip>(pick(0, 2));
  c.recipe.Br = pick(1, 12), c.recipe.Bc = pick(1, 12);
  if (pick(0, 9) == 0) c.recipe.Br = 40;
  return c;
}

TEST(Schedule, agrees_with_the_loops_in_every_step) {
  std::mt19937 random(1);
  for (int round = 0; round < 1500; ++round) {
    const RandomCase c = random_case(random);
    const Schedule schedule(c.shape, c.mask, c.recipe);
    const auto steps = walk_by_loops(c.shape, c.mask, c.recipe);
    ASSERT_EQ(schedule.steps(), static_cast<std::int64_t>(steps.size())) << round;
    std::int64_t tiles = 0;
    for (std::size_t k = 0; k < steps.size(); ++k) {
      const Step step = schedule.step(k);
      ASSERT_EQ(step, steps[k]) << "round " << round << " step " << k << ": " << text(step) << ", by loops "
                                << text(steps[k]);
      ASSERT_EQ(schedule.find(step.head, step.i, step.j, step.stage), static_cast<std::int64_t>(k)) << text(step);
      if (step.tile >= 0) {
        tiles = std::max(tiles, step.tile + 1);
        ASSERT_EQ(schedule.tile_ordinal(step.head, step.i, step.j), step.tile);
        const Step tile = schedule.tile_at(step.tile);
        ASSERT_EQ(std::tie(tile.head, tile.i, tile.j), std::tie(step.head, step.i, step.j)) << text(step);
      }
    }
    ASSERT_EQ(schedule.tiles(), c.recipe.algorithm == Algorithm::standard ? c.shape.heads * schedule.Tr() : tiles);
  }
}

TEST(Schedule, next_tile_is_that_of_the_next_step_with_a_tile) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const RandomCase c = random_case(random);
    const Schedule schedule(c.shape, c.mask, c.recipe);
    const auto steps = walk_by_loops(c.shape, c.mask, c.recipe);
    const auto count = static_cast<std::int64_t>(steps.size());
    std::int64_t next = schedule.tiles();
    ASSERT_EQ(schedule.next_tile(count), next);
    for (std::int64_t k = count - 1; k >= 0; --k) {
      if (steps[k].tile >= 0) next = steps[k].tile;
      ASSERT_EQ(schedule.next_tile(k), next) << "round " << round << " step " << k << ": " << text(steps[k]);
    }
    for (std::int64_t h = 0; h <= c.shape.heads; ++h)
      ASSERT_EQ(schedule.head_start(h),
                std::count_if(steps.begin(), steps.end(), [h](const Step& step) { return step.head < h; }));
  }
}

TEST(Schedule, progress_counts_the_folds_that_are_done) {
  std::mt19937 random(2);
  for (int round = 0; round < 150; ++round) {
    const RandomCase c = random_case(random);
    const Schedule schedule(c.shape, c.mask, c.recipe);
    const auto steps = walk_by_loops(c.shape, c.mask, c.recipe);
    const bool standard = c.recipe.algorithm == Algorithm::standard;
    std::vector<Schedule::Progress> expected(c.shape.heads * schedule.Tr());
    for (std::int64_t K = 0; K <= schedule.steps(); ++K) {
      if (K > 0 && steps[K - 1].i >= 0) {
        const Step& step = steps[K - 1];
        auto& p = expected[step.head * schedule.Tr() + step.i];
        p.started = true;
        if (step.stage == Stage::accumulate) ++p.folded, p.finished = p.finished || standard;
        if (step.stage == Stage::finish) p.finished = true, p.stored = c.recipe.algorithm == Algorithm::flash1;
        if (step.stage == Stage::store || step.stage == Stage::store_o) p.stored = true;
      }
      for (std::int64_t h = 0; h < c.shape.heads; ++h)
        for (std::int64_t i = 0; i < schedule.Tr(); ++i) {
          const auto p = schedule.progress(K, h, i);
          const auto& e = expected[h * schedule.Tr() + i];
          ASSERT_EQ(std::tie(p.folded, p.started, p.finished, p.stored),
                    std::tie(e.folded, e.started, e.finished, e.stored))
              << "round " << round << " K " << K << " head " << h << " i " << i << " " << name(c.recipe.algorithm);
        }
    }
  }
}

TEST(Schedule, tile_class_agrees_with_the_cells) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const RandomCase c = random_case(random);
    const Schedule schedule(c.shape, c.mask, c.recipe);
    const Band limits = band(c.mask, c.shape.Nq, c.shape.Nk);
    for (std::int64_t i = 0; i < schedule.Tr(); ++i)
      for (std::int64_t j = 0; j < schedule.Tc(); ++j) {
        std::int64_t seen = 0;
        for (std::int64_t r = 0; r < schedule.rows(i); ++r)
          for (std::int64_t k = 0; k < schedule.cols(j); ++k)
            seen += visible(c.mask, limits, 0, i * c.recipe.Br + r, j * c.recipe.Bc + k);
        const TileClass expected = seen == 0                                     ? TileClass::empty
                                   : seen == schedule.rows(i) * schedule.cols(j) ? TileClass::full
                                                                                 : TileClass::partial;
        ASSERT_EQ(schedule.tile_class(0, i, j), expected) << "round " << round << " i " << i << " j " << j;
      }
  }
}

TEST(Schedule, a_million_rows_are_addressable_both_ways) {
  const std::int64_t N = 1 << 20;
  Mask causal;
  causal.causal = Causal::top_left;
  for (Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2, Algorithm::standard})
    for (std::int64_t B : {1, 64, 100}) {
      Recipe recipe;
      recipe.algorithm = algorithm, recipe.Br = B, recipe.Bc = B + 3;
      const Schedule schedule({8, 2, N, N, 64, 64, DType::float16}, causal, recipe);
      ASSERT_GT(schedule.steps(), 0);
      std::mt19937_64 random(4);
      for (int n = 0; n < 200; ++n) {
        const std::int64_t k = std::uniform_int_distribution<std::int64_t>(0, schedule.steps() - 1)(random);
        const Step step = schedule.step(k);
        ASSERT_EQ(schedule.find(step.head, step.i, step.j, step.stage), k);
      }
    }
}

TEST(Schedule, nearest_keeps_the_place_or_goes_next_to_it) {
  Mask causal;
  causal.causal = Causal::top_left;
  Recipe recipe;
  recipe.Br = 64, recipe.Bc = 64;
  const Schedule narrow({4, 2, 1024, 1024, 64, 64, DType::float16}, causal, recipe);
  const Step kept = narrow.step(narrow.nearest(2, 384, 5 * 64, Stage::rescale) - 1);
  EXPECT_EQ(std::tie(kept.head, kept.i, kept.j), std::make_tuple(2, 6, 5));
  EXPECT_EQ(kept.stage, Stage::rescale);
  // A key that this row block never visits: the last one it does.
  const Step clipped = narrow.step(narrow.nearest(2, 0, 1000, Stage::rescale) - 1);
  EXPECT_EQ(std::tie(clipped.i, clipped.j), std::make_tuple(0, 0));
  EXPECT_EQ(clipped.stage, Stage::rescale);
  // A stage that only another algorithm has.
  EXPECT_EQ(narrow.step(narrow.nearest(0, 100, 0, Stage::load_rows) - 1).stage, Stage::load_k);
}

TEST(Staircase, floor_sums_agree_with_loops) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    const std::int64_t n = pick(0, 40), m = pick(1, 20), a = pick(0, 50), b = pick(0, 50);
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += (a * i + b) / m;
    ASSERT_EQ(floor_sum(n, m, a, b), sum);
  }
}

}  // namespace
}  // namespace flashscope
