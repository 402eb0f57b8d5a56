#include "engine/insight/numerics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/attention/row_walk.h"
#include "engine/error.h"

namespace flashscope {
namespace {

constexpr std::int64_t kRowsAtOnce = 64;

// O of all rows of one head, [Nq][dv].
template <class T>
std::vector<double> outputs(const Problem& problem, const Recipe& recipe, std::int64_t head,
                            const std::stop_token& stop) {
  const Shape shape = problem.shape();
  const Schedule schedule(shape, problem.mask, recipe);
  Fold<T> fold(problem, recipe);
  std::vector<double> O(shape.Nq * shape.dv);
  for (std::int64_t i = 0; i < schedule.Tr(); ++i) {
    start_row_block(fold, schedule, head, i);
    fold_to_the_end(fold, schedule, head, i, stop);
    for (std::int64_t r = 0; r < fold.rows(); ++r)
      for (std::int64_t e = 0; e < shape.dv; ++e) O[(fold.row0() + r) * shape.dv + e] = fold.O()[e * fold.lanes() + r];
  }
  return O;
}

ErrorSource compared(std::string name, const std::vector<double>& O, const std::vector<double>& right,
                     std::int64_t dv) {
  ErrorSource source;
  source.name = std::move(name);
  for (std::size_t at = 0; at < O.size(); at += dv) {
    double error = 0;
    bool nan_here = false, nan_there = false;
    for (std::int64_t e = 0; e < dv; ++e) {
      const double a = O[at + e], b = right[at + e];
      nan_here = nan_here || std::isnan(a), nan_there = nan_there || std::isnan(b);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      const double difference = std::abs(a - b);
      if (!(difference <= error) && !std::isnan(error)) error = difference;  // a NaN stays
    }
    source.nan.count(nan_here, nan_there);
    const auto row = static_cast<std::int64_t>(source.row_error.size());
    if (!std::isfinite(error))
      ++source.not_finite;
    else if (error > source.max)
      source.max = error, source.worst_row = row;
    source.row_error.push_back(error);
  }
  return source;
}

}  // namespace

std::shared_ptr<const Problem> in_float64(const Problem& problem) {
  const auto wide = [](const Tensor& from) {
    Tensor to = make_tensor(DType::float64, from.heads, from.rows, from.cols);
    if (from.type == DType::float64)
      to.f64 = from.f64;
    else
      std::copy(from.f32.begin(), from.f32.end(), to.f64.begin());
    return to;
  };
  return make_problem(problem.name, wide(problem.Q()), wide(problem.K()), wide(problem.V()), problem.scale,
                      problem.mask);
}

std::vector<ErrorSource> error_sources(const Problem& problem, const Recipe& recipe, std::int64_t head,
                                       const std::stop_token& stop, const Progress& progress) {
  const Shape shape = problem.shape();
  std::vector<double> right(shape.Nq * shape.dv);
  for (std::int64_t row = 0; row < shape.Nq; row += kRowsAtOnce) {
    if (stop.stop_requested()) throw Cancelled();
    reference_rows(problem, head, row, std::min(kRowsAtOnce, shape.Nq - row), {recipe.empty_row, recipe.mask_apply},
                   right.data() + row * shape.dv, nullptr);
  }
  const Numerics& numerics = recipe.numerics;
  struct Run {
    std::string name;
    Numerics numerics;
    bool in_float64;
  };
  std::vector<Run> runs = {{"together", numerics, problem.in_double()}};
  Numerics only;
  only.exponential = numerics.exponential, only.rescale_threshold = numerics.rescale_threshold;
  std::string arithmetic = problem.in_double() ? "float64 arithmetic" : "float32 arithmetic";
  if (only != Numerics{}) arithmetic += fmt::format(" with {}", numerics_text(only));
  runs.push_back({arithmetic, only, problem.in_double()});
  if (numerics.scale == ScaleWhen::before) {
    only = {}, only.scale = numerics.scale;
    runs.push_back({numerics_text(only), only, problem.in_double()});
  }
  for (DType Numerics::*const type : {&Numerics::scores, &Numerics::P, &Numerics::accumulators}) {
    if (numerics.*type == DType::float32) continue;
    only = {}, only.*type = numerics.*type;
    runs.push_back({numerics_text(only), only, true});
  }
  std::shared_ptr<const Problem> wide;
  std::vector<ErrorSource> sources;
  for (const Run& run : runs) {
    if (progress) progress(static_cast<std::int64_t>(sources.size()), static_cast<std::int64_t>(runs.size()));
    Recipe of_run = recipe;
    of_run.numerics = run.numerics;
    if (run.in_float64 && !wide) wide = in_float64(problem);
    const std::vector<double> O =
        run.in_float64 ? outputs<double>(*wide, of_run, head, stop) : outputs<float>(problem, of_run, head, stop);
    sources.push_back(compared(run.name, O, right, shape.dv));
  }
  return sources;
}

namespace {

template <class T>
std::vector<TileError> row_errors_of(const Problem& problem, const Problem& wide, const Recipe& recipe,
                                     std::int64_t head, std::int64_t row) {
  const Shape shape = problem.shape();
  Recipe exact = recipe;
  exact.numerics = {};
  const Schedule schedule(shape, problem.mask, recipe);
  const std::int64_t i = row / recipe.Br;
  Fold<T> narrow(problem, recipe);
  Fold<double> right(wide, exact);
  narrow.start(head, row, 1), right.start(head, row, 1);
  std::vector<TileError> errors;
  if (recipe.algorithm == Algorithm::standard) return errors;
  const auto verbs = [](auto& fold) { fold.max(), fold.exponentials(), fold.rescale(), fold.accumulate(); };
  for (std::int64_t n = 0; n < schedule.visits(head, i); ++n) {
    TileError error;
    error.j = schedule.visit_j(head, i, n);
    begin_visit(narrow, schedule, head, i, n), begin_visit(right, schedule, head, i, n);
    narrow.scores(), right.scores(), narrow.mask(), right.mask();
    for (std::int64_t c = 0; c < narrow.cols(); ++c) {
      const double a = narrow.S()[c * narrow.lanes()], b = right.S()[c * right.lanes()];
      if (a == b) continue;
      error.overflow = error.overflow || (!std::isfinite(a) && std::isfinite(b));
      if (std::isfinite(a - b)) error.score = std::max(error.score, std::abs(a - b));
    }
    verbs(narrow), verbs(right);
    const double l = narrow.l()[0], l64 = right.l()[0];
    // Both sums relative to the maximum in float64: the other one may lag behind it.
    error.sum = std::abs(l * std::exp(narrow.m()[0] - right.m()[0]) / l64 - 1);
    const bool each = recipe.normalised() == Normalise::each;
    for (std::int64_t e = 0; e < shape.dv; ++e) {
      const double a = narrow.O()[e * narrow.lanes()] / (each ? 1.0 : l),
                   b = right.O()[e * right.lanes()] / (each ? 1.0 : l64);
      const double difference = std::abs(a - b);
      if (!(difference <= error.output) && !std::isnan(error.output)) error.output = difference;
    }
    errors.push_back(error);
  }
  return errors;
}

}  // namespace

std::vector<TileError> row_errors(const Problem& problem, const Recipe& recipe, std::int64_t head, std::int64_t row) {
  const auto wide = in_float64(problem);
  return problem.in_double() ? row_errors_of<double>(problem, *wide, recipe, head, row)
                             : row_errors_of<float>(problem, *wide, recipe, head, row);
}

}  // namespace flashscope
