#include "tests/app/window/harness.h"

namespace flashscope::window {
namespace {

TEST_F(WindowTest, HoverNamesWhatIsUnderThePointer) {
  hover(middle(viz::Target::map_tile));
  EXPECT_TRUE(stage().pointed_at().contains("tile")) << stage().pointed_at().toStdString();
  hover({1, 1});
  EXPECT_TRUE(stage().pointed_at().isEmpty()) << stage().pointed_at().toStdString();
}

TEST_F(WindowTest, HoverOnTheChipChecksThatRow) {
  ASSERT_TRUE(document().stage().state->step.has_value());
  document().seek(document().stage().schedule->find(0, 3, 1, Stage::accumulate).value() + 1);
  ASSERT_TRUE(settle());
  hover(middle(viz::Target::chip_cell));
  const viz::StageData& data = document().stage();
  ASSERT_TRUE(data.check.has_value());
  EXPECT_GE(data.check_row, data.state->row0);
  EXPECT_LT(data.check_row, data.state->row0 + data.state->rows);
  EXPECT_LE(std::abs(data.check->sum_p_over_l - 1), 1e-5);
}

TEST_F(WindowTest, ClickOnTheMapGoesToThatTile) {
  const QPointF at = middle(viz::Target::map_tile);
  const viz::Place place = viz::place_at(scene(), {static_cast<float>(at.x()), static_cast<float>(at.y())});
  ASSERT_EQ(place.target, viz::Target::map_tile);
  click(at);
  const TraceState& state = *document().stage().state;
  ASSERT_TRUE(document().stage().schedule->visited(0, place.row, place.col)) << place.row << ' ' << place.col;
  EXPECT_EQ(state.i, place.row);
  EXPECT_EQ(state.j, place.col);
}

TEST_F(WindowTest, ClickOnTheRunStripGoesThere) {
  click(middle(viz::Target::strip));
  const std::int64_t steps = document().stage().schedule->steps();
  EXPECT_GE(K(), steps * 2 / 5);
  EXPECT_LE(K(), steps * 3 / 5);
}

TEST_F(WindowTest, ConventionIsAClickAway) {
  const viz::Scene picture = scene();
  for (const viz::Hit& hit : picture.hits) {
    if (hit.target != viz::Target::convention || std::string(viz::convention_name(hit.what)) != "guard") continue;
    EXPECT_EQ(document().recipe().guard, Guard::none);
    click({hit.rect.centre().x, hit.rect.centre().y});
    EXPECT_NE(document().recipe().guard, Guard::none);
    return;
  }
  FAIL() << "the stage shows no guard";
}

TEST_F(WindowTest, NoFramesAtRest) {
  trigger("view.animate");
  ASSERT_FALSE(stage().options().animate);
  ASSERT_TRUE(wait_until([&] { return document().stage().totals.complete; }));
  ASSERT_TRUE(settle());
  // Whatever was still to be drawn is drawn once the event queue stays empty for some rounds.
  std::uint64_t before = ~std::uint64_t{0};
  ASSERT_TRUE(wait_until([&] { return std::exchange(before, stage().frames()) == stage().frames(); }));
  QElapsedTimer clock;
  clock.start();
  while (clock.elapsed() < 200) QCoreApplication::processEvents();
  EXPECT_LE(stage().frames(), before + 2);
}

TEST_F(WindowTest, PictureHasTheSizeAskedForAndIsNotEmpty) {
  const QImage image = stage().picture({1920, 1080});
  ASSERT_EQ(image.size(), QSize(1920, 1080));
  std::set<QRgb> colours;
  for (int y = 0; y < image.height(); y += 16)
    for (int x = 0; x < image.width(); x += 16) colours.insert(image.pixel(x, y));
  EXPECT_GT(colours.size(), 50u);
}

}  // namespace
}  // namespace flashscope::window
