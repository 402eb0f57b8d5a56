// A child that does as the real one does, but on the CPU: for the tests of the parent, where there is no GPU.
#include <fmt/format.h>

#include <cstdlib>

#include "app/gpu_child.h"
#include "engine/error.h"

namespace flashscope {
namespace {

Report run(const Problem& problem, const Recipe& recipe, const gpu::GpuRunOptions& options,
           const gpu::OnStage& on_stage) {
  const char* what = std::getenv("FLASHSCOPE_TEST_FAULT");
  const std::string fault = what ? what : "";
  if (fault == "input") throw InputError("Br", "3", "a multiple of 16");
  if (fault == "missing") throw gpu::Missing("no GPU: buy one");
  if (fault == "compile") throw gpu::CompileError("flash2.cu(3): error: a \"quoted\" word");
  if (fault == "gpu") throw gpu::GpuError("cudaLaunchKernel: an illegal memory access was encountered");
  on_stage("compiling flash2.cu", 0);
  for (int n = 1; n <= options.repeats; ++n)
    on_stage(fmt::format("timed launch {} of {}", n, options.repeats), 0.1 * n);
  RunOptions plain;
  plain.check = options.check, plain.threads = 1;
  Report report = run_on_cpu(problem, recipe, plain);
  report.gpu.emplace();
  report.gpu->repeats = options.repeats, report.gpu->median = 0.5;
  report.gpu->not_measured = options.measure ? "there is no GPU" : "not asked for";
  if (options.timeline) report.gpu->timeline.emplace();
  if (fault == "other") report.recipe.Br += 1;  // the report of another run
  return report;
}

}  // namespace
}  // namespace flashscope

int main(int argc, char** argv) {
  if (argc != 3 || std::string_view(argv[1]) != "gpu-run") return 99;
  return flashscope::serve_gpu_run(argv[2], flashscope::run);
}
