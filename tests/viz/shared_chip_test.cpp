// The picture drawn from buffers, as a GPU's kernels leave them, is the picture drawn from the state.
#include "viz/shared_chip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "naive_stage.h"
#include "viz/offscreen.h"
#include "viz/scene.h"

namespace flashscope::viz {
namespace {

constexpr int kWidth = 1280, kHeight = 720;

// What tile_step would leave in OpenGL's buffers, by a copy from the state.
class Filled {
 public:
  template <class T>
  SharedArray put(int slot, std::int64_t rows, std::int64_t cols, const std::vector<T>& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    if (!chip.has_room(slot, bytes)) chip.reserve(slot, bytes);
    const SharedArray array{chip.name(slot), rows, cols, sizeof(T) == 8};
    chip.upload(slot, values.data(), bytes);
    return array;
  }
  void put(ChipBuffer buffer, std::int64_t rows, std::int64_t cols, const std::vector<double>& values) {
    if (values.empty()) return;
    const int slot = static_cast<int>(buffer);
    if (doubles) {
      arrays.chip[slot] = put(slot, rows, cols, values);
    } else {
      arrays.chip[slot] = put(slot, rows, cols, std::vector<float>(values.begin(), values.end()));
    }
  }
  std::shared_ptr<const SharedArrays> of(const TraceState& s) {
    arrays = {};
    arrays.K = s.K;
    const auto matrix = [&](ChipBuffer buffer, const Matrix& m) { put(buffer, m.rows, m.cols, m.values); };
    matrix(ChipBuffer::Q, s.Q), matrix(ChipBuffer::K, s.K_tile), matrix(ChipBuffer::V, s.V);
    matrix(ChipBuffer::S, s.S), matrix(ChipBuffer::P, s.P), matrix(ChipBuffer::O, s.O);
    const auto column = [&](ChipBuffer buffer, const std::vector<double>& v) {
      put(buffer, static_cast<std::int64_t>(v.size()), 1, v);
    };
    column(ChipBuffer::m, s.m), column(ChipBuffer::l, s.l), column(ChipBuffer::alpha, s.alpha);
    column(ChipBuffer::LSE, s.LSE);
    if (!s.visible.empty()) arrays.visible = put(SharedChip::kSlots - 1, s.rows, s.cols, s.visible);
    return std::make_shared<const SharedArrays>(arrays);
  }

  bool doubles = false;
  SharedChip chip;
  SharedArrays arrays;
};

class SharedChipTest : public testing::TestWithParam<bool> {
 protected:
  std::vector<std::uint8_t> drawn(const StageData& data) {
    Stage stage;
    StageOptions options;
    options.animate = false;
    StageInput input;
    input.width = kWidth, input.height = kHeight, input.framebuffer = offscreen.framebuffer();
    for (int frame = 0; frame < 3; ++frame) stage.draw(data, options, input);
    return offscreen.pixels();
  }
  Offscreen offscreen{kWidth, kHeight};
};

TEST_P(SharedChipTest, BuffersGiveThePictureOfTheState) {
  Mask mask;
  mask.causal = Causal::top_left;
  const test::Run run = test::make_run({2, 1, 512, 512, 64, 64, DType::float32}, {}, mask, 0.4);
  Filled filled;
  filled.doubles = GetParam();
  for (const TraceStage stage : {TraceStage::load_k, TraceStage::scores, TraceStage::mask, TraceStage::exponentials,
                                 TraceStage::rescale, TraceStage::accumulate}) {
    for (const std::int64_t j : {3, 5}) {
      StageData data = test::naive_stage(run, *run.schedule->find(0, 5, j, stage) + 1);
      auto state = std::make_shared<TraceState>(*data.state);
      if (!state->S.empty()) {  // what must never be lost
        state->S.values[70] = std::numeric_limits<double>::quiet_NaN();
        state->S.values[71] = std::numeric_limits<double>::infinity();
        state->S.values[72] = -std::numeric_limits<double>::infinity();
      }
      data.state = state;
      const auto from_state = drawn(data);
      data.shared = filled.of(*state);
      const auto from_buffers = drawn(data);
      // A palette index may round to its neighbour: float32 against float64.
      std::int64_t far = 0, near = 0;
      for (std::size_t n = 0; n < from_state.size(); ++n) {
        const int difference = std::abs(from_state[n] - from_buffers[n]);
        far += difference > 8, near += difference > 0;
      }
      EXPECT_EQ(far, 0) << "stage " << static_cast<int>(stage) << " j " << j;
      EXPECT_LE(near, static_cast<std::int64_t>(from_state.size()) / 50);
    }
  }
}

TEST_P(SharedChipTest, BuffersAreWhatIsDrawn) {
  const test::Run run = test::make_run({1, 1, 256, 256, 64, 64, DType::float32}, {}, {}, 0.4);
  StageData data = test::naive_stage(run, *run.schedule->find(0, 1, 1, TraceStage::scores) + 1);
  const auto before = drawn(data);
  Filled filled;
  filled.doubles = GetParam();
  auto other = *data.state;
  std::reverse(other.S.values.begin(), other.S.values.end());
  data.shared = filled.of(other);
  EXPECT_NE(drawn(data), before);
  auto of_another_state = *filled.of(other);
  of_another_state.K += 1;
  data.shared = std::make_shared<const SharedArrays>(of_another_state);
  EXPECT_EQ(drawn(data), before);  // stale: the state is drawn
}

INSTANTIATE_TEST_SUITE_P(Types, SharedChipTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "float64" : "float32"; });

}  // namespace
}  // namespace flashscope::viz
