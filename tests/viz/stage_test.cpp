// Real frames on software OpenGL, and commands from events.
#include "viz/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "naive_stage.h"
#include "viz/offscreen.h"
#include "viz/scene.h"

namespace flashscope::viz {
namespace {

constexpr int kWidth = 1280, kHeight = 720;

class StageTest : public testing::Test {
 protected:
  StageTest() {
    Mask mask;
    mask.causal = Causal::top_left;
    run = test::make_run({4, 2, 512, 512, 64, 64, DType::float16}, {}, mask, 0.4);
    data = at(TraceStage::mask);
    input.width = kWidth, input.height = kHeight, input.framebuffer = offscreen.framebuffer();
  }
  StageData at(TraceStage stage, std::uint64_t version = 1) const {
    return test::naive_stage(run, *run.schedule->find(0, 5, 3, stage) + 1, version);
  }
  Scene scene() const { return test::scene_of(data); }
  Point centre_of(Target target, int what = 0) const {
    const Scene s = scene();
    for (const Hit& hit : s.hits)
      if (hit.target == target && hit.what == what) return hit.rect.centre();
    ADD_FAILURE() << "no such hit";
    return {};
  }
  static InputEvent event(InputEvent::Kind kind, Point at) {
    InputEvent e;
    e.kind = kind, e.x = at.x, e.y = at.y;
    return e;
  }
  StageResult draw(std::vector<InputEvent> events = {}) {
    input.events = std::move(events);
    return stage.draw(data, options, input);
  }
  StageResult click(Point at) {
    return draw(
        {event(InputEvent::Kind::move, at), event(InputEvent::Kind::press, at), event(InputEvent::Kind::release, at)});
  }
  template <class Command>
  static std::vector<Command> all(const StageResult& result) {
    std::vector<Command> found;
    for (const StageCommand& command : result.commands)
      if (const auto* one = std::get_if<Command>(&command)) found.push_back(*one);
    return found;
  }
  int count_near(Colour colour, const Rect& rect) const {
    const auto rgba = offscreen.pixels();
    int count = 0;
    for (int y = static_cast<int>(rect.y); y < static_cast<int>(rect.bottom()); ++y)
      for (int x = static_cast<int>(rect.x); x < static_cast<int>(rect.right()); ++x) {
        const std::uint8_t* p = &rgba[4 * (static_cast<std::size_t>(y) * kWidth + static_cast<std::size_t>(x))];
        count += std::abs(p[0] - colour.r) < 4 && std::abs(p[1] - colour.g) < 4 && std::abs(p[2] - colour.b) < 4;
      }
    return count;
  }

  Offscreen offscreen{kWidth, kHeight};
  Stage stage;
  test::Run run;
  StageData data;
  StageOptions options;
  StageInput input;
};

TEST_F(StageTest, TheSameFrameTwiceIsTheSamePixels) {
  draw();
  const auto first = offscreen.pixels();
  draw();
  EXPECT_EQ(first, offscreen.pixels());
  Stage other;
  other.draw(data, options, input);
  EXPECT_EQ(first, offscreen.pixels());
  options.dark = false;
  draw();
  EXPECT_NE(first, offscreen.pixels());
}

TEST_F(StageTest, CellsHaveTheirColours) {
  auto state = std::make_shared<TraceState>(*data.state);
  const double inf = std::numeric_limits<double>::infinity();
  state->visible.assign(64 * 64, 1);
  for (std::int64_t c = 0; c < 64; ++c) {
    state->S.values[0 * 64 + c] = std::nan("");
    state->S.values[20 * 64 + c] = inf;
    state->S.values[40 * 64 + c] = -inf;  // visible
  }
  data.state = state, data.version = 2;
  draw();
  const Rect s = scene().score;
  const auto row = [&s](int r) {
    return Rect{s.x + 4, s.y + s.h * static_cast<float>(r) / 64 + 1, s.w - 8, s.h / 64 - 1};
  };
  EXPECT_GT(count_near(theme(true).nan, row(0)), 100);
  EXPECT_GT(count_near(theme(true).inf, row(20)), 100);
  EXPECT_GT(count_near(theme(true).minus_inf, row(40)), 100);
  EXPECT_EQ(count_near(theme(true).nan, row(30)), 0);
}

TEST_F(StageTest, ClicksBecomeCommands) {
  const Rect s = scene().score;
  const auto pins = all<command::PinRow>(click({s.x + 5, s.y + s.h * 10.5f / 64}));
  ASSERT_EQ(pins.size(), 1u);
  EXPECT_EQ(pins[0].row, 330);
  EXPECT_TRUE(pins[0].pinned);
  data.pinned_rows = {330};
  EXPECT_FALSE(all<command::PinRow>(click({s.x + 5, s.y + s.h * 10.5f / 64})).at(0).pinned);

  for (const Hit& hit : scene().hits)
    if (hit.target == Target::map_tile) {
      const auto tiles =
          all<command::SeekTile>(click({hit.rect.x + hit.rect.w * 2.5f / 8, hit.rect.y + hit.rect.h * 6.5f / 8}));
      ASSERT_EQ(tiles.size(), 1u);
      EXPECT_EQ(tiles[0].i, 6);
      EXPECT_EQ(tiles[0].j, 2);
    }
  const auto colours = all<command::SetMapColour>(click(centre_of(Target::map_colour, 3)));
  ASSERT_EQ(colours.size(), 1u);
  EXPECT_EQ(colours[0].colour, MapColour::nan_count);
  const char* conventions[] = {"causal", "skip", "guard", "empty-row", "lse"};
  for (int n = 0; n < 5; ++n) {
    const auto toggles = all<command::ToggleConvention>(click(centre_of(Target::convention, n)));
    ASSERT_EQ(toggles.size(), 1u);
    EXPECT_EQ(toggles[0].which, conventions[n]);
  }
  const auto tensors = all<command::SeekTile>(click(centre_of(Target::hbm_tile, static_cast<int>(Operand::V))));
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].i, 5);
  EXPECT_EQ(tensors[0].j, 4);
}

TEST_F(StageTest, TheStripSeeksWhileItIsDragged) {
  const Point middle = centre_of(Target::strip);
  const auto pressed = all<command::Seek>(draw({event(InputEvent::Kind::press, middle)}));
  ASSERT_EQ(pressed.size(), 1u);
  EXPECT_NEAR(static_cast<double>(pressed[0].K), static_cast<double>(run.schedule->steps()) / 8,
              2);  // half of one of four heads
  const auto dragged = all<command::Seek>(draw(
      {event(InputEvent::Kind::move, {middle.x - 50, middle.y}), event(InputEvent::Kind::move, {-20, middle.y + 90})}));
  ASSERT_EQ(dragged.size(), 1u);  // only the last place of a frame matters
  EXPECT_EQ(dragged[0].K, 0);
  draw({event(InputEvent::Kind::release, {0, middle.y})});
  EXPECT_TRUE(all<command::Seek>(draw({event(InputEvent::Kind::move, middle)})).empty());
}

TEST_F(StageTest, ADragIsNotAClick) {
  const Point s = scene().score.centre();
  const auto result = draw({event(InputEvent::Kind::press, s), event(InputEvent::Kind::move, {s.x + 40, s.y}),
                            event(InputEvent::Kind::release, {s.x + 40, s.y})});
  EXPECT_TRUE(all<command::PinRow>(result).empty());
}

TEST_F(StageTest, HoverIsToldOnceAndEnds) {
  const Rect s = scene().score;
  const InputEvent move = event(InputEvent::Kind::move, {s.x + 1, s.y + s.h * 7.5f / 64});
  const StageResult first = draw({move});
  ASSERT_EQ(all<command::HoverRow>(first).size(), 1u);
  EXPECT_EQ(all<command::HoverRow>(first)[0].row, 327);
  EXPECT_THAT(first.tooltip, testing::HasSubstr("S[row 327, key 192]"));
  EXPECT_TRUE(first.pointing_hand);
  EXPECT_TRUE(all<command::HoverRow>(draw({move})).empty());
  const StageResult last = draw({event(InputEvent::Kind::leave, {})});
  ASSERT_EQ(all<command::HoverRow>(last).size(), 1u);
  EXPECT_EQ(all<command::HoverRow>(last)[0].row, -1);
  EXPECT_TRUE(last.tooltip.empty());
}

TEST_F(StageTest, WheelZoomsDragPansDoubleClickResets) {
  draw();
  const auto whole = offscreen.pixels();
  const Point s = scene().score.centre();
  InputEvent wheel = event(InputEvent::Kind::wheel, s);
  wheel.wheel = 8;
  draw({wheel, event(InputEvent::Kind::leave, {})});
  const auto close = offscreen.pixels();
  EXPECT_NE(whole, close);
  draw({event(InputEvent::Kind::press, s), event(InputEvent::Kind::move, {s.x - 60, s.y - 30}),
        event(InputEvent::Kind::release, {s.x - 60, s.y - 30}), event(InputEvent::Kind::leave, {})});
  EXPECT_NE(close, offscreen.pixels());
  InputEvent twice = event(InputEvent::Kind::press, s);
  twice.double_click = true;
  draw({twice, event(InputEvent::Kind::release, s), event(InputEvent::Kind::leave, {})});
  EXPECT_EQ(whole, offscreen.pixels());
}

TEST_F(StageTest, TheMapZoomsToItsTiles) {
  Rect map;
  for (const Hit& hit : scene().hits)
    if (hit.target == Target::map_tile) map = hit.rect;
  const Point at{map.x + map.w * 3.5f / 8, map.y + map.h * 5.5f / 8};
  InputEvent wheel = event(InputEvent::Kind::wheel, at);
  wheel.wheel = 20;
  draw({wheel});
  const auto tiles = all<command::SeekTile>(click(at));  // the tile under the pointer stays there
  ASSERT_EQ(tiles.size(), 1u);
  EXPECT_EQ(tiles[0].i, 5);
  EXPECT_EQ(tiles[0].j, 3);
  // Two tiles across now: half the map further is the neighbour.
  const auto next = all<command::SeekTile>(click({at.x + (at.x < map.x + map.w / 2 ? 0.5f : -0.5f) * map.w, at.y}));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].i, 5);
  EXPECT_EQ(next[0].j, at.x < map.x + map.w / 2 ? 4 : 2);
}

TEST_F(StageTest, TransfersAnimateAndEnd) {
  data = at(TraceStage::mask, 1);
  input.time = 10;
  EXPECT_FALSE(draw().wants_frame);  // the first picture is at rest
  data = at(TraceStage::load_v, 2);
  input.time = 11;
  EXPECT_TRUE(draw().wants_frame);
  const auto start = offscreen.pixels();
  input.time = 11.3;
  EXPECT_TRUE(draw().wants_frame);
  EXPECT_NE(start, offscreen.pixels());
  input.time = 14;
  EXPECT_FALSE(draw().wants_frame);
  const auto rest = offscreen.pixels();
  options.animate = false;
  data = at(TraceStage::mask, 3), draw();
  data = at(TraceStage::load_v, 4);
  EXPECT_FALSE(draw().wants_frame);
  EXPECT_EQ(rest, offscreen.pixels());
}

TEST_F(StageTest, ANewVersionIsDrawn) {
  draw();
  const auto before = offscreen.pixels();
  data = at(TraceStage::accumulate, 2);
  draw();
  const auto after = offscreen.pixels();
  EXPECT_NE(before, after);
  data = at(TraceStage::mask, 3);
  input.time += 100;
  draw();
  EXPECT_EQ(before, offscreen.pixels());
}

TEST_F(StageTest, RightButtonCopiesTheReadOut) {
  const Rect s = scene().score;
  InputEvent press = event(InputEvent::Kind::press, {s.x + 1, s.y + 1});
  press.button = 1;
  const auto copies = all<command::Copy>(draw({press}));
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_THAT(copies[0].text, testing::HasSubstr("S[row 320, key 192]"));
}

TEST_F(StageTest, NothingOpenDrawsToo) {
  const StageResult result = stage.draw({}, options, input);
  EXPECT_TRUE(result.commands.empty());
  EXPECT_FALSE(result.wants_frame);
}

}  // namespace
}  // namespace flashscope::viz
