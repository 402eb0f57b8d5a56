// A sweep that is being measured: started, paused, gone on with, cancelled. It runs on a thread of its own, which waits
// for a process (app/measure.h); points arrive here as they come.
#pragma once

#include <QObject>
#include <QString>
#include <cstdint>
#include <memory>
#include <thread>

#include "app/measure.h"

namespace flashscope::window {

class Measuring : public QObject {
  Q_OBJECT

 public:
  using QObject::QObject;
  ~Measuring() override;

  enum class State { idle, running, paused };
  State state() const { return state_; }
  // A process measures; after a pause or an end, until it is gone.
  bool on_gpu() const { return processes_ > 0; }
  // `asked` is measured; a plane of block sizes is refined near its best.
  void start(MeasuredSweep asked, bool plane, const MeasureOptions& options);
  void pause();   // the GPU is free meanwhile; the point on it is measured again
  void resume();  // also after a failure
  void cancel();  // what was measured stays

  // All points, those that are not measured yet too; null before the first start.
  const std::shared_ptr<const MeasuredSweep>& sweep() const { return sweep_; }
  std::size_t measured() const;
  const QString& failed() const { return failed_; }  // why nothing goes on; empty

 signals:
  void changed();  // points came, or the state is another

 private:
  struct Work;
  void go_on();
  void show();

  State state_ = State::idle;
  std::uint64_t number_ = 0;  // goes up with every command: the end of what was before it is stale
  int processes_ = 0;
  bool plane_ = false;
  MeasureOptions options_;
  std::shared_ptr<Work> work_;
  std::shared_ptr<const MeasuredSweep> sweep_;
  QString failed_;
  std::jthread thread_;
};

}  // namespace flashscope::window
