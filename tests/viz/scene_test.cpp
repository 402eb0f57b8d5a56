// The scene without OpenGL: nothing overlaps, everything is readable and inside the window, what is
// pointed at is what is told, and nothing moves that is not in the list of transfers.
#include "viz/scene.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "naive_stage.h"
#include "viz/painter.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

using testing::HasSubstr;

struct Case {
  const char* name;
  Shape shape;
  Recipe recipe;
  Mask mask;
  double width = 1280, height = 720, scale = 1;
};

Recipe recipe(Algorithm algorithm, std::int64_t Br, std::int64_t Bc, Order order = Order::forward,
              std::optional<std::int64_t> sram = {}) {
  Recipe r;
  r.algorithm = algorithm, r.Br = Br, r.Bc = Bc, r.order = order, r.sram = sram;
  return r;
}
Mask causal(Causal kind = Causal::top_left) {
  Mask mask;
  mask.causal = kind;
  return mask;
}

std::vector<Case> cases() {
  using enum Algorithm;
  return {
      {"demo", {4, 2, 1024, 1024, 64, 64, DType::float16}, recipe(flash2, 128, 64), causal()},
      {"demo_small_window", {4, 2, 1024, 1024, 64, 64, DType::float16}, recipe(flash2, 128, 64), causal(), 800, 500},
      {"demo_large", {4, 2, 512, 512, 64, 64, DType::float16}, recipe(flash2, 128, 64), causal(), 1920, 1080},
      {"demo_high_dpi", {1, 1, 512, 512, 64, 64, DType::float16}, recipe(flash2, 128, 64), causal(), 1800, 1100, 2},
      {"demo_wide", {1, 1, 512, 512, 64, 64, DType::float16}, recipe(flash2, 128, 64), causal(), 2400, 700},
      {"demo_tall", {1, 1, 512, 512, 64, 64, DType::float16}, recipe(flash2, 128, 64), causal(), 900, 1400},
      {"toy", {1, 1, 4, 4, 2, 2, DType::float32}, recipe(flash2, 2, 2), {}},
      {"toy_flash1", {1, 1, 4, 4, 2, 2, DType::float64}, recipe(flash1, 2, 2, Order::reverse), causal()},
      {"toy_standard", {1, 1, 4, 4, 2, 2, DType::float32}, recipe(standard, 2, 2), causal()},
      {"one_key", {1, 1, 1, 1, 1, 1, DType::float32}, recipe(flash2, 64, 64), {}},
      {"one_row_blocks",
       {1, 1, 2048, 2048, 64, 64, DType::bfloat16},
       recipe(flash2, 1, 1024, Order::forward, 12289),
       causal()},
      {"huge", {1, 1, 65536, 65536, 64, 64, DType::float16}, recipe(flash2, 64, 196), causal()},
      {"huge_flash1", {1, 1, 65536, 65536, 16, 16, DType::float16}, recipe(flash1, 64, 196, Order::reverse), causal()},
      {"wide_heads", {1, 1, 300, 300, 256, 256, DType::float32}, recipe(flash2, 64, 100), causal()},
      {"thin_heads", {2, 1, 300, 300, 1, 3, DType::float32}, recipe(flash1, 64, 100), causal()},
      {"decode", {8, 2, 1, 4096, 64, 32, DType::float16}, recipe(flash2, 64, 128), causal(Causal::bottom_right)},
      {"more_queries", {1, 1, 700, 90, 32, 64, DType::float32}, recipe(flash1, 64, 32), causal(Causal::bottom_right)},
      {"standard", {4, 2, 512, 512, 64, 64, DType::float16}, recipe(standard, 64, 64), causal()},
      {"standard_long", {1, 1, 256, 4096, 64, 64, DType::float16}, recipe(standard, 64, 64), {}, 1024, 640},
      {"blocks_beyond_N",
       {1, 1, 50, 60, 64, 64, DType::float32},
       recipe(flash2, 128, 256, Order::forward, 300000),
       causal()},
  };
}

// States of every stage: at the first tiles, and in the last row block that has a tile.
std::vector<std::int64_t> interesting_states(const Schedule& schedule) {
  std::vector<std::int64_t> states = {0};
  for (const std::int64_t i : {std::int64_t{0}, schedule.Tr() - 1})
    for (int n = 0; n <= static_cast<int>(TraceStage::store_o); ++n) {
      const auto stage = static_cast<TraceStage>(n);
      const std::int64_t j = schedule.visits(0, i) > 0 ? schedule.visit_j(0, i, 0) : -1;
      std::optional<std::int64_t> k = schedule.find(0, i, j, stage);
      if (!k) k = schedule.find(0, i, -1, stage);
      if (!k) k = schedule.find(0, -1, j, stage);
      // Finishing a long row block means folding all of it: only where that is quick.
      const bool long_fold = (stage == TraceStage::finish || stage == TraceStage::store) && schedule.visits(0, i) > 20;
      if (k && !long_fold) states.push_back(*k + 1);
    }
  return states;
}

SceneInput input_of(const Case& one, const StageData& data) {
  SceneInput input;
  input.width = static_cast<float>(one.width), input.height = static_cast<float>(one.height);
  input.scale = static_cast<float>(one.scale);
  input.ranges = finite_ranges(data);
  return input;
}

bool overlap(const Rect& a, const Rect& b) {
  constexpr float kSlack = 1;
  return a.x + kSlack < b.right() && b.x + kSlack < a.right() && a.y + kSlack < b.bottom() && b.y + kSlack < a.bottom();
}

std::vector<const Text*> texts(const Scene& scene, bool floating = false) {
  std::vector<const Text*> result;
  for (std::size_t n = floating ? scene.floating : 0; n < (floating ? scene.items.size() : scene.floating); ++n)
    if (const auto* text = std::get_if<Text>(&scene.items[n])) result.push_back(text);
  return result;
}

void expect_inside(const Rect& rect, const Case& one, const std::string& what) {
  EXPECT_TRUE(rect.x >= -1 && rect.y >= -1 && rect.right() <= one.width + 1 && rect.bottom() <= one.height + 1)
      << what << " at " << rect.x << ", " << rect.y << " of " << rect.w << " x " << rect.h;
}

class SceneOf : public testing::TestWithParam<Case> {};

TEST_P(SceneOf, EveryStageIsReadableAndNothingOverlaps) {
  const Case one = GetParam();
  const auto run = test::make_run(one.shape, one.recipe, one.mask);
  for (const std::int64_t K : interesting_states(*run.schedule)) {
    StageData data = test::naive_stage(run, K);
    data.pinned_rows = {0, one.shape.Nq - 1};
    const Scene scene = make_scene(data, {}, input_of(one, data));
    SCOPED_TRACE(testing::Message() << one.name << ", state " << K << ", "
                                    << (data.state->step ? name(data.state->step->stage) : "start"));
    const auto all = texts(scene);
    ASSERT_GT(all.size(), 20u);
    const float unit =
        unit_of(static_cast<float>(one.width), static_cast<float>(one.height), static_cast<float>(one.scale));
    for (const Text* text : all) {
      expect_inside(text->box, one, text->text);
      EXPECT_GE(text->size, std::floor(14 * std::min(unit, 1.f))) << text->text;
      if (text->key_number) {
        EXPECT_GE(text->size, std::floor(18 * std::min(unit, 1.f))) << text->text;
      }
    }
    for (std::size_t a = 0; a < all.size(); ++a)
      for (std::size_t b = a + 1; b < all.size(); ++b)
        EXPECT_FALSE(overlap(all[a]->box, all[b]->box)) << "'" << all[a]->text << "' and '" << all[b]->text << "'";
    for (const Item& item : scene.items) {
      if (const auto* box = std::get_if<Box>(&item)) expect_inside(box->rect, one, "a box");
      if (const auto* map = std::get_if<HeatMap>(&item)) {
        expect_inside(map->rect, one, label(map->buffer));
        EXPECT_GE(map->rect.w, 6) << label(map->buffer);
      }
      if (const auto* map = std::get_if<TileMap>(&item)) {
        expect_inside(map->rect, one, "the tile map");
        EXPECT_GE(map->rect.h, 12);
      }
    }
    for (const Hit& hit : scene.hits) expect_inside(hit.rect, one, "a hit");
  }
}

TEST_P(SceneOf, OnlyTheTransfersMove) {
  const Case one = GetParam();
  const auto run = test::make_run(one.shape, one.recipe, one.mask);
  for (const std::int64_t K : interesting_states(*run.schedule)) {
    const StageData data = test::naive_stage(run, K);
    SceneInput input = input_of(one, data);
    input.transfer = 0.4;
    const Scene scene = make_scene(data, {}, input);
    std::size_t arrows = 0;
    for (const Item& item : scene.items)
      if (const auto* path = std::get_if<Path>(&item)) arrows += path->arrow;
    EXPECT_EQ(arrows, data.transfers.size()) << one.name << ", state " << K;
    std::multiset<std::string> words;
    for (const Text* text : texts(scene, true)) words.insert(text->text);
    for (const Transfer& transfer : data.transfers) {
      EXPECT_TRUE(words.contains(tile_name(*run.schedule, transfer))) << one.name << ", state " << K;
      EXPECT_TRUE(words.contains(bytes(transfer.bytes))) << one.name << ", state " << K;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SceneOf, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

struct Demo {
  test::Run run =
      test::make_run({4, 2, 512, 512, 64, 64, DType::float16}, recipe(Algorithm::flash2, 64, 64), causal(), 0.4);
  StageData data = test::naive_stage(run, *run.schedule->find(0, 5, 3, TraceStage::mask) + 1);
  Case one{"demo", run.problem->shape(), run.schedule->recipe(), run.problem->mask};
  SceneInput input = input_of(one, data);
};

TEST(Scene, ACellIsPointedAtByItsRowAndKey) {
  Demo demo;
  const Scene plain = make_scene(demo.data, {}, demo.input);
  for (const auto& [row, key] : {std::pair{0, 0}, std::pair{17, 40}, std::pair{63, 63}}) {
    demo.input.pointer_inside = true;
    demo.input.pointer = {plain.score.x + plain.score.w * (static_cast<float>(key) + 0.5f) / 64,
                          plain.score.y + plain.score.h * (static_cast<float>(row) + 0.5f) / 64};
    const Scene scene = make_scene(demo.data, {}, demo.input);
    EXPECT_EQ(scene.pointed.target, Target::chip_cell);
    EXPECT_EQ(row_of(demo.data, scene.pointed), 320 + row);
    EXPECT_EQ(scene.pointed.col, key);
    EXPECT_EQ(scene.focus_row, 320 + row);
    EXPECT_THAT(scene.tooltip,
                HasSubstr("S[row " + std::to_string(320 + row) + ", key " + std::to_string(192 + key) + "]"));
    const double value = demo.data.state->S.at(row, key);
    EXPECT_THAT(scene.tooltip, HasSubstr(hex_bits(DType::float32, value)));
    EXPECT_THAT(scene.tooltip, HasSubstr("ulp"));
  }
}

TEST(Scene, ZoomKeepsTheCellUnderThePointerAndShowsItsNumber) {
  Demo demo;
  const Scene plain = make_scene(demo.data, {}, demo.input);
  demo.input.pointer_inside = true;
  demo.input.pointer = {plain.score.x + plain.score.w * 0.63f, plain.score.y + plain.score.h * 0.27f};
  const Place before = make_scene(demo.data, {}, demo.input).pointed;
  zoom(demo.input.camera, 0.63, 0.27, 0.05, 64, 64);
  const Scene close = make_scene(demo.data, {}, demo.input);
  EXPECT_EQ(close.pointed.row, before.row);
  EXPECT_EQ(close.pointed.col, before.col);
  bool shown = false;
  for (const Text* text : texts(close)) shown |= text->text == number(demo.data.state->S.at(before.row, before.col));
  EXPECT_TRUE(shown);
  // The strips beside it follow its rows.
  for (const Item& item : close.items)
    if (const auto* map = std::get_if<HeatMap>(&item); map && map->buffer == ChipBuffer::Q) {
      EXPECT_LT(map->rows, 6);
    }
}

TEST(Scene, ToyShowsAllItsNumbersWithoutZoom) {
  const auto run = test::make_run({1, 1, 4, 4, 2, 2, DType::float32}, recipe(Algorithm::flash2, 2, 2), {});
  const StageData data = test::naive_stage(run, *run.schedule->find(0, 1, 1, TraceStage::mask) + 1);
  Case one{"toy", run.problem->shape(), run.schedule->recipe(), {}};
  const Scene scene = make_scene(data, {}, input_of(one, data));
  std::multiset<std::string> words;
  for (const Text* text : texts(scene)) words.insert(text->text);
  for (const double value : data.state->S.values) EXPECT_TRUE(words.contains(number(value))) << value;
}

TEST(Scene, TilesTensorsAndStripTellTheirPlace) {
  Demo demo;
  const Scene scene = make_scene(demo.data, {}, demo.input);
  const auto at = [&](Target target, int what, double u, double v) {
    for (const Hit& hit : scene.hits)
      if (hit.target == target && hit.what == what)
        return place_at(
            scene, {hit.rect.x + static_cast<float>(u) * hit.rect.w, hit.rect.y + static_cast<float>(v) * hit.rect.h});
    return Place{};
  };
  const Place tile = at(Target::map_tile, 0, 3.5 / 8, 5.5 / 8);
  EXPECT_EQ(tile.row, 5);
  EXPECT_EQ(tile.col, 3);
  EXPECT_THAT(read_out(demo.data, {}, tile), HasSubstr("tile (5, 3)\nrows 320-383, keys 192-255"));
  EXPECT_THAT(read_out(demo.data, {}, at(Target::map_tile, 0, 7.5 / 8, 0.5 / 8)), HasSubstr("no key visible: skipped"));
  const Place tensor = at(Target::hbm_tile, static_cast<int>(Operand::K), 0.5, 0.5);
  EXPECT_NEAR(static_cast<double>(tensor.row), 256, 3);
  EXPECT_THAT(read_out(demo.data, {}, tensor), HasSubstr("K in HBM"));
  const auto [first, last] = head_steps(*demo.run.schedule, 0);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(last, demo.run.schedule->steps() / 4);
  EXPECT_NEAR(static_cast<double>(at(Target::strip, 0, 0.25, 0.5).K), 0.25 * static_cast<double>(last), 2);
}

TEST(Scene, EveryStageOfTheTileCanBeGoneTo) {
  Demo demo;
  const Scene scene = make_scene(demo.data, {}, demo.input);
  std::vector<std::int64_t> to;
  for (const Hit& hit : scene.hits)
    if (hit.target == Target::stage) to.push_back(hit.K);
  ASSERT_EQ(to.size(), 11u);  // load Q, eight of the tile, finish, store
  for (std::size_t n = 0; n < to.size(); ++n) {
    const Step step = demo.run.schedule->step(to[n] - 1);
    EXPECT_EQ(step.i, 5);
    if (n >= 1 && n <= 8) {
      EXPECT_EQ(step.stage, demo.run.schedule->tile_stages()[n - 1]);
    }
  }
}

TEST(Scene, TheOperationStandsBesideWhatItMakes) {
  Demo demo;
  const auto shows = [&](TraceStage stage, const std::string& words) {
    const StageData data = test::naive_stage(demo.run, *demo.run.schedule->find(0, 5, 3, stage) + 1);
    const Scene scene = make_scene(data, {}, demo.input);
    const auto all = texts(scene);
    return std::any_of(all.begin(), all.end(), [&](const Text* text) { return text->text == words; });
  };
  EXPECT_TRUE(shows(TraceStage::scores, "= scale Q K^T"));
  EXPECT_TRUE(shows(TraceStage::mask, "-inf where masked"));
  EXPECT_TRUE(shows(TraceStage::exponentials, "= exp(S - m)"));
  EXPECT_TRUE(shows(TraceStage::rescale, "*= alpha"));
  EXPECT_TRUE(shows(TraceStage::accumulate, "+= P V"));
  EXPECT_FALSE(shows(TraceStage::rescale, "+= P V"));
}

TEST(Scene, WhatIfStoppedNowIsToldOfO) {
  Demo demo;
  demo.data = test::naive_stage(demo.run, *demo.run.schedule->find(0, 5, 3, TraceStage::accumulate) + 1);
  demo.data.check->o_if_stopped.assign(64, 0.5), demo.data.check->o_reference.assign(64, 0.25);
  Place place;
  place.target = Target::chip_cell, place.what = static_cast<int>(ChipBuffer::O), place.row = 0, place.col = 7;
  EXPECT_THAT(read_out(demo.data, {}, place), HasSubstr("if stopped now: O/l = 0.5\nreference:          0.25"));
}

TEST(Scene, StandardHasNoBudgetAndFlashNeverStoresScores) {
  Demo demo;
  const auto words = [](const Scene& scene) {
    std::string all;
    for (const Text* text : texts(scene)) all += text->text + "\n";
    return all;
  };
  const std::string flash = words(make_scene(demo.data, {}, demo.input));
  EXPECT_THAT(flash, HasSubstr("never stored"));
  EXPECT_THAT(flash, HasSubstr("no budget set"));
  const auto run = test::make_run(demo.run.problem->shape(), recipe(Algorithm::standard, 64, 64), causal());
  const StageData data = test::naive_stage(run, 20);
  const std::string standard = words(make_scene(data, {}, demo.input));
  EXPECT_THAT(standard, HasSubstr("idealised, no SRAM budget"));
  EXPECT_THAT(standard, testing::Not(HasSubstr("never stored")));
}

TEST(Scene, NothingOpenIsAPictureToo) {
  const Scene scene = make_scene({}, {}, {});
  EXPECT_EQ(scene.focus_row, -1);
  EXPECT_EQ(place_at(scene, {640, 360}).target, Target::none);
  EXPECT_FALSE(texts(scene).empty());
}

}  // namespace
}  // namespace flashscope::viz
