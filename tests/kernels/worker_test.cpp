#include "kernels/host/gpu_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "engine/error.h"
#include "kernels/host/shared_buffers.h"

namespace flashscope::gpu {
namespace {

TEST(GpuWorker, jobs_run_in_order_on_one_thread_and_a_failed_one_is_no_end) {
  GpuWorker worker;
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  std::string failed;
  for (int n = 0; n < 5; ++n)
    EXPECT_TRUE(worker.post(
        [&, n](const std::stop_token&) {
          order.push_back(n), threads.push_back(std::this_thread::get_id());
          if (n == 2) throw InputError("GPU", "bad", "good");
        },
        [&](const std::string& reason) { failed = reason; }));
  worker.wait();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4}));
  EXPECT_EQ(threads, std::vector(5, threads.front()));
  EXPECT_NE(threads.front(), std::this_thread::get_id());
  EXPECT_NE(failed.find("bad"), failed.npos) << failed;
  EXPECT_EQ(worker.disabled(), "");
}

TEST(GpuWorker, cancelling_stops_the_running_job_and_drops_the_rest) {
  GpuWorker worker;
  std::atomic<bool> started{false}, second{false}, told{false};
  worker.post(
      [&](const std::stop_token& stop) {
        started = true;
        while (!stop.stop_requested()) std::this_thread::yield();
        throw Cancelled();
      },
      [&](const std::string&) { told = true; });
  worker.post([&](const std::stop_token&) { second = true; });
  while (!started) std::this_thread::yield();
  worker.cancel();
  worker.wait();
  EXPECT_FALSE(second);
  EXPECT_FALSE(told);
  worker.post([&](const std::stop_token&) { second = true; });
  worker.wait();
  EXPECT_TRUE(second);
}

// Here or in CI: no driver, or OpenGL that is not CUDA's.
TEST(SharedBuffers, say_why_they_do_not_share) {
  SharedBuffers buffers(0);
  EXPECT_FALSE(buffers.shared());
  EXPECT_EQ(buffers.status().find("copied through the host: "), 0u) << buffers.status();
  buffers.remove(buffers.add_buffer(1));
}

}  // namespace
}  // namespace flashscope::gpu
