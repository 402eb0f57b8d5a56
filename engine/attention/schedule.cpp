#include "engine/attention/schedule.h"

#include <algorithm>
#include <array>

#include "engine/attention/staircase.h"
#include "engine/attention/tile_list.h"

namespace flashscope {
namespace {

constexpr std::int64_t kTileSteps = 8;  // of flash1 and flash2

const std::vector<Stage> kFlash1Tile = {Stage::load_rows,    Stage::scores,  Stage::mask,       Stage::max,
                                        Stage::exponentials, Stage::rescale, Stage::accumulate, Stage::store_rows};
const std::vector<Stage> kFlash2Tile = {Stage::load_k,       Stage::scores,  Stage::mask,   Stage::max,
                                        Stage::exponentials, Stage::rescale, Stage::load_v, Stage::accumulate};
// Standard: three passes over the row blocks, this many steps a row block in each.
constexpr std::array<std::array<Stage, 4>, 3> kStandardPass = {
    {{Stage::load_q, Stage::scores, Stage::mask, Stage::store_s},
     {Stage::load_s, Stage::softmax, Stage::store_p},
     {Stage::load_p, Stage::accumulate, Stage::store_o}}};
constexpr std::array<std::int64_t, 3> kStandardSteps = {4, 3, 3};

std::int64_t position_of(const std::vector<Stage>& stages, Stage stage) {
  const auto found = std::find(stages.begin(), stages.end(), stage);
  return found == stages.end() ? -1 : found - stages.begin();
}

// Largest x in [0, n) with before(x) <= k, for a non-decreasing before() and before(0) <= k.
template <class Before>
std::int64_t last_not_after(std::int64_t n, std::int64_t k, Before before) {
  std::int64_t low = 0, high = n;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (before(middle) <= k ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::string_view name(Stage stage) {
  constexpr std::array<std::string_view, 20> kNames = {"load_q",       "load_k",  "scores",    "mask",       "max",
                                                       "exponentials", "rescale", "load_v",    "accumulate", "finish",
                                                       "store",        "load_kv", "load_rows", "store_rows", "store_s",
                                                       "load_s",       "softmax", "store_p",   "load_p",     "store_o"};
  return kNames[static_cast<std::size_t>(stage)];
}

struct Schedule::State {
  Shape shape;
  Mask mask;
  Recipe recipe;
  Band limits;
  std::int64_t Tr = 0, Tc = 0;
  Staircase by_row{}, by_col{};
  std::optional<TileList> list;          // skip=all with a mask from a file
  std::vector<std::int64_t> head_start;  // [heads + 1] tiles before each head; only with a list per head
  bool reverse = false;

  bool standard() const { return recipe.algorithm == Algorithm::standard; }
  bool flash1() const { return recipe.algorithm == Algorithm::flash1; }

  // ---- visited tiles of one head, in ascending indices
  std::int64_t row_count(std::int64_t h, std::int64_t i) const {
    return list ? static_cast<std::int64_t>(list->of_row(h, i).size()) : by_row.range(i).count();
  }
  std::int64_t tiles_before_row(std::int64_t h, std::int64_t i) const {
    return list ? list->before_row(h, i) : by_row.tiles_before(i);
  }
  std::int64_t tiles_before_col(std::int64_t h, std::int64_t j) const {
    return list ? list->before_col(h, j) : by_col.tiles_before(j);
  }
  std::int64_t nonempty_cols_before(std::int64_t h, std::int64_t j) const {
    return list ? list->nonempty_cols_before(h, j) : by_col.nonempty_before(j);
  }
  std::int64_t col_count(std::int64_t h, std::int64_t j) const {
    return list ? static_cast<std::int64_t>(list->of_col(h, j).size()) : by_col.range(j).count();
  }
  // Position of `inner` among the ascending visited blocks of an outer one; -1 if it is not visited.
  static std::int64_t index_in(std::span<const std::int32_t> blocks, std::int64_t inner) {
    const auto at = std::lower_bound(blocks.begin(), blocks.end(), inner);
    return at != blocks.end() && *at == inner ? at - blocks.begin() : -1;
  }
  static std::int64_t index_in(const Staircase::Range& range, std::int64_t inner) {
    return inner >= range.first && inner < range.last ? inner - range.first : -1;
  }
  std::int64_t row_index(std::int64_t h, std::int64_t i, std::int64_t j) const {
    return list ? index_in(list->of_row(h, i), j) : index_in(by_row.range(i), j);
  }
  std::int64_t col_index(std::int64_t h, std::int64_t j, std::int64_t i) const {
    return list ? index_in(list->of_col(h, j), i) : index_in(by_col.range(j), i);
  }

  // ---- heads: steps and tiles before them
  std::int64_t tiles_before_head(std::int64_t h) const {
    if (standard()) return h * Tr;
    return list ? head_start[h] : h * by_row.tiles_before(Tr);
  }
  std::int64_t nonempty_before_head(std::int64_t h) const {
    if (!list) return h * by_col.nonempty_before(Tc);
    if (list->mask_head(1) == 0) return h * list->nonempty_cols_before(0, Tc);
    std::int64_t sum = 0;
    for (std::int64_t before = 0; before < h; ++before) sum += list->nonempty_cols_before(before, Tc);
    return sum;
  }
  std::int64_t steps_before_head(std::int64_t h) const {
    if (standard()) return h * Tr * 10;
    if (flash1()) return kTileSteps * tiles_before_head(h) + nonempty_before_head(h) + h * Tr;
    return kTileSteps * tiles_before_head(h) + 3 * h * Tr;
  }

  // ---- flash2: row blocks
  std::int64_t steps_before_row(std::int64_t h, std::int64_t i) const {
    return kTileSteps * tiles_before_row(h, i) + 3 * i;
  }

  // ---- flash1: column blocks by their position p in the order of the walk
  std::int64_t col_at(std::int64_t p) const { return reverse ? Tc - 1 - p : p; }
  std::int64_t tiles_before_position(std::int64_t h, std::int64_t p) const {
    return reverse ? tiles_before_col(h, Tc) - tiles_before_col(h, Tc - p) : tiles_before_col(h, p);
  }
  std::int64_t nonempty_before_position(std::int64_t h, std::int64_t p) const {
    return reverse ? nonempty_cols_before(h, Tc) - nonempty_cols_before(h, Tc - p) : nonempty_cols_before(h, p);
  }
  std::int64_t steps_before_position(std::int64_t h, std::int64_t p) const {
    return kTileSteps * tiles_before_position(h, p) + nonempty_before_position(h, p);
  }
  std::int64_t row_in_col(std::int64_t h, std::int64_t j, std::int64_t n) const {
    return list ? list->of_col(h, j)[n] : by_col.range(j).first + n;
  }
  std::int64_t col_in_row(std::int64_t h, std::int64_t i, std::int64_t n) const {
    const std::int64_t ascending = reverse ? row_count(h, i) - 1 - n : n;
    return list ? list->of_row(h, i)[ascending] : by_row.range(i).first + ascending;
  }
};

Schedule::Schedule(const Shape& shape, const Mask& mask, const Recipe& recipe, std::int64_t memory_limit)
    : state_(std::make_unique<State>()) {
  check(recipe, shape);
  State& s = *state_;
  s.shape = shape, s.mask = mask, s.recipe = recipe;
  s.limits = band(mask, shape.Nq, shape.Nk);
  s.reverse = recipe.order == Order::reverse;
  const bool everything = recipe.skip == Skip::none;
  s.by_row = {shape.Nq, shape.Nk, recipe.Br, recipe.Bc, s.limits.lo, s.limits.hi, everything};
  s.by_col = {shape.Nk, shape.Nq, recipe.Bc, recipe.Br, 1 - s.limits.hi, 1 - s.limits.lo, everything};
  s.Tr = s.by_row.outer_blocks(), s.Tc = s.by_col.outer_blocks();
  if (recipe.skip == Skip::all && !mask.structural_only() && !s.standard()) {
    s.list.emplace(mask, shape.Nq, shape.Nk, recipe.Br, recipe.Bc, memory_limit);
    s.head_start.push_back(0);
    for (std::int64_t h = 0; h < shape.heads; ++h)
      s.head_start.push_back(s.head_start.back() + s.tiles_before_row(h, s.Tr));
  }
}
Schedule::~Schedule() = default;
Schedule::Schedule(Schedule&&) noexcept = default;
Schedule& Schedule::operator=(Schedule&&) noexcept = default;

const Shape& Schedule::shape() const { return state_->shape; }
const Mask& Schedule::mask() const { return state_->mask; }
const Recipe& Schedule::recipe() const { return state_->recipe; }
std::int64_t Schedule::Tr() const { return state_->Tr; }
std::int64_t Schedule::Tc() const { return state_->Tc; }
std::int64_t Schedule::rows(std::int64_t i) const {
  return std::min(state_->recipe.Br, state_->shape.Nq - i * state_->recipe.Br);
}
std::int64_t Schedule::cols(std::int64_t j) const {
  return std::min(state_->recipe.Bc, state_->shape.Nk - j * state_->recipe.Bc);
}
std::int64_t Schedule::steps() const { return state_->steps_before_head(state_->shape.heads); }
std::int64_t Schedule::tiles() const { return state_->tiles_before_head(state_->shape.heads); }

const std::vector<Stage>& Schedule::tile_stages() const { return state_->flash1() ? kFlash1Tile : kFlash2Tile; }

Step Schedule::step(std::int64_t k) const {
  const State& s = *state_;
  Step step;
  step.head = last_not_after(s.shape.heads, k, [&](std::int64_t h) { return s.steps_before_head(h); });
  const std::int64_t h = step.head;
  std::int64_t rest = k - s.steps_before_head(h);
  if (s.standard()) {
    step.j = -1;
    for (std::size_t pass = 0; pass < 3; ++pass) {
      if (rest < s.Tr * kStandardSteps[pass]) {
        step.i = rest / kStandardSteps[pass];
        step.stage = kStandardPass[pass][rest % kStandardSteps[pass]];
        step.tile = s.tiles_before_head(h) + step.i;
        return step;
      }
      rest -= s.Tr * kStandardSteps[pass];
    }
  }
  if (s.flash1()) {
    const std::int64_t walk = s.steps_before_position(h, s.Tc);
    if (rest >= walk) {
      step.i = rest - walk, step.j = -1, step.stage = Stage::finish;
      return step;
    }
    const std::int64_t p = last_not_after(s.Tc, rest, [&](std::int64_t x) { return s.steps_before_position(h, x); });
    step.j = s.col_at(p);
    rest -= s.steps_before_position(h, p);
    if (rest == 0) {
      step.i = -1, step.stage = Stage::load_kv;
      return step;
    }
    const std::int64_t n = (rest - 1) / kTileSteps;
    step.i = s.row_in_col(h, step.j, n);
    step.stage = kFlash1Tile[(rest - 1) % kTileSteps];
    step.tile = s.tiles_before_head(h) + s.tiles_before_position(h, p) + n;
    return step;
  }
  step.i = last_not_after(s.Tr, rest, [&](std::int64_t x) { return s.steps_before_row(h, x); });
  rest -= s.steps_before_row(h, step.i);
  const std::int64_t in_tiles = kTileSteps * s.row_count(h, step.i);
  if (rest == 0 || rest > in_tiles) {
    step.j = -1;
    step.stage = rest == 0 ? Stage::load_q : rest == in_tiles + 1 ? Stage::finish : Stage::store;
    return step;
  }
  const std::int64_t n = (rest - 1) / kTileSteps;
  step.j = s.col_in_row(h, step.i, n);
  step.stage = kFlash2Tile[(rest - 1) % kTileSteps];
  step.tile = s.tiles_before_head(h) + s.tiles_before_row(h, step.i) + n;
  return step;
}

std::optional<std::int64_t> Schedule::find(std::int64_t head, std::int64_t i, std::int64_t j, Stage stage) const {
  const State& s = *state_;
  if (head < 0 || head >= s.shape.heads) return {};
  const bool row_ok = i >= 0 && i < s.Tr, col_ok = j >= 0 && j < s.Tc;
  std::int64_t k = s.steps_before_head(head);
  if (s.standard()) {
    for (std::size_t pass = 0; pass < 3; ++pass) {
      const auto& stages = kStandardPass[pass];
      const auto at = std::find(stages.begin(), stages.begin() + kStandardSteps[pass], stage) - stages.begin();
      if (at < kStandardSteps[pass]) return row_ok ? std::optional(k + i * kStandardSteps[pass] + at) : std::nullopt;
      k += s.Tr * kStandardSteps[pass];
    }
    return {};
  }
  if (s.flash1()) {
    if (stage == Stage::finish)
      return row_ok ? std::optional(k + s.steps_before_position(head, s.Tc) + i) : std::nullopt;
    if (!col_ok) return {};
    const std::int64_t p = s.col_at(j);  // its own inverse
    k += s.steps_before_position(head, p);
    if (stage == Stage::load_kv) return s.col_count(head, j) > 0 ? std::optional(k) : std::nullopt;
    const std::int64_t at = position_of(kFlash1Tile, stage);
    const std::int64_t n = row_ok ? s.col_index(head, j, i) : -1;
    if (at < 0 || n < 0) return {};
    return k + 1 + kTileSteps * n + at;
  }
  if (!row_ok) return {};
  k += s.steps_before_row(head, i);
  if (stage == Stage::load_q) return k;
  const std::int64_t in_tiles = kTileSteps * s.row_count(head, i);
  if (stage == Stage::finish) return k + 1 + in_tiles;
  if (stage == Stage::store) return k + 2 + in_tiles;
  const std::int64_t at = position_of(kFlash2Tile, stage);
  const std::int64_t n = col_ok ? visit_index(head, i, j) : -1;
  if (at < 0 || n < 0) return {};
  return k + 1 + kTileSteps * n + at;
}

namespace {

// What a stage of another algorithm is called here, best first.
std::vector<Stage> alike(Stage stage, Algorithm algorithm) {
  using enum Stage;
  std::vector<Stage> list = {stage};
  const auto add = [&list](std::initializer_list<Stage> more) { list.insert(list.end(), more); };
  switch (algorithm) {
    case Algorithm::flash1:
      if (stage == load_q || stage == load_k || stage == load_v || stage == load_s || stage == load_p) add({load_rows});
      if (stage == softmax) add({exponentials});
      if (stage == store || stage == store_o) add({finish});
      if (stage == store_s || stage == store_p) add({store_rows});
      break;
    case Algorithm::flash2:
      if (stage == load_kv || stage == load_rows || stage == load_s) add({load_k});
      if (stage == load_p) add({load_v});
      if (stage == softmax || stage == store_s || stage == store_p) add({exponentials});
      if (stage == store_rows) add({accumulate});
      if (stage == store_o) add({store});
      break;
    case Algorithm::standard:
      if (stage == load_k || stage == load_kv || stage == load_rows) add({load_q});
      if (stage == max || stage == exponentials || stage == rescale) add({softmax});
      if (stage == load_v || stage == store_rows) add({accumulate});
      if (stage == finish || stage == store) add({store_o});
      break;
  }
  return list;
}

}  // namespace

std::int64_t Schedule::nearest(std::int64_t head, std::int64_t row, std::int64_t key, Stage stage) const {
  const State& s = *state_;
  head = std::clamp<std::int64_t>(head, 0, s.shape.heads - 1);
  const std::int64_t i = std::clamp<std::int64_t>(row, 0, s.shape.Nq - 1) / s.recipe.Br;
  const std::int64_t j = std::clamp<std::int64_t>(key, 0, s.shape.Nk - 1) / s.recipe.Bc;
  const auto state_at = [&](std::int64_t column) -> std::optional<std::int64_t> {
    for (const Stage candidate : alike(stage, s.recipe.algorithm))
      if (const auto k = find(head, i, column, candidate)) return *k + 1;
    if (const auto k = find(head, i, column, Stage::accumulate)) return *k + 1;
    return {};
  };
  if (const auto K = state_at(j)) return *K;
  const std::int64_t count = visits(head, i);
  if (count > 0) {
    // The visited column block nearest to j: visits are monotone in the order of the walk.
    const std::int64_t first = visit_j(head, i, 0), last = visit_j(head, i, count - 1);
    std::int64_t best = std::abs(first - j) <= std::abs(last - j) ? first : last;
    if (s.list)
      for (const std::int32_t column : s.list->of_row(head, i))
        if (std::abs(column - j) < std::abs(best - j)) best = column;
    if (const auto K = state_at(best)) return *K;
  }
  return find(head, i, -1, s.standard() ? Stage::store_o : Stage::finish).value_or(-1) + 1;
}

TileClass Schedule::tile_class(std::int64_t head, std::int64_t i, std::int64_t j) const {
  const State& s = *state_;
  const std::int64_t r0 = i * s.recipe.Br, r1 = r0 + rows(i), c0 = j * s.recipe.Bc, c1 = c0 + cols(j);
  // The band first: it decides most tiles at once.
  const bool outside = s.limits.hi <= s.limits.lo || c1 <= r0 + s.limits.lo || c0 >= r1 - 1 + s.limits.hi;
  if (outside) return TileClass::empty;
  const bool inside = c0 >= r1 - 1 + s.limits.lo && c1 <= r0 + s.limits.hi;
  if (s.mask.structural_only()) return inside ? TileClass::full : TileClass::partial;
  bool any = false, all = inside;
  for (std::int64_t r = r0; r < r1 && (!any || all); ++r) {
    any = any || any_visible(s.mask, s.limits, head, r, c0, c1);
    all = all && all_visible(s.mask, s.limits, head, r, c0, c1);
  }
  return all ? TileClass::full : any ? TileClass::partial : TileClass::empty;
}

bool Schedule::visited(std::int64_t head, std::int64_t i, std::int64_t j) const {
  return state_->standard() || state_->row_index(head, i, j) >= 0;
}

std::int64_t Schedule::visits(std::int64_t head, std::int64_t i) const {
  return state_->standard() ? 1 : state_->row_count(head, i);
}
std::int64_t Schedule::visit_j(std::int64_t head, std::int64_t i, std::int64_t n) const {
  return state_->standard() ? -1 : state_->col_in_row(head, i, n);
}
std::int64_t Schedule::visit_index(std::int64_t head, std::int64_t i, std::int64_t j) const {
  if (state_->standard()) return 0;
  const std::int64_t ascending = state_->row_index(head, i, j);
  if (ascending < 0) return -1;
  return state_->reverse ? state_->row_count(head, i) - 1 - ascending : ascending;
}

std::int64_t Schedule::tile_ordinal(std::int64_t head, std::int64_t i, std::int64_t j) const {
  const State& s = *state_;
  const std::int64_t before = s.tiles_before_head(head);
  if (s.standard()) return before + i;
  if (s.flash1()) {
    const std::int64_t n = s.col_index(head, j, i);
    return n < 0 ? -1 : before + s.tiles_before_position(head, s.col_at(j)) + n;
  }
  const std::int64_t n = visit_index(head, i, j);
  return n < 0 ? -1 : before + s.tiles_before_row(head, i) + n;
}

Step Schedule::tile_at(std::int64_t ordinal) const {
  const State& s = *state_;
  Step step;
  step.tile = ordinal;
  const std::int64_t h = last_not_after(s.shape.heads, ordinal, [&](std::int64_t x) { return s.tiles_before_head(x); });
  step.head = h;
  const std::int64_t rest = ordinal - s.tiles_before_head(h);
  if (s.standard()) {
    step.i = rest, step.j = -1, step.stage = Stage::load_q;
  } else if (s.flash1()) {
    const std::int64_t p = last_not_after(s.Tc, rest, [&](std::int64_t x) { return s.tiles_before_position(h, x); });
    step.j = s.col_at(p);
    step.i = s.row_in_col(h, step.j, rest - s.tiles_before_position(h, p));
    step.stage = kFlash1Tile.front();
  } else {
    step.i = last_not_after(s.Tr, rest, [&](std::int64_t x) { return s.tiles_before_row(h, x); });
    step.j = s.col_in_row(h, step.i, rest - s.tiles_before_row(h, step.i));
    step.stage = kFlash2Tile.front();
  }
  return step;
}

std::int64_t Schedule::head_start(std::int64_t head) const { return state_->steps_before_head(head); }

std::int64_t Schedule::next_tile(std::int64_t k) const {
  const State& s = *state_;
  if (k >= steps()) return tiles();
  const Step at = step(k);
  if (at.tile >= 0) return at.tile;
  if (at.stage == Stage::load_kv)
    return s.tiles_before_head(at.head) + s.tiles_before_position(at.head, s.col_at(at.j));
  if (s.flash1()) return s.tiles_before_head(at.head + 1);  // the finishes follow all tiles of their head
  return s.tiles_before_head(at.head) + s.tiles_before_row(at.head, at.i + (at.stage != Stage::load_q));
}

Schedule::Progress Schedule::progress(std::int64_t K, std::int64_t head, std::int64_t i) const {
  const State& s = *state_;
  Progress progress;
  const auto done = [&](std::int64_t j, Stage stage) {
    const auto k = find(head, i, j, stage);
    return k && *k < K;
  };
  if (s.standard()) {
    progress.started = done(-1, Stage::load_q);
    progress.folded = done(-1, Stage::accumulate);
    progress.finished = progress.folded > 0;
    progress.stored = done(-1, Stage::store_o);
    return progress;
  }
  const std::int64_t count = visits(head, i);
  progress.finished = done(-1, Stage::finish);
  progress.stored = s.flash1() ? progress.finished : done(-1, Stage::store);
  progress.folded = count;
  if (!progress.finished) {  // binary search: the accumulates of a row block are in the order of its visits
    std::int64_t low = 0, high = count;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (done(visit_j(head, i, middle), Stage::accumulate))
        low = middle + 1;
      else
        high = middle;
    }
    progress.folded = low;
  }
  progress.started = progress.finished || progress.folded > 0 ||
                     (s.flash1() ? count > 0 && done(visit_j(head, i, 0), Stage::load_rows) : done(-1, Stage::load_q));
  return progress;
}

}  // namespace flashscope
