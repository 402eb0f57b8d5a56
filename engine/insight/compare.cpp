#include "engine/insight/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>

#include "engine/attention/cpu_runner.h"
#include "engine/attention/reference.h"
#include "engine/digits.h"
#include "engine/error.h"
#include "engine/threads.h"

namespace flashscope {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kEveryRowFlops = 4e10;  // beyond, the right answer is the CPU's run, itself checked in some rows
constexpr std::int64_t kRowsAtOnce = 64;
constexpr std::size_t kTellingValues = 64;

DType coarser(DType a, DType b) { return ulp(a, 1) > ulp(b, 1) ? a : b; }

std::shared_ptr<const Problem> in_precision(const Problem& problem, DType type) {
  const auto rounded = [type](const Tensor& from) {
    Tensor to = make_tensor(type, from.heads, from.rows, from.cols);
    for (std::int64_t n = 0; n < from.size(); ++n) {
      const double value = from.type == DType::float64 ? from.f64[n] : from.f32[n];
      if (type == DType::float64)
        to.f64[n] = value;
      else
        to.f32[n] = static_cast<float>(round_to(type, value));
    }
    return to;
  };
  return make_problem(problem.name, rounded(problem.Q()), rounded(problem.K()), rounded(problem.V()), problem.scale,
                      problem.mask);
}

double largest_V(const Problem& problem) {
  double largest = 0;
  const auto note = [&](double v) {
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  };
  for (const float v : problem.V().f32) note(v);
  for (const double v : problem.V().f64) note(v);
  return largest;
}

// Calls work(head, row0, rows) for all rows of all heads on all threads.
template <class Work>
void for_row_pieces(const Shape& shape, int threads, const std::stop_token& stop, const Progress& progress,
                    const Work& work) {
  const std::int64_t pieces_a_head = (shape.Nq + kRowsAtOnce - 1) / kRowsAtOnce, pieces = pieces_a_head * shape.heads;
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  const auto run = [&] {
    for (std::int64_t n; (n = next++) < pieces && !stop.stop_requested();) {
      const std::int64_t row0 = n % pieces_a_head * kRowsAtOnce;
      work(n / pieces_a_head, row0, std::min(kRowsAtOnce, shape.Nq - row0));
      if (progress && n % 8 == 0) {
        const std::lock_guard lock(mutex);
        progress(n, pieces);
      }
    }
  };
  on_threads(threads, run);
  if (stop.stop_requested()) throw Cancelled();
}

// Fills in the right answer, plain attention's error and the tolerance.
void find_right(Comparison& result, const Problem& problem, const Recipe& recipe, int threads,
                const std::stop_token& stop, const Progress& progress) {
  const Shape& shape = result.shape;
  const std::int64_t dv = shape.dv, rows = shape.heads * shape.Nq;
  const ReferenceOptions options{recipe.empty_row, recipe.mask_apply};
  const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(shape.Nk * (shape.d + dv));
  const double largest = largest_V(problem);
  if (flops <= kEveryRowFlops) {
    result.reference = "float64";
    result.right_O = make_buffer<double>(rows * dv), result.right_LSE = make_buffer<double>(rows);
    std::shared_ptr<const Problem> rounded;
    if (result.precision != shape.type) rounded = in_precision(problem, result.precision);
    const Problem& plain_problem = rounded ? *rounded : problem;
    double plain_error = 0;
    std::mutex mutex;
    for_row_pieces(shape, threads, stop, progress, [&](std::int64_t head, std::int64_t row0, std::int64_t count) {
      const std::int64_t at = head * shape.Nq + row0;
      reference_rows(problem, head, row0, count, options, result.right_O.data() + at * dv, &result.right_LSE[at]);
      if (result.precision == DType::float64) return;
      std::vector<double> plain(count * dv);
      plain_rows(plain_problem, head, row0, count, options, plain.data());
      double error = 0;
      for (std::int64_t n = 0; n < count * dv; ++n) {
        const double difference = std::abs(plain[n] - result.right_O[at * dv + n]);
        if (std::isfinite(difference)) error = std::max(error, difference);
      }
      const std::lock_guard lock(mutex);
      plain_error = std::max(plain_error, error);
    });
    if (result.precision == DType::float64) {
      result.tolerance = 1e-12;
    } else {
      result.plain_error = plain_error;
      result.tolerance = 2 * plain_error + 2 * ulp(result.precision, largest);
    }
    return;
  }
  Recipe right;
  right.empty_row = recipe.empty_row, right.mask_apply = recipe.mask_apply;
  RunOptions run;
  run.threads = threads;
  run.check = {CheckRows::Kind::some, 256};
  std::shared_ptr<const Problem> rounded;
  if (result.precision != shape.type) rounded = in_precision(problem, result.precision);
  Report report = run_on_cpu(rounded ? *rounded : problem, right, run, stop, progress);
  result.reference =
      fmt::format("the CPU's run{}, within {:.2g} of float64 in 256 rows a head",
                  rounded ? fmt::format(" of the problem in {}", name(result.precision)) : "", report.error->max);
  result.tolerance = report.error->tolerance + report.error->max;
  if (result.precision != DType::float64)  // the run's check measured it: its tolerance is made of it
    result.plain_error = std::max(0.0, (report.error->tolerance - 2 * ulp(result.precision, largest)) / 2);
  result.right_O = std::move(report.O), result.right_LSE = std::move(report.LSE);
}

RowState state_of(const double* theirs, const double* right, std::int64_t dv, double tolerance, double& error) {
  bool nan = false, inf = false, wrong = false;
  error = 0;
  for (std::int64_t e = 0; e < dv; ++e) {
    const double a = theirs[e], b = right[e];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    nan = nan || std::isnan(a), inf = inf || std::isinf(a);
    const double difference = std::abs(a - b);
    wrong = wrong || !(difference <= tolerance);
    if (!(difference <= error) && !std::isnan(error)) error = difference;  // a NaN stays
  }
  if (nan) return RowState::nan;
  if (inf) return RowState::inf;
  return wrong ? RowState::wrong : RowState::right;
}

// The columns of O in which values are wrong; "" where all of them are, or none.
void name_columns(Pattern& pattern, const Comparison& result, std::span<const double> theirs) {
  const std::int64_t dv = result.shape.dv, Nq = result.shape.Nq;
  std::vector<std::int64_t> wrong(dv);
  std::int64_t cells = 0, least = std::numeric_limits<std::int64_t>::max(), most = -least, above = 0, below = 0;
  const auto each = [&](auto use) {
    for (std::size_t row = 0; row < result.rows.size(); ++row) {
      if (result.rows[row] == RowState::right) continue;
      for (std::int64_t e = 0; e < dv; ++e) {
        const double a = theirs[row * dv + e], b = result.right_O[row * dv + e];
        const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= result.tolerance;
        if (!same) use(static_cast<std::int64_t>(row) % Nq, e);
      }
    }
  };
  each([&](std::int64_t r, std::int64_t e) {
    ++wrong[e], ++cells, least = std::min(least, e - r), most = std::max(most, e - r);
  });
  const auto hit = [](std::int64_t n) { return n > 0; };
  const auto columns = std::count_if(wrong.begin(), wrong.end(), hit);
  if (columns == 0 || dv == 1) return;
  if (columns < dv) {
    const auto first = std::find_if(wrong.begin(), wrong.end(), hit) - wrong.begin();
    const auto last = dv - 1 - (std::find_if(wrong.rbegin(), wrong.rend(), hit) - wrong.rbegin());
    const bool run = last - first + 1 == columns;
    pattern.columns = run && last == dv - 1 ? "last-columns" : run && first == 0 ? "first-columns" : "some-columns";
    pattern.text +=
        run ? (first == last ? ", in column " + std::to_string(first) + " of O"
                             : ", in columns " + std::to_string(first) + " to " + std::to_string(last) + " of O")
            : ", in " + std::to_string(columns) + " of the " + std::to_string(dv) + " columns of O";
    return;
  }
  // All cells on one side of a diagonal, and nearly all of those: what a mask applied to O leaves.
  for (std::int64_t r = 0; r < Nq; ++r) {
    above += std::max<std::int64_t>(0, dv - std::max<std::int64_t>(0, r + least));
    below += std::clamp<std::int64_t>(r + most + 1, 0, dv);
  }
  // Whole rows have a diagonal near their corner too; of a triangle's rows only a part is wrong.
  const auto rows = std::ssize(result.rows) - std::count(result.rows.begin(), result.rows.end(), RowState::right);
  const auto nearly = [&](std::int64_t area) {
    return cells < dv * rows * 9 / 10 && area < dv * Nq * 9 / 10 && cells >= area * 9 / 10 * result.shape.heads;
  };
  if (nearly(above) || nearly(below)) {
    pattern.columns = "triangle";
    pattern.text += nearly(above) ? ", a triangle above a diagonal of O" : ", a triangle below a diagonal of O";
  }
}

}  // namespace

std::string_view name(RowState state) {
  constexpr std::array<std::string_view, 4> kNames = {"right", "wrong", "nan", "inf"};
  return kNames[static_cast<std::size_t>(state)];
}

CellCounts compare_cells(std::span<const double> theirs, std::span<const double> right, double tolerance) {
  CellCounts counts;
  double squares = 0, sum = 0, sum_squares = 0;
  std::int64_t finite = 0;
  for (std::size_t n = 0; n < right.size(); ++n) {
    const double a = theirs[n], b = right[n];
    if (std::isnan(a) || std::isnan(b)) {
      ++(std::isnan(a) ? std::isnan(b) ? counts.nan_both : counts.nan_theirs : counts.nan_right);
    } else if (std::isinf(a) || std::isinf(b)) {
      ++(a == b ? counts.equal : counts.inf);
    } else {
      const double difference = std::abs(a - b);
      ++(difference <= tolerance ? counts.equal : counts.different);
      counts.max_difference = std::max(counts.max_difference, difference);
      squares += difference * difference, sum += b, sum_squares += b * b;
      ++finite;
    }
  }
  const auto n = static_cast<double>(finite);
  counts.rms = std::sqrt(squares / n);
  counts.spread = std::sqrt(std::max(0.0, sum_squares / n - sum / n * (sum / n)));
  return counts;
}

std::string nan_text(const CellCounts& cells) {
  std::string text;
  for (const auto& [count, where] :
       {std::pair{cells.nan_theirs, "in yours only"}, std::pair{cells.nan_right, "in the right answer only"},
        std::pair{cells.nan_both, "in both"}})
    if (count > 0) text += fmt::format("{}{} NaN {}", text.empty() ? "" : ", ", counted(count, "cell"), where);
  return text;
}

std::optional<DType> narrow_type(std::span<const double> values) {
  // By chance a float32 value is a bfloat16 once in 2^16 and a float16 once in 2^13: a few values tell. But 0, 1 and
  // small integers are values of every type, and an O of zeros, or of one-hot weights over a V of a few numbers, says
  // nothing of how it was computed; with a wider tolerance its mistakes would pass. So enough magnitudes must differ.
  for (const DType type : {DType::bfloat16, DType::float16}) {
    std::set<double> telling;
    const bool all = std::all_of(values.begin(), values.end(), [&](double value) {
      if (!std::isfinite(value)) return true;
      if (round_to(type, value) != value) return false;
      if (telling.size() < kTellingValues) telling.insert(std::abs(value));
      return true;
    });
    if (all && telling.size() >= kTellingValues) return type;
  }
  return {};
}

double lse_tolerance(DType precision, double lse) {
  const double relative = precision == DType::float64 ? 1e-10 : 1e-4;
  if (!std::isfinite(lse)) return relative;
  return relative * std::max(1.0, std::abs(lse)) + (size_of(precision) == 2 ? 2 * ulp(precision, lse) : 0);
}

RowCounts Comparison::total() const {
  RowCounts all;
  for (const RowCounts& head : heads)
    all.right += head.right, all.wrong += head.wrong, all.nan += head.nan, all.inf += head.inf;
  return all;
}

Comparison compare(const Problem& problem, const Recipe& recipe, const KernelOutput& theirs, int threads,
                   const std::stop_token& stop, const Progress& progress) {
  Comparison result;
  const Shape shape = result.shape = problem.shape();
  if (!theirs.type_given && size_of(theirs.type) > 2) result.values_are = narrow_type(theirs.O);
  result.precision = coarser(shape.type, result.values_are.value_or(theirs.type));
  find_right(result, problem, recipe, threads, stop, progress);

  const std::int64_t rows = shape.heads * shape.Nq, dv = shape.dv;
  result.rows.resize(rows), result.row_error = make_buffer<float>(rows), result.heads.resize(shape.heads);
  for (std::int64_t row = 0; row < rows; ++row) {
    double error = 0;
    const RowState state =
        state_of(theirs.O.data() + row * dv, result.right_O.data() + row * dv, dv, result.tolerance, error);
    result.rows[row] = state, result.row_error[row] = static_cast<float>(error);
    RowCounts& head = result.heads[row / shape.Nq];
    ++(state == RowState::right   ? head.right
       : state == RowState::wrong ? head.wrong
       : state == RowState::nan   ? head.nan
                                  : head.inf);
    if (state != RowState::nan && state != RowState::inf && error > result.max_error)
      result.max_error = error, result.worst_head = row / shape.Nq, result.worst_row = row % shape.Nq;
  }
  result.cells = compare_cells(theirs.O, result.right_O, result.tolerance);

  Buffer<double> LSE = theirs.LSE;
  const bool from_m_and_l = LSE.empty() && !theirs.m.empty() && !theirs.l.empty();
  if (from_m_and_l)
    for (std::int64_t row = 0; row < rows; ++row) LSE.push_back(theirs.m[row] + std::log(theirs.l[row]));
  if (!LSE.empty()) {
    LseComparison& lse = result.lse.emplace();
    lse.from_m_and_l = from_m_and_l, lse.read_as = theirs.lse;
    for (std::int64_t row = 0; row < rows; ++row) {
      const double a = LSE[row], b = result.right_LSE[row];
      if (a == b || (std::isnan(a) && std::isnan(b))) {
        ++lse.right;
      } else if (std::isnan(a)) {
        ++lse.nan;
      } else if (a == kInf) {
        ++(b == -kInf ? lse.plus_inf_empty : lse.plus_inf);
      } else {
        const double difference = std::abs(a - b);
        ++(difference <= lse_tolerance(result.precision, b) ? lse.right : lse.wrong);
        if (std::isfinite(difference)) lse.max_error = std::max(lse.max_error, difference);
      }
    }
  }
  std::vector<std::uint8_t> bad(rows);
  for (std::int64_t row = 0; row < rows; ++row) bad[row] = result.rows[row] != RowState::right;
  result.pattern = name_pattern(bad, shape, recipe);
  name_columns(result.pattern, result, theirs.O);
  return result;
}

}  // namespace flashscope
