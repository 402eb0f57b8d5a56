// The full CPU run of one head, float32, N = 4096, d = 64, on two threads: to set beside attention_cpu.py.
#include <benchmark/benchmark.h>

#include "engine/attention/cpu_runner.h"

namespace flashscope {
namespace {

void run(benchmark::State& state, Algorithm algorithm, Causal causal, std::int64_t Br, std::int64_t Bc) {
  Mask mask;
  mask.causal = causal;
  const auto problem = random_problem({1, 1, 4096, 4096, 64, 64, DType::float32}, 1, {}, mask);
  Recipe recipe;
  recipe.algorithm = algorithm, recipe.Br = Br, recipe.Bc = Bc;
  RunOptions options;
  options.threads = 2;
  options.check.kind = CheckRows::Kind::none;
  double peak = 0;
  for (auto _ : state) {
    const Report report = run_on_cpu(*problem, recipe, options);
    state.SetIterationTime(report.seconds);
    peak = static_cast<double>(report.peak_bytes);
  }
  state.counters["peak_bytes"] = peak;
}

}  // namespace

void register_run_benchmarks() {
  const auto add = [](const char* name, Algorithm algorithm, Causal causal, std::int64_t Br, std::int64_t Bc) {
    benchmark::RegisterBenchmark(name, run, algorithm, causal, Br, Bc)
        ->MeasureProcessCPUTime()
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  };
  add("run/flash2/full/64x64", Algorithm::flash2, Causal::none, 64, 64);
  add("run/flash2/causal/64x64", Algorithm::flash2, Causal::top_left, 64, 64);
  add("run/flash2/full/128x128", Algorithm::flash2, Causal::none, 128, 128);
  add("run/flash2/causal/128x128", Algorithm::flash2, Causal::top_left, 128, 128);
  add("run/flash1/full/64x196", Algorithm::flash1, Causal::none, 64, 196);
  add("run/flash1/causal/64x196", Algorithm::flash1, Causal::top_left, 64, 196);
  add("run/standard/full", Algorithm::standard, Causal::none, 64, 64);
}

}  // namespace flashscope
