// What the pointed place is and holds, in words: for the tooltip, accessibility and tests.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/scene_parts.h"
#include "viz/tile_grid.h"
#include "viz/words.h"

namespace flashscope::viz {
namespace {

std::string value_lines(DType type, double value) {
  std::string text = fmt::format("{}  {}\nbits {}", exact(type, value), name(type), hex_bits(type, value));
  if (std::isfinite(value)) text += fmt::format("   1 ulp = {:.3g}", ulp(type, value));
  return text;
}

std::string cell_text(const StageData& data, ChipBuffer buffer, std::int64_t r, std::int64_t col) {
  const TraceState& s = *data.state;
  const HeatSource source = heat_source(data, buffer);
  if (source.empty() || r < 0 || col < 0 || r >= source.rows || col >= source.cols) return {};
  const double value = source.at(r, col);
  std::string place;
  switch (buffer) {
    case ChipBuffer::Q:
    case ChipBuffer::O:
      place = fmt::format("{}[row {}, {}]", label(buffer), s.row0 + r, col);
      break;
    case ChipBuffer::K:
      place = fmt::format("K[key {}, {}]", s.col0 + col, r);
      break;
    case ChipBuffer::V:
      place = fmt::format("V[key {}, {}]", s.col0 + r, col);
      break;
    case ChipBuffer::S:
    case ChipBuffer::P:
      place = fmt::format("{}[row {}, key {}]", label(buffer), s.row0 + r, s.col0 + col);
      break;
    default:
      place = fmt::format("{}[row {}]", label(buffer), s.row0 + r);
  }
  std::string text =
      fmt::format("{} =\n{}", place, value_lines(type_of(*data.problem, buffer), written(data, buffer, value)));
  if (buffer == ChipBuffer::LSE) text += fmt::format("\n{}: {}", flashscope::text(data.lse), formula(data.lse));
  if (buffer == ChipBuffer::O && data.check && data.check_row == s.row0 + r &&
      col < static_cast<std::int64_t>(data.check->o_if_stopped.size()))
    text += fmt::format("\nif stopped now: O/l = {}\nreference:          {}",
                        exact(type_of(*data.problem, buffer), data.check->o_if_stopped[col]),
                        exact(type_of(*data.problem, buffer), data.check->o_reference[col]));
  if (!source.is_visible(r, col)) {
    const bool harmless = value == 0 || (std::isinf(value) && value < 0);
    text += harmless ? "\nmasked" : "\nmasked, but holds a value";
  } else if (std::isinf(value) && value < 0 && (buffer == ChipBuffer::S)) {
    text += "\nvisible, and -inf";
  }
  return text;
}

// The same cell in the other recipe, found by row and key.
std::string other_value(const StageData& data, ChipBuffer buffer, bool second, std::int64_t r, std::int64_t col) {
  const StageData &here = second ? *data.beside : data, &there = second ? data : *data.beside;
  if (!here.state || !there.state) return {};
  const std::int64_t row = here.state->row0 + r - there.state->row0;
  const bool keys = buffer == ChipBuffer::S || buffer == ChipBuffer::P;
  const std::int64_t other_col = keys ? here.state->col0 + col - there.state->col0 : col;
  const HeatSource source = heat_source(there, buffer);
  if (buffer == ChipBuffer::K || buffer == ChipBuffer::V || source.empty()) return {};
  if (row < 0 || row >= source.rows || other_col < 0 || other_col >= source.cols) return {};
  return fmt::format("\nbeside it: {}",
                     exact(type_of(*data.problem, buffer), written(there, buffer, source.at(row, other_col))));
}

std::string tile_text(const StageData& data, std::int64_t i, std::int64_t j) {
  const Schedule& schedule = *data.schedule;
  const std::int64_t head = data.state->head, Br = schedule.recipe().Br, Bc = schedule.recipe().Bc;
  if (i < 0 || j < 0 || i >= schedule.Tr() || j >= schedule.Tc()) return {};
  std::string text = fmt::format("tile ({}, {})\nrows {}-{}, keys {}-{}", i, j, i * Br, i * Br + schedule.rows(i) - 1,
                                 j * Bc, j * Bc + schedule.cols(j) - 1);
  const TileClass kind = schedule.tile_class(head, i, j);
  const char* sees = kind == TileClass::full      ? "all keys visible"
                     : kind == TileClass::partial ? "some keys visible"
                                                  : "no key visible";
  const bool skipped = !schedule.visited(head, i, j) && schedule.recipe().algorithm != Algorithm::standard;
  text += fmt::format("\n{}{}", sees, skipped ? ": skipped" : "");
  const MapCell* cell = map_cell(data.map.get(), i, j);
  if (!cell || std::isnan(cell->largest_score)) return skipped ? text : text + "\nnot scanned yet";
  if (data.map->scale_i > 1 || data.map->scale_j > 1)
    text += fmt::format("\nof {} x {} tiles here:", data.map->scale_i, data.map->scale_j);
  return text + fmt::format("\nlargest score {}\nrescaled rows {}\nsoftmax mass {}\nNaN cells {}",
                            number(cell->largest_score), number(cell->rescaled_rows), number(cell->softmax_mass),
                            number(cell->nan_cells));
}

std::string tensor_text(const StageData& data, Operand operand, std::int64_t row) {
  const Schedule& schedule = *data.schedule;
  const bool keys = operand == Operand::K || operand == Operand::V;
  const std::int64_t size = keys ? schedule.recipe().Bc : schedule.recipe().Br;
  const std::int64_t block = row / size;
  std::string text = fmt::format("{} in HBM\n{} {}, {} block {}", name(operand), keys ? "key" : "row", row,
                                 keys ? "column" : "row", block);
  if (operand == Operand::O && data.o_row_norm && row < static_cast<std::int64_t>(data.o_row_norm->size()))
    text += heat_source(data, ChipBuffer::o_norm).is_reached(row)
                ? fmt::format("\n|O[row,:]| = {}", number((*data.o_row_norm)[row]))
                : "\nnot scanned yet";
  return text + "\nclick: go to this block";
}

}  // namespace

std::string read_out(const StageData& data, const StageOptions& options, const Place& place) {
  if (!data.state || !data.schedule || !data.problem) return {};
  switch (place.target) {
    case Target::chip_cell: {
      const auto buffer = static_cast<ChipBuffer>(place.what);
      const bool second = place.side && data.beside;
      return cell_text(second ? *data.beside : data, buffer, place.row, place.col) +
             (data.beside ? other_value(data, buffer, second, place.row, place.col) : "");
    }
    case Target::map_tile:
      return tile_text(data, place.row, place.col);
    case Target::hbm_tile:
      return tensor_text(data, static_cast<Operand>(place.what), place.row);
    case Target::strip:
      return fmt::format("step {} of {}", count(place.K), count(data.state->steps));
    case Target::stage:
      return place.K >= 0 ? fmt::format("go to step {}", count(place.K)) : "";
    case Target::map_colour: {
      static constexpr const char* words[] = {"largest score of each tile", "rows rescaled in each tile",
                                              "softmax weight on each tile's keys, mean over rows",
                                              "NaN cells of P and NaN rows"};
      return std::string("colour: ") + words[place.what] +
             (static_cast<int>(options.map_colour) == place.what ? " (now)" : "");
    }
    case Target::convention:
      return "click: the other convention";
    case Target::none:
      break;
  }
  return {};
}

}  // namespace flashscope::viz
