// Work of a panel that must not be done on the window's thread. A new start replaces the one before: its
// result is dropped. Results arrive on the thread of this object.
#pragma once

#include <QObject>
#include <QString>
#include <atomic>
#include <exception>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace flashscope::window {

class Background : public QObject {
 public:
  using QObject::QObject;

  // work(std::stop_token) -> Result on a thread; then done(Result) here, or failed(QString) if it threw.
  template <class Work, class Done, class Failed>
  void start(Work work, Done done, Failed failed) {
    cancel();
    std::erase_if(threads_, [](const Running& running) { return running.finished->load(); });
    auto finished = std::make_shared<std::atomic<bool>>(false);
    threads_.push_back({{}, finished});
    threads_.back().thread = std::jthread([this, finished, number = number_, work = std::move(work),
                                           done = std::move(done), failed = std::move(failed)](std::stop_token stop) {
      const auto deliver = [&](auto action) {
        QMetaObject::invokeMethod(
            this,
            [this, number, action = std::move(action)] {
              if (number == number_) running_ = false, action();
            },
            Qt::QueuedConnection);
      };
      try {
        auto result = std::make_shared<decltype(work(stop))>(work(stop));
        deliver([done, result] { done(std::move(*result)); });
      } catch (const std::exception& error) {
        deliver([failed, what = QString::fromUtf8(error.what())] { failed(what); });
      }
      finished->store(true);
    });
    running_ = true;
  }
  void cancel() {
    ++number_;
    running_ = false;
    for (Running& running : threads_) running.thread.request_stop();
  }
  bool running() const { return running_; }

 private:
  struct Running {
    std::jthread thread;
    std::shared_ptr<std::atomic<bool>> finished;
  };
  std::uint64_t number_ = 0;
  bool running_ = false;
  std::vector<Running> threads_;  // joined on destruction
};

}  // namespace flashscope::window
