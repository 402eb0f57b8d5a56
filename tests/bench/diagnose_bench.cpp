// What `diagnose` does, for somebody's test suite: NaN rows with the first one's cause, another kernel's output
// compared and explained, the chain behind one cell, the mask report.
#include <benchmark/benchmark.h>

#include "engine/attention/cpu_runner.h"
#include "engine/insight/diagnosis.h"
#include "engine/insight/explain.h"
#include "engine/insight/mask_report.h"
#include "engine/insight/provenance.h"

namespace flashscope {
namespace {

std::shared_ptr<const Problem> causal(std::int64_t heads, std::int64_t N) {
  Mask mask;
  mask.causal = Causal::top_left;
  return random_problem({heads, heads, N, N, 64, 64, DType::float32}, 1, {}, mask);
}

void nan_rows(benchmark::State& state) {
  const auto problem = causal(4, 4096);
  Recipe recipe;
  recipe.Br = 128, recipe.order = Order::reverse, recipe.guard = Guard::none;
  for (auto _ : state) {
    const Diagnosis found = diagnose(problem, recipe, 2);
    if (!found.first_nan) state.SkipWithError("no NaN");
  }
}

// `made`: the recipe of the kernel whose output it is.
void against(benchmark::State& state, const char* defect) {
  const auto problem = causal(4, 4096);
  Recipe made;
  if (*defect) set_defect(made, defect);
  RunOptions options;
  options.check.kind = CheckRows::Kind::none;
  const Report report = run_on_cpu(*problem, made, options);
  KernelOutput theirs;
  theirs.name = "theirs", theirs.O = report.O;
  for (auto _ : state) {
    const Comparison found = compare(*problem, {}, theirs, 2);
    ExplainOptions how;
    how.threads = 2;
    const auto list = explain(problem, {}, theirs, found, how);
    if (list.empty() == (*defect != 0) || (*defect && list[0].name != defect)) state.SkipWithError("not named");
  }
}

void chain(benchmark::State& state) {
  const auto problem = causal(1, 65536);
  Recipe recipe;
  recipe.Br = 128, recipe.order = Order::reverse, recipe.guard = Guard::none;
  const Schedule schedule(problem->shape(), problem->mask, recipe);
  for (auto _ : state) {
    const Provenance found = why(*problem, schedule, {CellKind::O, 0, 65408, 0, {}});
    if (!found.cause) state.SkipWithError("no NaN");
  }
}

void mask(benchmark::State& state) {
  const auto problem = causal(1, 65536);
  const Schedule schedule(problem->shape(), problem->mask, {});
  for (auto _ : state) benchmark::DoNotOptimize(mask_report(*problem, schedule));
}

}  // namespace

void register_diagnose_benchmarks() {
  const auto with = [](benchmark::internal::Benchmark* one) {
    one->MeasureProcessCPUTime()->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  with(benchmark::RegisterBenchmark("diagnose/4x4096/nan_rows", nan_rows));
  with(benchmark::RegisterBenchmark("diagnose/4x4096/against_right", against, ""));
  with(benchmark::RegisterBenchmark("diagnose/4x4096/against_no_rescale_o", against, "no-rescale-o"));
  with(benchmark::RegisterBenchmark("diagnose/65536/chain_of_one_cell", chain));
  with(benchmark::RegisterBenchmark("diagnose/65536/mask_report", mask));
}

}  // namespace flashscope
