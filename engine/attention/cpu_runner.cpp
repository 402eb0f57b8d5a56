#include "engine/attention/cpu_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include "engine/attention/row_walk.h"
#include "engine/digits.h"
#include "engine/error.h"
#include "engine/threads.h"

namespace flashscope {
namespace {

// One call of `work(thread)` on each of `threads` threads; the first exception is thrown again here.
template <class Work>
void on_threads(int threads, Work work) {
  std::exception_ptr failed;
  std::mutex mutex;
  const auto guarded = [&](int thread) {
    try {
      work(thread);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failed) failed = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int t = 1; t < threads; ++t) workers.emplace_back(guarded, t);
    guarded(0);
  }
  if (failed) std::rethrow_exception(failed);
}

// O and LSE of a row block whose fold is finished, from lanes to rows.
template <class T>
void store(const Fold<T>& fold, const Shape& shape, T* O, T* LSE) {
  const std::int64_t at = fold.head() * shape.Nq + fold.row0();
  for (std::int64_t e = 0; e < shape.dv; ++e)
    for (std::int64_t r = 0; r < fold.rows(); ++r) O[(at + r) * shape.dv + e] = fold.O()[e * fold.lanes() + r];
  std::copy(fold.LSE(), fold.LSE() + fold.rows(), LSE + at);
}

// Bytes that a run asks of its allocator beyond Q, K, V: an estimate, to refuse what cannot fit before it starts.
double estimated_bytes(const Problem& problem, const Recipe& recipe, int threads) {
  const Shape shape = problem.shape();
  const double element = problem.in_double() ? 8 : 4;
  const auto rows = static_cast<double>(shape.heads * shape.Nq), dv = static_cast<double>(shape.dv);
  const double output = rows * (dv + 1) * (element + sizeof(double));
  const auto tile_rows = static_cast<double>(std::min(recipe.Br, shape.Nq) + kLane);
  if (recipe.algorithm == Algorithm::standard)
    return output + static_cast<double>(shape.Nq + kLane) * static_cast<double>(shape.Nk) * element * 2;
  return output +
         threads * tile_rows * element * (static_cast<double>(std::min(recipe.Bc, shape.Nk) + shape.d + shape.dv) + 16);
}

template <class T>
void run_flash(const Problem& problem, const Schedule& schedule, int threads, MemoryMeter& meter, T* O, T* LSE,
               const std::stop_token& stop, const std::function<void(std::int64_t)>& folded) {
  const std::int64_t blocks = schedule.Tr() * problem.shape().heads;
  std::atomic<std::int64_t> next{0};
  // Under a causal mask the last row blocks are the longest: they go first, so that no thread is left alone
  // with one at the end.
  on_threads(threads, [&](int) {
    Fold<T> fold(problem, schedule.recipe(), meter);
    for (std::int64_t n; (n = next++) < blocks;) {
      const std::int64_t head = n / schedule.Tr(), i = schedule.Tr() - 1 - n % schedule.Tr();
      start_row_block(fold, schedule, head, i);
      const std::int64_t visits = schedule.visits(head, i);
      for (std::int64_t v = 0; v < visits; ++v) {
        if (stop.stop_requested()) throw Cancelled();
        fold_visit(fold, schedule, head, i, v);
      }
      fold.finish();
      store(fold, problem.shape(), O, LSE);
      folded(visits);
    }
  });
}

template <class T>
void run_standard(const Problem& problem, const Schedule& schedule, int threads, MemoryMeter& meter, T* O, T* LSE,
                  const std::stop_token& stop, const std::function<void(std::int64_t)>& folded) {
  const Shape shape = problem.shape();
  const std::int64_t Tr = schedule.Tr();
  std::vector<std::int64_t> start(Tr + 1, 0);  // lanes before each row block's strip
  for (std::int64_t i = 0; i < Tr; ++i) start[i + 1] = start[i] + (schedule.rows(i) + kLane - 1) / kLane * kLane;
  Buffer<T> S = make_buffer<T>(start[Tr] * shape.Nk, meter), P = make_buffer<T>(start[Tr] * shape.Nk, meter);
  Buffer<T> visible = make_buffer<T>(start[Tr], meter);
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    // All of S before P begins: both stand in memory, as between the kernels of an unfused program.
    const auto pass = [&](auto each) {
      std::atomic<std::int64_t> next{0};
      on_threads(threads, [&](int) {
        Fold<T> fold(problem, schedule.recipe(), meter);
        for (std::int64_t i; (i = next++) < Tr;) {
          if (stop.stop_requested()) throw Cancelled();
          start_row_block(fold, schedule, head, i);
          each(fold, i);
        }
      });
    };
    pass([&](Fold<T>& fold, std::int64_t i) {
      fold.use_strip(S.data() + start[i] * shape.Nk);
      begin_strip(fold, schedule, head, i);
      fold.scores();
      fold.mask();
      std::copy_n(fold.visible(), fold.lanes(), visible.data() + start[i]);
      fold.use_strip(nullptr);
    });
    pass([&](Fold<T>& fold, std::int64_t i) {
      const std::int64_t cells = (start[i + 1] - start[i]) * shape.Nk;
      std::copy_n(S.data() + start[i] * shape.Nk, cells, P.data() + start[i] * shape.Nk);
      fold.use_strip(P.data() + start[i] * shape.Nk);
      begin_strip(fold, schedule, head, i);
      fold.set_visible(visible.data() + start[i]);
      fold.softmax();
      fold.multiply();
      fold.finish();
      store(fold, shape, O, LSE);
      fold.use_strip(nullptr);
      folded(1);
    });
  }
}

template <class T>
void run_typed(const Problem& problem, const Schedule& schedule, int threads, MemoryMeter& meter, Report& report,
               const std::stop_token& stop, const Progress& progress) {
  const Shape shape = problem.shape();
  Buffer<T> O = make_buffer<T>(shape.heads * shape.Nq * shape.dv, meter);
  Buffer<T> LSE = make_buffer<T>(shape.heads * shape.Nq, meter);
  std::int64_t done = 0;
  std::mutex mutex;
  const std::int64_t total = schedule.tiles();
  const std::function<void(std::int64_t)> folded = [&](std::int64_t tiles) {
    if (!progress) return;
    const std::lock_guard lock(mutex);
    progress(done += tiles, total);
  };
  meter.reset_peak();
  const auto begin = std::chrono::steady_clock::now();
  if (schedule.recipe().algorithm == Algorithm::standard)
    run_standard<T>(problem, schedule, threads, meter, O.data(), LSE.data(), stop, folded);
  else
    run_flash<T>(problem, schedule, threads, meter, O.data(), LSE.data(), stop, folded);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  report.peak_bytes = meter.peak();
  report.O.assign(O.begin(), O.end());
  report.LSE.assign(LSE.begin(), LSE.end());
}

}  // namespace

void complete(Report& report, const Problem& problem, const CheckRows& check, int threads,
              const std::stop_token& stop) {
  report.nan_rows.resize(report.shape.heads);
  for (std::int64_t row = 0; row < report.shape.heads * report.shape.Nq; ++row) {
    bool nan = false;
    for (std::int64_t e = 0; e < report.shape.dv; ++e) {
      const double o = report.O[row * report.shape.dv + e];
      nan = nan || std::isnan(o);
      report.sum += o, report.sum_abs += std::abs(o);
    }
    if (nan) report.nan_rows[row / report.shape.Nq].push_back(row % report.shape.Nq), ++report.nan_row_count;
  }
  if (check.kind != CheckRows::Kind::none)
    report.error =
        error_vs_float64(problem, report.O, {report.recipe.empty_row, report.recipe.mask_apply}, check, threads, stop);
}

Report run_on_cpu(const Problem& problem, const Recipe& recipe, const RunOptions& options, const std::stop_token& stop,
                  const Progress& progress) {
  const Shape shape = problem.shape();
  const int threads = threads_or_cores(options.threads);
  check(recipe, shape);
  if (const double bytes = estimated_bytes(problem, recipe, threads); bytes > static_cast<double>(options.memory_limit))
    throw InputError(
        fmt::format("run {}", name(recipe.algorithm)),
        fmt::format("about {:.1f} GiB to allocate{}", bytes / (1 << 30),
                    recipe.algorithm == Algorithm::standard ? " (S and P are Nq x Nk)" : ""),
        fmt::format("at most {:.1f} GiB, the memory setting", static_cast<double>(options.memory_limit) / (1 << 30)));
  const Schedule schedule(shape, problem.mask, recipe);
  Report report;
  report.device = "CPU, " + counted(threads, "thread");
  report.kernel = fmt::format("fold, {}", current_isa());
  report.shape = shape, report.recipe = recipe;
  report.tensor_bytes = problem.Q().bytes() + problem.K().bytes() + problem.V().bytes();
  MemoryMeter meter;
  // The check can take as long as the run: it is told as a second half of the whole.
  const bool checked = options.check.kind != CheckRows::Kind::none;
  Progress of_run, of_check;
  if (progress) {
    of_run = [&](std::int64_t done, std::int64_t total) { progress(done, checked ? 2 * total : total); };
    of_check = [&, tiles = schedule.tiles()](std::int64_t done, std::int64_t total) {
      progress(tiles + tiles * done / std::max<std::int64_t>(1, total), 2 * tiles);
    };
  }
  if (problem.in_double())
    run_typed<double>(problem, schedule, threads, meter, report, stop, of_run);
  else
    run_typed<float>(problem, schedule, threads, meter, report, stop, of_run);
  report.traffic = counted(schedule);
  complete(report, problem, {CheckRows::Kind::none}, threads, stop);
  if (checked)
    report.error = error_vs_float64(problem, report.O, {recipe.empty_row, recipe.mask_apply}, options.check, threads,
                                    stop, of_check);
  return report;
}

}  // namespace flashscope
