#include "engine/insight/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/digits.h"

namespace flashscope {
namespace {

std::string grouped(double value) { return value_text(std::round(value), {}); }

std::string rows_text(std::int64_t n) { return grouped(static_cast<double>(n)); }
std::string rows_text(const Shape& shape) { return fmt::format("N {} x {}", rows_text(shape.Nq), rows_text(shape.Nk)); }

std::string amount_text(double value, Units units) {
  return units == Units::source ? grouped(value) + " elements"
                                : value_text(value, {.label = {}, .unit = ChartUnit::bytes, .categories = {}});
}

std::string held(const CurveProblem& problem, std::string_view what) {
  const Shape& shape = problem.shape;
  std::string text(what);
  text += "; " + counted(shape.heads, "head");
  if (problem.mask.causal != Causal::none) text += fmt::format(", causal {}", name(problem.mask.causal));
  if (problem.mask.window) text += fmt::format(", window {},{}", problem.mask.window->left, problem.mask.window->right);
  if (!problem.mask.structural_only()) text += ", without its other masks";
  if (problem.units == Units::kernel) text += fmt::format(", {}", name(shape.type));
  return text;
}

ChartAxis traffic_axis(Units units) {
  return units == Units::source ? ChartAxis{"HBM traffic, elements (source units)", ChartUnit::number, true, true, {}}
                                : ChartAxis{"HBM traffic, bytes (kernel units)", ChartUnit::bytes, true, true, {}};
}

Mask structural(const Mask& mask) {
  Mask rest = mask;
  rest.keep.reset(), rest.bias.reset(), rest.rules = {};
  return rest;
}

Recipe of_algorithm(Recipe recipe, Algorithm algorithm) {
  if (recipe.algorithm != algorithm) recipe.normalise.reset();  // flash1 and flash2 have defaults of their own
  recipe.algorithm = algorithm;
  return recipe;
}

// The algorithms that every curve shows, by the paper's rule unless it says otherwise.
struct Contender {
  const char* name;
  Algorithm algorithm;
  BlockRule rule;
  int colour;
};
constexpr std::array kContenders{Contender{"flash1, paper's rule", Algorithm::flash1, BlockRule::paper, 0},
                                 Contender{"flash2, paper's rule", Algorithm::flash2, BlockRule::paper, 1},
                                 Contender{"flash2, mirrored", Algorithm::flash2, BlockRule::mirrored, 2}};

constexpr double kTera = 1e12;

// Whole numbers from first to last, `per_octave` to a doubling, each once.
std::vector<std::int64_t> geometric(std::int64_t first, std::int64_t last, int per_octave) {
  std::vector<std::int64_t> values;
  for (int n = 0;; ++n) {
    const auto value = std::llround(static_cast<double>(first) * std::exp2(static_cast<double>(n) / per_octave));
    if (value > last) break;
    if (values.empty() || value != values.back()) values.push_back(value);
  }
  if (values.empty() || values.back() != last) values.push_back(last);
  return values;
}

CurveProblem resized(CurveProblem problem, std::int64_t N) {
  problem.shape.Nq = problem.shape.Nk = N;
  return problem;
}

std::string recipe_name(const Recipe& recipe) {
  if (recipe.algorithm == Algorithm::standard) return "standard";
  return fmt::format("explored: {}, {} x {}", name(recipe.algorithm), recipe.Br, recipe.Bc);
}

}  // namespace

int rule_colour(Algorithm algorithm) {
  return algorithm == Algorithm::standard ? 3 : algorithm == Algorithm::flash1 ? 0 : 1;
}

Recipe recipe_for_budget(Recipe recipe, const Shape& shape, std::int64_t M, BlockRule rule) {
  const BlockSizes sizes = block_sizes(M, shape.d, shape.dv);
  recipe.Br = sizes.Br, recipe.Bc = sizes.Bc, recipe.sram = M;
  if (rule == BlockRule::mirrored) std::swap(recipe.Br, recipe.Bc), recipe.sram.reset();
  return recipe;
}

double traffic(const Shape& shape, const Mask& mask, const Recipe& recipe, Units units) {
  const ClosedForm form = closed_form(shape, mask, recipe);
  return static_cast<double>((units == Units::source ? form.elements : form.bytes).total().total());
}

std::optional<BreakEven> break_even(const CurveProblem& problem, Algorithm algorithm) {
  const Shape& shape = problem.shape;
  const Mask mask = structural(problem.mask);
  const double standard = traffic(shape, {}, of_algorithm({}, Algorithm::standard), problem.units);
  const std::int64_t a_block = 2 * (shape.d + shape.dv);
  const Recipe base = of_algorithm(problem.recipe, algorithm);
  for (std::int64_t Bc = 1; Bc <= shape.Nk; ++Bc) {
    const std::int64_t M = (Bc - 1) * a_block + 1;  // the smallest that gives this Bc
    const Recipe recipe = recipe_for_budget(base, shape, M);
    const double tiled = traffic(shape, mask, recipe, problem.units);
    if (tiled <= standard) return BreakEven{M, recipe.Br, recipe.Bc, tiled, standard};
  }
  return std::nullopt;
}

double growth_exponent(const CurveProblem& problem, const Recipe& recipe) {
  const auto at = [&](std::int64_t factor) {
    Shape shape = problem.shape;
    shape.Nq *= factor, shape.Nk *= factor;
    return traffic(shape, structural(problem.mask), recipe, problem.units);
  };
  return std::log2(at(2) / at(1));
}

Chart traffic_against_n(const CurveProblem& problem, std::int64_t first, std::int64_t last) {
  const Shape& shape = problem.shape;
  const Mask mask = structural(problem.mask);
  Chart chart;
  chart.name = "traffic-against-n";
  chart.title = held(problem, fmt::format("Traffic against N; d {}, dv {}, M = {} elements", shape.d, shape.dv,
                                          grouped(static_cast<double>(problem.M))));
  chart.x = {"N, rows of Q and of K", ChartUnit::number, true, true, {}};
  chart.y = traffic_axis(problem.units);
  struct Line {
    std::string name;
    Recipe recipe;
    int colour;
    SeriesStyle style = SeriesStyle::line;
  };
  std::vector<Line> lines{{"standard", of_algorithm(problem.recipe, Algorithm::standard), 3, SeriesStyle::line}};
  for (const Contender& one : kContenders) {
    const Recipe recipe = of_algorithm(problem.recipe, one.algorithm);
    lines.push_back({one.name, recipe_for_budget(recipe, shape, problem.M, one.rule), one.colour, SeriesStyle::line});
  }
  // Dashed: it may lie on another, as Bc alone makes no difference to flash2.
  if (problem.recipe.algorithm != Algorithm::standard)
    lines.push_back({recipe_name(problem.recipe), problem.recipe, kOwnColour, SeriesStyle::guide});
  for (const Line& line : lines) {
    ChartSeries series{line.name, "formula", line.style, line.colour};
    for (const std::int64_t N : geometric(first, last, 4)) {
      series.x.push_back(static_cast<double>(N));
      series.y.push_back(traffic(resized(problem, N).shape, mask, line.recipe, problem.units));
    }
    chart.series.push_back(std::move(series));
  }
  chart.marks.push_back({true, static_cast<double>(shape.Nq), "N = " + rows_text(shape.Nq)});
  const CurveProblem here = resized(problem, shape.Nq);
  const double exponent = growth_exponent(here, lines[1].recipe);
  chart.notes.push_back(
      fmt::format("From N = {} to {} flash1's traffic grows {:.2f}x, an exponent of {:.2f}: quadratic like standard's "
                  "({:.2f}). Tiling shrinks the constant, not the exponent.",
                  rows_text(shape.Nq), rows_text(2 * shape.Nq), std::exp2(exponent), exponent,
                  growth_exponent(here, lines[0].recipe)));
  return chart;
}

Chart traffic_against_budget(const CurveProblem& problem, std::int64_t first, std::int64_t last) {
  const Shape& shape = problem.shape;
  const Mask mask = structural(problem.mask);
  Chart chart;
  chart.name = "traffic-against-m";
  chart.title =
      held(problem, fmt::format("Traffic against the budget M; {}, d {}, dv {}, Br and Bc by the paper's rule",
                                rows_text(shape), shape.d, shape.dv));
  chart.x = {"M, elements on the chip", ChartUnit::number, true, true, {}};
  chart.y = traffic_axis(problem.units);
  const std::vector<std::int64_t> budgets = geometric(first, last, 40);
  const double standard = traffic(shape, {}, of_algorithm({}, Algorithm::standard), problem.units);
  chart.series.push_back({"standard",
                          "formula",
                          SeriesStyle::line,
                          3,
                          {static_cast<double>(first), static_cast<double>(last)},
                          {standard, standard}});
  for (const Contender& one : kContenders) {
    ChartSeries series{one.name, "formula", SeriesStyle::line, one.colour};
    const Recipe base = of_algorithm(problem.recipe, one.algorithm);
    for (const std::int64_t M : budgets) {
      series.x.push_back(static_cast<double>(M));
      series.y.push_back(traffic(shape, mask, recipe_for_budget(base, shape, M, one.rule), problem.units));
    }
    chart.series.push_back(std::move(series));
  }
  // A Theta has no constant: the guide is scaled to meet flash1 at the problem's own budget.
  const double meets = traffic(
      shape, mask, recipe_for_budget(of_algorithm(problem.recipe, Algorithm::flash1), shape, problem.M), problem.units);
  ChartSeries guide{"Theta(N^2 d^2 / M)", "guide", SeriesStyle::guide, kGuideColour};
  for (const std::int64_t M : budgets) {
    guide.x.push_back(static_cast<double>(M));
    guide.y.push_back(meets * static_cast<double>(problem.M) / static_cast<double>(M));
  }
  chart.series.push_back(std::move(guide));
  chart.notes.push_back(fmt::format("The guide's constant is chosen so that it meets flash1 at M = {}.",
                                    grouped(static_cast<double>(problem.M))));
  struct Found {
    Algorithm algorithm;
    std::optional<BreakEven> at;
    std::string units;
  };
  std::vector<Found> all;  // one where both units have the same
  for (const Units units : {problem.units, problem.units == Units::source ? Units::kernel : Units::source}) {
    CurveProblem asked = problem;
    asked.units = units;
    const std::string unit =
        units == Units::source ? "source units" : fmt::format("kernel units, {}", name(shape.type));
    for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2}) {
      const std::optional<BreakEven> found = break_even(asked, algorithm);
      const auto M = [](const std::optional<BreakEven>& one) { return one ? one->M : 0; };
      const auto same = std::find_if(all.begin(), all.end(), [&](const Found& other) {
        return other.algorithm == algorithm && M(other.at) == M(found);
      });
      same == all.end() ? all.push_back({algorithm, found, unit}) : void(same->units += " and " + unit);
    }
  }
  for (const auto& [algorithm, found, units] : all) {
    if (!found) {
      chart.notes.push_back(fmt::format("{} never breaks even with standard attention ({}).", name(algorithm), units));
      continue;
    }
    const std::string elements = grouped(static_cast<double>(found->M));
    chart.marks.push_back(
        {true, static_cast<double>(found->M), fmt::format("{} breaks even: {}, {}", name(algorithm), elements, units)});
    chart.notes.push_back(fmt::format(
        "{} breaks even with standard attention at M = {} elements, {:.4g} KiB ({}), with Br {}, Bc {}.",
        name(algorithm), elements, static_cast<double>(found->M) * static_cast<double>(size_of(shape.type)) / 1024,
        units, found->Br, found->Bc));
  }
  return chart;
}

Chart traffic_against_d(const CurveProblem& problem) {
  Chart chart;
  chart.name = "traffic-against-d";
  chart.title = held(problem, fmt::format("Traffic against d = dv; {}, M = {} elements", rows_text(problem.shape),
                                          grouped(static_cast<double>(problem.M))));
  chart.x = {"d, columns of Q, K and V", ChartUnit::number, false, true, {}};
  chart.y = traffic_axis(problem.units);
  const Mask mask = structural(problem.mask);
  std::vector<ChartSeries> lines{{"standard", "formula", SeriesStyle::line, 3}};
  for (const Contender& one : kContenders) lines.push_back({one.name, "formula", SeriesStyle::line, one.colour});
  for (std::int64_t d = 8; d <= 256; d += 8) {
    Shape shape = problem.shape;
    shape.d = shape.dv = d;
    for (ChartSeries& line : lines) line.x.push_back(static_cast<double>(d));
    lines[0].y.push_back(traffic(shape, {}, of_algorithm({}, Algorithm::standard), problem.units));
    for (std::size_t n = 0; n < kContenders.size(); ++n) {
      const Recipe base = of_algorithm(problem.recipe, kContenders[n].algorithm);
      lines[n + 1].y.push_back(
          traffic(shape, mask, recipe_for_budget(base, shape, problem.M, kContenders[n].rule), problem.units));
    }
  }
  chart.series = std::move(lines);
  chart.notes.push_back(
      "A larger d makes every row longer and, at the same M, every block shorter: that is where d^2 / M comes from.");
  return chart;
}

std::array<OrderCost, 3> compare_orders(const CurveProblem& problem) {
  const Shape& shape = problem.shape;
  std::array<OrderCost, 3> costs;
  for (std::size_t n = 0; n < kContenders.size(); ++n) {
    const Contender& one = kContenders[n];
    OrderCost& cost = costs[n];
    cost.name = one.name;
    cost.recipe = recipe_for_budget(of_algorithm(problem.recipe, one.algorithm), shape, problem.M, one.rule);
    cost.traffic = traffic(shape, structural(problem.mask), cost.recipe, problem.units);
    cost.on_chip = on_chip(shape, cost.recipe).total();
    cost.tile_elements = (cost.recipe.Br + cost.recipe.Bc) * (shape.d + shape.dv) + cost.recipe.Br * cost.recipe.Bc;
  }
  return costs;
}

Chart orders_chart(const CurveProblem& problem) {
  const std::array<OrderCost, 3> costs = compare_orders(problem);
  Chart chart;
  chart.name = "orders";
  chart.title =
      held(problem, fmt::format("The loop orders at the same footprint; {}, d {}, M = {} elements",
                                rows_text(problem.shape), problem.shape.d, grouped(static_cast<double>(problem.M))));
  chart.x = {"order and block sizes", ChartUnit::number, false, false, {}};
  chart.y = traffic_axis(problem.units);
  chart.y.logarithmic = false;
  ChartSeries series{"traffic", "formula", SeriesStyle::bars, 0};
  for (std::size_t n = 0; n < costs.size(); ++n) {
    chart.x.categories.push_back(fmt::format("{} ({} x {})", costs[n].name, costs[n].recipe.Br, costs[n].recipe.Bc));
    series.x.push_back(static_cast<double>(n));
    series.y.push_back(costs[n].traffic);
  }
  chart.series.push_back(std::move(series));
  const auto rows = [&](std::int64_t Br) { return (problem.shape.Nq + Br - 1) / Br; };
  const std::int64_t by_rule = costs[1].recipe.Br, mirrored = costs[2].recipe.Br;
  chart.notes.push_back(
      fmt::format("{}, {} and {}: the same tiles, {} elements with S.", amount_text(costs[0].traffic, problem.units),
                  amount_text(costs[1].traffic, problem.units), amount_text(costs[2].traffic, problem.units),
                  grouped(static_cast<double>(costs[0].tile_elements))));
  chart.notes.push_back(
      fmt::format("Why: flash2 reads K and V once for every row block, so its Br counts; the paper's rule, made for "
                  "flash1, gives the "
                  "size to Bc and holds Br = min(Bc, d) = {}.",
                  by_rule));
  chart.notes.push_back(
      fmt::format("Mirrored, the same footprint has Br = {}: K and V are read {} times in place of {}, and O, m, l "
                  "never leave the chip.",
                  mirrored, rows_text(rows(mirrored)), rows_text(rows(by_rule))));
  return chart;
}

Chart unfused_chart(const CurveProblem& problem) {
  const Shape& shape = problem.shape;
  const bool source = problem.units == Units::source;
  const double standard = traffic(shape, {}, of_algorithm({}, Algorithm::standard), problem.units);
  const double pass = 2.0 * static_cast<double>(shape.heads) * static_cast<double>(shape.Nq) *
                      static_cast<double>(shape.Nk) * (source ? 1 : static_cast<double>(size_of(shape.type)));
  const double tiled =
      traffic(shape, structural(problem.mask),
              recipe_for_budget(of_algorithm(problem.recipe, Algorithm::flash1), shape, problem.M), problem.units);
  Chart chart;
  chart.name = "unfused";
  chart.title = held(problem, fmt::format("Standard attention with passes of their own; {}, d {}, M = {} elements",
                                          rows_text(shape), shape.d, grouped(static_cast<double>(problem.M))));
  chart.x = {"kernels", ChartUnit::number, false, false, {"flash1", "standard", "+ scale", "+ mask", "+ dropout"}};
  chart.y = traffic_axis(problem.units);
  chart.y.logarithmic = false;
  ChartSeries series{"traffic", "formula", SeriesStyle::bars, 3};
  series.x = {0, 1, 2, 3, 4};
  series.y = {tiled, standard, standard + pass, standard + 2 * pass, standard + 3 * pass};
  chart.notes.push_back(fmt::format(
      "Idealised, standard attention moves {:.1f}x what flash1 does; with kernels of their own for scale, mask and "
      "dropout, each reading and writing N x N once more, {:.1f}x.",
      standard / tiled, series.y.back() / tiled));
  chart.notes.push_back(
      "The first paper measured 40.3 GB against 4.4 GB, about 9x, forward and backward, on such kernels.");
  chart.series.push_back(std::move(series));
  return chart;
}

Chart saving_chart(const CurveProblem& problem) {
  const Shape& shape = problem.shape;
  const double standard = traffic(shape, {}, of_algorithm({}, Algorithm::standard), problem.units);
  const double unmasked = traffic(shape, {}, problem.recipe, problem.units);
  const double run = traffic(shape, structural(problem.mask), problem.recipe, problem.units);
  Chart chart;
  chart.name = "saving";
  chart.title =
      held(problem, fmt::format("Where the saving comes from; {}, d {}, {} with Br {}, Bc {}", rows_text(shape),
                                shape.d, name(problem.recipe.algorithm), problem.recipe.Br, problem.recipe.Bc));
  chart.x = {
      "", ChartUnit::number, false, false, {"standard", "saved by tiling", "by tiles not visited", "this recipe"}};
  chart.y = traffic_axis(problem.units);
  chart.y.logarithmic = false;
  chart.series.push_back(
      {"traffic", "formula", SeriesStyle::bars, 2, {0, 1, 2, 3}, {standard, standard - unmasked, unmasked - run, run}});
  chart.notes.push_back(fmt::format("{} less by tiling, {} less by tiles that the mask leaves out.",
                                    amount_text(standard - unmasked, problem.units),
                                    amount_text(unmasked - run, problem.units)));
  return chart;
}

Chart footprint_chart(const CurveProblem& problem, const HardwareSheet* sheet) {
  Chart chart;
  chart.name = "footprint";
  chart.title = fmt::format("What must be held in HBM; d {}, {}, {}", problem.shape.d, name(problem.shape.type),
                            counted(problem.shape.heads, "head"));
  chart.x = {"N", ChartUnit::number, true, true, {}};
  chart.y = {"bytes", ChartUnit::bytes, true, true, {}};
  ChartSeries inputs{"Q, K, V, O", "formula", SeriesStyle::line, 0}, scores{"S + P", "formula", SeriesStyle::line, 1},
      kept_P{"P kept for backward", "formula", SeriesStyle::line, 3},
      kept_LSE{"LSE kept for backward", "formula", SeriesStyle::line, 2};
  for (const std::int64_t N : geometric(256, std::int64_t{1} << 20, 1)) {
    const Shape shape = resized(problem, N).shape;
    const Footprint held = footprint(shape, Algorithm::standard), tiled = footprint(shape, Algorithm::flash2);
    const auto bytes = [](const Footprint& f, Operand operand) {
      return static_cast<double>(f.bytes[static_cast<std::size_t>(operand)]);
    };
    for (ChartSeries* series : {&inputs, &scores, &kept_P, &kept_LSE}) series->x.push_back(static_cast<double>(N));
    inputs.y.push_back(static_cast<double>(held.total() - held.extra()));
    scores.y.push_back(static_cast<double>(held.extra()));
    kept_P.y.push_back(bytes(held, Operand::P));
    kept_LSE.y.push_back(bytes(tiled, Operand::LSE));
  }
  chart.notes.push_back(
      fmt::format("At N = {} S + P take {:.0f}x what Q, K, V and O do; LSE is one number a row, P is N.",
                  grouped(scores.x.back()), scores.y.back() / inputs.y.back()));
  chart.series = {std::move(inputs), std::move(scores), std::move(kept_P), std::move(kept_LSE)};
  chart.marks.push_back({true, static_cast<double>(problem.shape.Nq), "N = " + rows_text(problem.shape.Nq)});
  const Minimum least = minimum(problem.shape);
  const double standard = traffic(problem.shape, {}, of_algorithm({}, Algorithm::standard), Units::kernel);
  chart.notes.push_back(
      fmt::format("At N = {} the I/O minimum (Q, K, V, O once) is {}, standard attention's traffic {}: {:.0f}x.",
                  rows_text(problem.shape.Nq), amount_text(static_cast<double>(least.bytes.total()), Units::kernel),
                  amount_text(standard, Units::kernel), standard / static_cast<double>(least.bytes.total())));
  const auto bandwidth = sheet ? sheet->value(Quantity::bandwidth) : std::nullopt;
  if (bandwidth)
    chart.notes.push_back(fmt::format(
        "At {}'s {:.4g} TB/s [sheet] the minimum takes at least {:.4g} ms; standard attention's traffic, where S and P "
        "do not stay in the L2, {:.3g} ms: a floor, not a prediction.",
        sheet->name, *bandwidth / 1e12, 1e3 * static_cast<double>(least.bytes.total()) / *bandwidth,
        1e3 * standard / *bandwidth));
  return chart;
}

RooflinePoint roofline_point(const CurveProblem& problem, Algorithm algorithm, BlockRule rule) {
  const bool own = algorithm == problem.recipe.algorithm && rule == BlockRule::paper;
  const Recipe recipe =
      own ? problem.recipe : recipe_for_budget(of_algorithm(problem.recipe, algorithm), problem.shape, problem.M, rule);
  const ClosedForm form = closed_form(problem.shape, structural(problem.mask), recipe);
  std::string name(flashscope::name(algorithm));
  if (algorithm != Algorithm::standard) name += fmt::format(", {} x {}", recipe.Br, recipe.Bc);
  return {name,
          "formula",
          static_cast<double>(form.matmul_flops(problem.shape)),
          static_cast<double>(form.bytes.total().total()),
          {},
          algorithm};
}

Chart roofline(const HardwareSheet& sheet, const CurveProblem& problem, const std::vector<RooflinePoint>& points) {
  const DType type = problem.shape.type;
  CurveProblem in_bytes = problem;
  in_bytes.units = Units::kernel;
  Chart chart;
  chart.name = "roofline";
  chart.title = held(in_bytes, fmt::format("Roofline of {}, {}; {}, d {}", sheet.name, name(peak_quantity(type)),
                                           rows_text(problem.shape), problem.shape.d));
  chart.x = {"arithmetic intensity, FLOP per byte", ChartUnit::number, true, false, {}};
  chart.y = {"TFLOP/s", ChartUnit::number, true, false, {}};
  const std::optional<double> ridge = balance(sheet, type);
  if (!ridge) {
    chart.notes.push_back(
        fmt::format("{} has no figure for its {} or its bandwidth.", sheet.name, name(peak_quantity(type))));
    return chart;
  }
  const SweepProblem whole = sweep_problem(problem.shape, structural(problem.mask));
  const TimeFloor floor = *time_floor(whole, sheet);  // its peak and bandwidth are there
  const double floor_flops = least_flops(whole);
  const double floor_intensity = floor_flops / static_cast<double>(minimum(problem.shape).bytes.total());
  double low = std::min(kSoftmaxFlopPerByte / 4, floor_intensity / 2),
         high = std::max(*ridge * 16, floor_intensity * 2);
  for (const RooflinePoint& point : points) {
    if (point.bytes > 0)
      low = std::min(low, point.flops / point.bytes / 2), high = std::max(high, point.flops / point.bytes * 2);
  }
  ChartSeries roof{"bandwidth and peak", "sheet", SeriesStyle::line, kOwnColour};
  roof.x = {low, *ridge, high};
  for (const double x : roof.x) roof.y.push_back(*attainable(sheet, type, x) / kTera);
  chart.series.push_back(std::move(roof));
  const double peak = *sheet.value(peak_quantity(type));
  const double softmax = *attainable(sheet, type, kSoftmaxFlopPerByte);
  chart.series.push_back({"softmax alone (5 FLOP an element: an assumption)",
                          "bound",
                          SeriesStyle::points,
                          kGuideColour,
                          {kSoftmaxFlopPerByte},
                          {softmax / kTera},
                          {},
                          0});
  const ChartAxis time{.label = {}, .unit = ChartUnit::seconds, .categories = {}};
  for (const RooflinePoint& point : points) {
    if (!(point.bytes > 0)) continue;
    const double intensity = point.flops / point.bytes;
    const double reached = point.seconds ? point.flops / *point.seconds : *attainable(sheet, type, intensity);
    chart.series.push_back({point.name,
                            point.seconds ? point.origin : point.origin + ", if nothing hit in the L2",
                            SeriesStyle::points,
                            rule_colour(point.algorithm),
                            {intensity},
                            {reached / kTera},
                            {},
                            point.shape});
    if (!point.seconds)
      chart.notes.push_back(fmt::format("{}: {:.4g} FLOP/byte, {} if nothing of its {} hit in the L2.", point.name,
                                        intensity, value_text(point.flops / reached, time),
                                        amount_text(point.bytes, Units::kernel)));
  }
  if (!chart.notes.empty())
    chart.notes.back() += " That is no floor: the L2 serves tiles that are read again, and measured times may be less.";
  chart.series.push_back({"the floor: Q, K, V, O once",
                          "formula, at the roof",
                          SeriesStyle::points,
                          5,
                          {floor_intensity},
                          {floor_flops / floor.seconds / kTera},
                          {},
                          0});
  chart.notes.push_back(fmt::format(
      "No kernel takes less than {} from cold caches: {} (a floor, not a prediction).", value_text(floor.seconds, time),
      floor.by_peak ? "the matrix products of the visible scores at the peak" : "Q, K, V, O once at DRAM's bandwidth"));
  chart.marks.push_back({true, *ridge, fmt::format("balance {:.0f} FLOP/byte", *ridge)});
  if (std::any_of(points.begin(), points.end(), [](const RooflinePoint& point) { return point.seconds.has_value(); }))
    chart.notes.push_back(
        "Measured points stand at the time that was measured (median of the launches); the slope is DRAM's, and "
        "L2-SM's bytes may pass it.");
  chart.notes.push_back(
      fmt::format("Softmax alone reaches at most {:.1f} % of the peak: {:.2f} FLOP/byte against {:.0f}.",
                  100 * softmax / peak, kSoftmaxFlopPerByte, *ridge));
  return chart;
}

}  // namespace flashscope
