// `sweep --measure`: the points of a sweep, or a plane of block sizes, on a GPU; and sweeps in session files.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <vector>

#include "app/command_line/sweep_points.h"
#include "app/measure.h"

namespace flashscope::command_line {

struct MeasureWanted {
  bool measure = false, fresh = false;
  MeasureOptions options;
  std::filesystem::path save, from;
  std::optional<std::int64_t> number;  // of the sweeps in `from`, from 1; unset: the last
};

// What `begin_sweep` or `begin_plane` began, to its end. What was measured is kept on disk also where it is cancelled.
// Throws gpu::Missing, gpu::GpuError, Cancelled.
void measure(MeasuredSweep& sweep, bool plane, MeasureWanted wanted, const std::stop_token& stop);

MeasuredSweep saved_sweep(const MeasureWanted& wanted);  // of `from`; throws InputError
// Into `save`, after the sweeps that the session holds already. Throws InputError.
void save_sweep(const MeasuredSweep& sweep, const std::filesystem::path& path);

// Its points as a sweep that can be printed: counted, what differs between them as what varies.
Swept swept_of(MeasuredSweep sweep, std::int64_t memory, const std::stop_token& stop);

}  // namespace flashscope::command_line
