#include "viz/tile_grid.h"

#include <algorithm>
#include <cmath>

namespace flashscope::viz {
namespace {

constexpr double kAll = 1e9;  // beyond every tile number

std::int64_t edge(std::int64_t texel, std::int64_t tiles, int texels) { return texel * tiles / texels; }

TileLook look_of(const Schedule& schedule, std::int64_t head, std::int64_t i, std::int64_t j) {
  const TileClass kind = schedule.tile_class(head, i, j);
  // Standard attention leaves nothing out, whatever its mask hides.
  if (!schedule.visited(head, i, j))
    return schedule.recipe().algorithm == Algorithm::standard ? TileLook::no_key : TileLook::skipped;
  return kind == TileClass::full ? TileLook::full : kind == TileClass::partial ? TileLook::partial : TileLook::no_key;
}

}  // namespace

TileGrid tile_grid(const Schedule& schedule, std::int64_t head, const TileWindow& window, int max_width,
                   int max_height) {
  TileGrid grid;
  grid.window = window;
  grid.width = static_cast<int>(std::clamp<std::int64_t>(max_width, 1, window.cols));
  grid.height = static_cast<int>(std::clamp<std::int64_t>(max_height, 1, window.rows));
  grid.texels.resize(static_cast<std::size_t>(grid.width) * grid.height);
  for (int y = 0; y < grid.height; ++y) {
    const std::int64_t i0 = window.i0 + edge(y, window.rows, grid.height);
    const std::int64_t i1 = window.i0 + edge(y + 1, window.rows, grid.height) - 1;
    for (int x = 0; x < grid.width; ++x) {
      // The corners decide: visited tiles of a row block lie together, so a texel whose corners agree is
      // taken as a whole; where they differ it is on the edge of the mask.
      const std::int64_t j0 = window.j0 + edge(x, window.cols, grid.width);
      const std::int64_t j1 = window.j0 + edge(x + 1, window.cols, grid.width) - 1;
      TileLook look = look_of(schedule, head, i0, j0);
      if (i1 > i0 || j1 > j0)
        for (const auto& [i, j] : {std::pair{i0, j1}, std::pair{i1, j0}, std::pair{i1, j1}})
          if (look_of(schedule, head, i, j) != look) look = TileLook::partial;
      grid.texels[static_cast<std::size_t>(y) * grid.width + x].look = look;
    }
  }
  return grid;
}

double map_value(const MapCell& cell, MapColour mode) {
  switch (mode) {
    case MapColour::largest_score:
      return cell.largest_score;
    case MapColour::rescaled_rows:
      return cell.rescaled_rows;
    case MapColour::softmax_mass:
      return cell.softmax_mass;
    case MapColour::nan_count:
      return cell.nan_cells;
  }
  return 0;
}

MapScale map_scale(const ScanMap* map, MapColour mode) {
  if (!map || map->cells.empty()) return {};
  switch (mode) {
    case MapColour::largest_score:
      return {map->min_score, map->max_score, std::isfinite(map->min_score) && std::isfinite(map->max_score)};
    case MapColour::rescaled_rows:
      return {0, map->max_rescaled, true};
    case MapColour::softmax_mass:
      return {0, map->max_mass, true};
    case MapColour::nan_count:
      return {0, map->max_nan, true};
  }
  return {};
}

Palette palette_of(MapColour mode) {
  if (mode == MapColour::nan_count) return Palette::nan_count;
  return Palette::sequential;
}

const MapCell* map_cell(const ScanMap* map, std::int64_t i, std::int64_t j) {
  if (!map || map->cells.empty() || i < 0) return nullptr;
  const std::int64_t row = i / std::max<std::int64_t>(map->scale_i, 1);
  const std::int64_t col = std::max<std::int64_t>(j, 0) / std::max<std::int64_t>(map->scale_j, 1);
  return row < map->rows && col < map->cols ? &map->cells[row * map->cols + col] : nullptr;
}

void colour_tiles(TileGrid& grid, const ScanMap* map, MapColour mode) {
  const MapScale scale = map_scale(map, mode);
  const TileWindow& window = grid.window;
  for (int y = 0; y < grid.height; ++y)
    for (int x = 0; x < grid.width; ++x) {
      TileTexel& texel = grid.texels[static_cast<std::size_t>(y) * grid.width + x];
      texel.index = 0, texel.nan = false;
      if (!map || map->cells.empty() || texel.look == TileLook::skipped) continue;
      double best = std::nan("");
      const std::int64_t step_i = std::max<std::int64_t>(map->scale_i, 1),
                         step_j = std::max<std::int64_t>(map->scale_j, 1);
      const std::int64_t i0 = window.i0 + edge(y, window.rows, grid.height),
                         i1 = window.i0 + edge(y + 1, window.rows, grid.height);
      const std::int64_t j0 = window.j0 + edge(x, window.cols, grid.width),
                         j1 = window.j0 + edge(x + 1, window.cols, grid.width);
      for (std::int64_t row = i0 / step_i; row * step_i < i1 && row < map->rows; ++row)
        for (std::int64_t col = j0 / step_j; col * step_j < j1 && col < map->cols; ++col) {
          const MapCell& cell = map->cells[row * map->cols + col];
          if (std::isnan(cell.largest_score)) continue;  // not reached
          texel.nan |= cell.nan_cells > 0;
          const double value = map_value(cell, mode);
          if (!(value <= best)) best = value;
        }
      if (std::isnan(best)) continue;
      const double span = scale.high - scale.low;
      const double flat = best > scale.low ? 1.0 : mode == MapColour::largest_score ? 0.5 : 0.0;
      const double share = span > 0 ? std::clamp((best - scale.low) / span, 0.0, 1.0) : flat;
      texel.index = static_cast<std::uint8_t>(1 + std::lround(254 * share));
    }
}

WalkPlace walk_place(const Schedule& schedule, const TraceState& state) {
  WalkPlace place;
  if (!state.step) return place;
  const TraceStage stage = state.step->stage;
  const Recipe& recipe = schedule.recipe();
  const auto i = static_cast<double>(state.i), j = static_cast<double>(state.j);
  const double order = recipe.order == Order::reverse ? static_cast<double>(schedule.Tc() - 1 - state.j) : j;
  place.now_i = i, place.now_j = j;
  switch (recipe.algorithm) {
    case Algorithm::flash2:
      place.outer = i;
      place.inner = stage == TraceStage::load_q                                 ? -1
                    : stage == TraceStage::finish || stage == TraceStage::store ? kAll
                                                                                : order;
      if (stage == TraceStage::load_q || stage == TraceStage::finish || stage == TraceStage::store) place.now_j = -1;
      break;
    case Algorithm::flash1:
      place.outer = stage == TraceStage::finish ? kAll : order;
      place.inner = stage == TraceStage::load_kv ? -1 : i;
      if (stage == TraceStage::load_kv) place.now_i = -1;
      if (stage == TraceStage::finish) place.now_j = -1;
      break;
    case Algorithm::standard:  // the place within the pass; every tile of a strip at once
      place.outer = i;
      place.inner =
          stage == TraceStage::store_s || stage == TraceStage::store_p || stage == TraceStage::store_o ? kAll : -1;
      place.now_j = -1;
      break;
  }
  return place;
}

}  // namespace flashscope::viz
