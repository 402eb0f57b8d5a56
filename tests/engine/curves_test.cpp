#include "engine/insight/curves.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <tuple>

#include "engine/insight/measured_chart.h"
#include "support.h"
#include "tests/measured_points.h"

namespace flashscope::testing {
namespace {

using ::testing::HasSubstr;

CurveProblem problem_of(std::int64_t N, std::int64_t d, Units units = Units::source) {
  CurveProblem problem;
  problem.shape = {1, 1, N, N, d, d, DType::float16};
  problem.units = units;
  return problem;
}

const ChartSeries& series(const Chart& chart, std::string_view name) {
  for (const ChartSeries& one : chart.series)
    if (one.name == name) return one;
  throw std::runtime_error("no such series: " + std::string(name));
}

double at(const ChartSeries& series, double x) {
  for (std::size_t n = 0; n < series.x.size(); ++n)
    if (series.x[n] == x) return series.y[n];
  return std::nan("");
}

void expect_told_apart(const Chart& chart);

void expect_drawable(const Chart& chart) {
  EXPECT_FALSE(chart.name.empty());
  EXPECT_FALSE(chart.title.empty());
  ASSERT_FALSE(chart.series.empty()) << chart.name;
  for (const ChartSeries& one : chart.series) {
    EXPECT_FALSE(one.origin.empty()) << one.name;
    ASSERT_EQ(one.x.size(), one.y.size()) << one.name;
    ASSERT_FALSE(one.x.empty()) << one.name;
    for (const double y : one.y) {
      EXPECT_TRUE(std::isfinite(y)) << one.name;
      EXPECT_TRUE(!chart.y.logarithmic || y > 0) << one.name;
    }
  }
  EXPECT_GE(ticks(extent(chart, false).first, extent(chart, false).second, chart.y).size(), 2u) << chart.name;
  const std::string picture = svg(chart);
  EXPECT_TRUE(picture.ends_with("</svg>\n"));
  EXPECT_EQ(picture.find("nan"), picture.npos) << chart.name;
  EXPECT_EQ(picture.find("inf,"), picture.npos) << chart.name;
}

TEST(Curves, break_even_of_the_documents) {
  const Json golden = read_json("tests/data/seed_figures.json")["break_even_M"];
  const CurveProblem source = problem_of(4096, 64), kernel = problem_of(4096, 64, Units::kernel);
  const BreakEven found = break_even(source, Algorithm::flash1).value();
  EXPECT_EQ(found.M, golden["M"].get<std::int64_t>());
  EXPECT_EQ(found.M, 12289);
  EXPECT_EQ(found.Bc, golden["Bc"].get<std::int64_t>());
  EXPECT_EQ(found.tiled, golden["flash1"].get<double>());
  EXPECT_EQ(found.standard, golden["standard"].get<double>());
  EXPECT_EQ(static_cast<double>(found.M) * 2 / 1024, golden["KiB_at_2_bytes"].get<double>());
  EXPECT_EQ(break_even(source, Algorithm::flash2)->M, 7937);
  EXPECT_EQ(break_even(kernel, Algorithm::flash1)->M, 20737);
  // One element less is not enough.
  Recipe recipe;
  recipe.algorithm = Algorithm::flash1;
  const Recipe before = recipe_for_budget(recipe, source.shape, 12288);
  EXPECT_GT(traffic(source.shape, {}, before, Units::source), found.standard);
  EXPECT_FALSE(break_even(problem_of(8, 64), Algorithm::flash1));  // S is smaller than Q there
}

TEST(Curves, traffic_against_the_budget_is_the_documents_table) {
  const CurveProblem problem = problem_of(4096, 64);
  const Chart chart = traffic_against_budget(problem, 12500, 200000);
  expect_drawable(chart);
  const ChartSeries& flash1 = series(chart, "flash1, paper's rule");
  const Json figures = read_json("tests/data/seed_figures.json");
  for (const Json& line : figures["traffic_vs_M"])
    EXPECT_EQ(at(flash1, line["M"]), line["flash1_elements"].get<double>()) << line;
  EXPECT_EQ(at(series(chart, "Theta(N^2 d^2 / M)"), 50000), at(flash1, 50000));
  ASSERT_EQ(chart.marks.size(), 3u);  // in both units, each place once
  EXPECT_EQ(chart.marks[0].at, 12289);
  EXPECT_EQ(chart.marks[0].label, "flash1 breaks even: 12,289, source units");
  EXPECT_EQ(chart.marks[1].at, 7937);
  EXPECT_EQ(chart.marks[1].label, "flash2 breaks even: 7,937, source units and kernel units, float16");
  EXPECT_EQ(chart.marks[2].at, 20737);
  EXPECT_EQ(chart.marks[2].label, "flash1 breaks even: 20,737, kernel units, float16");
  const std::string table = csv(chart);
  EXPECT_THAT(table, HasSubstr("# flash1 breaks even with standard attention at M = 12,289 elements, 24 KiB ("));
  EXPECT_THAT(table,
              HasSubstr("# flash1 breaks even with standard attention at M = 20,737 elements, 40.5 KiB (kernel"));
  EXPECT_THAT(table, HasSubstr("# flash1, paper's rule: formula: a closed form of the tiled loops\n"));
  EXPECT_THAT(table, HasSubstr("\n\"flash1, paper's rule\",formula,50000,17383424\n"));
}

TEST(Curves, growth_is_quadratic_with_a_smaller_constant) {
  const CurveProblem problem = problem_of(4096, 64);
  const Chart chart = traffic_against_n(problem, 1024, 8192);
  expect_drawable(chart);
  const ChartSeries& flash1 = series(chart, "flash1, paper's rule");
  const Json figures = read_json("tests/data/seed_figures.json");
  for (const Json& line : figures["traffic"]) {
    const double N = line["N"];
    if (line["causal"] || std::isnan(at(flash1, N))) continue;
    EXPECT_EQ(at(flash1, N), line["flash1_elements"].get<double>());
    EXPECT_EQ(at(series(chart, "flash2, paper's rule"), N), line["flash2_elements"].get<double>());
    EXPECT_EQ(at(series(chart, "standard"), N), line["standard_elements"].get<double>());
  }
  EXPECT_THAT(chart.notes.at(0), HasSubstr("grows 3.94x, an exponent of 1.98"));
}

TEST(Curves, standard_that_is_explored_is_one_curve) {
  CurveProblem problem = problem_of(4096, 64, Units::kernel);
  problem.recipe.algorithm = Algorithm::standard;
  Chart chart = traffic_against_n(problem, 256, 1 << 20);
  expect_drawable(chart);
  expect_told_apart(chart);
  EXPECT_EQ(chart.series.size(), 4u);
}

TEST(Curves, orders_at_the_same_footprint) {
  const CurveProblem problem = problem_of(4096, 64);
  const auto costs = compare_orders(problem);
  EXPECT_EQ(costs[0].traffic, 17383424);
  EXPECT_EQ(costs[1].traffic, 34082816);
  EXPECT_EQ(costs[2].traffic, 11538432);
  for (const OrderCost& cost : costs) EXPECT_EQ(cost.tile_elements, costs[0].tile_elements);
  EXPECT_EQ(costs[2].recipe.Br, 196);
  const Chart chart = orders_chart(problem);
  expect_drawable(chart);
  EXPECT_THAT(chart.notes.at(2), HasSubstr("K and V are read 21 times in place of 64"));
}

TEST(Curves, unfused_passes_explain_the_papers_ratio) {
  const Chart chart = unfused_chart(problem_of(4096, 64));
  expect_drawable(chart);
  const std::vector<double>& y = chart.series.at(0).y;
  EXPECT_EQ(y.at(0), 17383424);
  EXPECT_EQ(y.at(1), 68157440);
  for (int pass = 1; pass <= 3; ++pass) EXPECT_EQ(y.at(1 + pass) - y.at(pass), 2.0 * 4096 * 4096);
  EXPECT_THAT(chart.notes.at(0), HasSubstr("3.9x"));
  EXPECT_THAT(chart.notes.at(0), HasSubstr("9.7x"));
}

TEST(Curves, saving_is_split_into_tiling_and_skipping) {
  CurveProblem problem = problem_of(4096, 64);
  problem.mask.causal = Causal::top_left;
  problem.recipe.Br = 128, problem.recipe.Bc = 64;
  const Chart chart = saving_chart(problem);
  expect_drawable(chart);
  const Saving split = saving(Schedule(problem.shape, problem.mask, problem.recipe));
  EXPECT_EQ(chart.series.at(0).y,
            (std::vector<double>{static_cast<double>(split.standard), static_cast<double>(split.by_tiling()),
                                 static_cast<double>(split.by_skipping()), static_cast<double>(split.run)}));
}

TEST(Curves, footprints_of_the_documents) {
  const Chart chart = footprint_chart(problem_of(4096, 64));
  expect_drawable(chart);
  const Json figures = read_json("tests/data/seed_figures.json");
  for (const Json& line : figures["score_matrix_bytes"]) {
    EXPECT_EQ(at(series(chart, "Q, K, V, O"), line["N"]), line["qkvo"].get<double>());
    EXPECT_EQ(at(series(chart, "S + P"), line["N"]), line["S_plus_P"].get<double>());
  }
  EXPECT_EQ(series(chart, "S + P").x.back(), 1 << 20);
  EXPECT_EQ(at(series(chart, "LSE kept for backward"), 1024), 4 * 1024);
  const Chart interview = footprint_chart(problem_of(8192, 128));
  EXPECT_THAT(interview.notes.back(), HasSubstr("8 MiB (8,388,608 B)"));
  EXPECT_THAT(interview.notes.back(), HasSubstr("520 MiB (545,259,520 B): 65x"));
  const Chart floor = footprint_chart(problem_of(8192, 128), &sheet_named("H100 SXM"));
  EXPECT_THAT(floor.notes.back(), HasSubstr("3.35 TB/s [sheet]"));
  EXPECT_THAT(floor.notes.back(), HasSubstr("0.163 ms: a floor, not a prediction"));
}

TEST(Curves, roofline_of_a_sheet) {
  CurveProblem problem = problem_of(8192, 128, Units::kernel);
  problem.recipe.algorithm = Algorithm::standard;
  RooflinePoint measured = roofline_point(problem, Algorithm::flash2);
  measured.name = "measured", measured.origin = "measured", measured.seconds = 1e-3;
  const Chart chart =
      roofline(sheet_named("H100 SXM"), problem, {roofline_point(problem, Algorithm::standard), measured});
  expect_drawable(chart);
  EXPECT_DOUBLE_EQ(chart.marks.at(0).at, 989.5e12 / 3.35e12);
  EXPECT_DOUBLE_EQ(series(chart, "standard").x.at(0), 34359738368.0 / 545259520.0);
  EXPECT_EQ(series(chart, "standard").origin, "formula, if nothing hit in the L2");
  EXPECT_THAT(chart.notes.at(0), HasSubstr("162.8 us if nothing of its 520 MiB"));
  EXPECT_THAT(chart.notes.at(0), HasSubstr("no floor"));
  const ChartSeries& floor = series(chart, "the floor: Q, K, V, O once");
  EXPECT_DOUBLE_EQ(floor.x.at(0), 34359738368.0 / 8388608.0);
  EXPECT_DOUBLE_EQ(floor.y.at(0), 989.5);
  EXPECT_THAT(chart.notes.at(1), HasSubstr("No kernel takes less than 34.72 us"));
  EXPECT_THAT(chart.notes.at(1), HasSubstr("a floor, not a prediction"));
  EXPECT_DOUBLE_EQ(series(chart, "measured").y.at(0), measured.flops / 1e-3 / 1e12);
  // The documents' A100: balance 153, softmax under 1 % of the peak.
  problem.shape.type = DType::bfloat16;
  const Chart a100 = roofline(sheet_named("A100 80GB"), problem, {});
  EXPECT_EQ(a100.marks.at(0).label, "balance 153 FLOP/byte");
  EXPECT_THAT(a100.notes.back(), HasSubstr("at most 0.8 % of the peak: 1.25 FLOP/byte against 153"));
  // A peak that no source gives is said to be missing.
  const Chart t4 = roofline(sheet_named("T4"), problem, {});
  EXPECT_TRUE(t4.series.empty());
  EXPECT_THAT(t4.notes.at(0), HasSubstr("no figure"));
}

TEST(Curves, against_d_and_under_a_mask_from_a_file) {
  CurveProblem problem = problem_of(1024, 64);
  expect_drawable(traffic_against_d(problem));
  problem.mask.keep = std::make_shared<const KeepMask>(make_keep_mask(1, 1024, 1024));
  problem.recipe.skip = Skip::all;
  expect_drawable(traffic_against_n(problem, 256, 2048));  // structural masks alone have a size of any N
  expect_drawable(saving_chart(problem));
}

// ---- how a chart looks

// Lightness and hue as eyes tell them apart (CIE 1976), of a colour seen through `eye`.
std::array<double, 3> lab(std::string_view colour, const std::array<std::array<double, 3>, 3>& eye) {
  std::array<double, 3> light{};
  for (std::size_t n = 0; n < 3; ++n) {
    const double value = std::stoi(std::string(colour.substr(1 + 2 * n, 2)), nullptr, 16) / 255.0;
    light[n] = value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  }
  const auto times = [](const std::array<std::array<double, 3>, 3>& m, const std::array<double, 3>& v) {
    std::array<double, 3> result{};
    for (std::size_t row = 0; row < 3; ++row) result[row] = m[row][0] * v[0] + m[row][1] * v[1] + m[row][2] * v[2];
    return result;
  };
  std::array<double, 3> seen = times(eye, light);
  for (double& value : seen) value = std::clamp(value, 0.0, 1.0);
  const std::array<double, 3> xyz =
      times({{{0.4124, 0.3576, 0.1805}, {0.2126, 0.7152, 0.0722}, {0.0193, 0.1192, 0.9505}}}, seen);
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = f(xyz[0] / 0.9505), y = f(xyz[1]), z = f(xyz[2] / 1.089);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

TEST(ChartData, colours_are_told_apart_by_all_eyes) {
  // Protanopia, deuteranopia, tritanopia by Machado, Oliveira and Fernandes (2009), on linear light.
  constexpr std::array<std::array<std::array<double, 3>, 3>, 4> eyes{
      {{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
       {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}},
       {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}},
       {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}}}};
  for (const bool dark : {false, true})
    for (const auto& eye : eyes)
      for (int a = 0; a < kChartColours; ++a)
        for (int b = 0; b < a; ++b) {
          const std::array<double, 3> one = lab(chart_colour(a, dark), eye), other = lab(chart_colour(b, dark), eye);
          EXPECT_GE(std::hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]), 10)  // 2.3: barely seen
              << chart_colour(a, dark) << ' ' << chart_colour(b, dark);
        }
}

// Every name once, and no two series that look the same; curves also in black and white.
void expect_told_apart(const Chart& chart) {
  const auto look = [&](std::size_t n) {
    const ChartSeries& one = chart.series[n];
    const std::span<const double> dashes = chart_dashes(one);
    const bool points = one.style == SeriesStyle::points;
    return std::tuple(points, points ? one.colour : 0, points ? marker_shape(one, n) : -1,
                      std::vector<double>(dashes.begin(), dashes.end()));
  };
  for (std::size_t a = 0; a < chart.series.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      EXPECT_NE(chart.series[a].name, chart.series[b].name) << chart.name;
      EXPECT_TRUE(look(a) != look(b)) << chart.name << ": " << chart.series[a].name << ", " << chart.series[b].name;
    }
  for (std::size_t n = 0; n < chart.marks.size(); ++n)
    for (std::size_t other = 0; other < n; ++other) EXPECT_NE(chart.marks[n].label, chart.marks[other].label);
  // An origin stands above its series once.
  std::set<std::string> origins;
  for (std::size_t n = 0; n < chart.series.size(); ++n)
    EXPECT_TRUE(!begins_origin(chart, n) || origins.insert(chart.series[n].origin).second) << chart.name;
}

// tests/baselines/charts: FLASHSCOPE_UPDATE_BASELINES=1 draws them anew; look at each before you commit it.
TEST(Curves, pictures_are_as_they_were) {
  CurveProblem problem = problem_of(4096, 64);
  CurveProblem causal = problem;
  causal.mask.causal = Causal::top_left;
  CurveProblem interview = problem_of(8192, 128, Units::kernel);
  // Measured points, made by hand: on the curves, and a figure of theirs alone.
  CurveProblem bytes = problem_of(4096, 64, Units::kernel);
  bytes.recipe.Br = 128, bytes.recipe.Bc = 64;
  MeasuredSweep sweep{measured_on_h200(), "2026-11-30T13:00:00Z", "0.1.0", 1, {}};
  for (std::int64_t N = 1024; N <= 131072; N *= 2) {
    MeasuredPoint asked = asked_point(bytes.shape, 128, 64);
    asked.shape.Nq = asked.shape.Nk = N;
    sweep.points.push_back(measured_point(asked));
  }
  sweep.points.back().gpu->measured->dram_read *= 3;  // there the L2 has ended
  Chart on_curves = traffic_against_n(bytes, 256, 1 << 20);
  mark_l2(on_curves, bytes.shape, *sheet_named("H200").value(Quantity::l2), "H200");
  add_measured(on_curves, Along::N, bytes, sweep);
  on_curves.name += "-measured";
  EXPECT_THAT(on_curves.notes.back(), HasSubstr("That ends by N = 131,072"));
  std::vector<RooflinePoint> reached{roofline_point(bytes, Algorithm::standard),
                                     roofline_point(bytes, Algorithm::flash2)};
  for (const RooflinePoint& point : measured_roofline(bytes, {&sweep.points[2]})) reached.push_back(point);
  Chart measured_roof = roofline(sheet_named("H200"), bytes, reached);
  measured_roof.name += "-measured";
  const std::vector<Chart> charts{
      on_curves,
      measured_roof,
      measured_against(Along::N, Gauge::seconds, bytes, sweep),
      traffic_against_n(problem, 256, 1 << 20),
      traffic_against_budget(problem, 2048, 1 << 18),
      traffic_against_d(problem),
      orders_chart(problem),
      unfused_chart(problem),
      saving_chart(causal),
      footprint_chart(interview),
      roofline(sheet_named("A100 80GB"), interview,
               {roofline_point(interview, Algorithm::standard), roofline_point(interview, Algorithm::flash1),
                roofline_point(interview, Algorithm::flash2)})};
  for (const Chart& chart : charts) {
    expect_told_apart(chart);
    const std::string path = source_path("tests/baselines/charts/" + chart.name + ".svg");
    const std::string picture = svg(chart);
    if (std::getenv("FLASHSCOPE_UPDATE_BASELINES")) {
      std::ofstream(path, std::ios::binary) << picture;
      continue;
    }
    std::ifstream file(path, std::ios::binary);
    const std::string expected{std::istreambuf_iterator<char>(file), {}};
    EXPECT_FALSE(expected.empty()) << path;
    // Not EXPECT_EQ: it would print both.
    EXPECT_TRUE(picture == expected) << chart.name << " is drawn another way";
  }
}

TEST(ChartData, ticks_are_round_and_texts_short) {
  const ChartAxis bytes{"", ChartUnit::bytes, true, true, {}}, decimal{"", ChartUnit::number, true, false, {}};
  const ChartAxis linear{"", ChartUnit::number, false, false, {}};
  EXPECT_EQ(ticks(1000, 70000, {"", ChartUnit::number, true, true, {}}),
            (std::vector<double>{1024, 2048, 4096, 8192, 16384, 32768, 65536}));
  EXPECT_EQ(ticks(0, 10, linear, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(0.5, 2000, decimal), (std::vector<double>{1, 10, 100, 1000}));
  EXPECT_TRUE(ticks(1, 1, linear).empty());
  EXPECT_TRUE(ticks(0, std::numeric_limits<double>::infinity(), linear).empty());
  EXPECT_EQ(tick_text(65536, bytes), "64 KiB");
  EXPECT_EQ(tick_text(1e12, decimal), "10^12");
  EXPECT_EQ(tick_text(1500, linear), "1500");
  EXPECT_EQ(value_text(17383424, linear), "17,383,424");
  EXPECT_EQ(value_text(34766848, bytes), "33.16 MiB (34,766,848 B)");
  EXPECT_EQ(value_text(std::nan(""), linear), "none");
}

}  // namespace
}  // namespace flashscope::testing
