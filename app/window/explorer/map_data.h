// A map of the explorer with what it was made from.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/insight/measurement.h"
#include "engine/insight/sweep.h"

namespace flashscope::window {

struct MapData {
  std::shared_ptr<const SweepProblem> problem;
  Recipe recipe;  // Br and Bc aside
  Selection selection;
  AxisRange Br, Bc;
  std::optional<HardwareSheet> device;
  SweepMap map;
  Recipe stepper;              // what is stepped
  std::optional<Gauge> gauge;  // what the measured points are coloured by; else the map is the formula's
  std::string measured_on;     // and where and when they were measured
  std::vector<MeasuredPoint> points;
  std::optional<std::pair<double, double>> colours;  // the range of two maps that are compared

  bool stepped() const { return stepper.algorithm == recipe.algorithm; }  // the stepper's recipe has a place here
};

}  // namespace flashscope::window
