// The one thread that owns the GPU in the window's process: its launches, its compiling, its steppers. Jobs run in the
// order in which they were posted.
//
// After an illegal address or another error that CUDA cannot recover from, this process's GPU half is over: the worker
// says why, refuses further jobs, and nothing else is lost.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace flashscope::gpu {

class GpuWorker {
 public:
  using Job = std::function<void(const std::stop_token&)>;
  using Failed = std::function<void(const std::string& reason)>;

  // `disabled`: called once on the worker's thread, with the reason.
  explicit GpuWorker(Failed disabled = {});
  ~GpuWorker();  // cancels
  GpuWorker(const GpuWorker&) = delete;
  GpuWorker& operator=(const GpuWorker&) = delete;

  // `failed` gets what the job threw, on the worker's thread; a cancelled job is silent. False: disabled, not queued.
  bool post(Job job, Failed failed = {});
  // Stops the running job and drops those that wait.
  void cancel();
  void wait();                   // until nothing runs or waits
  std::string disabled() const;  // why; empty while the GPU half works

 private:
  struct Entry {
    Job job;
    Failed failed;
  };
  void work(const std::stop_token& stop);
  void run(const Entry& entry, const std::stop_token& stop);

  Failed on_disabled_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_, idle_;
  std::deque<Entry> waiting_;
  std::stop_source current_;
  bool busy_ = false;
  std::string disabled_;
  std::jthread thread_;
};

}  // namespace flashscope::gpu
