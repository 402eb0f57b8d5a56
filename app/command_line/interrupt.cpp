#include "app/command_line/interrupt.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "app/command_line/commands.h"

namespace flashscope::command_line {
namespace {

sigset_t only_interrupt() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t set = only_interrupt();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A thread that waits for the signal may do what a signal handler may not, such as request_stop.
  watcher_ = std::jthread([source = source_](const std::stop_token& done) mutable {
    const sigset_t awaited = only_interrupt();
    const timespec wait{0, 50'000'000};
    while (!done.stop_requested()) {
      if (sigtimedwait(&awaited, nullptr, &wait) != SIGINT) continue;
      if (!source.request_stop()) _exit(kCancelled);
    }
  });
}

Interrupt::~Interrupt() {
  watcher_.request_stop();
  watcher_.join();
  const sigset_t set = only_interrupt();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) == 1), next_(Clock::now() + std::chrono::seconds(1)) {}

ProgressLine::~ProgressLine() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

std::function<void(std::int64_t, std::int64_t)> ProgressLine::callback() {
  if (!terminal_) return [](std::int64_t, std::int64_t) {};
  return [this](std::int64_t done, std::int64_t total) { show(done, total); };
}

std::function<void(const std::string&)> ProgressLine::on_stage() {
  return [this](const std::string& stage) {
    const std::lock_guard lock(mutex_);
    stage_ = ", " + stage;
  };
}

void ProgressLine::show(std::int64_t done, std::int64_t total) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (now < next_ || total <= 0) return;
  next_ = now + std::chrono::milliseconds(200);
  shown_ = true;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  fmt::print(stderr, "\r\033[K{}{}: {:.0f} %, Ctrl+C cancels", what_, stage_, 100 * std::min(share, 1.0));
  std::fflush(stderr);
}

}  // namespace flashscope::command_line
