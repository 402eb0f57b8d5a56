// Measured points on the curves of curves.h: traffic of points beside the formula, and every other figure by itself.
//
// What they show best is DRAM against N: it stays at Q + K + V + O, each once, while K and V fit the L2, whatever the
// block sizes; where they no longer fit it leaves that floor and goes where the algorithm's own traffic goes.
#pragma once

#include <vector>

#include "engine/insight/chart.h"
#include "engine/insight/curves.h"
#include "engine/insight/measurement.h"

namespace flashscope {

enum class Along : std::uint8_t { N, budget, d };  // N: of Q and K; budget: M of the paper's rule; d = dv

// What is worth measuring along that axis for this problem and recipe: powers of two of N from 1,024 on, budgets, d in
// steps of 32. For the budget, recipes by the paper's rule.
std::vector<MeasuredPoint> points_along(Along along, const CurveProblem& problem);

// The sweep's points that differ from the problem in what the axis says, and for N and d in Br and Bc, only.
std::vector<const MeasuredPoint*> points_on(Along along, const CurveProblem& problem, const MeasuredSweep& sweep);

// L2-SM and DRAM of them into a chart of traffic in bytes, with the floor of DRAM and, along N, where the L2 ends. A
// line for each Br x Bc, those of the problem's recipe first, at most three.
void add_measured(Chart& chart, Along along, const CurveProblem& problem, const MeasuredSweep& sweep);
// Along N, where K and V of all heads fill an L2 of that many bytes.
void mark_l2(Chart& chart, const Shape& shape, double bytes, const std::string& whose);

// One figure of them. No series where there is none.
Chart measured_against(Along along, Gauge gauge, const CurveProblem& problem, const MeasuredSweep& sweep);

// The recipe of the problem where it was measured, else the fastest of its plane: at the intensity that DRAM's bytes
// give it and at that of L2-SM's, at the time that was measured.
std::vector<RooflinePoint> measured_roofline(const CurveProblem& problem, const MeasuredSweep& sweep);

ChartAxis gauge_axis(Gauge gauge);
std::string sweep_name(const MeasuredSweep& sweep);  // "NVIDIA H200, 2026-11-30 13:00"

}  // namespace flashscope
