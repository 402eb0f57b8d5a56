// The walk: which tile when, addressed by number and never stored as a list.
//
// Step k <-> (head, i, j, stage) both ways in O(log) through closed forms (structural masks) or
// prefix sums (skip=all with a mask from a file). State K is the state after K steps, 0 <= K <= steps;
// the step that led to state K is step(K - 1). A walk of 10^12 steps costs nothing to hold.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"

namespace flashscope {

enum class Stage : std::uint8_t {
  load_q,
  load_k,
  scores,
  mask,
  max,
  exponentials,
  rescale,
  load_v,
  accumulate,
  finish,
  store,  // flash2
  load_kv,
  load_rows,
  store_rows,  // flash1
  store_s,
  load_s,
  softmax,
  store_p,
  load_p,
  store_o  // standard
};
std::string_view name(Stage stage);

enum class TileClass : std::uint8_t { full, partial, empty };  // all, some, no keys visible

struct Step {
  std::int64_t head = 0;
  std::int64_t i = 0;  // row block; -1 where the step belongs to a column block (load_kv)
  std::int64_t j = 0;  // column block; -1 where the step belongs to a row block (load_q, finish, ...)
  Stage stage = Stage::load_q;
  std::int64_t tile = -1;  // ordinal of the visited tile in the order of steps; -1 outside tiles
  bool operator==(const Step&) const = default;
};

class Schedule {
 public:
  // Keeps the mask (shared). Throws InputError where skip=all with a file mask would need more than
  // `memory_limit` bytes of prefix sums.
  Schedule(const Shape& shape, const Mask& mask, const Recipe& recipe,
           std::int64_t memory_limit = std::int64_t{4} << 30);
  ~Schedule();
  Schedule(Schedule&&) noexcept;
  Schedule& operator=(Schedule&&) noexcept;

  const Shape& shape() const;
  const Mask& mask() const;
  const Recipe& recipe() const;

  std::int64_t Tr() const;                  // row blocks, ceil(Nq / Br)
  std::int64_t Tc() const;                  // column blocks, ceil(Nk / Bc)
  std::int64_t rows(std::int64_t i) const;  // real rows of row block i
  std::int64_t cols(std::int64_t j) const;  // real columns of column block j

  std::int64_t steps() const;
  std::int64_t tiles() const;       // visited tiles over all heads; standard: Tr row strips a head count as tiles
  Step step(std::int64_t k) const;  // 0 <= k < steps()
  // The number k with step(k) == that place; nothing if it is not visited.
  std::optional<std::int64_t> find(std::int64_t head, std::int64_t i, std::int64_t j, Stage stage) const;
  // The state number nearest to that place (same stage, else same tile, else nearest tile of the row block).
  std::int64_t nearest(std::int64_t head, std::int64_t row, std::int64_t key, Stage stage) const;

  TileClass tile_class(std::int64_t head, std::int64_t i, std::int64_t j) const;
  bool visited(std::int64_t head, std::int64_t i, std::int64_t j) const;

  // The column blocks that row block i folds in, in the order in which it folds them.
  std::int64_t visits(std::int64_t head, std::int64_t i) const;                       // how many
  std::int64_t visit_j(std::int64_t head, std::int64_t i, std::int64_t n) const;      // the n-th
  std::int64_t visit_index(std::int64_t head, std::int64_t i, std::int64_t j) const;  // inverse; -1
  // Ordinal, in the order of steps, of the visited tile (head, i, j); -1 if it is not visited.
  std::int64_t tile_ordinal(std::int64_t head, std::int64_t i, std::int64_t j) const;
  Step tile_at(std::int64_t ordinal) const;  // its place; stage is the tile's first stage
  // Steps before those of a head, 0..heads: heads that have masks of their own differ in length.
  std::int64_t head_start(std::int64_t head) const;
  // Ordinal of the first tile that has a step at or after step k; tiles() if there is none.
  std::int64_t next_tile(std::int64_t k) const;

  // Number of steps of a visited tile (8 for flash1 and flash2) and its stages in order.
  const std::vector<Stage>& tile_stages() const;

  // Where row block (head, i) is in state K: tiles folded in completely, and whether finish was done.
  struct Progress {
    std::int64_t folded = 0;
    bool started = false, finished = false, stored = false;
  };
  Progress progress(std::int64_t K, std::int64_t head, std::int64_t i) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flashscope
