// What the points of a sweep differ in and what all of them share, in words.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "app/command_line/sweep_points.h"

namespace flashscope::command_line {
namespace {

// A part of a point's description: empty where it has none.
struct Fact {
  std::string_view name, options;  // options of --vary that say it, between blanks
  std::string (*text)(const SweptPoint&);
};

bool tiled(const SweptPoint& point) { return point.recipe.algorithm != Algorithm::standard; }

constexpr std::array kFacts{
    Fact{"algorithm", " algorithm ", [](const SweptPoint& p) { return std::string(name(p.recipe.algorithm)); }},
    Fact{"Br", " br ",
         [](const SweptPoint& p) {
           return tiled(p) ? "Br " + grouped(p.recipe.Br) : "row blocks of " + grouped(p.recipe.Br);
         }},
    Fact{"Bc", " bc ", [](const SweptPoint& p) { return tiled(p) ? "Bc " + grouped(p.recipe.Bc) : std::string(); }},
    Fact{"M", " sram ",
         [](const SweptPoint& p) {
           return p.recipe.sram ? fmt::format("M = {} elements", grouped(*p.recipe.sram)) : std::string();
         }},
    Fact{"order", " order ", [](const SweptPoint& p) { return std::string(tiled(p) ? name(p.recipe.order) : ""); }},
    Fact{"normalise", " normalise ",
         [](const SweptPoint& p) {
           return tiled(p) ? fmt::format("normalise {}", name(p.recipe.normalised())) : std::string();
         }},
    Fact{"heads", " heads kv-heads ",
         [](const SweptPoint& p) {
           const Shape& shape = p.problem->shape;
           std::string text = counted(shape.heads, "head");
           return shape.kv_heads == shape.heads ? text : text + fmt::format(" ({} of keys)", shape.kv_heads);
         }},
    Fact{"N", " n nk ",
         [](const SweptPoint& p) {
           return fmt::format("N {} x {}", grouped(p.problem->shape.Nq), grouped(p.problem->shape.Nk));
         }},
    Fact{"d", " d ", [](const SweptPoint& p) { return fmt::format("d {}", p.problem->shape.d); }},
    Fact{"dv", " dv d ",  // dv = d unless it is given
         [](const SweptPoint& p) {
           const Shape& shape = p.problem->shape;
           return shape.dv == shape.d ? std::string() : fmt::format("dv {}", shape.dv);
         }},
    Fact{"type", " dtype ", [](const SweptPoint& p) { return std::string(name(p.problem->shape.type)); }}};

void join(std::string& line, std::string_view part) {
  if (!part.empty()) line += (line.empty() ? "" : ", ") + std::string(part);
}

std::string values_text(const std::vector<std::string>& values) {
  constexpr std::size_t kAll = 4;
  if (values.size() > kAll) {
    auto ends = std::pair{values.front(), values.back()};  // as they come, or the least and the largest number
    std::vector<std::pair<double, std::string>> numbers;
    for (const std::string& value : values) {
      char* end = nullptr;
      const double number = std::strtod(value.c_str(), &end);
      if (!value.empty() && *end == 0) numbers.emplace_back(number, value);
    }
    if (numbers.size() == values.size()) {
      const auto [least, largest] = std::minmax_element(numbers.begin(), numbers.end());
      ends = {least->second, largest->second};
    }
    return fmt::format("{} to {} ({} values)", ends.first, ends.second, values.size());
  }
  return fmt::format("{}", fmt::join(values, ", "));
}

// The clauses that the conventions of all points have.
std::string common_conventions(const std::vector<SweptPoint>& points) {
  const auto clauses = [](const SweptPoint& point) {
    std::vector<std::string> parts;
    const std::string line = conventions(point.recipe, point.problem->mask);
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find(", ", at), line.size());
      parts.push_back(line.substr(at, end - at));
      at = end + 2;
    }
    return parts;
  };
  std::vector<std::string> common = clauses(points.front());
  for (const SweptPoint& point : points) {
    const std::vector<std::string> here = clauses(point);
    std::erase_if(common,
                  [&](const std::string& one) { return std::find(here.begin(), here.end(), one) == here.end(); });
  }
  return fmt::format("{}", fmt::join(common, ", "));
}

}  // namespace

SweepHeading heading(const Swept& swept) {
  SweepHeading heading;
  for (const Varied& one : swept.varied)
    heading.varied += (heading.varied.empty() ? "" : "; ") + one.name + " " + values_text(one.values);
  std::string follow;
  for (const Fact& fact : kFacts) {
    const std::string first = fact.text(swept.points.front());
    const bool same = std::all_of(swept.points.begin(), swept.points.end(),
                                  [&](const SweptPoint& point) { return fact.text(point) == first; });
    const bool said = std::any_of(swept.varied.begin(), swept.varied.end(), [&](const Varied& one) {
      return fact.options.find(" " + one.name + " ") != fact.options.npos;
    });
    if (same) join(heading.fixed, first);
    if (!same && !said) join(follow, fact.name);
  }
  if (!follow.empty()) heading.varied += "; with that also " + follow;
  heading.conventions = common_conventions(swept.points);
  return heading;
}

}  // namespace flashscope::command_line
