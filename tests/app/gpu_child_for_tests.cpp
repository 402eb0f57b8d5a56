// A child that does as the real one does, but on the CPU: for the tests of the parent, where there is no GPU.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "app/gpu_child.h"
#include "app/measure.h"
#include "engine/error.h"
#include "kernels/host/compiler.h"
#include "tests/measured_points.h"

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

// Points of a sweep: figures made by hand, and faults by Br.
PreparePoint open_points(const MeasureOptions& options) {
  if (const char* starts = std::getenv("FLASHSCOPE_TEST_STARTS"))
    std::ofstream(starts, std::ios::app) << getpid() << ' ' << options.device << '\n';
  return [](const MeasuredPoint& asked) -> std::function<MeasuredPoint()> {
    const std::int64_t Br = asked.recipe.Br;
    if (Br == 16) throw InputError("Br", "16", "a kernel");
    if (Br == 32) throw gpu::CompileError("flash2.cu(3): error: a \"quoted\" word");
    return [asked, Br] {
      if (Br == 48) throw InputError("run on the GPU", "300 registers a thread", "255 at most");
      if (Br == 160) throw gpu::Missing("cuBLAS is missing: install it");
      if (Br == 80) throw gpu::GpuError("cudaLaunchKernel: an illegal memory access was encountered");
      if (Br == 96) std::signal(SIGSEGV, SIG_DFL), raise(SIGSEGV);  // no sanitizer's handler
      while (Br == 144) std::this_thread::sleep_for(std::chrono::seconds(1));
      MeasuredPoint point = measured_point(asked);
      if (asked.recipe.Bc == 208) point.gpu->measured.reset(), point.gpu->not_measured = "no permission: run as root";
      return point;
    };
  };
}

}  // namespace
}  // namespace flashscope

int main(int argc, char** argv) {
  const std::string_view command = argc == 3 ? argv[1] : "";
  if (command == "gpu-run") return flashscope::serve_gpu_run(argv[2], flashscope::run);
  if (command == "gpu-sweep") return flashscope::serve_gpu_sweep(argv[2], flashscope::open_points);
  return 99;
}
