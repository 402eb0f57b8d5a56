// A condition followed through one row block: the fold's verbs one by one, or the fused tile where the condition
// names only what that leaves, asked wherever something that it names changes.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "engine/attention/row_walk.h"
#include "engine/insight/condition.h"

namespace flashscope {

template <class T>
class ConditionWalk {
 public:
  ConditionWalk(const Problem& problem, const Schedule& schedule);

  struct Match {
    std::int64_t K = 0, j = -1, row = 0;
  };
  // The first (last) state of row block (head, i) with from_K < K < bound (bound < K < from_K going backwards) in
  // which the condition begins to hold for a row. Calls `folded` after each tile. Throws Cancelled.
  std::optional<Match> search(const Condition& condition, std::int64_t head, std::int64_t i, std::int64_t from_K,
                              std::int64_t bound, bool forward, const std::stop_token& stop,
                              const std::function<void()>& folded);

 private:
  void walk_tiles(const std::stop_token& stop, const std::function<void()>& folded);
  void walk_tile(std::int64_t n);
  void walk_strip();
  void visit(Stage stage, unsigned exists);
  bool over() const { return found_ && forward_; }

  const Schedule& schedule_;
  Fold<T> fold_;
  std::vector<T> scores_, l_old_;  // S before P takes its place; l before the tile
  // Of the search under way.
  const Condition* condition_ = nullptr;
  std::int64_t from_K_ = 0, bound_ = 0;
  bool forward_ = true, past_ = false;
  std::vector<std::uint8_t> held_;  // [rows] in the step before
  ConditionRow<T> row_;
  std::optional<Match> found_;
};

}  // namespace flashscope
