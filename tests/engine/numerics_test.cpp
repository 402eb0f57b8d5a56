// The numerics lens: what each choice costs against float64, and where.
#include "engine/insight/numerics.h"

#include "engine/insight/nan_rows.h"
#include "support.h"

namespace flashscope::testing {
namespace {

const ErrorSource& named(const std::vector<ErrorSource>& sources, const std::string& name) {
  for (const ErrorSource& source : sources)
    if (source.name == name) return source;
  throw std::runtime_error("no source " + name);
}

TEST(Numerics, EachChoiceCostsWhatItsTypeHolds) {
  const auto problem = random_problem({1, 1, 128, 256, 48, 32, DType::float16}, 12);
  Recipe recipe;
  const auto plain = error_sources(*problem, recipe, 0);
  ASSERT_EQ(plain.size(), 2u);  // together, arithmetic
  EXPECT_EQ(plain[0].row_error, plain[1].row_error);
  EXPECT_LE(plain[0].max, 2e-6);
  EXPECT_GT(plain[0].max, 0);

  recipe.numerics.scores = DType::float16, recipe.numerics.P = DType::bfloat16;
  recipe.numerics.accumulators = DType::float16, recipe.numerics.scale = ScaleWhen::before;
  const auto sources = error_sources(*problem, recipe, 0);
  ASSERT_EQ(sources.size(), 6u);
  for (const ErrorSource& source : sources) {
    EXPECT_EQ(source.row_error.size(), 128u);
    EXPECT_EQ(source.not_finite, 0) << source.name;
    EXPECT_LE(std::abs(source.row_error[source.worst_row] - source.max), 0);
  }
  const double together = named(sources, "together").max;
  for (const char* narrow : {"scores float16", "P bfloat16", "accumulators float16", "Q scaled before the product"}) {
    EXPECT_GT(named(sources, narrow).max, 20 * named(sources, "float32 arithmetic").max) << narrow;
    EXPECT_LE(named(sources, narrow).max, 3 * together) << narrow;
  }
  EXPECT_LE(together, 0.05);
  // bfloat16 holds three bits less than float16.
  recipe.numerics = {}, recipe.numerics.P = DType::float16;
  const double half = named(error_sources(*problem, recipe, 0), "P float16").max;
  EXPECT_GT(named(sources, "P bfloat16").max, 3 * half);
}

TEST(Numerics, TheTensorCorePresetIsAsGoodAsItsElementType) {
  for (const DType type : {DType::float16, DType::bfloat16}) {
    const auto problem = random_problem({1, 1, 64, 512, 64, 64, type}, 12);
    Recipe recipe;
    recipe.numerics = tensor_core_numerics(type);
    EXPECT_EQ(recipe.numerics.P, type);
    EXPECT_LE(error_sources(*problem, recipe, 0)[0].max, 2 * ulp(type, 1));
  }
  EXPECT_EQ(tensor_core_numerics(DType::float32).P, DType::float32);
  EXPECT_EQ(numerics_text(tensor_core_numerics(DType::bfloat16)), "P bfloat16, exp2, rescaled beyond 2^8");
}

TEST(Numerics, TheTileInWhichAnErrorEntersIsNamed) {
  // Key 37 alone has a raw score beyond float16.
  Tensor Q = make_tensor(DType::float32, 1, 4, 8), K = make_tensor(DType::float32, 1, 64, 8);
  for (int r = 0; r < 4; ++r)
    for (int e = 0; e < 8; ++e) set(Q, 0, r, e, 100);
  for (int c = 0; c < 64; ++c)
    for (int e = 0; e < 8; ++e) set(K, 0, c, e, c == 37 ? 90 : 0.001 * (c % 5));
  const auto problem =
      make_problem("overflow", std::move(Q), std::move(K), make_tensor(DType::float32, 1, 64, 3), 1e-3);
  Recipe recipe;
  recipe.Br = 4, recipe.Bc = 16;
  recipe.numerics.scores = DType::float16;
  const std::vector<TileError> errors = row_errors(*problem, recipe, 0, 2);
  ASSERT_EQ(errors.size(), 4u);
  for (const TileError& error : errors) EXPECT_EQ(error.overflow, error.j == 2) << error.j;
  EXPECT_TRUE(std::isnan(errors[2].output));
  EXPECT_LE(errors[1].output, 1e-3);
  EXPECT_EQ(error_sources(*problem, recipe, 0)[0].not_finite, 4);
}

// 65504 and -65504, added up in float16: inf - inf in the first column only, and the columns after it are sound.
TEST(Numerics, ANaNInOneColumnStays) {
  Tensor Q = make_tensor(DType::float32, 1, 4, 8), K = make_tensor(DType::float32, 1, 64, 8);
  Tensor V = make_tensor(DType::float32, 1, 64, 3);
  for (int key = 0; key < 64; ++key)
    set(V, 0, key, 0, key < 32 ? 65504 : -65504), set(V, 0, key, 1, 1), set(V, 0, key, 2, 0.5);
  const auto problem = make_problem("inf - inf", std::move(Q), std::move(K), std::move(V), 1);
  Recipe recipe;
  recipe.Br = 4, recipe.Bc = 32, recipe.numerics.accumulators = DType::float16;
  const ErrorSource together = named(error_sources(*problem, recipe, 0), "together");
  EXPECT_EQ(together.not_finite, 4);
  for (const double error : together.row_error) EXPECT_FALSE(std::isfinite(error));
  const std::vector<TileError> tiles = row_errors(*problem, recipe, 0, 0);
  ASSERT_EQ(tiles.size(), 2u);
  EXPECT_FALSE(std::isfinite(tiles[1].output));
}

// Rows 16..19 and 32..39 meet a tile without a visible key first; row 3 of Q holds a NaN, in float64 too.
TEST(Numerics, NanRowsAreCountedBySide) {
  Mask causal;
  causal.causal = Causal::top_left;
  const auto random = random_problem({1, 1, 60, 60, 8, 8, DType::float32}, 3, {}, causal);
  Tensor Q = random->Q();
  set(Q, 0, 3, 0, std::nan(""));
  auto problem = std::make_shared<Problem>(*random);
  problem->q = std::make_shared<const Tensor>(std::move(Q));
  Recipe recipe;
  recipe.Br = 16, recipe.Bc = 20, recipe.order = Order::reverse, recipe.guard = Guard::none;
  for (const ErrorSource& source : error_sources(*problem, recipe, 0)) {
    EXPECT_EQ(source.nan.here, 12) << source.name;
    EXPECT_EQ(source.nan.there, 0) << source.name;
    EXPECT_EQ(source.nan.both, 1) << source.name;
    EXPECT_EQ(text(source.nan), "12 rows NaN here only, 1 row NaN in both");
  }
}

TEST(Numerics, NoTileErrorWithoutRounding) {
  const auto problem = random_problem({2, 1, 40, 90, 16, 8, DType::float64}, 3);
  Recipe recipe;
  recipe.Bc = 32;
  for (const TileError& error : row_errors(*problem, recipe, 1, 17)) {
    EXPECT_EQ(error.score, 0);
    EXPECT_EQ(error.output, 0);
    EXPECT_EQ(error.sum, 0);
  }
  recipe.numerics.rescale_threshold = 8;
  for (const TileError& error : row_errors(*problem, recipe, 1, 17)) {
    EXPECT_LE(error.output, 1e-13);
    EXPECT_LE(error.sum, 1e-13);
  }
}

}  // namespace
}  // namespace flashscope::testing
