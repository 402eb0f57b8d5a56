#include "kernels/host/gpu_worker.h"

#include <exception>
#include <utility>

#include "engine/error.h"
#include "kernels/host/cuda.h"
#include "kernels/host/gpu_runner.h"

namespace flashscope::gpu {

GpuWorker::GpuWorker(Failed disabled)
    : on_disabled_(std::move(disabled)), thread_([this](const std::stop_token& stop) { work(stop); }) {}

GpuWorker::~GpuWorker() {
  cancel();
  thread_.request_stop();
}

bool GpuWorker::post(Job job, Failed failed) {
  {
    const std::lock_guard lock(mutex_);
    if (!disabled_.empty()) return false;
    waiting_.push_back({std::move(job), std::move(failed)});
  }
  wake_.notify_one();
  return true;
}

void GpuWorker::cancel() {
  std::deque<Entry> dropped;  // destroyed without the lock: a job may own what posts again
  const std::lock_guard lock(mutex_);
  dropped.swap(waiting_);
  current_.request_stop();
}

void GpuWorker::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !busy_ && waiting_.empty(); });
}

std::string GpuWorker::disabled() const {
  const std::lock_guard lock(mutex_);
  return disabled_;
}

void GpuWorker::work(const std::stop_token& stop) {
  for (;;) {
    Entry entry;
    std::stop_token of_job;
    {
      std::unique_lock lock(mutex_);
      busy_ = false;
      idle_.notify_all();
      if (!wake_.wait(lock, stop, [this] { return !waiting_.empty(); })) return;
      entry = std::move(waiting_.front());
      waiting_.pop_front();
      current_ = std::stop_source();
      of_job = current_.get_token();
      busy_ = true;
    }
    run(entry, of_job);
  }
}

void GpuWorker::run(const Entry& entry, const std::stop_token& stop) {
  try {
    entry.job(stop);
  } catch (const Cancelled&) {
    // the one who cancelled knows
  } catch (const GpuError& error) {
    // Only where a call that cannot fail fails again is the context lost.
    if (cudaDeviceSynchronize() != cudaSuccess) {
      const std::string reason = error.what();
      std::deque<Entry> dropped;  // as in cancel()
      {
        const std::lock_guard lock(mutex_);
        disabled_ = reason;
        dropped.swap(waiting_);
      }
      for (const Entry& waited : dropped)
        if (waited.failed) waited.failed(reason);
      if (on_disabled_) on_disabled_(reason);
    }
    if (entry.failed) entry.failed(error.what());
  } catch (const std::exception& error) {
    if (entry.failed) entry.failed(error.what());
  }
}

}  // namespace flashscope::gpu
