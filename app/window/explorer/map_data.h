// A map of the explorer with what it was made from.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/window/text.h"
#include "engine/insight/measurement.h"
#include "engine/insight/sweep.h"

namespace flashscope::window {

// "flash2, 128 x 64", "standard"
inline QString recipe_text(const Recipe& recipe) {
  QString algorithm = text(name(recipe.algorithm));
  if (recipe.algorithm == Algorithm::standard) return algorithm;
  return QString("%1, %2 x %3").arg(algorithm).arg(recipe.Br).arg(recipe.Bc);
}

struct MapData {
  std::shared_ptr<const SweepProblem> problem;
  Recipe recipe;  // that is explored: the cells are it with other Br and Bc
  Selection selection;
  AxisRange Br, Bc;
  std::optional<HardwareSheet> device;
  SweepMap map;
  Recipe stepper;              // what is stepped
  std::optional<Gauge> gauge;  // what the measured points are coloured by; else the map is the formula's
  std::string measured_on;     // and where and when they were measured
  std::int64_t l2_bytes = 0;   // of that device
  std::vector<MeasuredPoint> points;
  std::optional<std::pair<double, double>> colours;  // the range of two maps that are compared

  bool stepped() const { return stepper.algorithm == recipe.algorithm; }  // the stepper's recipe has a place here
  bool same_blocks() const { return stepped() && stepper.Br == recipe.Br && stepper.Bc == recipe.Bc; }
};

}  // namespace flashscope::window
