// A fault while stepping: the worker says why and stops, the process and everything else in it goes on.
#include "kernels/host/compiler.h"
#include "kernels/host/cuda.h"
#include "kernels/host/gpu_worker.h"
#include "support.h"

namespace flashscope::gpu {
namespace {

void illegal_address() {
  CompileOptions options;
  options.use_cache = false;
  options.source = [](const std::string& file) -> std::string {
    return file == "planted.cu" ? "extern \"C\" __global__ void planted(int* p) { *p = 1; }" : "";
  };
  const Compiled compiled = compile({"planted.cu", {}}, gpu_status().devices.front().architecture, options);
  const Library library(compiled.cubin.data());
  int* nowhere = reinterpret_cast<int*>(0x10);
  void* parameters[] = {&nowhere};
  FLASHSCOPE_CUDA(cudaLaunchKernel(library.kernel("planted"), dim3(1), dim3(1), parameters, 0, nullptr));
  FLASHSCOPE_CUDA(cudaDeviceSynchronize());
}

class Worker : public OnGpu {};

// In a process of its own: CUDA is lost there afterwards.
TEST_F(Worker, a_planted_illegal_address_disables_it_with_the_reason) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto confined = [] {
    std::string disabled, failed;
    GpuWorker worker([&](const std::string& reason) { disabled = reason; });
    worker.post([](const std::stop_token&) { illegal_address(); }, [&](const std::string& reason) { failed = reason; });
    worker.wait();
    const bool told = failed.find("illegal") != std::string::npos && failed == disabled && worker.disabled() == failed;
    const bool refuses = !worker.post([](const std::stop_token&) {});
    std::exit(told && refuses ? 0 : 1);
  };
  EXPECT_EXIT(confined(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace flashscope::gpu
