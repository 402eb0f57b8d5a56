#include "app/window/explorer/explorer_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace flashscope::window {
namespace {

using Sweep = std::shared_ptr<const MeasuredSweep>;

bool is_traffic(Gauge gauge) { return gauge <= Gauge::dram_written; }

// N from an octave or more below the problem to 2^20.
std::pair<std::int64_t, std::int64_t> lengths(const Shape& shape) {
  return {std::min<std::int64_t>(256, std::max<std::int64_t>(shape.Nq / 4, 1)),
          std::max<std::int64_t>(std::int64_t{1} << 20, shape.Nq)};
}

MeasuredPoint like(const CurveProblem& problem) {
  MeasuredPoint point;
  point.shape = problem.shape, point.mask = problem.mask, point.recipe = problem.recipe;
  return point;
}

// The sweep's points of this problem, whatever their block sizes.
std::vector<MeasuredPoint> plane_of(const CurveProblem& problem, const MeasuredSweep& sweep) {
  std::vector<MeasuredPoint> points;
  std::copy_if(
      sweep.points.begin(), sweep.points.end(), std::back_inserter(points),
      [one = like(problem)](const MeasuredPoint& point) { return point.done() && same_but_blocks(point, one); });
  return points;
}

// As much of a range as the points fill, and half a step of 16 around them.
AxisRange around(AxisRange range, const std::vector<MeasuredPoint>& points, std::int64_t Recipe::*size) {
  if (points.empty()) return range;
  const auto [least, most] = std::minmax_element(
      points.begin(), points.end(),
      [size](const MeasuredPoint& a, const MeasuredPoint& b) { return a.recipe.*size < b.recipe.*size; });
  constexpr std::int64_t kHalfStep = 8;
  const std::int64_t first = std::max(range.first, least->recipe.*size - kHalfStep),
                     last = std::min(range.last, most->recipe.*size + kHalfStep);
  if (first > last) return range;
  range.first = first, range.last = last;
  return range;
}

// The formula's traffic that is to be compared with that figure.
Selection compared_with(Gauge gauge) {
  Selection selection;
  selection.measure = Measure::bytes;
  if (gauge == Gauge::l2_sm_read || gauge == Gauge::dram_read) selection.direction = Direction::read;
  if (gauge == Gauge::l2_sm_written || gauge == Gauge::dram_written) selection.direction = Direction::written;
  return selection;
}

// Both maps of traffic by one scale: where DRAM is flat, it looks flat.
void share_colours(MapPage& page) {
  if (!is_traffic(*page.map.gauge) || page.map.points.empty()) return;
  std::optional<std::pair<double, double>> range;
  const auto include = [&](double value) {
    if (!(value > 0)) return;
    if (!range) range = {value, value};
    range = {std::min(range->first, value), std::max(range->second, value)};
  };
  for (const double value : page.formula->map.values) include(value);
  for (const MeasuredPoint& point : page.map.points)
    if (const auto found = value(point, *page.map.gauge)) include(*found);
  page.map.colours = page.formula->colours = range;
}

MapPage map_page(const Asked& asked, const std::shared_ptr<const SweepProblem>& problem, const std::stop_token& stop) {
  const ExplorerState& state = asked.state;
  MapPage page;
  MapData& map = page.map;
  map.problem = problem, map.recipe = state.problem.recipe, map.selection = state.selection;
  map.Br = state.Br, map.Bc = state.Bc, map.device = state.device, map.stepper = asked.stepper;
  if (state.gauge) {
    map.gauge = state.gauge;
    if (asked.sweep) {
      map.measured_on = sweep_name(*asked.sweep), map.l2_bytes = asked.sweep->on.l2_bytes;
      map.points = plane_of(state.problem, *asked.sweep);
    }
    map.selection = compared_with(*state.gauge);
    map.Br = around(map.Br, map.points, &Recipe::Br), map.Bc = around(map.Bc, map.points, &Recipe::Bc);
  }
  map.map =
      sweep_map(*problem, map.recipe, map.Br, map.Bc, map.selection, map.device ? &*map.device : nullptr, 0, stop);
  if (!state.gauge) return page;
  page.formula = map;
  page.formula->gauge.reset(), page.formula->points.clear();
  share_colours(page);
  return page;
}

PageResult advice_page(const Asked& asked, const SweepProblem& problem) {
  const ExplorerState& state = asked.state;
  if (!state.device) return std::string("Advice is for a device: choose one under Hardware.");
  if (state.problem.recipe.algorithm == Algorithm::standard)
    return std::string("Standard attention has no block sizes to advise on: choose an order.");
  AdvicePage advice{advise(problem, state.problem.recipe, *state.device), {}, {}};
  if (asked.sweep) {
    auto part = std::make_shared<MeasuredSweep>(*asked.sweep);
    part->points = plane_of(state.problem, *asked.sweep);
    advice.measured = advise_measured(part->points, part->on);
    advice.sweep = std::move(part);
  }
  return advice;
}

PageResult roofline_page(const Asked& asked) {
  const CurveProblem& problem = asked.state.problem;
  if (!asked.state.device) return std::string("A roofline is a device's: choose one under Hardware.");
  std::vector<MeasuredPoint> of_runs;
  std::vector<const MeasuredPoint*> points;
  std::set<std::string> devices;
  const auto same = [&](const MeasuredPoint& point) {
    return point.gpu && point.shape == problem.shape && point.mask == problem.mask;
  };
  for (const Sweep& sweep : asked.sweeps)
    for (const MeasuredPoint& point : sweep->points)
      if (same(point)) points.push_back(&point), devices.insert(sweep->on.device);
  of_runs.reserve(asked.runs.size());  // pointers into it are kept
  for (const RunPointer& run : asked.runs) {
    if (!run->problem()) continue;
    const auto point = point_of_run(run->report(), run->problem()->mask);
    if (!point || !same(*point)) continue;
    of_runs.push_back(*point);
    points.push_back(&of_runs.back());
    devices.insert(run->report().device);
  }
  std::vector<RooflinePoint> all;
  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash1, Algorithm::flash2})
    all.push_back(roofline_point(problem, algorithm));
  for (RooflinePoint& point : measured_roofline(problem, points)) all.push_back(std::move(point));
  Chart chart = roofline(*asked.state.device, problem, all);
  if (devices.empty())
    chart.notes.push_back(
        "Nothing was measured of this problem: measured intensities come from runs and sweeps on a GPU.");
  else
    chart.notes.push_back(
        fmt::format("Measured on {}; the roof is that of {}.", fmt::join(devices, ", "), asked.state.device->name));
  return chart;
}

// Measured points are bytes: they stand on a chart of bytes.
Chart with_points(const Asked& asked, Chart chart, Along along) {
  const ExplorerState& state = asked.state;
  const CurveProblem& problem = state.problem;
  const bool bytes = problem.units == Units::kernel;
  if (bytes && state.device && along == Along::N)
    if (const auto l2 = state.device->value(Quantity::l2)) mark_l2(chart, problem.shape, *l2, state.device->name);
  if (!asked.sweep || points_on(along, problem, *asked.sweep).empty()) return chart;
  if (bytes)
    add_measured(chart, along, problem, *asked.sweep);
  else
    chart.notes.push_back("Measured points are bytes: with the units of the kernel they stand here too.");
  return chart;
}

}  // namespace

std::optional<Along> along_of(Page page) {
  switch (page) {
    case Page::n:
      return Along::N;
    case Page::budget:
      return Along::budget;
    case Page::d:
      return Along::d;
    default:
      return {};
  }
}

PageResult compute_page(const Asked& asked, const std::stop_token& stop) {
  const ExplorerState& state = asked.state;
  const CurveProblem& problem = state.problem;
  check(problem.recipe, problem.shape);
  if (const std::optional<Along> along = along_of(asked.page);
      along && state.gauge && asked.sweep && !is_traffic(*state.gauge)) {
    Chart chart = measured_against(*along, *state.gauge, problem, *asked.sweep);
    if (!chart.series.empty()) return chart;
  }
  const auto [first, last] = lengths(problem.shape);
  switch (asked.page) {
    case Page::map:
    case Page::advice: {
      if (!has_closed_form(problem.mask, problem.recipe))
        return std::string(
            "--skip all with a mask from a file has no closed form: choose skip geometry in the stepper.");
      auto known = asked.known;
      if (!known || known->shape != problem.shape || known->mask != problem.mask)
        known = std::make_shared<const SweepProblem>(sweep_problem(problem.shape, problem.mask, stop));
      if (asked.page == Page::map) return map_page(asked, known, stop);
      return advice_page(asked, *known);
    }
    case Page::n:
      return with_points(asked, traffic_against_n(problem, first, last), Along::N);
    case Page::budget:
      return with_points(asked, traffic_against_budget(problem, 1024, std::int64_t{1} << 19), Along::budget);
    case Page::d:
      return with_points(asked, traffic_against_d(problem), Along::d);
    case Page::orders:
      return orders_chart(problem);
    case Page::unfused:
      return unfused_chart(problem);
    case Page::saving:
      return saving_chart(problem);
    case Page::footprint:
      return footprint_chart(problem, state.device ? &*state.device : nullptr);
    case Page::roofline:
      return roofline_page(asked);
    case Page::hardware:
      break;
  }
  return std::monostate();
}

Page page_of(const MeasuredSweep& sweep) {
  const MeasuredPoint& first = sweep.points.front();
  const auto other = [&](auto differs) { return std::any_of(sweep.points.begin(), sweep.points.end(), differs); };
  if (other([&](const MeasuredPoint& p) { return p.recipe.sram && p.recipe.sram != first.recipe.sram; }))
    return Page::budget;
  if (other([&](const MeasuredPoint& p) { return p.shape.Nq != first.shape.Nq; })) return Page::n;
  if (other([&](const MeasuredPoint& p) { return p.shape.d != first.shape.d; })) return Page::d;
  return Page::map;
}

// The one that computes fastest: the best of a plane, a long one of lengths.
const MeasuredPoint& typical_point(const MeasuredSweep& sweep) {
  return *std::max_element(sweep.points.begin(), sweep.points.end(),
                           [](const MeasuredPoint& a, const MeasuredPoint& b) {
                             return (a.gpu ? a.gpu->tflops() : 0) < (b.gpu ? b.gpu->tflops() : 0);
                           });
}

}  // namespace flashscope::window
