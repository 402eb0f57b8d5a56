#include "engine/attention/stepper.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/error.h"

namespace flashscope {
namespace {

constexpr std::int64_t kTilesAtOnce = 32;  // of a search: so many are folded again where one of them has a match

// Between keyframes lies at most about this much work, a millisecond or two on one core.
constexpr double kKeyframeFlops = 1e8;
constexpr std::int64_t kKeyframeBytes = std::int64_t{48} << 20;  // of all cached row blocks together

}  // namespace

template <class T>
Stepper<T>::Stepper(std::shared_ptr<const Problem> problem, const Schedule& schedule)
    : problem_(std::move(problem)),
      schedule_(schedule),
      limits_(band(problem_->mask, problem_->shape().Nq, problem_->shape().Nk)),
      fold_(*problem_, schedule.recipe()) {}

template <class T>
std::int64_t Stepper<T>::interval_of(std::int64_t visits) const {
  const Shape shape = problem_->shape();
  const Recipe& recipe = schedule_.recipe();
  const double rows = std::min(recipe.Br, shape.Nq), cols = std::min(recipe.Bc, shape.Nk);
  const double tile_flops = 2 * rows * cols * static_cast<double>(shape.d + shape.dv);
  const double frame_bytes = (rows + kLane) * static_cast<double>((shape.dv + 2) * sizeof(T));
  // One row block may take half of the cache.
  const double least = static_cast<double>(visits) * frame_bytes / (kKeyframeBytes / 2.0);
  return static_cast<std::int64_t>(std::clamp(std::max(kKeyframeFlops / tile_flops, least), 1.0, 1e12));
}

template <class T>
typename Stepper<T>::Keyframes& Stepper<T>::keyframes(std::int64_t head, std::int64_t i) {
  const auto same = [&](const Keyframes& k) { return k.head == head && k.i == i; };
  if (const auto found = std::find_if(cache_.begin(), cache_.end(), same); found != cache_.end()) {
    cache_.splice(cache_.begin(), cache_, found);
  } else {
    cache_.push_front({head, i, interval_of(schedule_.visits(head, i)), {}});
    std::int64_t bytes = 0;
    for (auto k = cache_.begin(); k != cache_.end(); ++k) {
      for (const State& frame : k->frames)
        bytes += static_cast<std::int64_t>((frame.O.size() + 2 * frame.m.size()) * sizeof(T));
      if (bytes > kKeyframeBytes && k != cache_.begin()) {
        cache_.erase(k, cache_.end());
        break;
      }
    }
  }
  return cache_.front();
}

template <class T>
void Stepper<T>::seek(std::int64_t head, std::int64_t i, std::int64_t n, std::stop_token stop) {
  Keyframes& cache = keyframes(head, i);
  const bool here = started_ && head_ == head && i_ == i;
  if (!here) start_row_block(fold_, schedule_, head, i);
  started_ = true, head_ = head, i_ = i;

  const std::int64_t frame =
      cache.frames.empty()
          ? -1
          : std::min<std::int64_t>(n / cache.interval, static_cast<std::int64_t>(cache.frames.size()) - 1);
  const bool from_tile_start = here && tile_start_.folded <= n && tile_start_.folded >= frame * cache.interval;
  if (from_tile_start)
    fold_.restore(tile_start_);
  else if (frame >= 0)
    fold_.restore(cache.frames[frame]);
  else
    start_row_block(fold_, schedule_, head, i);

  std::int64_t folded = from_tile_start ? tile_start_.folded : std::max<std::int64_t>(0, frame * cache.interval);
  for (;; ++folded) {
    if (folded == static_cast<std::int64_t>(cache.frames.size()) * cache.interval)
      fold_.save(cache.frames.emplace_back());
    if (folded == n) break;
    if (stop.stop_requested()) {
      started_ = false;
      throw Cancelled();
    }
    fold_visit(fold_, schedule_, head, i, folded);
  }
  fold_.save(tile_start_);
}

template <class T>
typename Stepper<T>::RowMarks Stepper<T>::marks() const {
  RowMarks marks{std::vector<std::uint8_t>(fold_.rows()), std::vector<std::uint8_t>(fold_.rows())};
  std::vector<Event> none;
  note_rows(marks, {EventKind::nan, 0, 0, 0, 0, -1, 1}, none);
  return marks;
}

// NaN in the cells of S or P. only_visible: the raw scores before a selecting mask, where a NaN that the
// mask will take away reaches nothing.
template <class T>
void Stepper<T>::note_cells(RowMarks& marks, bool only_visible, Event event, std::vector<Event>& events) const {
  std::vector<std::uint8_t> fresh(fold_.rows());
  for (std::int64_t c = 0; c < fold_.cols(); ++c) {
    const T* row = fold_.S() + c * fold_.lanes();
    for (std::int64_t r = 0; r < fold_.rows(); ++r)
      if (std::isnan(row[r]) && !marks.nan[r] && !fresh[r])
        fresh[r] = !only_visible || visible(problem_->mask, limits_, fold_.head(), fold_.row0() + r, fold_.col0() + c);
  }
  for (std::int64_t r = 0; r < fold_.rows(); ++r) {
    if (!fresh[r]) continue;
    marks.nan[r] = 1;
    event.kind = EventKind::nan, event.row = fold_.row0() + r;
    events.push_back(event);
  }
}

// NaN and +inf in what is kept of each row: m, l, O.
template <class T>
void Stepper<T>::note_rows(RowMarks& marks, Event event, std::vector<Event>& events) const {
  const std::int64_t dv = problem_->V().cols;
  for (std::int64_t r = 0; r < fold_.rows(); ++r) {
    bool nan = std::isnan(fold_.l()[r]), inf = fold_.m()[r] > 0 && std::isinf(fold_.m()[r]);
    inf = inf || std::isinf(fold_.l()[r]);
    for (std::int64_t e = 0; e < dv; ++e) {
      const T o = fold_.O()[e * fold_.lanes() + r];
      nan = nan || std::isnan(o), inf = inf || std::isinf(o);
    }
    event.row = fold_.row0() + r;
    if (nan && !marks.nan[r]) event.kind = EventKind::nan, events.push_back(event);
    if (inf && !marks.inf[r]) event.kind = EventKind::inf, events.push_back(event);
    marks.nan[r] |= nan, marks.inf[r] |= inf;
  }
}

template <class T>
void Stepper<T>::run_tile(std::int64_t n, Stage last, std::vector<Event>& events) {
  const std::int64_t j = schedule_.visit_j(head_, i_, n);
  const std::vector<Stage>& stages = schedule_.tile_stages();
  Event event{EventKind::masked, *schedule_.find(head_, i_, j, stages.front()), head_, i_, j, -1, 1};
  begin_visit(fold_, schedule_, head_, i_, n);
  RowMarks marks = this->marks();
  const bool selects = problem_->mask.none() ? false : schedule_.recipe().mask_apply == MaskApply::select;
  // A defect that masks by other indices decides at `mask` what reaches the output.
  const bool raw_decides = schedule_.recipe().defect != Defect::local_causal;
  for (const Stage stage : stages) {
    ++event.step;
    switch (stage) {
      case Stage::scores:
        fold_.scores();
        if (raw_decides) note_cells(marks, selects, event, events);
        break;
      case Stage::mask:
        fold_.mask();
        note_cells(marks, false, event, events);
        if (schedule_.tile_class(head_, i_, j) == TileClass::empty)
          events.push_back({EventKind::masked, event.step, head_, i_, j, -1, 1});
        break;
      case Stage::max:
        fold_.max();
        note_rows(marks, event, events);
        for (std::int64_t r = 0; r < fold_.rows(); ++r)
          if (fold_.m_old()[r] == -std::numeric_limits<T>::infinity() && std::isfinite(fold_.m()[r]))
            events.push_back({EventKind::first_max, event.step, head_, i_, j, fold_.row0() + r, 1});
        break;
      case Stage::exponentials:
        fold_.exponentials();
        note_cells(marks, false, event, events);
        break;
      case Stage::rescale:
        fold_.rescale();
        for (std::int64_t r = 0; r < fold_.rows(); ++r)
          if (std::isfinite(fold_.m_old()[r]) && fold_.m()[r] > fold_.m_old()[r])
            events.push_back({EventKind::rescale, event.step, head_, i_, j, fold_.row0() + r, fold_.alpha()[r]});
        note_rows(marks, event, events);
        break;
      case Stage::accumulate:
        fold_.accumulate();
        note_rows(marks, event, events);
        break;
      default:
        break;  // loads and stores compute nothing
    }
    if (stage == last) return;
  }
}

template <class T>
void Stepper<T>::run_strip(Stage last, std::vector<Event>& events) {
  begin_strip(fold_, schedule_, head_, i_);
  RowMarks marks = this->marks();
  const auto event = [&](Stage stage) {
    return Event{EventKind::masked, *schedule_.find(head_, i_, -1, stage) + 1, head_, i_, -1, -1, 1};
  };
  const bool selects = !problem_->mask.none() && schedule_.recipe().mask_apply == MaskApply::select;
  if (last == Stage::load_q) return;
  fold_.scores();
  note_cells(marks, selects, event(Stage::scores), events);
  if (last == Stage::scores) return;
  fold_.mask();
  note_cells(marks, false, event(Stage::mask), events);
  if (last == Stage::mask || last == Stage::store_s || last == Stage::load_s) return;
  fold_.softmax();
  note_cells(marks, false, event(Stage::softmax), events);
  note_rows(marks, event(Stage::softmax), events);
  if (last == Stage::softmax || last == Stage::store_p || last == Stage::load_p) return;
  fold_.multiply();
  fold_.finish();
  note_rows(marks, event(Stage::accumulate), events);
}

template <class T>
void Stepper<T>::finish(std::vector<Event>& events) {
  Event event{EventKind::empty_row, *schedule_.find(head_, i_, -1, Stage::finish) + 1, head_, i_, -1, -1, 1};
  RowMarks marks = this->marks();
  const std::vector<std::uint8_t> empty = fold_.empty();
  fold_.finish();
  for (std::int64_t r = 0; r < fold_.rows(); ++r)
    if (empty[r]) event.row = fold_.row0() + r, events.push_back(event);
  note_rows(marks, event, events);
}

template <class T>
std::vector<Event> Stepper<T>::tile_events(std::int64_t head, std::int64_t i, std::int64_t n, std::stop_token stop) {
  std::vector<Event> events;
  if (schedule_.recipe().algorithm == Algorithm::standard) {
    start_row_block(fold_, schedule_, head, i);
    head_ = head, i_ = i, started_ = false;
    run_strip(Stage::store_o, events);
    return events;
  }
  seek(head, i, n, stop);
  run_tile(n, Stage::accumulate, events);
  return events;
}

template <class T>
std::vector<Event> Stepper<T>::finish_events(std::int64_t head, std::int64_t i, std::stop_token stop) {
  std::vector<Event> events;
  if (schedule_.recipe().algorithm == Algorithm::standard) return events;
  seek(head, i, schedule_.visits(head, i), stop);
  finish(events);
  return events;
}

template <class T>
Matrix Stepper<T>::cells() const {
  Matrix matrix{fold_.rows(), fold_.cols(), std::vector<double>(fold_.rows() * fold_.cols())};
  for (std::int64_t c = 0; c < fold_.cols(); ++c)
    for (std::int64_t r = 0; r < fold_.rows(); ++r)
      matrix.values[r * fold_.cols() + c] = fold_.S()[c * fold_.lanes() + r];
  return matrix;
}

template <class T>
Matrix Stepper<T>::input(const Tensor& tensor, std::int64_t head, std::int64_t row0, std::int64_t rows) const {
  const T* first = tensor.template head<T>(head) + row0 * tensor.cols;
  return {rows, tensor.cols, std::vector<double>(first, first + rows * tensor.cols)};
}

template <class T>
void Stepper<T>::copy_row_state(TraceState& state) const {
  const std::int64_t dv = problem_->V().cols, rows = fold_.rows();
  state.O = {rows, dv, std::vector<double>(rows * dv)};
  for (std::int64_t e = 0; e < dv; ++e)
    for (std::int64_t r = 0; r < rows; ++r) state.O.values[r * dv + e] = fold_.O()[e * fold_.lanes() + r];
  state.m.assign(fold_.m(), fold_.m() + rows);
  state.l.assign(fold_.l(), fold_.l() + rows);
}

template <class T>
TraceState Stepper<T>::state(std::int64_t K, std::stop_token stop) {
  TraceState state;
  state.K = K, state.steps = schedule_.steps();
  if (K == 0) return state;
  const Step step = schedule_.step(K - 1);
  state.step = step, state.head = step.head, state.i = step.i, state.j = step.j;
  const Recipe& recipe = schedule_.recipe();
  const std::int64_t kv_head = flashscope::kv_head(problem_->shape(), recipe, step.head);
  if (step.j >= 0) state.col0 = step.j * recipe.Bc, state.cols = schedule_.cols(step.j);
  if (step.i >= 0) state.row0 = step.i * recipe.Br, state.rows = schedule_.rows(step.i);
  std::vector<Event> events;

  if (recipe.algorithm == Algorithm::standard) {
    started_ = false, head_ = step.head, i_ = step.i;
    start_row_block(fold_, schedule_, step.head, step.i);
    run_strip(step.stage, events);
    state.col0 = 0, state.cols = problem_->shape().Nk;
    state.visits = 1;
    using enum Stage;
    const Stage s = step.stage;
    if (s == load_q || s == scores || s == Stage::mask)
      state.Q = input(problem_->Q(), step.head, state.row0, state.rows);
    if (s == softmax || s == store_p || s == load_p || s == accumulate)
      state.P = cells();
    else if (s != load_q && s != store_o)
      state.S = cells();
    if (s == softmax || s == store_p) {
      state.m.assign(fold_.m(), fold_.m() + state.rows);
      state.l.assign(fold_.l(), fold_.l() + state.rows);
    }
    if (s == accumulate || s == store_o) {
      copy_row_state(state);
      state.LSE.assign(fold_.LSE(), fold_.LSE() + state.rows);
      state.finished = true, state.folded = 1;
    }
  } else if (step.stage == Stage::load_kv) {
    state.K_tile = input(problem_->K(), kv_head, state.col0, state.cols);
    state.V = input(problem_->V(), kv_head, state.col0, state.cols);
  } else {
    const std::int64_t n = step.j >= 0 ? schedule_.visit_index(step.head, step.i, step.j) : -1;
    state.visits = schedule_.visits(step.head, step.i);
    const bool begins = step.stage == Stage::load_q;
    seek(step.head, step.i, n >= 0 ? n : begins ? 0 : state.visits, stop);
    if (n >= 0) {
      run_tile(n, step.stage, events);
    } else if (!begins) {
      finish(events);
      state.finished = true;
      state.LSE.assign(fold_.LSE(), fold_.LSE() + state.rows);
    }
    const bool flash1 = recipe.algorithm == Algorithm::flash1;
    // flash1's finish works on O, l, m alone; flash2 keeps Q until it has stored O.
    if (!flash1 || n >= 0) state.Q = input(problem_->Q(), step.head, state.row0, state.rows);
    copy_row_state(state);
    state.folded = tile_start_.folded;
    if (n >= 0) {
      state.tile_class = schedule_.tile_class(step.head, step.i, step.j);
      const auto& stages = schedule_.tile_stages();
      const auto reached = [&](Stage stage) {  // that stage is done in this tile
        return std::find(stages.begin(), stages.end(), stage) <= std::find(stages.begin(), stages.end(), step.stage);
      };
      const std::int64_t rows = state.rows;
      state.m_old.assign(tile_start_.m.begin(), tile_start_.m.begin() + rows);
      state.l_old.assign(tile_start_.l.begin(), tile_start_.l.begin() + rows);
      state.K_tile = input(problem_->K(), kv_head, state.col0, state.cols);
      if (flash1 || reached(Stage::load_v)) state.V = input(problem_->V(), kv_head, state.col0, state.cols);
      if (reached(Stage::exponentials)) {
        state.P = cells();
        // S was overwritten in place; its masked values again, for the picture.
        fold_.restore(tile_start_);
        std::vector<Event> again;
        run_tile(n, Stage::mask, again);
        state.S = cells();
        fold_.restore(tile_start_);
        run_tile(n, step.stage, again);
      } else if (reached(Stage::scores)) {
        state.S = cells();
      }
      if (reached(Stage::max)) {
        state.rescaled.resize(rows);
        for (std::int64_t r = 0; r < rows; ++r)
          state.rescaled[r] = std::isfinite(state.m_old[r]) && state.m[r] > state.m_old[r];
      }
      if (reached(Stage::rescale)) {
        state.alpha.assign(fold_.alpha(), fold_.alpha() + rows);
        state.o_factor.assign(fold_.o_factor(), fold_.o_factor() + rows);
      }
      if (reached(Stage::accumulate)) {
        state.row_sum.assign(fold_.row_sum(), fold_.row_sum() + rows);
        state.folded = tile_start_.folded + 1;
      }
      if (state.tile_class != TileClass::full) {
        state.visible.resize(rows * state.cols);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < state.cols; ++c)
            state.visible[r * state.cols + c] =
                visible(problem_->mask, limits_, step.head, state.row0 + r, state.col0 + c);
      }
    }
  }
  for (Event& event : events)
    if (event.step == K) state.events.push_back(event);
  return state;
}

template <class T>
std::vector<RowHistoryEntry> Stepper<T>::row_history(std::int64_t head, std::int64_t row, std::int64_t channel,
                                                     std::stop_token stop) {
  const std::int64_t i = row / schedule_.recipe().Br, dv = problem_->V().cols;
  std::vector<RowHistoryEntry> history;
  const bool reverse = schedule_.recipe().order == Order::reverse;
  const std::int64_t visits = schedule_.recipe().algorithm == Algorithm::standard ? 0 : schedule_.visits(head, i);
  // A row computes the same bits alone as in its row block, unless its mask goes by its place there.
  Fold<T> one(*problem_, schedule_.recipe());
  const bool alone = schedule_.recipe().defect != Defect::local_causal;
  if (alone)
    one.start(head, row, 1);
  else
    start_row_block(one, schedule_, head, i);
  const std::int64_t lanes = one.lanes(), r = row - one.row0();
  std::int64_t n = 0;
  for (std::int64_t position = 0; position < schedule_.Tc(); ++position) {
    if (stop.stop_requested()) throw Cancelled();
    RowHistoryEntry entry;
    entry.m_before = one.m()[r], entry.l_before = one.l()[r];
    if (!history.empty()) entry.o_norm_before = history.back().o_norm, entry.o_before = history.back().o;
    entry.j = reverse ? schedule_.Tc() - 1 - position : position;
    entry.visited = n < visits && schedule_.visit_j(head, i, n) == entry.j;
    if (entry.visited) {
      begin_visit(one, schedule_, head, i, n++);
      one.scores(), one.mask();
      entry.tile_max = -std::numeric_limits<double>::infinity();
      for (std::int64_t c = 0; c < one.cols(); ++c)
        if (const double score = one.S()[c * lanes + r]; score > entry.tile_max) entry.tile_max = score;
      one.max(), one.exponentials(), one.rescale(), one.accumulate();
      entry.rescaled = std::isfinite(entry.m_before) && one.m()[r] > entry.m_before;
      entry.alpha = one.alpha()[r];
      entry.step = *schedule_.find(head, i, entry.j, Stage::accumulate) + 1;
    } else {
      entry.tile_max = -std::numeric_limits<double>::infinity();
    }
    entry.m = one.m()[r], entry.l = one.l()[r];
    double squares = 0;
    for (std::int64_t e = 0; e < dv; ++e)
      squares += static_cast<double>(one.O()[e * lanes + r]) * one.O()[e * lanes + r];
    entry.o_norm = std::sqrt(squares);
    if (channel >= 0) entry.o = one.O()[channel * lanes + r];
    history.push_back(entry);
  }
  return history;
}

template <class T>
std::optional<Event> Stepper<T>::search(EventKind kind, std::int64_t head, std::int64_t i, std::int64_t from_K,
                                        std::int64_t bound, bool forward, double max_alpha, std::stop_token stop,
                                        const std::function<void()>& folded) {
  const auto inside = [&](std::int64_t step) {
    return forward ? step > from_K && step < bound : step < from_K && step > bound;
  };
  const auto pick = [&](const std::vector<Event>& events) {
    std::optional<Event> best;
    for (const Event& event : events) {
      if (event.kind != kind || !inside(event.step)) continue;
      if (kind == EventKind::rescale && !(event.alpha < max_alpha)) continue;
      if (!best || (forward ? event.step < best->step : event.step >= best->step)) best = event;
    }
    return best;
  };
  if (schedule_.recipe().algorithm == Algorithm::standard) {
    folded();
    return pick(tile_events(head, i, 0, stop));
  }
  const auto has_empty_row = [&](std::int64_t block) {
    const std::int64_t row0 = block * schedule_.recipe().Br;
    for (std::int64_t row = row0; row < row0 + schedule_.rows(block); ++row)
      if (!any_visible(problem_->mask, limits_, head, row, 0, schedule_.shape().Nk)) return true;
    return false;
  };
  // Folds a tile in: whether it can hold such an event. Then it is folded again, verb by verb.
  const bool adds = schedule_.recipe().mask_apply == MaskApply::add && schedule_.recipe().guard == Guard::skip;
  const auto has = [&](std::int64_t n) {
    if (kind == EventKind::first_max || kind == EventKind::rescale) {
      fold_visit(fold_, schedule_, head, i, n);
      for (std::int64_t r = 0; r < fold_.rows(); ++r) {
        const T old = fold_.m_old()[r], now = fold_.m()[r];
        if (kind == EventKind::first_max && old == -std::numeric_limits<T>::infinity() && std::isfinite(now))
          return true;
        if (kind == EventKind::rescale && std::isfinite(old) && now > old &&
            (max_alpha >= 1 || fold_.alpha()[r] < max_alpha))
          return true;
      }
      return false;
    }
    const TileCounts counts = fold_visit_counted(fold_, schedule_, head, i, n);
    // An infinity may be a NaN at the tile's end; and a NaN that a mask adds to goes no further under guard skip.
    if (kind == EventKind::inf) return counts.new_inf > 0 || counts.new_nan > 0;
    return kind == EventKind::nan &&
           (counts.new_nan > 0 || (adds && needs_mask(schedule_, head, i, schedule_.visit_j(head, i, n))));
  };
  const std::int64_t visits = schedule_.visits(head, i);
  const std::int64_t at_finish = *schedule_.find(head, i, -1, Stage::finish) + 1;
  if (kind == EventKind::empty_row) {  // a matter of the mask: folded only where there is one
    for (std::int64_t n = 0; n < visits; ++n) folded();
    if (!inside(at_finish) || !has_empty_row(i)) return {};
    return pick(finish_events(head, i, stop));
  }
  const auto first_step = [&](std::int64_t n) {  // state number of the tile's first stage
    return *schedule_.find(head, i, schedule_.visit_j(head, i, n), schedule_.tile_stages().front()) + 1;
  };
  const std::int64_t last_stage = static_cast<std::int64_t>(schedule_.tile_stages().size()) - 1;
  // Forwards: the tiles that end after from_K, until one begins at or beyond the bound. Backwards: all tiles
  // that begin before from_K, looked through from the last.
  std::int64_t first = 0;
  if (forward)
    while (first < visits && first_step(first) + last_stage <= from_K) ++first;
  seek(head, i, forward ? std::min(first, visits) : 0, stop);
  // NaN and infinities stay in m, l and O, an infinity as what it is or as NaN: where no row has one at the end of
  // some tiles that it did not have before, none of these tiles brought one. So they are folded at full speed, and
  // once more only where there is something to be found. (Beside a NaN a new infinity may vanish in it.)
  const bool stays = (kind == EventKind::nan && !adds) || kind == EventKind::inf;
  State before;
  const auto brings_none = [&](std::int64_t from, std::int64_t end) {
    const RowMarks old = marks();
    const auto has_one = [](const std::vector<std::uint8_t>& rows) {
      return std::find(rows.begin(), rows.end(), 1) != rows.end();
    };
    if (kind == EventKind::inf && has_one(old.nan)) return false;
    fold_.save(before);
    for (std::int64_t n = from; n < end; ++n) fold_visit(fold_, schedule_, head, i, n);
    const RowMarks now = marks();
    if (now.nan == old.nan && (kind == EventKind::nan || now.inf == old.inf)) return true;
    fold_.restore(before);
    return false;
  };
  std::vector<std::int64_t> hits;
  std::int64_t n = first, looked = first;  // `looked`: up to which tile it is known that there is something
  for (; n < visits; ++n) {
    if (stop.stop_requested()) {
      started_ = false;
      throw Cancelled();
    }
    const std::int64_t begins = first_step(n);
    if (forward ? begins >= bound : begins >= from_K) break;
    if (stays && n >= looked) {
      looked = std::min(visits, n + kTilesAtOnce);
      while (looked > n + 1 && (forward ? first_step(looked - 1) >= bound : first_step(looked - 1) >= from_K)) --looked;
      if (brings_none(n, looked)) {
        for (; n < looked; ++n) folded();
        --n;
        continue;
      }
    }
    const bool hit = has(n);
    folded();
    if (!hit) continue;
    if (!forward) {
      hits.push_back(n);
      continue;
    }
    if (const auto event = pick(tile_events(head, i, n, stop))) return event;
    seek(head, i, n + 1, stop);
  }
  // Here the fold holds all tiles, where what follows them is inside.
  if (inside(at_finish) && (kind == EventKind::nan || kind == EventKind::inf)) {
    std::vector<Event> events;
    finish(events);
    if (const auto event = pick(events)) return event;
  }
  for (auto hit = hits.rbegin(); hit != hits.rend(); ++hit)
    if (const auto event = pick(tile_events(head, i, *hit, stop))) return event;
  return {};
}

template class Stepper<float>;
template class Stepper<double>;

}  // namespace flashscope
