// Cells to colours: ranges from finite values only, and nothing alarming lost to scaling.
#include "viz/heat_image.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "naive_stage.h"
#include "viz/tile_grid.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

HeatSource source(const std::vector<double>& values, std::int64_t rows, std::int64_t cols) {
  HeatSource s;
  s.f64 = values.data();
  s.rows = rows, s.cols = cols, s.row_stride = cols, s.col_stride = 1;
  return s;
}

TEST(HeatImage, RangeIsOfFiniteValues) {
  const std::vector<double> values = {kNan, -kInf, -2, 3, kInf, 0.5};
  const Range range = finite_range(source(values, 2, 3));
  EXPECT_TRUE(range.any);
  EXPECT_EQ(range.low, -2);
  EXPECT_EQ(range.high, 3);
  const std::vector<double> nothing = {kNan, kInf};
  EXPECT_FALSE(finite_range(source(nothing, 1, 2)).any);
}

TEST(HeatImage, MarksTellSpecialValuesApart) {
  const Range range{0, 10, true};
  EXPECT_EQ(heat_texel(kNan, true, range).mark, Mark::nan);
  EXPECT_EQ(heat_texel(kNan, false, range).mark, Mark::nan);  // a masked NaN still spreads
  EXPECT_EQ(heat_texel(kInf, true, range).mark, Mark::plus_inf);
  EXPECT_EQ(heat_texel(-kInf, true, range).mark, Mark::minus_inf);
  EXPECT_EQ(heat_texel(-kInf, false, range).mark, Mark::masked);
  EXPECT_EQ(heat_texel(0, false, range).mark, Mark::masked);
  EXPECT_EQ(heat_texel(-10000, false, range).mark, Mark::masked_value);  // a sentinel is used, so it is shown
  EXPECT_EQ(heat_texel(0, true, range).index, 0);
  EXPECT_EQ(heat_texel(10, true, range).index, 255);
  EXPECT_EQ(heat_texel(5, true, {5, 5, true}).index, 128);  // no span: the middle
}

TEST(HeatImage, OneNaNInAMillionIsSeen) {
  std::vector<double> values(1000 * 1000, 1.0);
  values[777 * 1000 + 123] = kNan;
  values[10 * 1000 + 990] = kInf;
  const HeatImage image = heat_image(source(values, 1000, 1000), {0, 1000, 0, 1000}, 37, 53, {0, 1, true});
  ASSERT_EQ(image.width, 37);
  ASSERT_EQ(image.height, 53);
  int nan = 0, inf = 0;
  for (const HeatTexel& texel : image.texels) nan += texel.mark == Mark::nan, inf += texel.mark == Mark::plus_inf;
  EXPECT_EQ(nan, 1);
  EXPECT_EQ(inf, 1);
  EXPECT_EQ(image.texels[(777 * 53 / 1000) * 37 + 123 * 37 / 1000].mark, Mark::nan);
}

TEST(HeatImage, WindowTakesItsCells) {
  std::vector<double> values(20);
  for (std::size_t n = 0; n < values.size(); ++n) values[n] = static_cast<double>(n);
  const HeatImage image = heat_image(source(values, 4, 5), {1, 2, 3, 2}, 100, 100, {0, 255, true});
  ASSERT_EQ(image.texels.size(), 4u);
  EXPECT_EQ(image.texels[0].index, 8);
  EXPECT_EQ(image.texels[3].index, 14);
}

TEST(HeatImage, KIsDrawnTransposed) {
  StageData data;
  auto state = std::make_shared<TraceState>();
  state->K_tile = {2, 3, {1, 2, 3, 4, 5, 6}};
  data.state = state;
  const HeatSource k = heat_source(data, ChipBuffer::K);
  EXPECT_EQ(k.rows, 3);
  EXPECT_EQ(k.cols, 2);
  EXPECT_EQ(k.at(2, 1), 6);
  EXPECT_EQ(k.at(0, 1), 4);
  EXPECT_TRUE(heat_source(data, ChipBuffer::S).empty());
}

TEST(HeatImage, NotReachedIsNotNaN) {
  StageData data;
  data.schedule = std::make_shared<Schedule>(Shape{1, 1, 8, 8, 4, 4}, Mask{}, [] {
    Recipe recipe;
    recipe.Br = recipe.Bc = 2;
    return recipe;
  }());
  auto map = std::make_shared<ScanMap>();
  map->rows = map->cols = 4, map->row_block_done = {1, 1, 0, 0};
  data.map = map;
  data.o_row_norm = std::make_shared<std::vector<float>>(8, std::nanf(""));
  const HeatImage image = heat_image(heat_source(data, ChipBuffer::o_norm), {0, 8, 0, 1}, 10, 8, {});
  for (int r = 0; r < 8; ++r) EXPECT_EQ(image.texels[r].mark, r < 4 ? Mark::nan : Mark::absent) << r;
}

TEST(HeatImage, StandardsScoresAreMaskedByTheProblem) {
  Recipe recipe;
  recipe.algorithm = Algorithm::standard, recipe.Br = 4;
  Mask mask;
  mask.causal = Causal::top_left;
  const auto run = test::make_run({1, 1, 8, 8, 4, 4}, recipe, mask);
  StageData data = test::naive_stage(run, *run.schedule->find(0, 1, -1, TraceStage::mask) + 1);
  auto state = std::make_shared<TraceState>(*data.state);
  state->visible.clear();  // a strip of all keys comes without it
  data.state = state;
  const HeatSource S = heat_source(data, ChipBuffer::S);
  const HeatImage image = heat_image(S, {0, 4, 0, 8}, 100, 100, finite_range(S));
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 8; ++c) EXPECT_EQ(image.texels[r * 8 + c].mark, c <= r + 4 ? Mark::value : Mark::masked);
  state->K_tile = {}, state->step->stage = TraceStage::scores;
  EXPECT_EQ(heat_source(data, ChipBuffer::K).at(3, 7), run.problem->K().at(0, 7, 3));
  EXPECT_TRUE(heat_source(data, ChipBuffer::V).empty());
}

TEST(TileGrid, AWindowIsAPartOfTheWhole) {
  Recipe recipe;
  recipe.Br = 16, recipe.Bc = 24;
  Mask mask;
  mask.causal = Causal::top_left;
  const Schedule schedule({1, 1, 500, 500, 16, 16}, mask, recipe);
  const TileGrid all = tile_grid(schedule, 0, {0, schedule.Tr(), 0, schedule.Tc()}, 500, 500);
  const TileGrid part = tile_grid(schedule, 0, {5, 9, 3, 8}, 500, 500);
  ASSERT_EQ(part.width, 8);
  ASSERT_EQ(part.height, 9);
  for (int y = 0; y < 9; ++y)
    for (int x = 0; x < 8; ++x) EXPECT_EQ(part.texels[y * 8 + x].look, all.texels[(y + 5) * all.width + x + 3].look);
}

TEST(TileGrid, LooksAreTheSchedules) {
  for (const Skip skip : {Skip::geometry, Skip::none}) {
    Recipe recipe;
    recipe.Br = 64, recipe.Bc = 100, recipe.skip = skip;
    Mask mask;
    mask.causal = Causal::top_left;
    const Schedule schedule({1, 1, 300, 300, 16, 16}, mask, recipe);
    const TileGrid grid = tile_grid(schedule, 0, {0, schedule.Tr(), 0, schedule.Tc()}, 500, 500);
    ASSERT_EQ(grid.width, schedule.Tc());
    ASSERT_EQ(grid.height, schedule.Tr());
    for (std::int64_t i = 0; i < schedule.Tr(); ++i)
      for (std::int64_t j = 0; j < schedule.Tc(); ++j) {
        const TileLook look = grid.texels[i * grid.width + j].look;
        const TileClass kind = schedule.tile_class(0, i, j);
        EXPECT_EQ(look == TileLook::skipped, !schedule.visited(0, i, j));
        EXPECT_EQ(look == TileLook::full, kind == TileClass::full);
        EXPECT_EQ(look == TileLook::partial, kind == TileClass::partial);
      }
  }
}

TEST(TileGrid, ANaNTileSurvivesScalingDown) {
  const Schedule schedule({1, 1, 4096, 4096, 16, 16}, {}, {});
  ScanMap map;
  map.rows = map.cols = 64;
  map.cells.assign(64 * 64, MapCell{1, 0, 0.1f, 0});
  map.cells[40 * 64 + 9].nan_cells = 3;
  map.min_score = map.max_score = 1, map.max_nan = 3;
  TileGrid grid = tile_grid(schedule, 0, {0, 64, 0, 64}, 10, 10);
  colour_tiles(grid, &map, MapColour::nan_count);
  for (int y = 0; y < 10; ++y)
    for (int x = 0; x < 10; ++x) {
      EXPECT_EQ(grid.texels[y * 10 + x].index, y == 6 && x == 1 ? 255 : 1) << y << " " << x;
      EXPECT_EQ(grid.texels[y * 10 + x].nan, y == 6 && x == 1) << y << " " << x;
    }
  map.cells[0].largest_score = std::nanf("");
  grid = tile_grid(schedule, 0, {0, 64, 0, 64}, 64, 64);
  colour_tiles(grid, &map, MapColour::nan_count);
  EXPECT_EQ(grid.texels[0].index, 0);  // not reached
}

// The shader's order of tiles is the schedule's.
TEST(TileMap, DoneIsWhatTheScheduleHasFolded) {
  for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2})
    for (const Order order : {Order::forward, Order::reverse}) {
      Recipe recipe;
      recipe.algorithm = algorithm, recipe.order = order, recipe.Br = 3, recipe.Bc = 2;
      Mask mask;
      mask.causal = Causal::top_left;
      const Schedule schedule({1, 1, 11, 11, 4, 4}, mask, recipe);
      for (std::int64_t K = 1; K <= schedule.steps(); ++K) {
        TraceState state;
        state.K = K, state.step = schedule.step(K - 1), state.i = state.step->i, state.j = state.step->j;
        const WalkPlace place = walk_place(schedule, state);
        std::int64_t current = -1;  // ordinal of the tile now; before the first tile of a block: of the next
        for (std::int64_t k = K - 1; k < schedule.steps() && current < 0; ++k) current = schedule.step(k).tile;
        if (current < 0) current = schedule.tiles();
        for (std::int64_t i = 0; i < schedule.Tr(); ++i)
          for (std::int64_t j = 0; j < schedule.Tc(); ++j) {
            if (!schedule.visited(0, i, j)) continue;
            const double by_order = static_cast<double>(order == Order::reverse ? schedule.Tc() - 1 - j : j);
            const double outer = algorithm == Algorithm::flash1 ? by_order : static_cast<double>(i);
            const double inner = algorithm == Algorithm::flash1 ? static_cast<double>(i) : by_order;
            const bool done = outer < place.outer || (outer == place.outer && inner < place.inner);
            EXPECT_EQ(done, schedule.tile_ordinal(0, i, j) < current)
                << name(algorithm) << " K " << K << " tile " << i << " " << j;
          }
      }
    }
}

TEST(Words, NumbersAreShortAndExact) {
  EXPECT_EQ(number(0.03514), "0.03514");
  EXPECT_EQ(number(-kInf), "-inf");
  EXPECT_EQ(number(kNan), "NaN");
  EXPECT_EQ(number(-0.0), "0");
  EXPECT_EQ(bytes(1023), "1023 B");
  EXPECT_EQ(bytes(8192), "8 KiB");
  EXPECT_EQ(bytes(1445888), "1.4 MiB");
  EXPECT_EQ(count(17383424), "17,383,424");
  EXPECT_EQ(count(-1000), "-1,000");
  EXPECT_EQ(count(999), "999");
  EXPECT_EQ(exact(DType::float32, 0.1f), "0.100000001");
}

}  // namespace
}  // namespace flashscope::viz
