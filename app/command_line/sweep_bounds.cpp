#include "app/command_line/sweep_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/insight/curves.h"

namespace flashscope::command_line {
namespace {

constexpr const char* kRule =
    "the rule gives Q, K, V and O a quarter of M each, rounded up to whole rows; S (and m, l and alpha, in sram_bytes) "
    "comes on top";

bool one_shape(const Swept& swept) {
  return std::all_of(swept.points.begin(), swept.points.end(), [&](const SweptPoint& point) {
    return point.problem->shape == swept.points.front().problem->shape;
  });
}

bool has(const Swept& swept, Algorithm algorithm) {
  return std::any_of(swept.points.begin(), swept.points.end(),
                     [&](const SweptPoint& point) { return point.recipe.algorithm == algorithm; });
}

// Of each tiled algorithm among the points, where M varies and nothing else of the problem does.
std::vector<std::pair<Algorithm, std::optional<BreakEven>>> break_evens(const Swept& swept) {
  std::vector<std::pair<Algorithm, std::optional<BreakEven>>> all;
  const bool varies =
      std::any_of(swept.varied.begin(), swept.varied.end(), [](const Varied& v) { return v.name == "sram"; });
  if (!varies || !one_shape(swept)) return all;
  for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2}) {
    const auto first = std::find_if(swept.points.begin(), swept.points.end(),
                                    [&](const SweptPoint& point) { return point.recipe.algorithm == algorithm; });
    if (first == swept.points.end() || !has_closed_form(first->problem->mask, first->recipe)) continue;
    const bool one_mask = std::all_of(swept.points.begin(), swept.points.end(), [&](const SweptPoint& point) {
      return point.problem->mask == first->problem->mask;
    });
    if (!one_mask || !first->problem->mask.structural_only()) continue;
    CurveProblem problem;
    problem.shape = first->problem->shape, problem.mask = first->problem->mask, problem.recipe = first->recipe;
    all.emplace_back(algorithm, break_even(problem, algorithm));
  }
  return all;
}

}  // namespace

std::optional<BudgetUse> budget_use(const SweptPoint& point) {
  const Recipe& recipe = point.recipe;
  if (!recipe.sram || recipe.algorithm == Algorithm::standard) return {};
  const Shape& shape = point.problem->shape;
  return BudgetUse{*recipe.sram, (recipe.Br + recipe.Bc) * (shape.d + shape.dv) + recipe.Br * recipe.Bc};
}

Json budget_json(const BudgetUse& use) {
  const bool over = use.tiles > use.M;
  return {{"elements", use.M},
          {"tiles_elements", use.tiles},
          {"percent", number(use.percent())},
          {"over", over},
          {"reason", over ? Json(kRule) : Json()}};
}

Json break_even_json(const Swept& swept) {
  Json object;
  for (const auto& [algorithm, at] : break_evens(swept))
    object[std::string(name(algorithm))] = at ? Json{{"elements", at->M}, {"br", at->Br}, {"bc", at->Bc}} : Json();
  return object;
}

std::vector<std::string> bound_lines(const Swept& swept) {
  std::vector<std::string> lines;
  if (one_shape(swept)) {
    const Shape& shape = swept.points.front().problem->shape;
    lines.push_back(
        fmt::format("standard attention moves {} elements, Q, K, V and O once (the I/O minimum) are {} "
                    "[formula, source units]",
                    grouped(standard_elements(shape).total()), grouped(minimum(shape).elements.total())));
  }
  for (const auto& [algorithm, at] : break_evens(swept))
    lines.push_back(
        at ? fmt::format("{} breaks even with standard attention at M = {} elements, Br {}, Bc {} [formula, "
                         "source units]",
                         name(algorithm), grouped(at->M), at->Br, at->Bc)
           : fmt::format("{} never breaks even with standard attention [formula, source units]", name(algorithm)));
  std::map<std::int64_t, BudgetUse> over;  // the largest of each M
  for (const SweptPoint& point : swept.points)
    if (const auto use = budget_use(point); use && use->tiles > use->M) {
      BudgetUse& most = over.try_emplace(use->M, *use).first->second;
      if (use->tiles > most.tiles) most = *use;
    }
  if (over.empty()) return lines;
  constexpr std::size_t kMost = 4;
  std::vector<std::string> parts;
  for (const auto& [M, use] : over) {
    if (parts.size() == kMost) break;
    parts.push_back(fmt::format("M = {}: {} elements, {:.0f} %", grouped(M), grouped(use.tiles), use.percent()));
  }
  if (over.size() > kMost) parts.push_back(fmt::format("{} more", over.size() - kMost));
  lines.push_back(fmt::format("tiles of Q, K, V, O and S exceed their M: {} ({})", fmt::join(parts, "; "), kRule));
  return lines;
}

void add_bounds(Chart& chart, const Swept& swept, std::size_t across) {
  std::map<double, const Shape*> shapes;  // one at each place, else there is no line
  for (const SweptPoint& point : swept.points) {
    const Shape& shape = point.problem->shape;
    const auto [at, added] = shapes.try_emplace(std::stod(point.words[across]), &shape);
    if (!added && *at->second != shape) return;
  }
  ChartSeries standard{"standard attention", "formula", SeriesStyle::guide, rule_colour(Algorithm::standard)};
  ChartSeries least{"Q, K, V, O once: the least", "formula", SeriesStyle::guide, kGuideColour};
  for (const auto& [x, shape] : shapes) {
    standard.x.push_back(x), least.x.push_back(x);
    standard.y.push_back(static_cast<double>(standard_elements(*shape).total()));
    least.y.push_back(static_cast<double>(minimum(*shape).elements.total()));
  }
  if (!has(swept, Algorithm::standard)) chart.series.push_back(std::move(standard));
  chart.series.push_back(std::move(least));
  if (swept.varied[across].name != "sram") return;
  for (const auto& [algorithm, at] : break_evens(swept))
    if (at)
      chart.marks.push_back({true, static_cast<double>(at->M),
                             fmt::format("{} breaks even: M = {} [formula]", name(algorithm), grouped(at->M))});
}

}  // namespace flashscope::command_line
