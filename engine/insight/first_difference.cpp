#include "engine/insight/first_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/attention/row_walk.h"
#include "engine/digits.h"
#include "engine/error.h"

namespace flashscope {
namespace {

// How many of a tile's stages are done: 1 scores ... 6 accumulate; 7 finish. -1: nothing of a row block yet.
enum Phase { kNone = -1, kLoaded, kScores, kMask, kMax, kExponentials, kRescale, kAccumulate, kFinished };

Phase phase_of(Stage stage) {
  switch (stage) {
    case Stage::scores:
      return kScores;
    case Stage::mask:
      return kMask;
    case Stage::max:
      return kMax;
    case Stage::exponentials:
      return kExponentials;
    case Stage::rescale:
    case Stage::load_v:
      return kRescale;
    case Stage::accumulate:
    case Stage::store_rows:
      return kAccumulate;
    case Stage::finish:
    case Stage::store:
    case Stage::store_o:
      return kFinished;
    case Stage::load_kv:
      return kNone;
    default:
      return kLoaded;
  }
}

bool standard(const Schedule& schedule) { return schedule.recipe().algorithm == Algorithm::standard; }
bool reverse(const Schedule& schedule) { return schedule.recipe().order == Order::reverse; }

// Where a row block stands: its tile, if any, and how many tiles were folded in before it.
struct Standing {
  std::int64_t head = 0, i = -1, j = -1, before = 0;
  Phase phase = kNone;
};

Standing standing(const Schedule& schedule, std::int64_t K) {
  if (K <= 0) return {};
  const Step step = schedule.step(K - 1);
  Standing s{step.head, step.i, step.j, 0, phase_of(step.stage)};
  if (standard(schedule))  // its strips have no tiles: only their ends are compared
    s.phase = step.stage == Stage::accumulate || step.stage == Stage::store_o ? kFinished : kNone;
  if (s.phase == kNone) return s;
  if (s.j >= 0) s.before = schedule.visit_index(s.head, s.i, s.j);
  if (s.phase == kFinished) s.before = schedule.visits(s.head, s.i);
  return s;
}

// The key up to which (down to which, in reverse) `folded` tiles reach.
std::int64_t reach(const Schedule& schedule, std::int64_t head, std::int64_t i, std::int64_t folded) {
  const std::int64_t j = schedule.visit_j(head, i, folded - 1), first = j * schedule.recipe().Bc;
  return reverse(schedule) ? first : first + schedule.cols(j);
}

bool same_keys_folded(const Schedule& a, const Standing& x, std::int64_t x_folded, const Schedule& b, const Standing& y,
                      std::int64_t y_folded) {
  if (x_folded == 0 || y_folded == 0) return x_folded == y_folded;
  if (x_folded == a.visits(x.head, x.i) && y_folded == b.visits(y.head, y.i)) return true;
  return reverse(a) == reverse(b) && reach(a, x.head, x.i, x_folded) == reach(b, y.head, y.i, y_folded);
}

struct Comparable {
  bool S = false, P = false, m = false, l = false, alpha = false, O = false, LSE = false;
  std::string reason;
};

Comparable comparable(const Schedule& a, const Standing& x, const Schedule& b, const Standing& y) {
  Comparable c;
  if (x.phase == kNone || y.phase == kNone) {
    c.reason = "no row block under way on both sides";
    return c;
  }
  if (x.phase == kFinished || y.phase == kFinished) {
    c.m = c.l = !standard(a) && !standard(b) && x.phase == y.phase;
    c.O = c.LSE = x.phase == y.phase;
    if (!c.O) c.reason = "one of the two has finished this row block";
    return c;
  }
  const bool tiles = x.j >= 0 && y.j >= 0;
  const bool same_tile = tiles && x.j * a.recipe().Bc == y.j * b.recipe().Bc && a.cols(x.j) == b.cols(y.j);
  const bool mixed = a.recipe().normalised() != b.recipe().normalised();
  c.S = same_tile && x.phase >= kScores && y.phase >= kScores && (x.phase >= kMask) == (y.phase >= kMask);
  if (x.phase == y.phase && same_keys_folded(a, x, x.before, b, y, y.before) && (same_tile || x.phase <= kMask)) {
    c.m = c.l = true;
    c.O = !mixed || x.phase <= kMask || x.phase == kAccumulate;
    c.P = same_tile && x.phase >= kExponentials;
    c.alpha = same_tile && x.phase >= kRescale;
  } else if (x.phase == kAccumulate && y.phase == kAccumulate &&
             same_keys_folded(a, x, x.before + 1, b, y, y.before + 1)) {
    c.m = c.l = c.O = true;
    c.reason = "tiles of other keys: S and P are not compared";
  } else {
    c.reason = x.phase != y.phase ? "not at the same stage" : "not the same keys folded in";
    c.reason += c.S ? ": only S is compared" : "";
  }
  return c;
}

// NaN on both sides is the same; on one side it differs, and so does an infinity.
bool same(double a, double b, double tolerance, double least) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  const double apart = std::abs(a - b);
  return std::isfinite(apart) && apart <= tolerance * std::max({least, std::abs(a), std::abs(b)});
}

// O divided by l where the other recipe keeps it so.
double normalised(double o, double l, bool divide) { return divide && l != 0 ? o / l : o; }

// The scale of a row of O: its largest finite entry on either side.
template <class A, class B>
double largest(std::int64_t dv, A a, B b) {
  double most = 0;
  for (std::int64_t e = 0; e < dv; ++e)
    for (const double o : {a(e), b(e)})
      if (std::isfinite(o)) most = std::max(most, std::abs(o));
  return most;
}

// The stage of another algorithm that has done as much of a tile.
Stage counterpart(Stage stage, Algorithm to) {
  if (to == Algorithm::flash1 && stage == Stage::load_v) return Stage::rescale;
  return stage;
}

// Which of the tensors on the chip hold other numbers: Q in the rows of both, K and V where both have the same keys.
std::string other_inputs(const Schedule& schedule, const TraceState& state, const Schedule& other,
                         const TraceState& beside, const Differences& d) {
  std::string names;
  const auto look = [&](const char* name, const Matrix& a, const Matrix& b, std::int64_t at_a, std::int64_t at_b,
                        std::int64_t rows) {
    if (a.empty() || b.empty() || a.cols != b.cols) return;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < a.cols; ++c)
        if (!same(a.at(at_a + r, c), b.at(at_b + r, c), 0, 0)) {
          names += (names.empty() ? "" : " ") + std::string(name);
          return;
        }
  };
  look("Q", state.Q, beside.Q, d.row0 - state.row0, d.row0 - beside.row0, d.rows);
  const bool same_keys = state.j >= 0 && beside.j >= 0 && state.cols == beside.cols &&
                         state.j * schedule.recipe().Bc == beside.j * other.recipe().Bc;
  if (!same_keys) return names;
  look("K", state.K_tile, beside.K_tile, 0, 0, std::min(state.K_tile.rows, beside.K_tile.rows));
  look("V", state.V, beside.V, 0, 0, std::min(state.V.rows, beside.V.rows));
  return names;
}

// ---- the search: rows that both have in one row block each, folded in step

template <class T>
class PairWalk {
 public:
  PairWalk(const Problem& of_a, const Schedule& a, const Problem& of_b, const Schedule& b)
      : a_{a, Fold<T>(of_a, a.recipe())},
        b_{b, Fold<T>(of_b, b.recipe())},
        dv_(of_a.shape().dv),
        tolerance_(tolerance_for(of_a).relative),
        mixed_(a.recipe().normalised() != b.recipe().normalised()) {}

  // The first (last) state in which one of the rows of row block (head, i) first differs.
  std::optional<Found> search(std::int64_t head, std::int64_t i, std::int64_t from_K, std::int64_t bound, bool forward,
                              const std::stop_token& stop, const std::function<void()>& folded) {
    found_.reset();
    head_ = head, i_ = i, from_K_ = from_K, forward_ = forward, bound_ = bound;
    const std::int64_t row0 = i * a_.schedule.recipe().Br, end = row0 + a_.schedule.rows(i);
    const std::int64_t Br = b_.schedule.recipe().Br;
    for (std::int64_t row = row0; row < end;) {
      const std::int64_t next = std::min(end, (row / Br + 1) * Br);
      rows_together(row, next, stop, folded);
      row = next;
    }
    return found_;
  }

 private:
  struct Side {
    const Schedule& schedule;
    Fold<T> fold;
    std::int64_t i = 0, offset = 0, folded = 0, row0 = 0, rows = 0;
    Side(const Schedule& of, Fold<T> with) : schedule(of), fold(std::move(with)) {}
    // A row gives the same bits in any row block, unless its mask goes by places inside the tile.
    void start(std::int64_t head, std::int64_t block, std::int64_t first, std::int64_t last) {
      i = block, folded = 0;
      const bool whole = schedule.recipe().defect == Defect::local_causal || standard(schedule);
      row0 = whole ? block * schedule.recipe().Br : first;
      rows = whole ? schedule.rows(block) : last - first;
      offset = first - row0;
      fold.start(head, row0, rows);
    }
    void bring_to(std::int64_t head, std::int64_t n) {
      if (n < folded) fold.start(head, row0, rows), folded = 0;
      for (; folded < n; ++folded) fold_visit(fold, schedule, head, i, folded);
    }
    void finish(std::int64_t head) {
      if (standard(schedule)) {
        begin_strip(fold, schedule, head, i);
        fold.scores(), fold.mask(), fold.softmax(), fold.multiply();
      } else {
        bring_to(head, schedule.visits(head, i));
      }
      fold.finish();
    }
    bool divides(bool mixed) const { return mixed && schedule.recipe().normalised() == Normalise::end; }
    Standing standing(std::int64_t head, std::int64_t j, std::int64_t before, Phase phase) const {
      return {head, i, j, before, phase};
    }
  };

  void rows_together(std::int64_t first, std::int64_t last, const std::stop_token& stop,
                     const std::function<void()>& folded) {
    rows_ = last - first, first_row_ = first;
    differs_.assign(rows_, 0), left_ = rows_;
    a_.start(head_, i_, first, last);
    b_.start(head_, first / b_.schedule.recipe().Br, first, last);
    const bool tiles = !standard(a_.schedule) && !standard(b_.schedule);
    for (std::int64_t n = 0; n < a_.schedule.visits(head_, i_) && !standard(a_.schedule); ++n) {
      if (stop.stop_requested()) throw Cancelled();
      if (tiles)
        tile(n);
      else
        a_.bring_to(head_, n + 1);
      folded();
      if (done()) return;
    }
    a_.finish(head_), b_.finish(head_);
    const Stage end = standard(a_.schedule) ? Stage::accumulate : Stage::finish;
    at(*a_.schedule.find(head_, i_, -1, end) + 1);
    compare(comparable(a_.schedule, a_.standing(head_, -1, a_.schedule.visits(head_, i_), kFinished), b_.schedule,
                       b_.standing(head_, -1, b_.schedule.visits(head_, b_.i), kFinished)),
            false);
  }

  void tile(std::int64_t n) {
    const Schedule &A = a_.schedule, &B = b_.schedule;
    const std::int64_t j = A.visit_j(head_, i_, n);
    const std::vector<Stage>& stages = A.tile_stages();
    const auto at_stage = [&](Stage stage) { at(*A.find(head_, i_, j, stage) + 1); };
    // The other's tile: of the first key in the order of folding, and at the end of the last.
    const auto partner = [&](Stage stage) {
      return flashscope::standing(B, paired_state(A, *A.find(head_, i_, j, stage) + 1, B, first_row_));
    };
    const auto judged = [&](Phase phase, const Standing& y) {
      Standing there = y;
      there.phase = phase;
      return comparable(A, a_.standing(head_, j, n, phase), B, there);
    };
    const Standing y = partner(Stage::scores);
    const bool in_a_tile = y.phase == kScores && y.j >= 0;
    if (in_a_tile) {
      if (const Comparable c = judged(kLoaded, y); c.O) {
        b_.bring_to(head_, y.before);
        at_stage(stages.front());
        compare(c, true);
      }
      if (done()) return;
    }
    const bool same_scores = in_a_tile && judged(kScores, y).S;
    const bool in_step = same_scores && judged(kMax, y).m;
    if (!same_scores) {
      a_.bring_to(head_, n + 1);
    } else {
      if (in_step) b_.bring_to(head_, y.before);
      begin_visit(a_.fold, A, head_, i_, n);
      begin_visit(b_.fold, B, head_, b_.i, y.before);
      const auto both = [&](auto verb) { verb(a_.fold), verb(b_.fold); };
      both([](Fold<T>& fold) { fold.scores(); });
      at_stage(Stage::scores), compare_list(1, a_.fold.cols());
      both([](Fold<T>& fold) { fold.mask(); });
      at_stage(Stage::mask), compare_list(1, a_.fold.cols());
      if (!in_step) {
        a_.fold.max(), a_.fold.exponentials(), a_.fold.rescale(), a_.fold.accumulate();
        ++a_.folded;
      } else {
        // S is compared at every later stage too, but its cells stay as they are.
        both([](Fold<T>& fold) { fold.max(); });
        at_stage(Stage::max), compare(judged(kMax, y), true);
        both([](Fold<T>& fold) { fold.exponentials(); });
        at_stage(Stage::exponentials), compare_list(1, a_.fold.cols());
        both([](Fold<T>& fold) { fold.rescale(); });
        at_stage(Stage::rescale), compare(judged(kRescale, y), true);
        both([](Fold<T>& fold) { fold.accumulate(); });
        ++a_.folded, ++b_.folded;
      }
    }
    const Standing z = partner(Stage::accumulate);
    if (z.phase != kAccumulate) return;
    if (const Comparable c = judged(kAccumulate, z); c.O) {
      b_.bring_to(head_, z.before + 1);
      at_stage(Stage::accumulate), compare(c, true);
    }
  }

  void at(std::int64_t K) { K_ = K; }
  bool done() const { return left_ == 0 || (forward_ ? found_.has_value() || K_ >= bound_ : K_ >= from_K_); }
  void differs(std::int64_t r) {
    if (differs_[r]) return;
    differs_[r] = 1, --left_;
    const bool inside = forward_ ? K_ > from_K_ && K_ < bound_ : K_ < from_K_ && K_ > bound_;
    if (!inside || (found_ && (forward_ ? K_ >= found_->K : K_ <= found_->K))) return;
    found_ = Found{K_, 0, head_, i_, a_.schedule.step(K_ - 1).j, first_row_ + r, 1};
  }

  // S or P, whichever the folds hold; `cols` keys.
  void compare_list(double least, std::int64_t cols) {
    if (left_ == 0) return;
    for (std::int64_t c = 0; c < cols; ++c) {
      const T *x = a_.fold.S() + c * a_.fold.lanes() + a_.offset, *y = b_.fold.S() + c * b_.fold.lanes() + b_.offset;
      for (std::int64_t r = 0; r < rows_; ++r)
        if (x[r] != y[r] && !same(x[r], y[r], tolerance_, least)) differs(r);
    }
  }
  void compare(const Comparable& c, bool unfinished) {
    const bool divide_a = unfinished && a_.divides(mixed_), divide_b = unfinished && b_.divides(mixed_);
    for (std::int64_t r = 0; r < rows_; ++r) {
      if (differs_[r]) continue;
      const std::int64_t x = r + a_.offset, y = r + b_.offset;
      const double la = a_.fold.l()[x], lb = b_.fold.l()[y];
      bool equal = !c.m || same(a_.fold.m()[x], b_.fold.m()[y], tolerance_, 1);
      equal = equal && (!c.l || same(la, lb, tolerance_, 0));
      equal = equal && (!c.alpha || same(a_.fold.alpha()[x], b_.fold.alpha()[y], tolerance_, 1));
      equal = equal && (!c.LSE || same(a_.fold.LSE()[x], b_.fold.LSE()[y], tolerance_, 1));
      if (equal && c.O) {
        const auto oa = [&](std::int64_t e) { return normalised(a_.fold.O()[e * a_.fold.lanes() + x], la, divide_a); };
        const auto ob = [&](std::int64_t e) { return normalised(b_.fold.O()[e * b_.fold.lanes() + y], lb, divide_b); };
        const double scale = largest(dv_, oa, ob);
        for (std::int64_t e = 0; e < dv_ && equal; ++e) equal = same(oa(e), ob(e), tolerance_, scale);
      }
      if (!equal) differs(r);
    }
  }

  Side a_, b_;
  std::int64_t dv_;
  double tolerance_;
  bool mixed_;
  std::int64_t head_ = 0, i_ = 0, from_K_ = 0, bound_ = 0, K_ = 0, rows_ = 0, first_row_ = 0, left_ = 0;
  bool forward_ = true;
  std::vector<std::uint8_t> differs_;
  std::optional<Found> found_;
};

template <class T>
std::optional<Found> search_pairs(const Problem& of_a, const Schedule& a, const Problem& of_b, const Schedule& b,
                                  std::int64_t from_K, bool forward, const SearchOptions& options) {
  const Shape shape = of_a.shape();
  const auto bytes_of = [&](const Schedule& s) {
    const std::int64_t cols = standard(s) ? shape.Nk : std::min(s.recipe().Bc, shape.Nk);
    return static_cast<double>(std::min(s.recipe().Br, shape.Nq) + kLane) *
           static_cast<double>(cols + shape.d + shape.dv) * sizeof(T);
  };
  RowBlockSearch blocks(a, from_K, forward, options, 1, bytes_of(a) + bytes_of(b));
  return blocks.run([&]() -> RowBlockSearch::Look {
    const auto walk = std::make_shared<PairWalk<T>>(of_a, a, of_b, b);
    return [&, walk](std::int64_t head, std::int64_t i, const std::stop_token& stop) {
      if (const auto found = walk->search(head, i, from_K, blocks.bound(), forward, stop, [&] { blocks.folded(); }))
        blocks.note(*found);
    };
  });
}

}  // namespace

Tolerance tolerance_for(const Problem& problem) { return {problem.in_double() ? 1e-10 : 1e-4}; }

std::int64_t paired_state(const Schedule& schedule, std::int64_t K, const Schedule& other, std::int64_t row) {
  if (K <= 0) return 0;
  const Step step = schedule.step(std::min(K, schedule.steps()) - 1);
  const std::int64_t row0 = std::max<std::int64_t>(0, step.i) * schedule.recipe().Br;
  if (row < row0 || step.i < 0 || row >= row0 + schedule.rows(step.i)) row = row0;
  const Algorithm to = other.recipe().algorithm;
  const bool ends = standard(schedule) ? step.stage == Stage::accumulate || step.stage == Stage::store_o
                                       : step.stage == Stage::finish || step.stage == Stage::store;
  if (ends) {
    const bool stored = step.stage == Stage::store || step.stage == Stage::store_o;
    const Stage stage = to == Algorithm::standard           ? (stored ? Stage::store_o : Stage::accumulate)
                        : stored && to == Algorithm::flash2 ? Stage::store
                                                            : Stage::finish;
    return *other.find(step.head, row / other.recipe().Br, -1, stage) + 1;
  }
  std::int64_t key = 0;
  if (step.j >= 0) {
    const std::int64_t first = step.j * schedule.recipe().Bc, last = first + schedule.cols(step.j) - 1;
    const bool behind = phase_of(step.stage) == kAccumulate;  // the tile's last key in the order of folding
    key = behind != reverse(schedule) ? last : first;
  }
  return other.nearest(step.head, row, key, counterpart(step.stage, to));
}

Differences differences(const Schedule& schedule, const TraceState& state, const Schedule& other,
                        const TraceState& beside, Tolerance tolerance) {
  Differences d;
  const Standing x = standing(schedule, state.K), y = standing(other, beside.K);
  d.row0 = std::max(state.row0, beside.row0);
  d.rows = std::max<std::int64_t>(0, std::min(state.row0 + state.rows, beside.row0 + beside.rows) - d.row0);
  const Comparable c = comparable(schedule, x, other, y);
  d.reason = c.reason;
  if (x.head != y.head || d.rows == 0) {
    d.reason = "no rows in common";
    return d;
  }
  const std::int64_t ra = d.row0 - state.row0, rb = d.row0 - beside.row0;
  d.inputs = other_inputs(schedule, state, other, beside, d);
  const auto judge = [&](std::vector<std::uint8_t>& marks, std::int64_t at, double a, double b, double least,
                         const auto& cell) {
    if (same(a, b, tolerance.relative, least)) return;
    marks[at] = 1, ++d.count;
    d.nan += std::isnan(a) != std::isnan(b);
    if (const double apart = std::abs(a - b); std::isfinite(apart) && apart > d.largest)
      d.largest = apart, d.largest_at = cell(), d.here = a, d.beside = b;
  };
  const auto note = [&](const char* name) { d.compared += (d.compared.empty() ? "" : " ") + std::string(name); };
  const auto cells = [&](const char* name, bool wanted, std::vector<std::uint8_t>& marks, const Matrix& a,
                         const Matrix& b) {
    if (!wanted || a.empty() || b.empty() || a.cols != b.cols) return;
    note(name);
    marks.assign(state.rows * a.cols, 0);
    for (std::int64_t r = 0; r < d.rows; ++r)
      for (std::int64_t col = 0; col < a.cols; ++col)
        judge(marks, (ra + r) * a.cols + col, a.at(ra + r, col), b.at(rb + r, col), 1,
              [&] { return fmt::format("{}[{}, {}]", name, d.row0 + r, state.col0 + col); });
  };
  const auto column = [&](const char* name, bool wanted, std::vector<std::uint8_t>& marks, const std::vector<double>& a,
                          const std::vector<double>& b, double least) {
    if (!wanted || a.empty() || b.empty()) return;
    note(name);
    marks.assign(state.rows, 0);
    for (std::int64_t r = 0; r < d.rows; ++r)
      judge(marks, ra + r, a[ra + r], b[rb + r], least, [&] { return fmt::format("{}[{}]", name, d.row0 + r); });
  };
  cells("S", c.S, d.S, state.S, beside.S);
  cells("P", c.P, d.P, state.P, beside.P);
  column("m", c.m, d.m, state.m, beside.m, 1);
  column("alpha", c.alpha, d.alpha, state.alpha, beside.alpha, 1);
  column("l", c.l, d.l, state.l, beside.l, 0);
  column("LSE", c.LSE, d.LSE, state.LSE, beside.LSE, 1);
  if (c.O && !state.O.empty() && !beside.O.empty()) {
    note("O");
    const std::int64_t dv = state.O.cols;
    const bool mixed = schedule.recipe().normalised() != other.recipe().normalised() && x.phase != kFinished;
    const auto divides = [&](const Schedule& s) { return mixed && s.recipe().normalised() == Normalise::end; };
    d.O.assign(state.rows * dv, 0);
    for (std::int64_t r = 0; r < d.rows; ++r) {
      const auto oa = [&](std::int64_t e) {
        return normalised(state.O.at(ra + r, e), state.l.empty() ? 1 : state.l[ra + r], divides(schedule));
      };
      const auto ob = [&](std::int64_t e) {
        return normalised(beside.O.at(rb + r, e), beside.l.empty() ? 1 : beside.l[rb + r], divides(other));
      };
      const double scale = largest(dv, oa, ob);
      for (std::int64_t e = 0; e < dv; ++e)
        judge(d.O, (ra + r) * dv + e, oa(e), ob(e), scale, [&] { return fmt::format("O[{}, {}]", d.row0 + r, e); });
    }
  }
  return d;
}

void check_beside(const Problem& problem, const Problem& other) {
  const Shape a = problem.shape(), b = other.shape();
  const auto words = [](const Shape& s) {
    return fmt::format("{}, {}, N {} x {}, d {}, dv {}, {}", counted(s.heads, "head"), counted(s.kv_heads, "key head"),
                       s.Nq, s.Nk, s.d, s.dv, name(s.type));
  };
  if (!(a == b)) throw InputError("the problem beside", words(b), words(a));
}

std::optional<Found> first_difference(std::shared_ptr<const Problem> problem, const Recipe& recipe,
                                      std::shared_ptr<const Problem> other_problem, const Recipe& other,
                                      std::int64_t from_K, bool forward, const SearchOptions& options) {
  check_beside(*problem, *other_problem);
  const Trace limits_a(problem, recipe), limits_b(other_problem, other);  // refuse what cannot be stepped
  const Schedule &a = limits_a.schedule(), &b = limits_b.schedule();
  const auto search = problem->in_double() ? search_pairs<double> : search_pairs<float>;
  return search(*problem, a, *other_problem, b, from_K, forward, options);
}

std::optional<Found> first_difference(std::shared_ptr<const Problem> problem, const Recipe& recipe, const Recipe& other,
                                      std::int64_t from_K, bool forward, const SearchOptions& options) {
  return first_difference(problem, recipe, problem, other, from_K, forward, options);
}

}  // namespace flashscope
