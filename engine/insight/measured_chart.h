// Measured points on the curves of curves.h: traffic of points beside the formula, and every other figure by itself.
//
// What they show best is DRAM against N: it stays at Q + K + V + O, each once, while K and V stay in the L2, whatever
// the block sizes; where they no longer do it leaves that floor and goes where the algorithm's own traffic goes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/attention/cpu_runner.h"
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
// Along N, the first of these points, in ascending N, whose DRAM reads leave Q + K + V once by more than a tenth: where
// the L2 no longer holds what is read again. Null where none does.
const MeasuredPoint* leaves_floor(const std::vector<const MeasuredPoint*>& points);
std::string floor_text(const std::vector<const MeasuredPoint*>& points);  // a sentence that says so; empty
// Along N, where K and V of all heads are as large as an L2 of that many bytes. DRAM leaves its floor before: what else
// passes through the L2 takes room too.
void mark_l2(Chart& chart, const Shape& shape, double bytes, const std::string& whose);

// One figure of them. No series where there is none.
Chart measured_against(Along along, Gauge gauge, const CurveProblem& problem, const MeasuredSweep& sweep);

// A run on a GPU as a point of a sweep; none of a run on a CPU.
std::optional<MeasuredPoint> point_of_run(const Report& report, const Mask& mask);

// Of each algorithm that was measured on this shape under this mask: the problem's own recipe where it is among the
// points, else the fastest. At the intensity that DRAM's bytes give it and at that of L2-SM's; without counters at that
// of what the kernel counted itself, and without these of the formula. All at the time that was measured.
std::vector<RooflinePoint> measured_roofline(const CurveProblem& problem,
                                             const std::vector<const MeasuredPoint*>& points);

ChartAxis gauge_axis(Gauge gauge);
std::string sweep_name(const MeasuredSweep& sweep);  // "NVIDIA H200, 2026-11-30 13:00"

}  // namespace flashscope
