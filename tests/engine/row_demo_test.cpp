// The online softmax of one row against the figures of the source documents.
#include "engine/attention/row_demo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/error.h"
#include "tests/place.h"

namespace flashscope {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

nlohmann::json golden() {
  std::ifstream file(source_path("tests/data/seed_figures.json"));
  return nlohmann::json::parse(file);
}

const BuiltInRow& built_in(std::string_view name) {
  for (const BuiltInRow& row : built_in_rows()) {
    if (row.name == name) return row;
  }
  throw std::out_of_range(std::string(name));
}

TEST(RowDemo, TwelveScoresInChunksOfFour) {
  const nlohmann::json figure = golden()["online_softmax_row"];
  const BuiltInRow& row = built_in("twelve");
  EXPECT_EQ(row.scores, figure["scores"].get<std::vector<double>>());
  EXPECT_EQ(row.chunk, figure["chunk"].get<int>());
  const RowDemo demo = run_row(row.scores, row.values, row.chunk);
  ASSERT_EQ(demo.chunks.size(), figure["trace"].size());
  for (std::size_t n = 0; n < demo.chunks.size(); ++n) {
    const nlohmann::json& right = figure["trace"][n];
    EXPECT_EQ(demo.chunks[n].m, right["m"].get<double>());
    EXPECT_NEAR(demo.chunks[n].l, right["l"].get<double>(), 1e-15);
    EXPECT_NEAR(demo.chunks[n].alpha, right["alpha"].get<double>(), 1e-16);
    EXPECT_NEAR(demo.chunks[n].l_without_rescale, right["l_without_rescale"].get<double>(), 1e-15);
  }
  EXPECT_NEAR(demo.max_error, figure["max_error"].get<double>(), 1e-15);
  EXPECT_NEAR(demo.max_error_without_rescale, figure["max_error_without_rescale"].get<double>(), 1e-15);
  EXPECT_FALSE(demo.output);
}

TEST(RowDemo, ToyOfTwoTiles) {
  const nlohmann::json figure = golden()["toy_two_tiles"];
  const BuiltInRow& row = built_in("toy");
  EXPECT_EQ(row.scores, figure["scores"].get<std::vector<double>>());
  EXPECT_EQ(row.values, figure["values"].get<std::vector<double>>());
  const RowDemo demo = run_row(row.scores, row.values, row.chunk);
  ASSERT_EQ(demo.chunks.size(), 2u);
  for (std::size_t n = 0; n < 2; ++n) {
    const nlohmann::json& right = figure["after"][n];
    EXPECT_EQ(demo.chunks[n].m, right["m"].get<double>());
    EXPECT_EQ(demo.chunks[n].l, right["l"].get<double>());
    EXPECT_EQ(demo.chunks[n].o, right["o"].get<double>());
  }
  EXPECT_EQ(demo.chunks[1].alpha, figure["after"][1]["alpha"].get<double>());
  ASSERT_TRUE(demo.output);
  EXPECT_NEAR(*demo.output, figure["output"].get<double>(), 1e-15);
  EXPECT_EQ(demo.output_without_rescale, 15.0);  // (10 + 20) / 2: both numerators stand as they were
}

TEST(RowDemo, ChunkSizeDoesNotChangeTheWeights) {
  const BuiltInRow& row = built_in("twelve");
  for (int chunk = 1; chunk <= 13; ++chunk) {
    EXPECT_LE(run_row(row.scores, {}, chunk).max_error, 1e-15) << "chunk " << chunk;
  }
}

TEST(RowDemo, MaskedScores) {
  const std::vector<double> scores{-kInf, -kInf, 1.0, -kInf}, values{1, 2, 3, 4};
  const RowDemo demo = run_row(scores, values, 2);
  EXPECT_EQ(demo.chunks[0].l, 0);
  EXPECT_EQ(demo.chunks[0].m, -kInf);
  EXPECT_EQ(demo.weights, (std::vector<double>{0, 0, 1, 0}));
  EXPECT_EQ(demo.output, 3.0);
  EXPECT_EQ(demo.LSE, 1.0);

  const std::vector<double> empty(3, -kInf);
  const RowDemo nothing = run_row(empty, {}, 2);
  EXPECT_EQ(nothing.LSE, -kInf);
  EXPECT_EQ(nothing.weights, (std::vector<double>{0, 0, 0}));
}

TEST(RowDemo, NanReachesTheError) {
  const std::vector<double> scores{0.0, std::nan(""), 1.0};
  const RowDemo demo = run_row(scores, {}, 1);
  EXPECT_EQ(demo.chunks[1].m, 0.0);  // the maximum ignores NaN
  EXPECT_TRUE(std::isnan(demo.chunks[2].l));
  EXPECT_TRUE(std::isnan(demo.max_error));
}

TEST(RowDemo, RefusesBadInput) {
  const std::vector<double> two{1, 2}, three{1, 2, 3};
  EXPECT_THROW(run_row({}, {}, 1), InputError);
  EXPECT_THROW(run_row(two, three, 1), InputError);
  EXPECT_THROW(run_row(two, {}, 0), InputError);
}

}  // namespace
}  // namespace flashscope
