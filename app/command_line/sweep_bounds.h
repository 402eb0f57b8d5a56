// What the points of a sweep are held against: standard attention's traffic, the I/O minimum, the budget M at which
// tiling breaks even with standard attention, and the M that the paper's block sizes were made for. All formula, in
// source units.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/command_line/sweep_points.h"

namespace flashscope::command_line {

// The elements of a point's Q, K, V, O and S tiles against its budget M; unset where it has none. The rule gives Q, K,
// V and O a quarter of M each and rounds the rows up; S comes on top. A share, never refused.
struct BudgetUse {
  std::int64_t M = 0, tiles = 0;  // elements
  double percent() const { return 100 * static_cast<double>(tiles) / static_cast<double>(M); }
};
std::optional<BudgetUse> budget_use(const SweptPoint& point);
Json budget_json(const BudgetUse& use);

// {"flash1": {"elements", "br", "bc"}}, null where it never breaks even; null where M does not vary, or shapes do.
Json break_even_json(const Swept& swept);

// Sentences for below a table and the head of a CSV.
std::vector<std::string> bound_lines(const Swept& swept);

// Standard attention and the I/O minimum as guide lines along the option that varies across the chart, in elements, and
// the break-even as marks.
void add_bounds(Chart& chart, const Swept& swept, std::size_t across);

}  // namespace flashscope::command_line
