// One row block over all keys: the fold (a cold seek to the end of the row block) and Eigen's two products
// over the same column blocks, for the same instruction set on one thread.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <thread>

#include "engine/attention/online_softmax.h"
#include "engine/attention/trace.h"
#include "tests/bench/eigen_products.h"

namespace flashscope {
namespace {

std::shared_ptr<const Problem> shared_problem_of(std::int64_t Nk) {
  static std::map<std::int64_t, std::shared_ptr<const Problem>> problems;
  auto& problem = problems[Nk];
  if (!problem) problem = random_problem({1, 1, 512, Nk, 64, 64, DType::float32}, 1);
  return problem;
}
const Problem& problem_of(std::int64_t Nk) { return *shared_problem_of(Nk); }

void set_flops(benchmark::State& state, std::int64_t rows, std::int64_t Nk, int threads = 1) {
  state.counters["FLOP/s"] =
      benchmark::Counter(static_cast<double>(threads) * 4 * static_cast<double>(rows) * static_cast<double>(Nk) * 64,
                         benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void fold_row_block(Fold<float>& fold, std::int64_t row0, std::int64_t Br, std::int64_t Nk, std::int64_t Bc) {
  fold.start(0, row0, Br);
  for (std::int64_t c = 0; c < Nk; c += Bc) fold.fold_tile(c, std::min(Bc, Nk - c), false);
  benchmark::DoNotOptimize(fold.O());
}

void fold(benchmark::State& state, const std::string& isa, std::int64_t Br, std::int64_t Bc, std::int64_t Nk) {
  use_isa(isa);
  Recipe recipe;
  recipe.Br = Br, recipe.Bc = Bc;
  Fold<float> fold(problem_of(Nk), recipe);
  for (auto _ : state) fold_row_block(fold, 0, Br, Nk, Bc);
  set_flops(state, Br, Nk);
  use_isa("auto");
}

// What a person waits for: a new trace goes to the end of the second row block, having visited nothing.
void cold_seek(benchmark::State& state, const std::string& isa, std::int64_t Br, std::int64_t Bc, std::int64_t Nk) {
  use_isa(isa);
  Recipe recipe;
  recipe.Br = Br, recipe.Bc = Bc;
  const auto problem = shared_problem_of(Nk);
  const Schedule schedule(problem->shape(), problem->mask, recipe);
  const std::int64_t K = *schedule.find(0, 1, -1, Stage::finish);
  for (auto _ : state) {
    Trace trace(problem, recipe);
    benchmark::DoNotOptimize(trace.seek(K));
  }
  set_flops(state, Br, Nk);
  use_isa("auto");
}

// Then from place to place inside that row block, by strides that no cache of the last state can serve.
void seek_inside(benchmark::State& state, const std::string& isa, std::int64_t Br, std::int64_t Bc, std::int64_t Nk) {
  use_isa(isa);
  Recipe recipe;
  recipe.Br = Br, recipe.Bc = Bc;
  const auto problem = shared_problem_of(Nk);
  const Schedule schedule(problem->shape(), problem->mask, recipe);
  Trace trace(problem, recipe);
  trace.seek(*schedule.find(0, 1, -1, Stage::finish));
  std::int64_t j = 0;
  for (auto _ : state) {
    j = (j + schedule.Tc() * 382 / 1000 + 1) % schedule.Tc();
    benchmark::DoNotOptimize(trace.seek(*schedule.find(0, 1, j, Stage::accumulate)));
  }
  use_isa("auto");
}

// As many row blocks at once as there are cores, one a thread.
void fold_threads(benchmark::State& state, const std::string& isa, std::int64_t Br, std::int64_t Bc, std::int64_t Nk) {
  use_isa(isa);
  Recipe recipe;
  recipe.Br = Br, recipe.Bc = Bc;
  const Problem& problem = problem_of(Nk);
  constexpr int kThreads = 2;
  for (auto _ : state) {
    std::array<std::jthread, kThreads> threads;
    for (int t = 0; t < kThreads; ++t)
      threads[t] = std::jthread([&, t] {
        Fold<float> fold(problem, recipe);
        fold_row_block(fold, t * Br, Br, Nk, Bc);
      });
  }
  set_flops(state, Br, Nk, kThreads);
  use_isa("auto");
}

void eigen(benchmark::State& state, const std::string& isa, std::int64_t Br, std::int64_t Bc, std::int64_t Nk) {
  const Problem& problem = problem_of(Nk);
  std::vector<float> S(Br * Bc), O(Br * 64);
  const RowBlockProducts block{
      Br, 64, 64, Nk, Bc, problem.Q().f32.data(), problem.K().f32.data(), problem.V().f32.data(), S.data(), O.data()};
  const auto products = isa == "AVX3" ? eigen_products_AVX3 : isa == "AVX2" ? eigen_products_AVX2 : eigen_products_SSE4;
  for (auto _ : state) {
    products(block);
    benchmark::DoNotOptimize(O.data());
  }
  set_flops(state, Br, Nk);
}

}  // namespace

void register_fold_benchmarks() {
  for (const std::string isa : {"AVX3", "AVX2", "SSE4"}) {
    const auto isas = available_isas();
    if (std::find(isas.begin(), isas.end(), isa) == isas.end()) continue;
    for (const std::int64_t Nk : {65536, 1048576}) {
      for (const std::int64_t Br : {64, 128}) {
        for (const std::int64_t Bc : {64, 128}) {
          const std::string place =
              isa + "/N:" + std::to_string(Nk) + "/Br:" + std::to_string(Br) + "/Bc:" + std::to_string(Bc);
          const auto add = [&](const char* what, auto* body) {
            return benchmark::RegisterBenchmark((what + ("/" + place)).c_str(), body, isa, Br, Bc, Nk)
                ->Unit(benchmark::kMillisecond);
          };
          add("eigen_products", eigen);
          add("fold", fold);
          add("cold_seek", cold_seek);
          add("seek_inside", seek_inside);
          add("fold_2_threads", fold_threads)->UseRealTime();
        }
      }
    }
  }
}

}  // namespace flashscope
