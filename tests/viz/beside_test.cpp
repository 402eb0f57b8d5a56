// Two recipes on one picture: two chips, what differs outlined on both and nowhere else, the same cell told twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/insight/first_difference.h"
#include "naive_stage.h"
#include "viz/scene.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

using test::scene_of;
using testing::HasSubstr;

struct Two {
  std::shared_ptr<const Problem> problem;
  Recipe first, second;

  StageData at(flashscope::Stage stage, std::int64_t i, std::int64_t j) const {
    Trace a(problem, first), b(problem, second);
    StageData data;
    data.problem = problem;
    data.schedule = std::make_shared<const Schedule>(problem->shape(), problem->mask, first);
    data.state = std::make_shared<const TraceState>(a.seek(*a.schedule().find(0, i, j, stage) + 1));
    auto other = std::make_shared<StageData>();
    other->problem = problem;
    other->schedule = std::make_shared<const Schedule>(problem->shape(), problem->mask, second);
    other->state = std::make_shared<const TraceState>(b.seek(paired_state(a.schedule(), data.state->K, b.schedule())));
    data.differences = std::make_shared<const Differences>(
        differences(a.schedule(), *data.state, b.schedule(), *other->state, tolerance_for(*problem)));
    data.beside = other;
    return data;
  }
};

Two defect() {
  Mask causal;
  causal.causal = Causal::top_left;
  Two two;
  two.problem = random_problem({1, 1, 256, 256, 32, 32, DType::float32}, 5, {}, causal);
  two.first.Br = two.first.Bc = two.second.Br = two.second.Bc = 32;
  two.second.defect = Defect::no_rescale_l;
  return two;
}

// The frames of differing cells; the bar on top has that colour too.
std::vector<Rect> outlines(const Scene& scene, const Rect& inside) {
  std::vector<Rect> found;
  for (const Item& item : scene.items)
    if (const auto* box = std::get_if<Box>(&item))
      if (box->stroke == theme(true).difference && inside.contains(box->rect.centre().x, box->rect.centre().y))
        found.push_back(box->rect);
  return found;
}

TEST(Beside, DifferencesAreOutlinedOnBothChipsAndNowhereElse) {
  const StageData data = defect().at(flashscope::Stage::rescale, 4, 2);
  ASSERT_GT(data.differences->count, 0);
  for (const auto& [w, h] : {std::pair{1280.f, 720.f}, {1920.f, 1080.f}, {800.f, 500.f}}) {
    const Scene scene = scene_of(data, w, h);
    for (const auto* chip : {&scene.chip, &scene.chip_beside}) {
      const auto slot = [&](ChipBuffer b) { return (*chip)[static_cast<int>(b)]; };
      ASSERT_FALSE(slot(ChipBuffer::l).empty());
      EXPECT_FALSE(outlines(scene, slot(ChipBuffer::l)).empty());
      for (const ChipBuffer same : {ChipBuffer::P, ChipBuffer::m, ChipBuffer::alpha, ChipBuffer::O})
        EXPECT_TRUE(outlines(scene, slot(same)).empty()) << label(same);
      for (const Rect& rect : outlines(scene, slot(ChipBuffer::l))) {
        EXPECT_GE(rect.y, slot(ChipBuffer::l).y - 1);
        EXPECT_LE(rect.bottom(), slot(ChipBuffer::l).bottom() + 1);
      }
    }
    EXPECT_LT(scene.chip[static_cast<int>(ChipBuffer::O)].right(),
              scene.chip_beside[static_cast<int>(ChipBuffer::Q)].x);
    EXPECT_TRUE(scene.hbm.empty());
  }
}

TEST(Beside, AllRowsThatDifferLieInAnOutline) {
  const StageData data = defect().at(flashscope::Stage::rescale, 4, 2);
  const Scene scene = scene_of(data);
  const Rect slot = scene.chip[static_cast<int>(ChipBuffer::l)];
  const auto found = outlines(scene, slot);
  for (std::int64_t r = 0; r < data.state->rows; ++r) {
    const float y = slot.y + slot.h * (static_cast<float>(r) + 0.5f) / static_cast<float>(data.state->rows);
    const bool outlined =
        std::any_of(found.begin(), found.end(), [&](const Rect& rect) { return y > rect.y && y < rect.bottom(); });
    EXPECT_EQ(outlined, data.differences->l[r] != 0) << r;
  }
}

TEST(Beside, TheSameCellOfTheOtherRecipeIsReadOut) {
  const StageData data = defect().at(flashscope::Stage::rescale, 4, 2);
  const Scene scene = scene_of(data);
  for (const int side : {0, 1}) {
    const auto hit = std::find_if(scene.hits.begin(), scene.hits.end(), [&](const Hit& h) {
      return h.target == Target::chip_cell && h.side == side && h.what == static_cast<int>(ChipBuffer::l);
    });
    ASSERT_NE(hit, scene.hits.end());
    const Place place = place_at(scene, {hit->rect.centre().x, hit->rect.y + 1});
    EXPECT_EQ(place.side, side);
    EXPECT_EQ(row_of(data, place), 128);
    const TraceState &here = side ? *data.beside->state : *data.state,
                     &there = side ? *data.state : *data.beside->state;
    EXPECT_THAT(read_out(data, {}, place), HasSubstr(exact(DType::float32, here.l[0])));
    EXPECT_THAT(read_out(data, {}, place), HasSubstr("beside it: " + exact(DType::float32, there.l[0])));
  }
}

TEST(Beside, TheBarSaysHowFarTheyAreApart) {
  Differences d;
  d.compared = "S m l O";
  EXPECT_EQ(difference_line(d), "no difference in S m l O");
  d.count = 1, d.largest = 0.25, d.largest_at = "l[7]", d.here = 1, d.beside = 0.75;
  EXPECT_EQ(difference_line(d), "1 cell differs here, l[7]: 1 | 0.75");
  d.count = 1200, d.nan = 3;
  EXPECT_EQ(difference_line(d), "1,200 cells differ here, 3 of them NaN on one side, most l[7]: 1 | 0.75");
  EXPECT_EQ(difference_line({}), "nothing to compare here");
  Recipe a, b;
  b.guard = Guard::none, b.Bc = 128;
  EXPECT_EQ(recipe_beside(a, b), "flash2, 64 x 64, guard clamp");
  EXPECT_EQ(recipe_beside(b, a), "flash2, 64 x 128, guard none");
}

TEST(Beside, OtherBlockSizesAreShownAtTheSamePlace) {
  Two two = defect();
  two.second = two.first;
  two.second.Br = 64, two.second.Bc = 48;
  const StageData data = two.at(flashscope::Stage::accumulate, 5, 3);
  const Scene scene = scene_of(data);
  EXPECT_FALSE(scene.chip_beside[static_cast<int>(ChipBuffer::P)].empty());
  EXPECT_EQ(data.differences->count, 0);
}

}  // namespace
}  // namespace flashscope::viz
