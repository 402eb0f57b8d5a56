// The figures that the source documents print, and real attention inputs with their right answers.
#include <cmath>

#include "engine/attention/ledger.h"
#include "engine/attention/scan.h"
#include "engine/files/problem_file.h"
#include "engine/insight/diagnosis.h"
#include "support.h"

namespace flashscope::testing {
namespace {

std::shared_ptr<const Problem> load(const std::string& path, Causal causal, std::optional<std::int64_t> head = {}) {
  ProblemFiles files;
  files.input = source_path(path);
  files.causal = causal;
  files.head = head;
  return load_problem(files).problem;
}

std::shared_ptr<const Problem> reverse_causal_problem() {
  Mask mask;
  mask.causal = Causal::top_left;
  return random_problem(Shape{1, 1, 300, 300, 16, 16, DType::float32}, 1, {}, mask);
}

Recipe reverse_causal_recipe(Algorithm algorithm) {
  Recipe recipe;
  recipe.algorithm = algorithm, recipe.order = Order::reverse, recipe.guard = Guard::none;
  recipe.Br = 64, recipe.Bc = 100;
  return recipe;
}

TEST(Golden, reverse_causal_nan) {
  const Json golden = read_json("tests/data/seed_figures.json")["reverse_causal_nan"];
  const auto rows = golden["rows"].get<std::vector<std::int64_t>>();
  const auto problem = reverse_causal_problem();
  for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2}) {
    const Recipe recipe = reverse_causal_recipe(algorithm);
    ASSERT_EQ(recipe.Br, golden["Br"].get<std::int64_t>());
    const Diagnosis diagnosis = diagnose(problem, recipe);
    EXPECT_EQ(diagnosis.nan_rows, one_head(rows)) << text(recipe);
    EXPECT_EQ(run(*problem, recipe).nan_row_count, golden["count"].get<std::int64_t>());
    EXPECT_TRUE(diagnosis.empty_rows[0].empty());
    ASSERT_TRUE(diagnosis.first_nan);
    EXPECT_EQ(diagnosis.first_nan->stage, Stage::exponentials);
    EXPECT_EQ(diagnosis.first_nan->cause, Cause::inf_minus_inf);
    // flash2 meets row block 1 first, in its column block 1; flash1 goes through column block 2 first and
    // there meets rows 192-199 of row block 3, which see none of the keys from 200 on.
    const bool columns_outside = algorithm == Algorithm::flash1;
    EXPECT_EQ(diagnosis.first_nan->i, columns_outside ? 3 : 1);
    EXPECT_EQ(diagnosis.first_nan->j, columns_outside ? 2 : 1);
    EXPECT_EQ(diagnosis.first_nan->row, columns_outside ? 192 : 64);
  }
}

TEST(Golden, reverse_causal_nan_depends_on_skip_guard_and_numerators) {
  const auto problem = reverse_causal_problem();
  for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2}) {
    Recipe recipe = reverse_causal_recipe(algorithm);
    recipe.skip = Skip::none;
    EXPECT_EQ(run(*problem, recipe).nan_row_count, 200) << text(recipe);
    for (const Guard guard : {Guard::clamp, Guard::skip}) {
      for (const Skip skip : {Skip::geometry, Skip::none}) {
        recipe.guard = guard, recipe.skip = skip;
        EXPECT_EQ(run(*problem, recipe).nan_row_count, 0) << text(recipe);
        EXPECT_FALSE(diagnose(problem, recipe).first_nan) << text(recipe);
      }
    }
    recipe.skip = Skip::geometry, recipe.guard = Guard::none;
    recipe.order = Order::forward;
    EXPECT_EQ(run(*problem, recipe).nan_row_count, 0) << text(recipe);
    recipe.numerators = Numerators::tile;
    EXPECT_EQ(run(*problem, recipe).nan_row_count, 44) << text(recipe);
  }
}

// The printed form of the first paper's Algorithm 1 without its correction.
TEST(Golden, tile_max_instead_of_running_max) {
  const Json golden = read_json("tests/data/seed_figures.json")["tile_max_instead_of_running_max"];
  const auto problem = load("tests/data/tile_max.npz", Causal::none);
  Recipe recipe;
  recipe.Br = 64, recipe.Bc = golden["B"];
  const Report right = run(*problem, recipe);
  recipe.defect = Defect::tile_max;
  const Report wrong = run(*problem, recipe);
  double max_error = 0;
  std::int64_t rows_off = 0;
  const std::int64_t dv = problem->shape().dv;
  for (std::int64_t r = 0; r < problem->shape().Nq; ++r) {
    double row_error = 0;
    for (std::int64_t x = 0; x < dv; ++x) {
      const double error = std::abs(wrong.O[r * dv + x] - right.O[r * dv + x]);
      ASSERT_FALSE(std::isnan(error));
      row_error = std::max(row_error, error);
    }
    max_error = std::max(max_error, row_error);
    rows_off += row_error > 1e-6;
  }
  EXPECT_LE(std::abs(max_error - golden["max_error"].get<double>()), 1e-12);
  EXPECT_EQ(rows_off, golden["rows_off_by_more_than_1e-6"].get<std::int64_t>());
}

TEST(Golden, first_demo) {
  const Json golden = read_json("tests/data/first_demo.json");
  const auto problem = load("assets/codelm_layer1.npz", Causal::top_left, golden["head"].get<std::int64_t>());
  ASSERT_EQ(problem->scale, golden["scale"].get<double>());
  for (const Json& line : golden["runs"]) {
    Recipe recipe;
    recipe.Br = line["Br"], recipe.Bc = line["Bc"];
    recipe.order = parse<Order>(line["order"].get<std::string>());
    recipe.guard = parse<Guard>(line["guard"].get<std::string>());
    const Diagnosis diagnosis = diagnose(problem, recipe);
    EXPECT_EQ(diagnosis.nan_rows[0].size(), line["nan_rows"].get<std::size_t>()) << line;
    Scan scan(problem, recipe, 0);
    scan.wait();
    EXPECT_EQ(scan.totals().rescale, line["rescales"].get<std::int64_t>()) << line;
    EXPECT_EQ(scan.totals().nan, line["nan_rows"].get<std::int64_t>()) << line;
    const Schedule schedule(problem->shape(), problem->mask, recipe);
    EXPECT_EQ(schedule.tiles(), line["tiles_visited"].get<std::int64_t>()) << line;
    EXPECT_EQ(counted(schedule).bytes.total().total(), line["bytes"].get<std::int64_t>()) << line;
    ASSERT_EQ(diagnosis.first_nan.has_value(), line.contains("first_nan")) << line;
    if (diagnosis.first_nan) {
      const FirstNan& first = *diagnosis.first_nan;
      EXPECT_EQ((Json{{"i", first.i},
                      {"j", first.j},
                      {"row", first.row},
                      {"stage", name(first.stage)},
                      {"cause", name(first.cause)}}),
                line["first_nan"]);
      EXPECT_EQ(schedule.step(first.step - 1).stage, first.stage);
    }
  }
}

// A trained causal model's attention inputs: every head, by every algorithm, against the file's answer.
class RealInput : public ::testing::TestWithParam<std::string> {};

TEST_P(RealInput, every_head_and_algorithm) {
  const auto problem = load(GetParam(), Causal::top_left);
  const Shape shape = problem->shape();
  ASSERT_EQ(shape, (Shape{4, 2, 1024, 1024, 64, 64, DType::float16}));
  ASSERT_TRUE(problem->given_O && problem->given_LSE);

  // Twice plain attention's own error in that precision, and 2 ulp of max |V|.
  std::vector<double> plain(shape.Nq * shape.dv);
  double plain_error = 0, max_V = 0;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    plain_rows(*problem, h, 0, shape.Nq, {}, plain.data());
    for (std::int64_t n = 0; n < shape.Nq * shape.dv; ++n)
      plain_error = std::max(plain_error, std::abs(plain[n] - problem->given_O->at(h, n / shape.dv, n % shape.dv)));
  }
  for (const float v : problem->V().f32) max_V = std::max<double>(max_V, std::abs(v));
  const double tolerance = 2 * plain_error + 2 * ulp(shape.type, max_V);

  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash1, Algorithm::flash2}) {
    for (const Order order : {Order::forward, Order::reverse}) {
      if (algorithm == Algorithm::standard && order == Order::reverse) continue;
      Recipe recipe;
      recipe.algorithm = algorithm, recipe.order = order;
      recipe.Br = 128, recipe.Bc = 64;
      const Report report = run_on_cpu(*problem, recipe);
      EXPECT_EQ(report.nan_row_count, 0) << text(recipe);
      ASSERT_TRUE(report.error);
      EXPECT_TRUE(report.error->within()) << text(recipe) << " " << report.error->max;
      double o_error = 0, lse_error = 0;
      for (std::int64_t n = 0; n < static_cast<std::int64_t>(report.O.size()); ++n) {
        const std::int64_t h = n / (shape.Nq * shape.dv), r = n / shape.dv % shape.Nq;
        const double error = std::abs(report.O[n] - problem->given_O->at(h, r, n % shape.dv));
        ASSERT_FALSE(std::isnan(error));
        o_error = std::max(o_error, error);
      }
      for (std::int64_t n = 0; n < static_cast<std::int64_t>(report.LSE.size()); ++n) {
        const double error = std::abs(report.LSE[n] - problem->given_LSE->at(n / shape.Nq, n % shape.Nq, 0));
        ASSERT_FALSE(std::isnan(error));
        lse_error = std::max(lse_error, error);
      }
      EXPECT_LE(o_error, tolerance) << text(recipe);
      EXPECT_LE(lse_error, 1e-5) << text(recipe);  // float32 at |LSE| up to 32
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Codelm, RealInput,
                         ::testing::Values("assets/codelm_layer1.npz", "tests/data/codelm_layer3.npz"),
                         [](const auto& info) { return info.index == 0 ? "layer1" : "layer3"; });

}  // namespace
}  // namespace flashscope::testing
