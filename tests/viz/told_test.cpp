// What the stage says in words: every equation of the formula line holds, quantities name their unit and scope, and
// what must be read is never the part that is cut off.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <regex>

#include "engine/attention/trace.h"
#include "naive_stage.h"
#include "viz/formula_line.h"
#include "viz/scene.h"
#include "viz/tile_grid.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

using test::scene_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A state by the engine itself.
struct Engine {
  std::shared_ptr<const Problem> problem;
  Recipe recipe;
  StageData at(std::int64_t K) const {
    Trace trace(problem, recipe);
    StageData data;
    data.problem = problem;
    data.schedule = std::make_shared<const Schedule>(problem->shape(), problem->mask, recipe);
    data.state = std::make_shared<const TraceState>(trace.seek(K));
    return data;
  }
  StageData at(TraceStage stage, std::int64_t i, std::int64_t j) const {
    return at(*Schedule(problem->shape(), problem->mask, recipe).find(0, i, j, stage) + 1);
  }
};
Engine causal(Algorithm algorithm, Guard guard, Order order, std::int64_t N = 60) {
  Mask mask;
  mask.causal = Causal::top_left;
  Engine engine;
  engine.problem = random_problem({1, 1, N, N, 4, 4, DType::float32}, 3, {}, mask);
  engine.recipe.algorithm = algorithm, engine.recipe.guard = guard, engine.recipe.order = order;
  engine.recipe.Br = 20, engine.recipe.Bc = 12;
  return engine;
}

std::string words(const Scene& scene) {
  std::string all;
  for (const Item& item : scene.items)
    if (const auto* text = std::get_if<Text>(&item)) all += text->text + "\n";
  return all;
}

double value_of(const std::string& word) {
  if (word == "NaN") return std::nan("");
  return std::strtod(word.c_str(), nullptr);  // also "-inf"
}

// exp(a - b) = c, as often as it stands in the text.
int expect_equations_hold(const std::string& text) {
  static const std::regex equation(R"(exp\((-?inf|NaN|-?[0-9][^ ()]*) - (-?inf|NaN|-?[0-9][^ ()]*)\) = ([^ ]+))");
  int found = 0;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), equation); at != std::sregex_iterator(); ++at) {
    const double a = value_of((*at)[1]), b = value_of((*at)[2]), c = value_of((*at)[3]), is = std::exp(a - b);
    ++found;
    EXPECT_EQ(std::isnan(is), std::isnan(c)) << text;
    if (!std::isnan(is)) {
      const double relative = std::isfinite(a) ? 2e-3 * std::max(1.0, std::abs(a)) : 0;
      EXPECT_NEAR(is, c, relative * is + 1e-6) << text;
    }
  }
  return found;
}

TEST(Told, EveryExponentialHoldsUnderEveryGuard) {
  for (const Guard guard : {Guard::none, Guard::clamp, Guard::skip})
    for (const Order order : {Order::forward, Order::reverse})
      for (const Numerators numerators : {Numerators::running, Numerators::tile}) {
        Engine engine = causal(Algorithm::flash2, guard, order);
        engine.recipe.numerators = numerators, engine.recipe.skip = Skip::none;
        SCOPED_TRACE(fmt::format("guard {}, {}, numerators {}", name(guard), name(order), name(numerators)));
        const Schedule schedule(engine.problem->shape(), engine.problem->mask, engine.recipe);
        int found = 0;
        for (std::int64_t K = 1; K <= schedule.steps(); ++K) {
          const Step step = schedule.step(K - 1);
          if (step.stage != TraceStage::exponentials && step.stage != TraceStage::rescale) continue;
          const StageData data = engine.at(K);
          for (std::int64_t r = 0; r < data.state->rows; r += 3)
            for (const std::string& text : formula_line(data, data.state->row0 + r, data.state->col0).texts)
              found += expect_equations_hold(text);
        }
        EXPECT_GT(found, 200);
      }
}

TEST(Told, TheGuardIsNamedWhereItActs) {
  const auto says = [](Guard guard, TraceStage stage) {
    const StageData data = causal(Algorithm::flash2, guard, Order::reverse).at(stage, 0, 1);
    return formula_line(data, 3, 13).texts.front();
  };
  EXPECT_EQ(says(Guard::clamp, TraceStage::exponentials),
            "row 3:  m_new = -inf, clamped to 0: P[3, 13] = exp(-inf - 0) = 0");
  EXPECT_THAT(says(Guard::clamp, TraceStage::rescale),
              HasSubstr("m_new = -inf, clamped to 0: alpha = exp(-inf - 0) = 0   l: 0 -> 0"));
  EXPECT_EQ(says(Guard::skip, TraceStage::exponentials), "row 3:  no visible key in this tile: skipped, P[3,:] = 0");
  EXPECT_THAT(says(Guard::skip, TraceStage::rescale), HasSubstr("no visible key in this tile: skipped, alpha = 1   l"));
  EXPECT_THAT(says(Guard::none, TraceStage::exponentials), HasSubstr("exp(-inf - -inf) = NaN"));
}

TEST(Told, AnEmptyRowEndsByItsPolicy) {
  Engine engine = causal(Algorithm::flash2, Guard::clamp, Order::forward);
  Mask mask;
  mask.causal = Causal::bottom_right;  // the first 20 of 60 rows see none of 40 keys
  engine.problem = random_problem({1, 1, 60, 40, 4, 4, DType::float32}, 3, {}, mask);
  engine.recipe.empty_row = EmptyRow::mean;
  const StageData data = engine.at(TraceStage::finish, 0, -1);
  ASSERT_EQ(data.state->l[2], 0);
  EXPECT_THAT(formula_line(data, 2, -1).texts.front(),
              HasSubstr(fmt::format("empty row mean: O[2, 0] = {}, LSE = -inf", number(data.state->O.at(2, 0)))));
}

TEST(Told, StandardSaysHowManyKeysAreMasked) {
  const Engine engine = causal(Algorithm::standard, Guard::clamp, Order::forward);
  const StageData data = engine.at(TraceStage::mask, 1, -1);
  EXPECT_EQ(formula_line(data, 20, -1).texts.front(), "row 20:  39 of 60 keys masked, their scores: -inf");
  EXPECT_EQ(formula_line(data, 39, -1).texts.front(), "row 39:  20 of 60 keys masked, their scores: -inf");
}

TEST(Told, StandardSkipsNothing) {
  const Engine engine = causal(Algorithm::standard, Guard::clamp, Order::forward);
  StageData data = engine.at(TraceStage::mask, 1, -1);
  data.conventions = conventions(engine.recipe, engine.problem->mask);
  const Scene scene = scene_of(data);
  EXPECT_THAT(words(scene), Not(HasSubstr("skip")));
  EXPECT_THAT(words(scene), HasSubstr("masked"));
  const TileGrid grid = tile_grid(*data.schedule, 0, {0, 3, 0, 5}, 5, 3);
  EXPECT_EQ(grid.texels[4].look, TileLook::no_key);  // rows 0..19, keys 48..59
  EXPECT_EQ(grid.texels[0].look, TileLook::partial);
  Place tile;
  tile.target = Target::map_tile, tile.row = 0, tile.col = 4;
  EXPECT_THAT(read_out(data, {}, tile), HasSubstr("no key visible\n"));
  EXPECT_THAT(words(scene_of(causal(Algorithm::flash2, Guard::clamp, Order::forward).at(20))), HasSubstr("skipped"));
}

// A tile that is gone through without a visible key is no skipped one: a NaN may be born in it.
TEST(Told, TheLegendTellsMaskedTilesFromSkippedOnes) {
  Engine engine = causal(Algorithm::flash2, Guard::none, Order::forward);
  StageData data = engine.at(20);
  data.totals = {.tiles_scanned = 11, .tiles = 11, .masked = 4, .complete = true};
  EXPECT_THAT(words(scene_of(data)), AllOf(HasSubstr("\nskipped\n"), Not(HasSubstr("\nmasked\n"))));
  data.totals.masked = 5, data.totals.nan = 1;
  EXPECT_THAT(words(scene_of(data)), AllOf(HasSubstr("\nskipped\n"), HasSubstr("\nmasked\n"), HasSubstr("\nNaN\n")));
  engine.recipe.skip = Skip::none;
  data = engine.at(20);
  data.totals = {.tiles_scanned = 15, .tiles = 15, .masked = 4, .complete = true};
  EXPECT_THAT(words(scene_of(data)), AllOf(Not(HasSubstr("\nskipped\n")), HasSubstr("\nmasked\n")));
}

TEST(Told, NothingIsCountedBeforeTheScan) {
  StageData data = causal(Algorithm::flash2, Guard::clamp, Order::forward).at(20);
  EXPECT_THAT(words(scene_of(data)), AllOf(HasSubstr("\nnot scanned yet\n"), Not(HasSubstr("0 NaN"))));
  data.totals = {.tiles_scanned = 1, .tiles = 9};
  EXPECT_THAT(words(scene_of(data)), AllOf(HasSubstr("\nscanned 11 %\n"), HasSubstr("\n0 NaN\n")));
}

TEST(Told, TheChipsSayWhatTheConventionsLineSays) {
  for (const Guard guard : {Guard::none, Guard::skip}) {
    const Engine engine = causal(Algorithm::flash2, guard, Order::forward);
    StageData data = engine.at(20);
    data.conventions = conventions(engine.recipe, engine.problem->mask);
    const std::string said = words(scene_of(data));
    const bool none = guard == Guard::none;
    EXPECT_THAT(said, HasSubstr(none ? "\nempty row as computed\n" : "\nempty row zero\n"));
    EXPECT_THAT(said, Not(HasSubstr(none ? "empty row zero" : "as computed")));
    EXPECT_THAT(said, HasSubstr("\nLSE natural log\n"));
  }
}

struct FourHeads {
  test::Run run;
  StageData data;
  explicit FourHeads(Order order = Order::forward) {
    Recipe recipe;
    recipe.Br = 128, recipe.order = order;
    Mask mask;
    mask.causal = Causal::top_left;
    run = test::make_run({4, 2, 1024, 1024, 64, 64, DType::float16}, recipe, mask);
    data = test::naive_stage(run, *run.schedule->find(0, 3, 1, TraceStage::rescale) + 1);
  }
};

TEST(Told, TrafficHasOneUnitAndOneScope) {
  FourHeads four;
  four.data.traffic_so_far.elements = {}, four.data.traffic_total.elements = {};
  four.data.traffic_so_far.elements[Operand::Q].read = 20'480;
  four.data.traffic_total.elements[Operand::Q].read = 722'000;
  four.data.minimum.elements = {500'000, 24'000};
  four.data.standard_elements_so_far = 0, four.data.standard_elements_total = 4'000'000;
  const std::string said = words(scene_of(four.data));
  EXPECT_THAT(said, HasSubstr("\nelements\n20.5 k of 722 k\nso far"));
  EXPECT_THAT(said, HasSubstr("4 M\nstandard, formula\n722 k\nthis run, counted\n524 k\nI/O minimum, bound\n"));
}

// Reads of the mask itself are no negative saving.
TEST(Told, WhatAMaskReadsIsSaidBesideTheSaving) {
  FourHeads four;
  four.data.saving = {4'000'000, 1'000'000, 1'000'009};  // no tile is skipped
  four.data.traffic_total.elements[Operand::mask].read = 2;
  four.data.traffic_total.elements[Operand::bias].read = 7;
  EXPECT_THAT(words(scene_of(four.data)), HasSubstr("tiling 3 M, skip 0, mask +9\n"));
  four.data.saving.run = 1'000'000;
  four.data.traffic_total.elements[Operand::mask] = four.data.traffic_total.elements[Operand::bias] = {};
  EXPECT_THAT(words(scene_of(four.data)), HasSubstr("saved: tiling 3 M, skipping 0\n"));
}

TEST(Told, OnChipIsTheSumOfItsBuffers) {
  FourHeads four;
  std::int64_t sum = 0;
  for (const auto& buffer : four.data.on_chip.buffers) sum += buffer.bytes;
  EXPECT_THAT(words(scene_of(four.data)), HasSubstr("\n" + bytes(sum) + ", no budget set\n"));
}

TEST(Told, BytesInHbmNameTheirHeads) {
  FourHeads four;
  const std::string said = words(scene_of(four.data, 1920, 1080));
  EXPECT_THAT(said, HasSubstr("1024 x 64 float16, 128 KiB a head\n"));
  EXPECT_THAT(said, HasSubstr("2 MiB a head\n"));
  EXPECT_THAT(said, HasSubstr("all 4 heads: " + bytes(four.data.footprint.total()) + ", not "));
  EXPECT_THAT(said, Not(HasSubstr("KiB each")));
}

TEST(Told, ALongNameIsCutBeforeTheHead) {
  FourHeads four;
  four.data.title = "a name that is much too long for its place, layer 1";
  for (const auto& [w, h] : {std::pair{1280.f, 720.f}, {1920.f, 1080.f}, {800.f, 500.f}})
    EXPECT_THAT(words(scene_of(four.data, w, h)), HasSubstr("\nhead 0 of 4\n")) << w;
}

TEST(Told, TheOrderIsSaidHoweverLittleRoomThereIs) {
  FourHeads four(Order::reverse);
  for (const float width : {1920.f, 1280.f, 1000.f, 860.f, 700.f})
    EXPECT_THAT(words(scene_of(four.data, width)), HasSubstr("reverse\n")) << width;
}

TEST(Told, OfTwoRecipesTheNumbersAreTheLeftOnes) {
  FourHeads four;
  auto other = std::make_shared<StageData>(four.data);
  Recipe recipe = four.data.schedule->recipe();
  recipe.guard = Guard::none;
  other->schedule = std::make_shared<const Schedule>(four.run.problem->shape(), four.run.problem->mask, recipe);
  four.data.beside = other;
  const std::string said = words(scene_of(four.data));
  for (const char* label : {"left: row ", "left: step ", "Tiles, left\n", "left: flash2, guard clamp\n",
                            "right: flash2, guard none\n", "\nelements, left\n"})
    EXPECT_THAT(said, HasSubstr(label));
}

TEST(Told, TheRowThatWasFoundIsTold) {
  FourHeads four;
  four.data.pinned_rows = {400};
  four.data.found_row = 397;
  EXPECT_EQ(focus_row(four.data, -1), 397);
  EXPECT_EQ(focus_row(four.data, 402), 402);  // the pointed one
  four.data.found_row = 9;                    // not on the chip
  EXPECT_EQ(focus_row(four.data, -1), 400);
}

TEST(Told, NoticesHideNeitherStepsNorFormulaNorStrip) {
  FourHeads four;
  for (const auto& [w, h] : {std::pair{1280.f, 720.f}, {1920.f, 1080.f}, {800.f, 500.f}})
    for (const bool two : {false, true}) {
      const Rect room = notice_place(w, h, 1, two);
      const Rect note{room.x, room.bottom() - 60, room.w, 60};
      EXPECT_GT(room.w, 200) << w;
      const Scene scene = scene_of(four.data, w, h);
      for (const Hit& hit : scene.hits) {
        const bool apart = hit.rect.bottom() <= note.y || hit.rect.y >= note.bottom();
        if (hit.target == Target::stage || hit.target == Target::strip || hit.target == Target::convention) {
          EXPECT_TRUE(apart) << w << " " << two;
        }
      }
      EXPECT_GT(note.y, 104 * unit_of(w, h, 1));  // the formula line ends there
    }
}

}  // namespace
}  // namespace flashscope::viz
