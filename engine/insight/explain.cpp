#include "engine/insight/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <numbers>
#include <span>

#include "engine/attention/row_walk.h"
#include "engine/digits.h"
#include "engine/error.h"
#include "engine/insight/candidates.h"
#include "engine/insight/gallery.h"
#include "engine/threads.h"

namespace flashscope {
namespace {

using Rows = std::vector<std::int64_t>;  // head * Nq + row, ascending

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int64_t kRowsOfAPiece = 64;
constexpr std::int64_t kSampleGroup = 16;  // neighbouring rows cost what one row costs
constexpr double kWidened = 8;             // tolerances, where the right answer is far off
constexpr double kPromising = 0.8, kAccepted = 0.9, kKept = 0.98;
constexpr std::size_t kConfirmed = 12;  // candidates that go on to all rows
constexpr std::size_t kNearMisses = 4;  // of those that would spoil right rows
constexpr std::int64_t kRightRowsConfirmed = 2048;

// How a candidate's rows compare with the output.
struct Score {
  std::int64_t bad = 0, agree = 0, right = 0, kept = 0, lse_rows = 0, lse_agree = 0;
  std::int64_t not_finite = 0;  // of those that agree
  double max = 0, squares = 0, right_differs = 0;
  std::int64_t values = 0;
  double share() const { return bad ? static_cast<double>(agree) / static_cast<double>(bad) : 1; }
  double kept_share() const { return right ? static_cast<double>(kept) / static_cast<double>(right) : 1; }
  double rms() const { return values ? std::sqrt(squares / static_cast<double>(values)) : 0; }
  bool lse() const { return lse_agree * 50 >= lse_rows * 49; }
};

// Calls use(row, O, LSE) for some rows of a run; O is [dv].
template <class T, class Use>
void fold_rows(const Problem& problem, const Recipe& recipe, std::span<const std::int64_t> rows,
               const std::stop_token& stop, const Use& use) {
  const Shape shape = problem.shape();
  const Schedule schedule(shape, problem.mask, recipe);
  Fold<T> fold(problem, recipe);
  std::vector<double> O(shape.dv);
  for (std::size_t n = 0; n < rows.size();) {
    if (stop.stop_requested()) throw Cancelled();
    const std::int64_t head = rows[n] / shape.Nq, row = rows[n] % shape.Nq, i = row / recipe.Br;
    std::int64_t count = 1;
    while (n + count < rows.size() && rows[n + count] == rows[n] + count && count < kRowsOfAPiece &&
           row + count < shape.Nq && (row + count) / recipe.Br == i)
      ++count;
    fold.start(head, row, count);
    fold_to_the_end(fold, schedule, head, i, stop);
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t e = 0; e < shape.dv; ++e) O[e] = fold.O()[e * fold.lanes() + r];
      use(rows[n + r], O.data(), static_cast<double>(fold.LSE()[r]));
    }
    n += count;
  }
}

class Explainer {
 public:
  Explainer(std::shared_ptr<const Problem> problem, const Recipe& recipe, const KernelOutput& theirs,
            const Comparison& comparison, const ExplainOptions& options)
      : problem_(std::move(problem)), recipe_(recipe), theirs_(theirs), right_(comparison), options_(options) {
    for (const float v : problem_->V().f32) note_V(v);
    for (const double v : problem_->V().f64) note_V(v);
    LSE_ = theirs.LSE;
    if (LSE_.empty() && !theirs.m.empty() && !theirs.l.empty())
      for (std::size_t row = 0; row < theirs.m.size(); ++row) LSE_.push_back(theirs.m[row] + std::log(theirs.l[row]));
    for (std::size_t row = 0; row < right_.rows.size(); ++row)
      (right_.rows[row] == RowState::right ? good_ : bad_).push_back(static_cast<std::int64_t>(row));
  }

  Causes find(const std::stop_token& stop, const Progress& progress) {
    Causes causes;
    if (bad_.empty()) {
      causes.named = explain_lse();
      return causes;
    }
    const std::vector<std::int64_t> head_of = exchanged_heads();
    const std::vector<Candidate> known = candidates(problem_, recipe_, options_.other_blocks, head_of);
    const std::vector<Candidate> numerics = numerics_candidates(problem_, recipe_);
    total_ = static_cast<std::int64_t>(known.size() + numerics.size() + 2 * (kConfirmed + kNearMisses));
    causes.named = try_all(known, 0, causes.near_miss, stop, progress);
    if (causes.named.empty())
      causes.named = try_all(numerics, known.size() + kConfirmed + kNearMisses, causes.near_miss, stop, progress);
    if (!causes.named.empty()) causes.near_miss.reset();
    return causes;
  }

 private:
  // What explains the output, best first. Where nothing does, `near_miss` becomes what comes nearest, if it is nearer
  // than what it was.
  std::vector<Explanation> try_all(const std::vector<Candidate>& all, std::size_t done,
                                   std::optional<Explanation>& near_miss, const std::stop_token& stop,
                                   const Progress& progress) {
    const std::vector<Rows> sample = sample_of(bad_, 4), sound = sample_of(good_, 3);
    std::vector<Score> scores(all.size());
    share_out(all.size(), done, progress, [&](std::size_t n) { scores[n] = sampled(all[n], sample, sound, stop); });

    const auto sort = [&](std::vector<std::size_t>& order) {
      std::stable_sort(order.begin(), order.end(),
                       [&](auto a, auto b) { return better(all[a], scores[a], all[b], scores[b]); });
    };
    std::vector<std::size_t> order, spoiling;
    for (std::size_t n = 0; n < all.size(); ++n)
      if (scores[n].share() >= kPromising) (scores[n].kept_share() >= kPromising ? order : spoiling).push_back(n);
    sort(order), sort(spoiling);
    limit(order, all, kConfirmed), limit(spoiling, all, kNearMisses);

    const Rows confirmed_good = thinned(good_, kRightRowsConfirmed);
    const auto confirm = [&](const std::vector<std::size_t>& which, std::size_t already) {
      share_out(which.size(), already, progress, [&](std::size_t k) {
        Score& score = scores[which[k]] = {};
        judge(all[which[k]], bad_, score, stop);
        judge(all[which[k]], confirmed_good, score, stop);
      });
    };
    confirm(order, done + all.size());
    const auto fails = [&](std::size_t n) { return scores[n].share() < kAccepted || scores[n].kept_share() < kKept; };
    if (std::all_of(order.begin(), order.end(), fails)) {
      confirm(spoiling, done + all.size() + kConfirmed);
      spoiling.insert(spoiling.end(), order.begin(), order.end());
      // What spoils more than it reproduces is not near.
      const auto lost = [&](std::size_t n) { return (1 - scores[n].kept_share()) * static_cast<double>(good_.size()); };
      std::erase_if(spoiling, [&](auto n) {
        return scores[n].share() < kAccepted || lost(n) >= static_cast<double>(scores[n].agree);
      });
      sort(spoiling);
      std::stable_sort(spoiling.begin(), spoiling.end(), [&](auto a, auto b) {
        return std::pair(-scores[a].agree, lost(a)) < std::pair(-scores[b].agree, lost(b));
      });
      if (!spoiling.empty()) {
        const std::size_t n = spoiling.front();
        if (!near_miss || scores[n].agree > near_miss->agree) near_miss = explanation_of(all[n], scores[n]);
      }
    }
    std::erase_if(order, fails);
    sort(order);
    return listed(order, all, scores);
  }

  // The head whose right rows stand in each head of the output; empty where some head is no other's, or none is.
  std::vector<std::int64_t> exchanged_heads() const {
    const std::int64_t heads = right_.shape.heads, Nq = right_.shape.Nq, dv = right_.shape.dv;
    const auto same = [&](std::int64_t row, std::int64_t of) {
      for (std::int64_t e = 0; e < dv; ++e)
        if (!(std::abs(theirs_.O[row * dv + e] - right_.right_O[of * dv + e]) <= right_.tolerance)) return false;
      return true;
    };
    std::vector<std::int64_t> head_of;
    bool any = false;
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto first = std::lower_bound(bad_.begin(), bad_.end(), h * Nq);
      const Rows wrong = thinned(Rows(first, std::lower_bound(first, bad_.end(), (h + 1) * Nq)), kSampleGroup);
      std::int64_t found = wrong.empty() ? h : -1;
      for (std::int64_t other = 0; other < heads && found < 0; ++other)
        if (std::all_of(wrong.begin(), wrong.end(), [&](auto row) { return same(row, other * Nq + row % Nq); }))
          found = other;
      if (found < 0) return {};
      any = any || found != h;
      head_of.push_back(found);
    }
    return any ? head_of : std::vector<std::int64_t>{};
  }

  void note_V(double v) {
    if (std::isfinite(v)) largest_V_ = std::max(largest_V_, std::abs(v));
  }

  template <class Work>
  void share_out(std::size_t count, std::size_t done, const Progress& progress, const Work& work) {
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    std::exception_ptr failed;
    const auto run = [&] {
      try {
        for (std::size_t n; (n = next++) < count;) {
          work(n);
          const std::lock_guard lock(mutex);
          if (progress) progress(static_cast<std::int64_t>(++done), total_);
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failed) failed = std::current_exception();
        next = count;
      }
    };
    on_threads(options_.threads, run);
    if (failed) std::rethrow_exception(failed);
  }

  // Groups of neighbouring rows spread over the list, the first and the last among them.
  static std::vector<Rows> sample_of(const Rows& rows, std::size_t groups) {
    std::vector<Rows> sample;
    const auto n = rows.size();
    std::size_t taken = 0;
    for (std::size_t g = 0; g < groups && taken < n; ++g) {
      std::size_t at = std::max(taken, groups == 1 ? 0 : g * (n - 1) / (groups - 1));
      if (g + 1 == groups) at = std::max(taken, n - std::min<std::size_t>(n, kSampleGroup));
      Rows group;
      while (at < n && group.size() < kSampleGroup) group.push_back(rows[at++]);
      taken = at;
      if (!group.empty()) sample.push_back(std::move(group));
    }
    return sample;
  }
  static Rows thinned(const Rows& rows, std::int64_t most) {
    const auto n = static_cast<std::int64_t>(rows.size());
    if (n <= most) return rows;
    Rows some;
    for (std::int64_t k = 0; k < most; ++k) some.push_back(rows[k * n / most]);
    return some;
  }

  Score sampled(const Candidate& candidate, const std::vector<Rows>& bad, const std::vector<Rows>& sound,
                const std::stop_token& stop) const {
    Score score;
    for (const auto* groups : {&bad, &sound})
      for (const Rows& rows : *groups) {
        judge(candidate, rows, score, stop);
        if (score.share() < kPromising / 2 || score.kept_share() < kPromising / 2) return score;
      }
    return score;
  }

  // Adds the candidate's rows to the score.
  void judge(const Candidate& candidate, std::span<const std::int64_t> rows, Score& score,
             const std::stop_token& stop) const {
    const auto look = [&](std::int64_t row, const double* O, double LSE) { compare_row(row, O, LSE, score); };
    const auto fold = [&](std::span<const std::int64_t> of, const auto& use) {
      if (problem_->in_double())
        fold_rows<double>(*candidate.problem, candidate.recipe, of, stop, use);
      else
        fold_rows<float>(*candidate.problem, candidate.recipe, of, stop, use);
    };
    if (!candidate.row_of) {
      fold(rows, look);
      return;
    }
    // The run's rows in its own order, each remembering the row of the output in which it stands.
    std::vector<std::pair<std::int64_t, std::int64_t>> turned;
    for (const std::int64_t row : rows) turned.emplace_back(candidate.row_of(row), row);
    std::sort(turned.begin(), turned.end());
    Rows own;
    for (const auto& [of_run, of_output] : turned) own.push_back(of_run);
    std::size_t n = 0;
    fold(own, [&](std::int64_t, const double* O, double LSE) { look(turned[n++].second, O, LSE); });
  }

  void compare_row(std::int64_t row, const double* O, double LSE, Score& score) const {
    const std::int64_t dv = right_.shape.dv;
    const double *mine = theirs_.O.data() + row * dv, *right = right_.right_O.data() + row * dv;
    double difference = 0, error = 0, largest = 0;
    bool same_kind = true;
    for (std::int64_t e = 0; e < dv; ++e) {
      const double a = mine[e], b = O[e];
      if (std::isfinite(b)) largest = std::max(largest, std::abs(b));
      if (!(a == b) && !(std::isnan(a) && std::isnan(b))) {
        const double d = std::abs(a - b);
        if (std::isfinite(d))
          difference = std::max(difference, d);
        else
          same_kind = false;
      }
      const double off = a == right[e] ? 0 : std::abs(a - right[e]);
      error = std::isfinite(off) ? std::max(error, off) : std::numeric_limits<double>::infinity();
      if (std::isfinite(off)) score.right_differs = std::max(score.right_differs, off);
    }
    const double tolerance = right_.tolerance * std::max(1.0, largest / std::max(largest_V_, 1e-30));
    const bool near = difference <= tolerance || (difference <= kWidened * tolerance && difference <= error / 4);
    if (right_.rows[row] == RowState::right) {
      ++score.right;
      score.kept += same_kind && difference <= kWidened * tolerance;
      return;
    }
    ++score.bad;
    if (!same_kind || !near) return;
    ++score.agree;
    score.not_finite += right_.rows[row] == RowState::nan || right_.rows[row] == RowState::inf;
    score.max = std::max(score.max, difference);
    score.squares += difference * difference, ++score.values;
    if (LSE_.empty()) return;
    ++score.lse_rows;
    const double given = LSE_[row];
    score.lse_agree += given == LSE || (std::isnan(given) && std::isnan(LSE)) ||
                       (given == kInf && LSE == -kInf) ||  // the other convention for empty rows
                       std::abs(given - LSE) <= lse_tolerance(right_.precision, LSE);
  }

  // Rounding decides nothing: differences below a tenth of the tolerance are equal, and so are those within half
  // again of each other.
  bool as_near(const Score& a, const Score& b) const {
    const double least = right_.tolerance / 10;
    const double x = std::max(a.rms(), least), y = std::max(b.rms(), least);
    return std::max(x, y) <= 1.5 * std::min(x, y);
  }
  bool better(const Candidate& a, const Score& x, const Candidate& b, const Score& y) const {
    if (x.share() != y.share()) return x.share() > y.share();
    if (x.lse() != y.lse()) return x.lse();
    if (!as_near(x, y)) return x.rms() < y.rms();
    return a.as_given && !b.as_given;
  }

  // A few of each name, so that one mistake at many block sizes leaves room for others.
  static void limit(std::vector<std::size_t>& order, const std::vector<Candidate>& all, std::size_t most) {
    std::vector<std::size_t> kept;
    for (const std::size_t n : order) {
      const auto same = std::count_if(kept.begin(), kept.end(), [&](auto k) { return all[k].name == all[n].name; });
      if (same < 3 && kept.size() < most) kept.push_back(n);
    }
    order = std::move(kept);
  }

  static Explanation explanation_of(const Candidate& candidate, const Score& score) {
    Explanation e;
    e.name = candidate.name, e.detail = candidate.detail, e.as_given = candidate.as_given;
    const GalleryEntry* entry = find_in_gallery(e.name);
    e.sentence = entry                  ? std::string(entry->sentence)
                 : score.not_finite > 0 ? candidate.if_not_finite
                                        : candidate.sentence;
    e.problem = candidate.problem, e.recipe = candidate.recipe;
    e.rows = score.bad, e.agree = score.agree, e.right_rows = score.right, e.kept = score.kept;
    e.max_difference = score.max, e.rms_difference = score.rms(), e.right_differs = score.right_differs;
    e.lse_agrees = score.lse();
    return e;
  }

  std::vector<Explanation> listed(const std::vector<std::size_t>& order, const std::vector<Candidate>& all,
                                  const std::vector<Score>& scores) const {
    std::vector<Explanation> list;
    for (const std::size_t n : order) {
      const Score &score = scores[n], &best = scores[order.front()];
      const bool equal = score.agree == best.agree && score.lse() == best.lse() && as_near(score, best);
      const auto known = std::find_if(list.begin(), list.end(), [&](const auto& e) { return e.name == all[n].name; });
      if (known != list.end()) {
        if (score.agree == known->agree && !all[n].detail.empty()) known->also.push_back(all[n].detail);
        continue;
      }
      Explanation e = explanation_of(all[n], score);
      e.tie = equal && !list.empty();
      list.push_back(std::move(e));
    }
    return list;
  }

  // O is right; LSE under other conventions.
  std::vector<Explanation> explain_lse() const {
    std::vector<Explanation> list;
    if (LSE_.empty() || !right_.lse || right_.lse->all_right()) return list;
    struct Convention {
      const char *name, *detail;
      double factor;
    };
    for (const Convention& convention : {Convention{"lse-base2", "", std::numbers::log2e},
                                         {"lse-negative", "", -1.0},
                                         {"lse-negative", "in base 2", -std::numbers::log2e}}) {
      Explanation e;
      e.name = convention.name, e.detail = convention.detail, e.of_lse = true;
      e.problem = problem_, e.recipe = recipe_;
      if (e.name == "lse-base2") e.recipe.defect = Defect::lse_base2;
      for (std::size_t row = 0; row < LSE_.size(); ++row) {
        const double right = right_.right_LSE[row], mine = LSE_[row], expected = right * convention.factor;
        if (!std::isfinite(right)) continue;  // of empty rows, which have conventions of their own
        const bool was_right = mine == right || std::abs(mine - right) <= lse_tolerance(right_.precision, right);
        const double difference = mine == expected ? 0 : std::abs(mine - expected);
        const bool near = difference <= lse_tolerance(right_.precision, expected);
        if (was_right) {
          ++e.right_rows, e.kept += near;
          continue;
        }
        ++e.rows, e.agree += near;
        if (near) e.max_difference = std::max(e.max_difference, difference);
        if (std::isfinite(mine - right)) e.right_differs = std::max(e.right_differs, std::abs(mine - right));
      }
      if (const GalleryEntry* entry = find_in_gallery(e.name)) e.sentence = entry->sentence;
      if (static_cast<double>(e.agree) >= kAccepted * static_cast<double>(e.rows) &&
          static_cast<double>(e.kept) >= kKept * static_cast<double>(e.right_rows))
        list.push_back(std::move(e));
    }
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.agree > b.agree; });
    return list;
  }

  std::shared_ptr<const Problem> problem_;
  const Recipe& recipe_;
  const KernelOutput& theirs_;
  const Comparison& right_;
  ExplainOptions options_;
  Buffer<double> LSE_;
  Rows bad_, good_;
  double largest_V_ = 0;
  std::int64_t total_ = 0;  // of the progress
};

}  // namespace

Causes find_causes(std::shared_ptr<const Problem> problem, const Recipe& recipe, const KernelOutput& theirs,
                   const Comparison& comparison, const ExplainOptions& options, const std::stop_token& stop,
                   const Progress& progress) {
  return Explainer(std::move(problem), recipe, theirs, comparison, options).find(stop, progress);
}

std::vector<Explanation> explain(std::shared_ptr<const Problem> problem, const Recipe& recipe,
                                 const KernelOutput& theirs, const Comparison& comparison,
                                 const ExplainOptions& options, const std::stop_token& stop, const Progress& progress) {
  return find_causes(std::move(problem), recipe, theirs, comparison, options, stop, progress).named;
}

std::string text(const Explanation& e) {
  std::string text = fmt::format("`{}`", e.name);
  if (!e.detail.empty()) text += fmt::format(" ({})", e.detail);
  if (!e.of_lse) text += fmt::format(" at Br {}, Bc {}", e.recipe.Br, e.recipe.Bc);
  text += fmt::format(" reproduces the {} to {:.2g} in {} of {}", e.of_lse ? "LSE" : "output", e.max_difference,
                      grouped(e.agree), counted(e.rows, "row"));
  if (e.right_differs > 0) text += fmt::format("; the right answer differs by {:.2g}", e.right_differs);
  if (!e.lse_agrees) text += "; its LSE is another";
  return text;
}

std::string near_miss_text(const Explanation& e) {
  const std::int64_t lost = e.right_rows - e.kept;
  const bool some = e.right_rows == kRightRowsConfirmed;  // not all right rows were looked at
  return fmt::format("{}{} reproduces {} of {} wrong rows, but would make {}{} right row{} wrong", e.name,
                     e.detail.empty() ? "" : fmt::format(" ({})", e.detail), grouped(e.agree), grouped(e.rows),
                     grouped(lost), some ? fmt::format(" of {}", grouped(e.right_rows)) : "",
                     lost == 1 && !some ? "" : "s");
}

}  // namespace flashscope
