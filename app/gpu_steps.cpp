#include "app/gpu_steps.h"

#include <future>
#include <optional>
#include <stdexcept>
#include <utility>

#include "engine/error.h"
#ifdef FLASHSCOPE_GPU
#include "kernels/host/gpu_stepper.h"
#include "kernels/host/gpu_worker.h"
#endif

namespace flashscope {

#ifdef FLASHSCOPE_GPU

struct GpuSteps::Impl {
  // Only the GPU's thread touches these.
  std::optional<gpu::GpuStepper> stepper;
  std::uint64_t generation = 0;

  gpu::GpuWorker worker;  // last: its thread ends before what it uses
};

GpuSteps::GpuSteps(int device) : device_(device), impl_(std::make_unique<Impl>()) {}

// CUDA's objects go on the thread that made them.
GpuSteps::~GpuSteps() {
  impl_->worker.cancel();
  impl_->worker.post([this](const std::stop_token&) { impl_->stepper.reset(); });
  impl_->worker.wait();
}

GpuSteps::Found GpuSteps::seek(const Plan& plan, std::int64_t K, const std::stop_token& stop) {
  struct Answer {
    std::promise<Found> found;
    bool given = false;
    void fail(std::exception_ptr error) {
      if (!std::exchange(given, true)) found.set_exception(std::move(error));
    }
  };
  auto answer = std::make_shared<Answer>();
  std::future<Found> future = answer->found.get_future();
  gpu::GpuWorker::Job job = [this, answer, stop, K, problem = plan.problem, recipe = plan.recipe,
                             generation = plan.generation](const std::stop_token&) {
    try {
      if (!impl_->stepper || impl_->generation != generation) {
        impl_->stepper.reset();  // its memory first
        impl_->stepper.emplace(problem, recipe, device_);
        impl_->generation = generation;
      }
      if (stop.stop_requested()) throw Cancelled();
      auto arrays = std::make_shared<const gpu::DeviceState>(impl_->stepper->seek(K, stop));
      Found found{std::make_shared<const TraceState>(impl_->stepper->read(*arrays)), arrays,
                  impl_->stepper->device_name()};
      answer->given = true;
      answer->found.set_value(std::move(found));
    } catch (...) {
      answer->fail(std::current_exception());
      throw;  // the worker must know of an error that ends the GPU half
    }
  };
  gpu::GpuWorker::Failed failed = [answer](const std::string& reason) {
    answer->fail(std::make_exception_ptr(std::runtime_error(reason)));
  };
  answer.reset();  // the jobs' alone: one that is dropped breaks the promise
  const bool posted = impl_->worker.post(std::move(job), std::move(failed));
  if (!posted) throw std::runtime_error(impl_->worker.disabled());
  return future.get();
}

#else

struct GpuSteps::Impl {};
GpuSteps::GpuSteps(int device) : device_(device) {}
GpuSteps::~GpuSteps() = default;
GpuSteps::Found GpuSteps::seek(const Plan&, std::int64_t, const std::stop_token&) {
  throw std::runtime_error("this build has no GPU half: the headers of CUDA 12.8 or newer were not there");
}

#endif

}  // namespace flashscope
