// One redraw of the explorer's map: 200 x 200 points under a causal mask, against a device's limits, on two threads.
#include <benchmark/benchmark.h>

#include "engine/insight/sweep.h"

namespace flashscope {
namespace {

void sweep(benchmark::State& state, Algorithm algorithm, std::int64_t N) {
  Mask mask;
  mask.causal = Causal::top_left;
  Recipe recipe;
  recipe.algorithm = algorithm;
  const HardwareSheet& device = sheet_named("H200");
  for (auto _ : state) {
    const SweepProblem problem = sweep_problem({1, 1, N, N, 64, 64, DType::float16}, mask);
    const SweepMap map =
        sweep_map(problem, recipe, {1, 1024, 200, true}, {1, 1024, 200, true}, {Measure::bytes}, &device, 2);
    benchmark::DoNotOptimize(map.values.data());
  }
}

}  // namespace

void register_sweep_benchmarks() {
  const auto add = [](const char* name, Algorithm algorithm, std::int64_t N) {
    benchmark::RegisterBenchmark(name, sweep, algorithm, N)->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  add("sweep/flash1/4096", Algorithm::flash1, 4096);
  add("sweep/flash2/4096", Algorithm::flash2, 4096);
  add("sweep/flash2/1048576", Algorithm::flash2, 1048576);
}

}  // namespace flashscope
