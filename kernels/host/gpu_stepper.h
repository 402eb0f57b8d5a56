// Stepping on a GPU: any step of nearly any recipe (step_plan refuses the others), by tile_step, its buffers left on
// the device for the screen; and the whole tile map by tile_stats. The same numbers as the engine's trace and scan.
//
// A sequence of launches on one stream, complete when a call returns. Not thread-safe: it belongs to the GPU's thread
// (GpuWorker). What it returns is immutable, keeps what it needs alive, and may be read from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/attention/scan.h"
#include "engine/attention/trace.h"

namespace flashscope::gpu {

// A matrix on the device, row by row, `pitch` elements apart; rows 0: it does not exist in this state.
struct DeviceArray {
  const void* data = nullptr;
  std::int64_t rows = 0, cols = 0, pitch = 0;
  int element_bytes = 4;  // 4 float, 8 double, 1 byte, 16 four floats
};

enum class StepBuffer { Q, K, V, S, P, O, m, l, alpha, LSE, visible };

// The state after K steps, on the device.
class DeviceState {
 public:
  std::int64_t K() const;
  // Matrices as they are on the chip: rows x d, cols x d, cols x dv, rows x cols, rows x dv; columns are rows x 1.
  DeviceArray array(StepBuffer buffer) const;

 private:
  friend class GpuStepper;
  DeviceState() = default;
  struct Data;
  std::shared_ptr<const Data> data_;
};

// One head's tile map on the device, or its first rows: what a later piece adds lies behind them.
class DeviceMap {
 public:
  std::int64_t head() const;
  bool complete() const;
  DeviceArray cells() const;   // four floats each, MapCell's
  DeviceArray o_norm() const;  // of the same query rows, rows x 1 floats: the norm of each row of O

 private:
  friend class GpuStepper;
  DeviceMap() = default;
  struct Data;
  std::shared_ptr<const Data> data_;
  std::int64_t rows_ = 0;  // of cells
};

class GpuStepper {
 public:
  // Brings the problem to the device and compiles the kernels. Throws InputError (what it cannot step, or does not
  // fit), Missing, CompileError, GpuError.
  GpuStepper(std::shared_ptr<const Problem> problem, const Recipe& recipe, int device = 0);
  ~GpuStepper();
  GpuStepper(GpuStepper&&) noexcept;

  const Schedule& schedule() const;
  const std::string& device_name() const;

  // Throws Cancelled, GpuError.
  DeviceState seek(std::int64_t K, const std::stop_token& stop = {});
  TraceState read(const DeviceState& state) const;

  // A map in pieces of some hundredths of a second each (of standard: as long as a row block's strip takes), so that a
  // seek between two need not wait: begun anew, and a piece further until it is complete. Cells of one tile, or of more
  // where there would be more than `side` of them in a direction.
  void begin_map(std::int64_t head, std::int64_t side = 2048);
  DeviceMap extend_map();
  void drop_map();                                                                               // that is begun
  DeviceMap map(std::int64_t head, const std::stop_token& stop = {}, std::int64_t side = 2048);  // all of it
  ScanMap read(const DeviceMap& map) const;
  std::vector<float> read_o_norm(const DeviceMap& map) const;  // [Nq], NaN where it has not come to

 private:
  struct Mapping;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashscope::gpu
