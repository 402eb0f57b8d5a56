// The closed forms of ledger.h and closed_form.h. They read shape, mask and recipe only, never the walk: what `counted`
// adds up tile by tile must come out here from floor sums.
#include "engine/attention/closed_form.h"

#include <algorithm>

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

// What one head moves, in both unit systems.
class Entries {
 public:
  Entries(ClosedForm& form, const Shape& shape, const Mask& mask) : form_(form), mask_(mask) {
    element_ = size_of(shape.type);
    accumulator_ = shape.type == DType::float64 ? 8 : 4;
  }
  // m, l, LSE and flash1's running O have the accumulator's type, Q K V S P and the O that is left the problem's.
  void add(Operand operand, const Moved& moved) { put(operand, moved, element_); }
  void add_accumulators(Operand operand, const Moved& moved) { put(operand, moved, accumulator_); }
  void add_masks(const Sums& sums) {
    if (mask_.keep) put(Operand::mask, {plane_elements(*mask_.keep, sums), 0}, 1);
    if (mask_.bias) put(Operand::bias, {plane_elements(*mask_.bias, sums), 0}, mask_.bias->element_bytes);
  }

 private:
  void put(Operand operand, const Moved& moved, std::int64_t size) {
    form_.elements[operand] += moved;
    form_.bytes[operand] += {moved.read * size, moved.written * size};
  }
  ClosedForm& form_;
  const Mask& mask_;
  std::int64_t element_ = 0, accumulator_ = 0;
};

ClosedForm one_head(const Shape& shape, const Mask& masks, const Recipe& recipe) {
  using enum Operand;
  const auto [Nq, Nk, d, dv] = std::array{shape.Nq, shape.Nk, shape.d, shape.dv};
  ClosedForm form;
  Entries entries(form, shape, masks);
  if (recipe.algorithm == Algorithm::standard) {
    const std::int64_t strips = ceil_div(Nq, recipe.Br);
    entries.add(Q, {Nq * d, 0});
    entries.add(K, {Nk * d, 0});
    entries.add(V, {Nk * dv, 0});
    entries.add(O, {0, Nq * dv});
    entries.add(S, {Nq * Nk, Nq * Nk});
    entries.add(P, {Nq * Nk, Nq * Nk});
    entries.add_masks({strips, Nq, strips * Nk, Nq * Nk, Nk});
    form.tiles = strips, form.cells = Nq * Nk;
    return form;
  }
  const Sums sums = tile_sums(shape, masks, recipe);
  form.tiles = sums.tiles, form.cells = sums.area;
  entries.add_masks(sums);
  if (recipe.algorithm == Algorithm::flash2) {
    entries.add(Q, {Nq * d, 0});
    entries.add(K, {sums.bc * d, 0});
    entries.add(V, {sums.bc * dv, 0});
    entries.add(O, {0, Nq * dv});
    entries.add_accumulators(LSE, {0, Nq});
    return form;
  }
  entries.add(Q, {sums.br * d, 0});
  entries.add(K, {sums.column_keys * d, 0});
  entries.add(V, {sums.column_keys * dv, 0});
  entries.add_accumulators(O, {sums.br * dv, sums.br * dv});
  entries.add_accumulators(m, {sums.br, sums.br});
  entries.add_accumulators(l, {sums.br, sums.br});
  if (recipe.normalised() == Normalise::end) {
    entries.add_accumulators(O, {Nq * dv, 0});
    entries.add_accumulators(m, {Nq, 0});
    entries.add_accumulators(l, {Nq, 0});
    entries.add(O, {0, Nq * dv});
    entries.add_accumulators(LSE, {0, Nq});
  }
  return form;
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

}  // namespace

bool has_closed_form(const Mask& mask, const Recipe& recipe) {
  return recipe.algorithm == Algorithm::standard || recipe.skip != Skip::all || mask.structural_only();
}

ClosedForm closed_form(const Shape& shape, const Mask& mask, const Recipe& recipe) {
  ClosedForm form = one_head(shape, mask, recipe);
  const std::int64_t heads = shape.heads;
  if (heads == 1) return form;
  for (Traffic* traffic : {&form.elements, &form.bytes})
    for (Moved& moved : traffic->by_operand) moved.read *= heads, moved.written *= heads;
  form.tiles *= heads, form.cells *= heads;
  return form;
}

std::int64_t band_cells(const Shape& shape, const Mask& mask) {
  // In tiles of one score the visible scores are what is visited.
  Recipe each;
  each.Br = each.Bc = 1;
  return shape.heads * tile_sums(shape, mask, each).area;
}

Formula formula(const Schedule& schedule) {
  const Mask& mask = schedule.mask();
  const Recipe& recipe = schedule.recipe();
  Formula result;
  result.text = formula_text(mask, recipe);
  if (has_closed_form(mask, recipe)) {
    result.elements = closed_form(schedule.shape(), mask, recipe).elements.total();
  } else {
    result.reason =
        "skip all with a mask from a file: which tiles are visited depends on the file's values, so there is no closed "
        "form";
  }
  return result;
}

std::int64_t formula_tiles(const Schedule& schedule) {
  if (!has_closed_form(schedule.mask(), schedule.recipe())) return -1;
  return closed_form(schedule.shape(), schedule.mask(), schedule.recipe()).tiles;
}

Moved standard_elements(const Shape& shape) {
  Recipe recipe;
  recipe.algorithm = Algorithm::standard;
  return closed_form(shape, {}, recipe).elements.total();
}

Saving saving(const Schedule& schedule) {
  const Shape& shape = schedule.shape();
  Saving result;
  result.standard = standard_elements(shape).total();
  result.unmasked = closed_form(shape, {}, schedule.recipe()).elements.total().total();
  const std::optional<Moved> run = formula(schedule).elements;
  result.run = run ? run->total() : counted(schedule).elements.total().total();
  return result;
}

}  // namespace flashscope
