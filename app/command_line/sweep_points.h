// The points of a sweep, and what is made of them: a table for people, CSV whose head says how each column was
// obtained, JSON, a chart. Counted and formula for every point; measured where a GPU measured it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/command_line/output.h"
#include "app/command_line/vary.h"
#include "engine/attention/measured_sweep.h"
#include "engine/insight/chart.h"
#include "engine/insight/sweep.h"

namespace flashscope::command_line {

struct SweptPoint {
  std::vector<std::string> words;  // one for each name that varies
  std::shared_ptr<const SweepProblem> problem;
  Recipe recipe;
  ElementsAndBytes moved;  // counted
  Formula form;
  SweepPoint cost;
  std::optional<MeasuredPoint> measured;
  bool agrees() const { return !form.elements || *form.elements == moved.elements.total(); }
};

struct Swept {
  std::vector<Varied> varied;
  std::vector<SweptPoint> points;         // at least one
  const HardwareSheet* device = nullptr;  // for limits and floors
  std::int64_t memory = 0;                // bytes, of a count
  std::optional<MeasuredSweep> measured;  // on what, when; its points are those above
};

// What the points differ in, what all of them share, and the conventions of all.
struct SweepHeading {
  std::string varied, fixed, conventions;  // "sram 12500 to 200000 (5 values); with that also Br, Bc"
};
SweepHeading heading(const Swept& swept);

// Counts every point on all cores. Throws Cancelled, InputError (a mask that passes `memory`).
void count_all(Swept& swept, const std::stop_token& stop);

void print_table(const Swept& swept);
std::string csv_text(const Swept& swept);
// A million points are a gigabyte of JSON: written as it is made.
void print_points(const Swept& swept);
// Against the last option that varies in numbers, a line for each combination of the others, at most so many as a
// legend holds: elements; bytes from every source where they were measured. Throws UsageError where nothing varies in
// numbers.
Chart make_chart(const Swept& swept);
std::string chart_svg(const Swept& swept);  // as tall as its legend needs

// "NVIDIA H200 (sm_90a), driver for CUDA 13.0, NVRTC 13.0; begun 2026-11-30T13:00:00Z, flashscope 0.1.0; ..."
std::string measured_text(const MeasuredSweep& sweep);
Json json_of(const MeasuredOn& on);
// What was measured of a point: {"kernel", "seconds", ..., "traffic", "reason"}.
Json json_of(const MeasuredPoint& point);

}  // namespace flashscope::command_line
