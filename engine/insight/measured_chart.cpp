#include "engine/insight/measured_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "engine/digits.h"

namespace flashscope {
namespace {

constexpr std::int64_t kFirstN = 1024, kLastN = 131072, kFirstM = 8192, kLastM = 65536, kStepD = 32, kLastD = 256;
constexpr std::size_t kMostLines = 3;

double place(Along along, const MeasuredPoint& point) {
  switch (along) {
    case Along::N:
      return static_cast<double>(point.shape.Nq);
    case Along::budget:
      return static_cast<double>(point.recipe.sram.value_or(0));
    case Along::d:
      return static_cast<double>(point.shape.d);
  }
  return 0;
}

MeasuredPoint asked_of(const CurveProblem& problem) {
  MeasuredPoint point;
  point.shape = problem.shape, point.recipe = problem.recipe;
  point.mask.causal = problem.mask.causal, point.mask.window = problem.mask.window;
  return point;
}

// The points of one Br x Bc, in the order of the axis.
using Line = std::vector<const MeasuredPoint*>;
bool is_own(const Line& line, const CurveProblem& problem) {
  return line.front()->recipe.Br == problem.recipe.Br && line.front()->recipe.Bc == problem.recipe.Bc;
}

std::vector<Line> lines(Along along, const CurveProblem& problem, const MeasuredSweep& sweep) {
  std::map<std::pair<std::int64_t, std::int64_t>, Line> by_blocks;
  for (const MeasuredPoint* point : points_on(along, problem, sweep)) {
    const bool one_line = along == Along::budget;  // there the blocks follow from the place
    by_blocks[one_line ? std::pair<std::int64_t, std::int64_t>{} : std::pair(point->recipe.Br, point->recipe.Bc)]
        .push_back(point);
  }
  std::vector<Line> all;
  all.reserve(all.size() + by_blocks.size());
  for (auto& [blocks, line] : by_blocks) all.push_back(std::move(line));
  const auto own = [&](const Line& line) { return is_own(line, problem); };
  std::stable_sort(all.begin(), all.end(), [&](const Line& a, const Line& b) {
    return std::pair(own(a), a.size()) > std::pair(own(b), b.size());
  });
  // A point alone is no line; that of the problem's own recipe is worth seeing.
  std::erase_if(all, [&](const Line& line) { return line.size() < 2 && !own(line); });
  all.resize(std::min(all.size(), kMostLines));
  for (Line& line : all)
    std::sort(line.begin(), line.end(),
              [&](const MeasuredPoint* a, const MeasuredPoint* b) { return place(along, *a) < place(along, *b); });
  return all;
}

std::string line_name(Along along, const Line& line) {
  const Recipe& recipe = line.front()->recipe;
  if (along == Along::budget) return fmt::format("{}, paper's rule", name(recipe.algorithm));
  if (recipe.algorithm == Algorithm::standard) return "standard";
  return fmt::format("{}, {} x {}", name(recipe.algorithm), recipe.Br, recipe.Bc);
}

// None where no point has it.
std::optional<ChartSeries> series_of(Along along, const Line& line, Gauge gauge, const std::string& name, int colour) {
  ChartSeries series{name, std::string(origin(gauge)), SeriesStyle::points, colour, {}, {}, std::string(how(gauge))};
  for (const MeasuredPoint* point : line) {
    const std::optional<double> found = value(*point, gauge);
    if (found) series.x.push_back(place(along, *point)), series.y.push_back(*found);
  }
  return series.x.empty() ? std::nullopt : std::optional(std::move(series));
}

std::string axis_label(Along along) {
  switch (along) {
    case Along::N:
      return "N, rows of Q and of K";
    case Along::budget:
      return "M, elements on the chip";
    case Along::d:
      return "d, columns of Q, K and V";
  }
  return {};
}

}  // namespace

std::string sweep_name(const MeasuredSweep& sweep) {
  std::string date = sweep.date.substr(0, 16);
  std::replace(date.begin(), date.end(), 'T', ' ');
  return sweep.on.device + ", " + date;
}

std::vector<MeasuredPoint> points_along(Along along, const CurveProblem& problem) {
  std::vector<MeasuredPoint> points;
  const auto add = [&]() -> MeasuredPoint& { return points.emplace_back(asked_of(problem)); };
  switch (along) {
    case Along::N:
      for (std::int64_t N = kFirstN; N <= kLastN; N *= 2) {
        MeasuredPoint& point = add();
        point.shape.Nq = point.shape.Nk = N;
      }
      break;
    case Along::budget:
      for (std::int64_t M = kFirstM; M <= kLastM; M *= 2) {
        MeasuredPoint& point = add();
        point.recipe = recipe_for_budget(point.recipe, point.shape, M);
      }
      break;
    case Along::d:
      for (std::int64_t d = kStepD; d <= kLastD; d += kStepD) {
        MeasuredPoint& point = add();
        point.shape.d = point.shape.dv = d;
      }
      break;
  }
  return points;
}

std::vector<const MeasuredPoint*> points_on(Along along, const CurveProblem& problem, const MeasuredSweep& sweep) {
  const MeasuredPoint wanted = asked_of(problem);
  std::vector<const MeasuredPoint*> points;
  if (!problem.mask.structural_only()) return points;  // no sweep measures others
  for (const MeasuredPoint& point : sweep.points) {
    if (!point.gpu) continue;
    MeasuredPoint like = wanted;
    like.recipe.Br = point.recipe.Br, like.recipe.Bc = point.recipe.Bc, like.recipe.sram = point.recipe.sram;
    if (along == Along::N && point.shape.Nq == point.shape.Nk) like.shape.Nq = like.shape.Nk = point.shape.Nq;
    if (along == Along::d && point.shape.d == point.shape.dv) like.shape.d = like.shape.dv = point.shape.d;
    if (along == Along::budget && !point.recipe.sram) continue;
    if (like.shape == point.shape && like.mask == point.mask && like.recipe == point.recipe) points.push_back(&point);
  }
  return points;
}

void mark_l2(Chart& chart, const Shape& shape, double bytes, const std::string& whose) {
  const double N = rows_that_fill(bytes, shape);
  const auto [low, high] = extent(chart, true);
  if (N < low || N > high) return;
  chart.marks.push_back(
      {true, N, fmt::format("K and V fill the L2 of {}, {:.0f} MiB [formula]", whose, bytes / (1 << 20))});
}

void add_measured(Chart& chart, Along along, const CurveProblem& problem, const MeasuredSweep& sweep) {
  const std::vector<Line> all = lines(along, problem, sweep);
  if (all.empty()) return;
  struct Source {
    Gauge gauge;
    const char* name;
    int shape;
  };
  ChartSeries floor{"Q, K, V, O once: the least", "formula", SeriesStyle::guide, kGuideColour};
  for (const MeasuredPoint* point : all.front()) {
    floor.x.push_back(place(along, *point));
    floor.y.push_back(static_cast<double>(minimum(point->shape).bytes.total()));
  }
  if (floor.x.size() > 1) chart.series.push_back(std::move(floor));
  // A recipe's two figures have the colour of its curve, and are told apart by their marks.
  constexpr std::array others{4, 5, kGuideColour};
  std::size_t other = 0;
  for (const Line& line : all) {
    const Algorithm algorithm = problem.recipe.algorithm;
    const int colour = along == Along::budget || algorithm == Algorithm::standard ? rule_colour(algorithm)
                       : is_own(line, problem)                                    ? kOwnColour
                                                                                  : others.at(other++);
    for (const Source& source : {Source{Gauge::l2_sm, "L2 to SM", 2}, Source{Gauge::dram, "DRAM", 1}}) {
      auto series = series_of(along, line, source.gauge, line_name(along, line) + ": " + source.name, colour);
      if (!series) continue;
      series->shape = source.shape;
      chart.series.push_back(std::move(*series));
    }
  }
  chart.notes.push_back(fmt::format("Measured on {}; L2 and DRAM cold.", sweep_name(sweep)));
  if (along == Along::N && leaves_floor(all.front()) != all.front().front())
    chart.notes.push_back(
        "DRAM moves each tensor once while K and V stay in the L2, whatever the block sizes: there it cannot tell them "
        "apart." +
        floor_text(all.front()));
}

const MeasuredPoint* leaves_floor(const std::vector<const MeasuredPoint*>& points) {
  constexpr double kMore = 1.1;
  for (const MeasuredPoint* point : points) {
    const std::optional<double> read = value(*point, Gauge::dram_read);
    if (read && *read > kMore * static_cast<double>(minimum(point->shape).bytes.read)) return point;
  }
  return nullptr;
}

std::string floor_text(const std::vector<const MeasuredPoint*>& points) {
  const MeasuredPoint* left = leaves_floor(points);
  if (!left) return {};
  const ChartAxis bytes{{}, ChartUnit::bytes, true, true, {}};
  return fmt::format(" That ends by N = {}: {} read [measured] where Q, K, V once are {} [formula].",
                     value_text(static_cast<double>(left->shape.Nq), {}),
                     tick_text(*value(*left, Gauge::dram_read), bytes),
                     tick_text(static_cast<double>(minimum(left->shape).bytes.read), bytes));
}

Chart measured_against(Along along, Gauge gauge, const CurveProblem& problem, const MeasuredSweep& sweep) {
  const Shape& s = problem.shape;
  Chart chart;
  chart.name = along == Along::N   ? "measured-against-n"
               : along == Along::d ? "measured-against-d"
                                   : "measured-against-m";
  std::string held = counted(s.heads, "head");
  if (along != Along::N) held += fmt::format(", N {} x {}", grouped(s.Nq), grouped(s.Nk));
  if (along != Along::d) held += fmt::format(", d {}, dv {}", s.d, s.dv);
  if (problem.mask.causal != Causal::none) held += fmt::format(", causal {}", name(problem.mask.causal));
  chart.title = fmt::format("{} on {}; {}, {}", title(gauge), sweep_name(sweep), held, name(s.type));
  chart.x = {axis_label(along), ChartUnit::number, along != Along::d, true, {}};
  chart.y = gauge_axis(gauge);
  int colour = 0;
  for (const Line& line : lines(along, problem, sweep))
    if (auto series = series_of(along, line, gauge, line_name(along, line), colour++))
      chart.series.push_back(std::move(*series));
  chart.notes.push_back(std::string(title(gauge)) + ": " + std::string(how(gauge)) + ".");
  return chart;
}

std::optional<MeasuredPoint> point_of_run(const Report& report, const Mask& mask) {
  if (!report.gpu) return {};
  MeasuredPoint point;
  point.shape = report.shape, point.mask = mask, point.recipe = report.recipe;
  point.kernel = report.kernel, point.gpu = report.gpu;
  return point;
}

std::vector<RooflinePoint> measured_roofline(const CurveProblem& problem,
                                             const std::vector<const MeasuredPoint*>& points) {
  std::vector<RooflinePoint> measured;
  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash1, Algorithm::flash2}) {
    const auto own = [&](const MeasuredPoint& point) {
      return algorithm == problem.recipe.algorithm && point.recipe.Br == problem.recipe.Br &&
             (algorithm == Algorithm::standard || point.recipe.Bc == problem.recipe.Bc);
    };
    const MeasuredPoint* chosen = nullptr;
    for (const MeasuredPoint* point : points) {
      if (!point->gpu || point->recipe.algorithm != algorithm || point->shape != problem.shape ||
          point->mask != problem.mask)
        continue;
      const auto rank = [&](const MeasuredPoint& p) { return std::tuple(!own(p), !p.gpu->measured, p.gpu->median); };
      if (!chosen || rank(*point) < rank(*chosen)) chosen = point;
    }
    if (!chosen || !has_closed_form(chosen->mask, chosen->recipe)) continue;
    const ClosedForm form = closed_form(chosen->shape, chosen->mask, chosen->recipe);
    const auto flops = static_cast<double>(form.matmul_flops(chosen->shape));
    std::string name(flashscope::name(algorithm));
    if (algorithm != Algorithm::standard) name += fmt::format(", {} x {}", chosen->recipe.Br, chosen->recipe.Bc);
    const auto add = [&](const char* whose, const char* origin, double bytes, int shape) {
      measured.push_back(
          {fmt::format("{}, {}", name, whose), origin, flops, bytes, chosen->gpu->median, algorithm, shape});
    };
    if (chosen->gpu->measured) {
      add("DRAM's bytes", "measured", *value(*chosen, Gauge::dram), 1);
      add("L2-SM's bytes", "measured", *value(*chosen, Gauge::l2_sm), 2);
    } else if (chosen->gpu->counted) {
      add("the kernel's count", "counted, at the measured time",
          static_cast<double>(chosen->gpu->counted->total().total()), 2);
    } else {
      add("the formula's bytes", "formula, at the measured time", static_cast<double>(form.bytes.total().total()), 2);
    }
  }
  return measured;
}

ChartAxis gauge_axis(Gauge gauge) {
  ChartAxis axis{fmt::format("{}{}{}", title(gauge), unit(gauge).empty() ? "" : ", ", unit(gauge)),
                 ChartUnit::number,
                 true,
                 false,
                 {}};
  if (unit(gauge) == "bytes") axis.unit = ChartUnit::bytes, axis.binary = true;
  switch (gauge) {
    case Gauge::seconds:
      axis.unit = ChartUnit::seconds;
      break;
    case Gauge::occupancy:
      axis.unit = ChartUnit::percent, axis.logarithmic = false;
      break;
    case Gauge::tflops:
    case Gauge::registers:
    case Gauge::spills:
    case Gauge::difference:
      axis.logarithmic = false;
      break;
    default:
      break;
  }
  return axis;
}

}  // namespace flashscope
