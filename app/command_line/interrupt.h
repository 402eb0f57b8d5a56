// Long work on the command line: Ctrl+C stops it cleanly, and a terminal shows how far it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace flashscope::command_line {

// While it lives, the first Ctrl+C requests a stop and a second one ends the program at once. Made before any
// worker thread, so that none of them takes the signal.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::jthread watcher_;
};

// One line on standard error that is rewritten in place; only on a terminal, only after one second.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();  // clears the line
  ProgressLine(const ProgressLine&) = delete;
  // Valid as long as this lives. May be called from any thread.
  std::function<void(std::int64_t done, std::int64_t total)> callback();
  std::function<void(const std::string& stage)> on_stage();  // what is shown behind `what`

 private:
  using Clock = std::chrono::steady_clock;
  void show(std::int64_t done, std::int64_t total);

  std::string what_, stage_;
  bool terminal_;
  std::mutex mutex_;
  Clock::time_point next_;
  bool shown_ = false;
};

}  // namespace flashscope::command_line
