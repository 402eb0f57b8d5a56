// How traffic grows with N, with the on-chip budget M and with d, and what follows from it, as charts.
//
// FlashAttention's Theorem 2: standard attention moves Theta(N d + N^2) elements, tiled attention Theta(N^2 d^2 / M).
// Both stay quadratic in N. Everything here is formula; a roofline's limits are a sheet's, and upper bounds.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "engine/insight/chart.h"
#include "engine/insight/hardware.h"
#include "engine/insight/sweep.h"

namespace flashscope {

enum class Units : std::uint8_t { source, kernel };  // elements; bytes

// What a curve holds fixed. Masks from files have one size, and masks by rule no closed form: of masks, causal and
// window alone count, and titles say so.
struct CurveProblem {
  Shape shape;
  Mask mask;
  Recipe recipe;           // its algorithm, Br and Bc are one of the curves
  std::int64_t M = 50000;  // the budget, in elements
  Units units = Units::source;
};

// Of an algorithm's curve, tiled by the paper's rule, and of its points.
int rule_colour(Algorithm algorithm);
// The paper's rule, and its mirror image: the same tiles on the chip with Br and Bc exchanged.
enum class BlockRule : std::uint8_t { paper, mirrored };
Recipe recipe_for_budget(Recipe recipe, const Shape& shape, std::int64_t M, BlockRule rule = BlockRule::paper);

// Elements or bytes that cross the HBM boundary. Precondition: has_closed_form.
double traffic(const Shape& shape, const Mask& mask, const Recipe& recipe, Units units);

// The smallest M, by the paper's rule, with which tiled attention moves no more than standard attention; unset where
// none does. The smallest of each Bc is tried, up to the whole sequence in one block.
struct BreakEven {
  std::int64_t M = 0, Br = 0, Bc = 0;
  double tiled = 0, standard = 0;  // in the units asked for
};
std::optional<BreakEven> break_even(const CurveProblem& problem, Algorithm algorithm);

// log2 of how much the traffic grows when N doubles: 2 is quadratic, 1 linear.
double growth_exponent(const CurveProblem& problem, const Recipe& recipe);

Chart traffic_against_n(const CurveProblem& problem, std::int64_t first, std::int64_t last);
Chart traffic_against_budget(const CurveProblem& problem, std::int64_t first, std::int64_t last);
Chart traffic_against_d(const CurveProblem& problem);

// flash1 and flash2 by the paper's rule and flash2 mirrored, at the same footprint.
struct OrderCost {
  std::string name;
  Recipe recipe;
  double traffic = 0;              // in the problem's units
  std::int64_t on_chip = 0;        // bytes
  std::int64_t tile_elements = 0;  // Q, K, V, O and S tiles: what M bounds
};
std::array<OrderCost, 3> compare_orders(const CurveProblem& problem);
Chart orders_chart(const CurveProblem& problem);  // with the sentence that says why

// Standard attention with kernels of its own for scale, mask and dropout, each of which reads and writes N x N again.
Chart unfused_chart(const CurveProblem& problem);
// Standard attention less this recipe's traffic, split into tiling and tiles not visited.
Chart saving_chart(const CurveProblem& problem);
// S + P against Q, K, V, O, and P against LSE kept for a backward pass, in bytes, up to N = 2^20. With a sheet, the
// least time that its bandwidth allows.
Chart footprint_chart(const CurveProblem& problem, const HardwareSheet* sheet = nullptr);

// A point of a roofline: what an algorithm does and moves.
struct RooflinePoint {
  std::string name, origin;  // origin of the bytes: "formula", "counted", "measured"
  double flops = 0, bytes = 0;
  std::optional<double> seconds;  // measured; unset: drawn at the roof, where it is if nothing hits in the L2
  Algorithm algorithm = Algorithm::flash2;
  int shape = 0;  // of the mark: what bytes these are
};
RooflinePoint roofline_point(const CurveProblem& problem, Algorithm algorithm, BlockRule rule = BlockRule::paper);
// With the floor of any kernel on the problem (time_floor), which has no tiles to read again.
Chart roofline(const HardwareSheet& sheet, const CurveProblem& problem, const std::vector<RooflinePoint>& points);

}  // namespace flashscope
