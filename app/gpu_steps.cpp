#include "app/gpu_steps.h"

#include <chrono>
#include <future>
#include <optional>
#include <stdexcept>
#include <thread>
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
  std::int64_t map_head = -1, map_rows = 0;  // of the map that is made or was; its rows that were handed on
  std::uint64_t maps = 0;                    // so many were begun or dropped: a piece of an older one is stale

  std::function<void(Map)> on_map;
  std::shared_ptr<const std::atomic<int>> hold;
  gpu::GpuWorker worker;  // last: its thread ends before what it uses

  void want_map(std::int64_t head);
  void drop_map();
  void post_piece(bool first);
  void wait_while_held(const std::stop_token& stop) const {
    while (*hold > 0 && !stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
};

void GpuSteps::Impl::want_map(std::int64_t head) {
  if (map_head == head) return;
  map_head = head, map_rows = 0;
  ++maps;
  post_piece(true);
}

void GpuSteps::Impl::drop_map() {
  if (stepper) stepper->drop_map();
  map_head = -1;
  ++maps;
}

// At the end of the queue: what was asked for meanwhile goes first.
void GpuSteps::Impl::post_piece(bool first) {
  gpu::GpuWorker::Job piece = [this, first, number = maps](const std::stop_token& stop) {
    wait_while_held(stop);
    if (number != maps || stop.stop_requested()) return;
    if (first) stepper->begin_map(map_head);
    const auto arrays = std::make_shared<const gpu::DeviceMap>(stepper->extend_map());
    const std::int64_t rows = arrays->cells().rows;
    if (rows > std::exchange(map_rows, rows)) {
      Map map{generation, map_head, std::make_shared<const ScanMap>(stepper->read(*arrays)), {}, arrays, {}, {}};
      map.o_row_norm = std::make_shared<const std::vector<float>>(stepper->read_o_norm(*arrays));
      map.complete = arrays->complete();
      on_map(std::move(map));
    }
    if (!arrays->complete()) post_piece(false);
  };
  const auto failed = [this, of = generation, head = map_head](const std::string& reason) {
    on_map({of, head, {}, {}, {}, false, reason});
  };
  if (!worker.post(std::move(piece), failed)) failed(worker.disabled());
}

GpuSteps::GpuSteps(int device, std::function<void(Map)> on_map, std::shared_ptr<const std::atomic<int>> hold)
    : device_(device), impl_(std::make_unique<Impl>()) {
  impl_->on_map = std::move(on_map), impl_->hold = std::move(hold);
}

// CUDA's objects go on the thread that made them.
GpuSteps::~GpuSteps() {
  impl_->worker.cancel();
  impl_->worker.post([this](const std::stop_token&) { impl_->drop_map(), impl_->stepper.reset(); });
  impl_->worker.wait();
}

void GpuSteps::drop_map() {
  impl_->worker.post([this](const std::stop_token&) { impl_->drop_map(); });
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
      impl_->wait_while_held(stop);  // a problem that is copied there is traffic too
      if (stop.stop_requested()) throw Cancelled();
      if (!impl_->stepper || impl_->generation != generation) {
        impl_->drop_map(), impl_->stepper.reset();  // its memory first
        impl_->stepper.emplace(problem, recipe, device_);
        impl_->generation = generation;
      }
      if (stop.stop_requested()) throw Cancelled();
      auto arrays = std::make_shared<const gpu::DeviceState>(impl_->stepper->seek(K, stop));
      Found found{std::make_shared<const TraceState>(impl_->stepper->read(*arrays)), arrays,
                  impl_->stepper->device_name()};
      const std::int64_t head = found.state->head;
      answer->given = true;
      answer->found.set_value(std::move(found));
      impl_->want_map(head);
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
GpuSteps::GpuSteps(int device, std::function<void(Map)>, std::shared_ptr<const std::atomic<int>>) : device_(device) {}
GpuSteps::~GpuSteps() = default;
GpuSteps::Found GpuSteps::seek(const Plan&, std::int64_t, const std::stop_token&) {
  throw std::runtime_error("this build has no GPU half: the headers of CUDA 12.8 or newer were not there");
}
void GpuSteps::drop_map() {}

#endif

}  // namespace flashscope
