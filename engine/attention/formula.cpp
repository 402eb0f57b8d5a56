// The closed forms of ledger.h. They read shape, mask and recipe only, never the walk: what `counted`
// adds up tile by tile must come out here from floor sums.
#include <algorithm>

#include "engine/attention/ledger.h"

namespace flashscope {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

// Sum over 0 <= i < n of floor((a i + b) / m), a, b >= 0, m >= 1: Euclid's algorithm on (a, m), O(log)
// (Graham, Knuth, Patashnik, Concrete Mathematics, section 3.5).
std::int64_t floor_sum(std::int64_t n, std::int64_t m, std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  while (n > 0) {
    sum += (n - 1) * n / 2 * (a / m) + n * (b / m);
    a %= m, b %= m;
    const std::int64_t top = a * n + b;
    if (top < m) break;
    n = top / m, b = top % m;
    std::swap(m, a);
  }
  return sum;
}

// Visited tiles of some row blocks, and the keys in them (sum of bc).
struct Visited {
  std::int64_t tiles = 0, keys = 0;
};

// Row blocks [i0, i0 + n), each of `rows` rows from i Br on, when a band limits what is visited.
//
// The rows of block i together see the keys [i Br + lo, i Br + rows - 1 + hi) clipped to [0, Nk): without
// gaps, since hi > lo. So its column blocks are [floor(start / Bc), ceil(end / Bc)), and start, end are
// linear in i between the places where they are clipped.
Visited band_tiles(const Band& band, std::int64_t Nk, std::int64_t Br, std::int64_t Bc, std::int64_t i0, std::int64_t n,
                   std::int64_t rows) {
  if (band.hi <= band.lo) return {};
  const std::int64_t Tc = ceil_div(Nk, Bc), reach = rows - 1 + band.hi;
  const std::int64_t first = std::max(i0, ceil_div(1 - reach, Br));                 // end >= 1
  const std::int64_t last = std::min(i0 + n, floor_div(Nk - 1 - band.lo, Br) + 1);  // start < Nk
  if (first >= last) return {};
  const auto place = [&](std::int64_t i) { return std::clamp(i, first, last); };
  const std::int64_t from = place(floor_div(-band.lo, Br) + 1);              // from here on start > 0
  const std::int64_t whole = place(ceil_div(Nk - reach, Br));                // from here on end == Nk
  const std::int64_t tail = place(ceil_div((Tc - 1) * Bc + 1 - reach, Br));  // from here on the last column block
  const std::int64_t ends = floor_sum(whole - first, Bc, Br, first * Br + reach + Bc - 1) + (last - whole) * Tc;
  const std::int64_t starts = from < last ? floor_sum(last - from, Bc, Br, from * Br + band.lo) : 0;
  Visited visited;
  visited.tiles = ends - starts;
  visited.keys = visited.tiles * Bc - (last - tail) * (Tc * Bc - Nk);
  return visited;
}

// Sums over the visited tiles of one head, and over the column blocks that hold one.
struct Sums {
  std::int64_t tiles = 0, br = 0, bc = 0, area = 0;
  std::int64_t column_keys = 0;
};

Sums tile_sums(const Shape& shape, const Mask& mask, const Recipe& recipe) {
  const std::int64_t Nq = shape.Nq, Nk = shape.Nk, Br = recipe.Br, Bc = recipe.Bc;
  const Band limits = recipe.skip == Skip::none ? Band{} : band(mask, Nq, Nk);
  Sums sums;
  const auto add = [&](std::int64_t i0, std::int64_t n, std::int64_t rows) {
    const Visited visited = band_tiles(limits, Nk, Br, Bc, i0, n, rows);
    sums.tiles += visited.tiles;
    sums.bc += visited.keys;
    sums.br += visited.tiles * rows;
    sums.area += visited.keys * rows;
  };
  add(0, Nq / Br, Br);
  if (Nq % Br != 0) add(Nq / Br, 1, Nq % Br);
  const std::int64_t start = std::max<std::int64_t>(0, limits.lo), end = std::min(Nk, Nq - 1 + limits.hi);
  if (limits.lo < limits.hi && start < end) {
    sums.column_keys = std::min(ceil_div(end, Bc) * Bc, Nk) - floor_div(start, Bc) * Bc;
  }
  return sums;
}

// What the tiles' parts of a mask or bias from a file come to: br x bc each, 1 where it broadcasts.
template <class Plane>
std::int64_t plane_elements(const Plane& plane, const Sums& sums) {
  if (plane.rows == 1) return plane.cols == 1 ? sums.tiles : sums.bc;
  return plane.cols == 1 ? sums.br : sums.area;
}

std::int64_t mask_elements(const Mask& mask, const Sums& sums) {
  return (mask.keep ? plane_elements(*mask.keep, sums) : 0) + (mask.bias ? plane_elements(*mask.bias, sums) : 0);
}

bool has_closed_form(const Mask& mask, const Recipe& recipe) {
  return recipe.algorithm == Algorithm::standard || recipe.skip != Skip::all || mask.structural_only();
}

// One head. Precondition: has_closed_form.
Moved closed_form(const Shape& shape, const Mask& mask, const Recipe& recipe) {
  const auto [Nq, Nk, d, dv] = std::array{shape.Nq, shape.Nk, shape.d, shape.dv};
  if (recipe.algorithm == Algorithm::standard) {
    const std::int64_t strips = ceil_div(Nq, recipe.Br);
    const Sums sums{strips, Nq, strips * Nk, Nq * Nk, Nk};
    return {Nq * d + Nk * (d + dv) + 2 * Nq * Nk + mask_elements(mask, sums), Nq * dv + 2 * Nq * Nk};
  }
  const Sums sums = tile_sums(shape, mask, recipe);
  Moved moved;
  if (recipe.algorithm == Algorithm::flash2) {
    moved = {Nq * d + sums.bc * (d + dv), Nq * (dv + 1)};
  } else {
    moved = {sums.column_keys * (d + dv) + sums.br * (d + dv + 2), sums.br * (dv + 2)};
    if (recipe.normalised() == Normalise::end) moved += {Nq * (dv + 2), Nq * (dv + 1)};
  }
  moved.read += mask_elements(mask, sums);
  return moved;
}

std::string formula_text(const Mask& mask, const Recipe& recipe) {
  std::string text;
  std::string_view piece = "tile visited";
  switch (recipe.algorithm) {
    case Algorithm::standard:
      text = "(Nq + Nk)(d + dv) + 4 Nq Nk";
      piece = "row block";
      break;
    case Algorithm::flash1:
      text = "sum over column blocks visited of bc (d + dv) + sum over tiles visited of br (d + 2 dv + 4)";
      if (recipe.normalised() == Normalise::end) text += " + Nq (2 dv + 3)";
      break;
    case Algorithm::flash2:
      text = "Nq (d + dv + 1) + sum over tiles visited of bc (d + dv)";
      break;
  }
  if (mask.keep) text += std::string(" + its part of the mask for every ").append(piece);
  if (mask.bias) text += std::string(" + its part of the bias for every ").append(piece);
  return text;
}

Moved times(const Moved& moved, std::int64_t heads) { return {moved.read * heads, moved.written * heads}; }

}  // namespace

Formula formula(const Schedule& schedule) {
  const Mask& mask = schedule.mask();
  const Recipe& recipe = schedule.recipe();
  Formula result;
  result.text = formula_text(mask, recipe);
  if (has_closed_form(mask, recipe)) {
    result.elements = times(closed_form(schedule.shape(), mask, recipe), schedule.shape().heads);
  } else {
    result.reason =
        "skip all with a mask from a file: which tiles are visited depends on the file's values, so there is no closed "
        "form";
  }
  return result;
}

std::int64_t formula_tiles(const Schedule& schedule) {
  const Recipe& recipe = schedule.recipe();
  const Shape& shape = schedule.shape();
  if (!has_closed_form(schedule.mask(), recipe)) return -1;
  if (recipe.algorithm == Algorithm::standard) return shape.heads * ceil_div(shape.Nq, recipe.Br);
  return shape.heads * tile_sums(shape, schedule.mask(), recipe).tiles;
}

Moved standard_elements(const Shape& shape) {
  Recipe recipe;
  recipe.algorithm = Algorithm::standard;
  return times(closed_form(shape, {}, recipe), shape.heads);
}

Saving saving(const Schedule& schedule) {
  const Shape& shape = schedule.shape();
  Saving result;
  result.standard = standard_elements(shape).total();
  result.unmasked = shape.heads * closed_form(shape, {}, schedule.recipe()).total();
  const std::optional<Moved> run = formula(schedule).elements;
  result.run = run ? run->total() : counted(schedule).elements.total().total();
  return result;
}

}  // namespace flashscope
