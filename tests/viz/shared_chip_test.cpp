// The picture drawn from buffers, as a GPU's kernels leave them, is the picture drawn from the state.
#include "viz/shared_chip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <type_traits>
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
    const SharedArray array{chip.name(slot), rows, cols, std::is_same_v<T, double>};
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
    if (!s.visible.empty()) arrays.visible = put(SharedChip::kVisible, s.rows, s.cols, s.visible);
    return std::make_shared<const SharedArrays>(arrays);
  }

  // What tile_stats would leave: the rows of cells that are done, and |O| of their query rows.
  std::shared_ptr<const SharedMap> of(const StageData& data) {
    const ScanMap& map = *data.map;
    const Schedule& schedule = *data.schedule;
    auto shared = std::make_shared<SharedMap>();
    std::int64_t rows = 0;
    while (rows < map.rows && map.row_block_done[static_cast<std::size_t>(rows)]) ++rows;
    const std::vector<MapCell> cells(map.cells.begin(), map.cells.begin() + rows * map.cols);
    if (rows > 0) {
      shared->cells = put(SharedChip::kMapCells, rows, map.cols, cells);
      const std::int64_t query_rows = std::min(schedule.shape().Nq, rows * map.scale_i * schedule.recipe().Br);
      const std::vector<float> norms(data.o_row_norm->begin(), data.o_row_norm->begin() + query_rows);
      shared->o_norm = put(static_cast<int>(ChipBuffer::o_norm), query_rows, 1, norms);
    }
    shared->of = data.map;
    return shared;
  }

  bool doubles = false;
  SharedChip chip;
  SharedArrays arrays;
};

class Drawing {
 protected:
  std::vector<std::uint8_t> drawn(const StageData& data, MapColour colour = MapColour::largest_score) {
    Stage stage;
    StageOptions options;
    options.animate = false, options.map_colour = colour;
    StageInput input;
    input.width = kWidth, input.height = kHeight, input.framebuffer = offscreen.framebuffer();
    for (int frame = 0; frame < 3; ++frame) stage.draw(data, options, input);
    return offscreen.pixels();
  }
  // A palette index may round to its neighbour: float32 against float64.
  static void expect_same(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
    std::int64_t far = 0, near = 0;
    for (std::size_t n = 0; n < a.size(); ++n) {
      const int difference = std::abs(a[n] - b[n]);
      far += difference > 8, near += difference > 0;
    }
    EXPECT_EQ(far, 0);
    EXPECT_LE(near, static_cast<std::int64_t>(a.size()) / 50);
  }
  Offscreen offscreen{kWidth, kHeight};
};
class SharedChipTest : public testing::TestWithParam<bool>, protected Drawing {};
class SharedMapTest : public testing::Test, protected Drawing {};

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
      SCOPED_TRACE(testing::Message() << "stage " << static_cast<int>(stage) << " j " << j);
      expect_same(from_state, from_buffers);
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

constexpr MapColour kColours[] = {MapColour::largest_score, MapColour::rescaled_rows, MapColour::softmax_mass,
                                  MapColour::nan_count};

// Tiles larger and smaller than a pixel, cells of one tile and of several, a map that is not complete.
TEST_F(SharedMapTest, BuffersGiveThePictureOfTheMap) {
  Mask mask;
  mask.causal = Causal::top_left;
  for (const std::int64_t size : {64, 4}) {
    Recipe recipe;
    recipe.Br = recipe.Bc = size;
    const test::Run run = test::make_run({1, 1, 1536, 1536, 4, 4, DType::float32}, recipe, mask, 0.4);
    StageData data = test::naive_stage(run, *run.schedule->find(0, run.schedule->Tr() / 2, 1, TraceStage::scores) + 1);
    for (const std::int64_t scale : {1, 3}) {
      for (const double share : {1.0, 0.6}) {
        test::fill_scan(data, share);
        auto map = std::make_shared<ScanMap>(*data.map);
        if (scale > 1) {
          map->scale_i = map->scale_j = scale;
          map->rows = (map->rows + scale - 1) / scale, map->cols = (map->cols + scale - 1) / scale;
          map->cells.resize(static_cast<std::size_t>(map->rows * map->cols));
          map->row_block_done.resize(static_cast<std::size_t>(map->rows));
        }
        map->cells[0].largest_score = std::numeric_limits<float>::infinity();
        map->cells[static_cast<std::size_t>(map->cols)].largest_score = -std::numeric_limits<float>::infinity();
        map->cells[1].softmax_mass = std::numeric_limits<float>::quiet_NaN();
        // Nothing is known of the rows that are not done.
        for (std::int64_t n = 0; n < map->rows * map->cols; ++n)
          if (!map->row_block_done[static_cast<std::size_t>(n / map->cols)])
            map->cells[static_cast<std::size_t>(n)] = {std::nanf(""), 0, 0, 0};
        data.map = map;
        Filled filled;
        const auto shared = filled.of(data);
        for (const MapColour colour : kColours) {
          SCOPED_TRACE(testing::Message() << "blocks of " << size << ", " << scale << " tiles a cell, " << share
                                          << " done, colour " << static_cast<int>(colour));
          data.shared_map.reset();
          const auto from_host = drawn(data, colour);
          data.shared_map = shared;
          expect_same(drawn(data, colour), from_host);
        }
      }
    }
  }
}

TEST_F(SharedMapTest, BuffersAreWhatIsDrawn) {
  const test::Run run = test::make_run({1, 1, 512, 512, 64, 64, DType::float32}, {}, {}, 0.4);
  StageData data = test::naive_stage(run, *run.schedule->find(0, 7, 1, TraceStage::scores) + 1);
  StageData other = data;
  auto map = std::make_shared<ScanMap>(*data.map);
  std::reverse(map->cells.begin(), map->cells.end());
  other.map = map;
  auto norms = std::make_shared<std::vector<float>>(*data.o_row_norm);
  std::reverse(norms->begin(), norms->end());
  Filled filled;
  for (const MapColour colour : kColours) {
    const auto before = drawn(data, colour);
    auto cells_differ = std::make_shared<SharedMap>(*filled.of(other));
    data.shared_map = cells_differ;
    EXPECT_EQ(drawn(data, colour), before) << "of another map: the host's is drawn";
    cells_differ->of = data.map;
    EXPECT_NE(drawn(data, colour), before);
    StageData same_map = data;
    same_map.o_row_norm = norms;
    data.shared_map = filled.of(same_map);
    EXPECT_NE(drawn(data, colour), before) << "|O|";
    data.shared_map.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SharedChipTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "float64" : "float32"; });

}  // namespace
}  // namespace flashscope::viz
