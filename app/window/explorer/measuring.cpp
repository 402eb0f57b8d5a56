#include "app/window/explorer/measuring.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "app/window/text.h"
#include "engine/error.h"

namespace flashscope::window {

// What the thread and the window share.
struct Measuring::Work {
  std::mutex mutex;
  MeasuredSweep sweep;
  bool told = false;  // the window knows that there is something new
};

Measuring::~Measuring() { thread_.request_stop(); }

std::size_t Measuring::measured() const {
  if (!sweep_) return 0;
  return static_cast<std::size_t>(
      std::count_if(sweep_->points.begin(), sweep_->points.end(), [](const MeasuredPoint& p) { return p.done(); }));
}

void Measuring::start(MeasuredSweep asked, bool plane, const MeasureOptions& options) {
  cancel();
  plane_ = plane, options_ = options;
  work_ = std::make_shared<Work>();
  work_->sweep = std::move(asked);
  go_on();
}

void Measuring::pause() {
  if (state_ != State::running) return;
  thread_.request_stop();
  ++number_;
  state_ = State::paused;
  emit changed();
}

void Measuring::resume() {
  if (state_ == State::paused) go_on();
}

void Measuring::cancel() {
  if (state_ == State::idle) return;
  thread_.request_stop();
  ++number_;
  state_ = State::idle;
  emit changed();
}

// Takes over what the thread has.
void Measuring::show() {
  {
    const std::lock_guard lock(work_->mutex);
    work_->told = false;
    sweep_ = std::make_shared<const MeasuredSweep>(work_->sweep);
  }
  emit changed();
}

void Measuring::go_on() {
  failed_.clear();
  state_ = State::running;
  ++processes_;
  const auto work = work_;
  // A thread that was stopped still waits for the end of its process.
  auto before = std::make_shared<std::jthread>(std::move(thread_));
  thread_ = std::jthread(
      [this, work, before, number = ++number_, plane = plane_, options = options_](const std::stop_token& stop) {
        before->request_stop();
        if (before->joinable()) before->join();
        const auto here = [&](auto action) { QMetaObject::invokeMethod(this, action, Qt::QueuedConnection); };
        const auto tell = [&] {
          {
            const std::lock_guard lock(work->mutex);
            if (std::exchange(work->told, true)) return;
          }
          here([this, work] { work == work_ ? show() : void(); });
        };
        State end = State::idle;
        QString why;
        MeasuredSweep sweep;
        {
          const std::lock_guard lock(work->mutex);
          sweep = work->sweep;
        }
        try {
          measure_sweep(sweep, plane, options, stop, [&](bool) {
            {
              const std::lock_guard lock(work->mutex);
              work->sweep = sweep;
            }
            tell();
          });
        } catch (const Cancelled&) {  // by a command, which raised the number
        } catch (const std::exception& error) {
          end = State::paused, why = QString::fromUtf8(error.what());
        }
        here([this, number, end, why] {
          --processes_;
          if (number == number_) failed_ = why, state_ = end;
          show();
        });
      });
  show();
}

}  // namespace flashscope::window
