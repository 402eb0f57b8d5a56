// A child of a run on a GPU whose kernel writes to an address that is not there. What flashscope starts in its stead
// shows that the parent lives.
#include "app/gpu_child.h"
#include "kernels/arguments.h"
#include "kernels/host/compiler.h"
#include "kernels/host/cuda.h"

namespace flashscope::gpu {
namespace {

Report fault(const Problem&, const Recipe&, const GpuRunOptions& options, const OnStage&) {
  const GpuStatus status = gpu_status();
  CompileOptions planted;
  planted.use_cache = false;
  planted.source = [](const std::string&) {
    return "extern \"C\" __global__ void planted(int* at) { at[threadIdx.x] = 1; }";
  };
  const Compiled compiled =
      compile({"planted.cu", {}}, status.devices.at(static_cast<std::size_t>(options.device)).architecture, planted);
  const Library library(compiled.cubin.data());
  int* nowhere = reinterpret_cast<int*>(std::uintptr_t{1} << 44);
  void* parameters[] = {static_cast<void*>(&nowhere)};
  FLASHSCOPE_CUDA(cudaLaunchKernel(library.kernel("planted"), dim3(1), dim3(32), parameters, 0, nullptr));
  FLASHSCOPE_CUDA(cudaDeviceSynchronize());
  return {};
}

}  // namespace
}  // namespace flashscope::gpu

int main(int argc, char** argv) {
  if (argc != 3) return 99;
  return flashscope::serve_gpu_run(argv[2], flashscope::gpu::fault);
}
