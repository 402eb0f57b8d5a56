// Times of the GPU kernels, one JSON line a measurement: bench_gpu.py runs it beside PyTorch.
//
//   bench_gpu [--hidden 2048] [--tokens 16384] [--warps W] [--stages S] [--min-blocks B] [--together H] D:BR:BC[:N] ...
//   bench_gpu --ladder
//
// Each shape runs at N = 1k, 4k, 16k (or N), full and causal, bfloat16, hidden / D heads times tokens / N sequences.
// The ladder is every kernel on the same problem: 16 heads, N = 4096, d = 64.
#include <fmt/format.h>

#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/host/gpu_runner.h"

namespace flashscope::gpu {
namespace {

Tensor slice(const Buffer<float>& values, std::int64_t heads, std::int64_t N, std::int64_t d, std::int64_t from) {
  Tensor tensor;
  tensor.type = DType::bfloat16, tensor.heads = heads, tensor.rows = N, tensor.cols = d;
  tensor.f32.assign(values.begin() + from, values.end());
  tensor.f32.insert(tensor.f32.end(), values.begin(), values.begin() + from);
  return tensor;
}

Buffer<float> random_values(std::int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Buffer<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = static_cast<float>(round_to(DType::bfloat16, normal(random)));
  return values;
}

// Of `heads` heads, full and causal; one line each.
void measure(const Buffer<float>& values, std::int64_t heads, std::int64_t N, std::int64_t d, Recipe recipe,
             const GpuRunOptions& options) {
  const std::int64_t size = heads * N * d;
  auto problem = make_problem("bench", slice(values, heads, N, d, 0), slice(values, heads, N, d, size / 3),
                              slice(values, heads, N, d, size / 2));
  for (const bool causal : {false, true}) {
    Mask mask;
    if (causal) mask.causal = Causal::top_left;
    problem = with_mask(problem, mask);
    const Report report = run_on_gpu(*problem, recipe, options);
    const GpuFigures& gpu = *report.gpu;
    fmt::print(
        R"({{"d": {}, "n": {}, "causal": {}, "br": {}, "bc": {}, "device": "{}", "kernel": "{}", "tflops": {:.4g}, )"
        R"("ms": {:.4f}, "spread": {:.3f}, "repeats": {}, "registers": {}, "spill_bytes": {}, "shared_bytes": {}, )"
        R"("threads": {}, "blocks": {}, "blocks_per_sm": {}, "error": {:.3g}, "tolerance": {:.3g}, "within": {}}})"
        "\n",
        d, N, causal, recipe.Br, recipe.Bc, report.device, report.kernel, gpu.tflops(), gpu.median * 1e3,
        (gpu.slowest - gpu.fastest) / gpu.median, gpu.repeats, gpu.registers, gpu.spill_stores, gpu.shared_bytes,
        gpu.threads, gpu.blocks, gpu.blocks_per_sm, report.error->max, report.error->tolerance, report.error->within());
    std::fflush(stdout);
  }
}

// From the plainest to the fastest.
void ladder(GpuRunOptions options) {
  constexpr std::int64_t heads = 16, N = 4096, d = 64;
  const Buffer<float> values = random_values(heads * N * d);
  for (const auto& [algorithm, kernel, Br] : {std::tuple{Algorithm::standard, KernelChoice::automatic, 64},
                                              {Algorithm::flash1, KernelChoice::automatic, 64},
                                              {Algorithm::flash2, KernelChoice::simple, 64},
                                              {Algorithm::flash2, KernelChoice::mma, 128}}) {
    Recipe recipe;
    recipe.algorithm = algorithm, recipe.Br = Br, recipe.Bc = 64;
    options.kernel = kernel;
    measure(values, heads, N, d, recipe, options);
  }
}

int main(int argc, char** argv) {
  std::int64_t hidden = 2048, tokens = 16384;
  GpuRunOptions options;
  options.check = {CheckRows::Kind::some, 2};
  options.count = false, options.repeats = 30;
  std::vector<std::string> shapes;
  bool of_all = false;
  for (int n = 1; n < argc; ++n) {
    const auto value = [&] { return std::stoi(argv[++n]); };
    const std::string word = argv[n];
    if (word == "--hidden")
      hidden = value();
    else if (word == "--tokens")
      tokens = value();
    else if (word == "--warps")
      options.tuning.warps = value();
    else if (word == "--stages")
      options.tuning.stages = value();
    else if (word == "--min-blocks")
      options.tuning.min_blocks = value();
    else if (word == "--together")
      options.tuning.heads_together = value();
    else if (word == "--ladder")
      of_all = true;
    else
      shapes.push_back(word);
  }
  if (of_all) {
    ladder(options);
    return 0;
  }
  const Buffer<float> values = random_values(hidden * tokens);
  for (const std::string& text : shapes) {
    int d = 0, Br = 0, Bc = 0, only = 0;
    if (std::sscanf(text.c_str(), "%d:%d:%d:%d", &d, &Br, &Bc, &only) < 3) return 2;
    Recipe recipe;
    recipe.Br = Br, recipe.Bc = Bc;
    for (const int N : {1024, 4096, 16384})
      if (only == 0 || only == N) measure(values, hidden / d * (tokens / N), N, d, recipe, options);
  }
  return 0;
}

}  // namespace
}  // namespace flashscope::gpu

int main(int argc, char** argv) {
  try {
    return flashscope::gpu::main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return 4;
  }
}
