#include "engine/insight/condition_walk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/error.h"

namespace flashscope {
namespace {

using condition::bit;
using condition::Name;

constexpr unsigned kPlace = bit(Name::head) | bit(Name::row) | bit(Name::i) | bit(Name::r) | bit(Name::j);
constexpr unsigned kState = bit(Name::m) | bit(Name::l) | bit(Name::O);
constexpr unsigned kTile = bit(Name::key) | bit(Name::m_old) | bit(Name::l_old);
// What the fused tile does not leave as it was at each stage.
constexpr unsigned kNeedsVerbs = bit(Name::S) | bit(Name::P) | bit(Name::l) | bit(Name::O) | bit(Name::row_sum);

// What has another value, or begins to exist, with this stage of a tile.
unsigned changes(Stage stage) {
  switch (stage) {
    case Stage::scores:
    case Stage::mask:
      return bit(Name::S);
    case Stage::max:
      return bit(Name::m);
    case Stage::exponentials:
      return bit(Name::P);
    case Stage::rescale:
      return bit(Name::alpha) | bit(Name::l) | bit(Name::O);
    case Stage::accumulate:
      return bit(Name::l) | bit(Name::O) | bit(Name::row_sum);
    default:
      return 0;
  }
}

}  // namespace

template <class T>
ConditionWalk<T>::ConditionWalk(const Problem& problem, const Schedule& schedule)
    : schedule_(schedule), fold_(problem, schedule.recipe()) {}

template <class T>
std::optional<typename ConditionWalk<T>::Match> ConditionWalk<T>::search(const Condition& condition, std::int64_t head,
                                                                         std::int64_t i, std::int64_t from_K,
                                                                         std::int64_t bound, bool forward,
                                                                         const std::stop_token& stop,
                                                                         const std::function<void()>& folded) {
  condition_ = &condition;
  from_K_ = from_K, bound_ = bound, forward_ = forward, past_ = false;
  found_.reset();
  const std::int64_t rows = schedule_.rows(i);
  held_.assign(rows, 0);
  row_ = {};
  row_.head = head, row_.i = i, row_.channels = schedule_.shape().dv;
  start_row_block(fold_, schedule_, head, i);
  row_.stride = fold_.lanes();
  if (schedule_.recipe().algorithm == Algorithm::standard) {
    walk_strip();
    folded();
  } else {
    walk_tiles(stop, folded);
  }
  return found_;
}

// Asks every row, where all that the condition names exists; else it holds for none.
template <class T>
void ConditionWalk<T>::visit(Stage stage, unsigned exists) {
  if (over() || past_) return;
  exists |= kPlace;
  if ((condition_->names & ~exists) != 0) {
    std::fill(held_.begin(), held_.end(), std::uint8_t{0});
    return;
  }
  const std::int64_t K = *schedule_.find(row_.head, row_.i, row_.j, stage) + 1;
  past_ = forward_ ? K >= bound_ : K >= from_K_;
  if (past_) return;
  const bool inside = forward_ ? K > from_K_ : K > bound_;
  const auto wanted = [&](Name name) { return (condition_->names & bit(name)) != 0; };
  const bool max_done = stage == Stage::max || (exists & bit(Name::P)) != 0;
  for (std::int64_t r = 0; r < fold_.rows(); ++r) {
    row_.r = r, row_.row = fold_.row0() + r;
    row_.m = fold_.m()[r], row_.l = fold_.l()[r];
    row_.exists = exists;
    if (wanted(Name::alpha)) {
      row_.alpha = fold_.alpha()[r];
      // Before its first key a row has nothing to rescale; a NaN is one all the same.
      if (fold_.m_old()[r] == -std::numeric_limits<T>::infinity() && !std::isnan(row_.alpha))
        row_.exists &= ~bit(Name::alpha);
    }
    if (wanted(Name::row_sum)) row_.row_sum = fold_.row_sum()[r];
    if (wanted(Name::LSE)) row_.LSE = fold_.LSE()[r];
    if (wanted(Name::m_old)) row_.m_old = max_done ? fold_.m_old()[r] : row_.m;
    if (wanted(Name::l_old)) row_.l_old = l_old_[r];
    row_.O = fold_.O() + r;
    row_.P = fold_.S() + r;
    row_.S = exists & bit(Name::P) && !scores_.empty() ? scores_.data() + r : fold_.S() + r;
    const bool now = holds(*condition_, row_);
    if (now && !held_[r] && inside && (!found_ || found_->K != K)) found_ = Match{K, row_.j, row_.row};
    held_[r] = now;
  }
}

template <class T>
void ConditionWalk<T>::walk_tiles(const std::stop_token& stop, const std::function<void()>& folded) {
  const std::int64_t visits = schedule_.visits(row_.head, row_.i);
  if (schedule_.recipe().algorithm == Algorithm::flash2) visit(Stage::load_q, kState);
  for (std::int64_t n = 0; n < visits && !over() && !past_; ++n) {
    if (stop.stop_requested()) throw Cancelled();
    walk_tile(n);
    folded();
  }
  row_.j = -1, row_.cols = 0;
  if (over() || past_) return;
  fold_.finish();
  visit(Stage::finish, kState | bit(Name::LSE));
}

template <class T>
void ConditionWalk<T>::walk_tile(std::int64_t n) {
  const std::int64_t head = row_.head, i = row_.i;
  const unsigned names = condition_->names;
  row_.j = schedule_.visit_j(head, i, n);
  row_.col0 = row_.j * schedule_.recipe().Bc, row_.cols = schedule_.cols(row_.j);
  if (names & bit(Name::l_old)) l_old_.assign(fold_.l(), fold_.l() + fold_.rows());
  scores_.clear();
  unsigned exists = kState | kTile;
  const std::vector<Stage>& stages = schedule_.tile_stages();
  const bool first_step = n == 0 && stages.front() == Stage::load_rows;
  if (first_step || names & ~(kState | (kPlace & ~bit(Name::j)))) visit(stages.front(), exists);
  if ((names & ~(kPlace | bit(Name::key))) == 0) return;  // a matter of places: no arithmetic
  const bool verbs = names & kNeedsVerbs;
  if (verbs)
    begin_visit(fold_, schedule_, head, i, n);
  else
    fold_visit(fold_, schedule_, head, i, n);
  for (const Stage stage : stages) {
    switch (stage) {
      case Stage::scores:
        if (verbs) fold_.scores();
        exists |= bit(Name::S);
        break;
      case Stage::mask:
        if (verbs) fold_.mask();
        break;
      case Stage::max:
        if (verbs) fold_.max();
        break;
      case Stage::exponentials:
        if (names & bit(Name::S)) scores_.assign(fold_.S(), fold_.S() + fold_.cols() * fold_.lanes());
        if (verbs) fold_.exponentials();
        exists |= bit(Name::P);
        break;
      case Stage::rescale:
        if (verbs) fold_.rescale();
        exists |= bit(Name::alpha);
        break;
      case Stage::accumulate:
        if (verbs) fold_.accumulate();
        exists |= bit(Name::row_sum);
        break;
      default:
        break;
    }
    if (names & changes(stage)) visit(stage, exists);
  }
}

// Standard attention: the strip of all keys at once, in three passes.
template <class T>
void ConditionWalk<T>::walk_strip() {
  row_.j = -1, row_.col0 = 0, row_.cols = schedule_.shape().Nk;
  const unsigned key = bit(Name::key), S = bit(Name::S), P = bit(Name::P), ml = bit(Name::m) | bit(Name::l);
  visit(Stage::load_q, key);
  begin_strip(fold_, schedule_, row_.head, row_.i);
  fold_.scores();
  visit(Stage::scores, key | S);
  fold_.mask();
  visit(Stage::mask, key | S);
  fold_.softmax();
  visit(Stage::softmax, key | P | ml);
  visit(Stage::load_p, key | P);
  fold_.multiply();
  fold_.finish();
  visit(Stage::accumulate, key | P | ml | bit(Name::O) | bit(Name::LSE));
  visit(Stage::store_o, key | ml | bit(Name::O) | bit(Name::LSE));
}

template class ConditionWalk<float>;
template class ConditionWalk<double>;

}  // namespace flashscope
