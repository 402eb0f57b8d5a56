// A NaN planted in K of a long causal problem, searched for from the start and from the end, beside the full run.
#include <benchmark/benchmark.h>

#include <cmath>

#include "engine/attention/cpu_runner.h"
#include "engine/insight/search.h"

namespace flashscope {
namespace {

constexpr std::int64_t kN = 65536;

std::shared_ptr<const Problem> planted(std::int64_t key) {
  Mask mask;
  mask.causal = Causal::top_left;
  const auto sound = random_problem({1, 1, kN, kN, 64, 64, DType::float32}, 1, {}, mask);
  Tensor K = *sound->k;
  set(K, 0, key, 7, std::nan(""));
  return make_problem("planted", *sound->q, std::move(K), *sound->v, {}, mask);
}

void find(benchmark::State& state, std::int64_t key, const char* what, bool forward) {
  const auto problem = planted(key);
  const Stop stop[] = {parse_stop(what)};
  const std::int64_t steps = Schedule(problem->shape(), problem->mask, {}).steps();
  for (auto _ : state) {
    const auto found = search(problem, {}, stop, forward ? 0 : steps + 1, forward, {2, {}, {}});
    if (!found) state.SkipWithError("not found");
    if (found) state.counters["row"] = static_cast<double>(found->row);
  }
}

void full_run(benchmark::State& state) {
  const auto problem = planted(kN - 1);
  RunOptions options;
  options.threads = 2;
  options.check.kind = CheckRows::Kind::none;
  for (auto _ : state) run_on_cpu(*problem, {}, options);
}

}  // namespace

void register_search_benchmarks() {
  const auto with = [](benchmark::internal::Benchmark* one) {
    one->MeasureProcessCPUTime()->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1);
  };
  with(benchmark::RegisterBenchmark("search/65536/full_run", full_run));
  with(benchmark::RegisterBenchmark("search/65536/nan_in_the_last_row", find, kN - 1, "nan", true));
  with(benchmark::RegisterBenchmark("search/65536/nan_in_the_middle", find, kN / 2, "nan", true));
  with(benchmark::RegisterBenchmark("search/65536/nan_in_the_middle_from_the_end", find, kN / 2, "nan", false));
  with(benchmark::RegisterBenchmark("search/65536/condition_on_alpha", find, kN - 1, "alpha < 1e-30", true));
  with(benchmark::RegisterBenchmark("search/65536/condition_on_O", find, kN - 1, "isnan(O)", true));
}

}  // namespace flashscope
