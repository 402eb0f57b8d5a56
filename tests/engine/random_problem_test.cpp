// Random problems drawn as long work: the same numbers, with progress, and stopped half way.
#include "engine/attention/random_problem.h"

#include <gtest/gtest.h>

#include "engine/error.h"

namespace flashscope {
namespace {

TEST(RandomProblem, PiecesAreTheSequence) {
  const Shape shape{.heads = 2, .kv_heads = 1, .Nq = 3000, .Nk = 1111, .d = 17, .dv = 5, .type = DType::float64};
  std::int64_t last = 0, total = 0, calls = 0;
  const auto problem = random_problem(shape, 9, {}, {}, {}, [&](std::int64_t done, std::int64_t of) {
    EXPECT_GT(done, last);
    last = done, total = of, ++calls;
  });
  const std::int64_t q = problem->Q().size(), k = problem->K().size(), v = problem->V().size();
  EXPECT_EQ(total, q + k + v);
  EXPECT_EQ(last, total);
  EXPECT_GE(calls, 4);  // Q alone is more than one piece
  for (std::int64_t n = 0; n < q; ++n) ASSERT_EQ(problem->Q().f64[n], random_normal(9, n)) << n;
  for (std::int64_t n = 0; n < k; ++n) ASSERT_EQ(problem->K().f64[n], random_normal(9, q + n)) << n;
  for (std::int64_t n = 0; n < v; ++n) ASSERT_EQ(problem->V().f64[n], random_normal(9, q + k + n)) << n;
}

TEST(RandomProblem, IsStoppedBetweenPieces) {
  const Shape shape{.Nq = 1 << 17, .Nk = 1 << 17, .d = 8, .dv = 8};
  std::stop_source stop;
  std::int64_t drawn = 0;
  const auto half = [&](std::int64_t done, std::int64_t total) {
    drawn = done;
    if (done >= total / 8) stop.request_stop();
  };
  EXPECT_THROW(random_problem(shape, 1, {}, {}, stop.get_token(), half), Cancelled);
  EXPECT_GT(drawn, 0);
  EXPECT_LT(drawn, 3 * (std::int64_t{1} << 20));
}

}  // namespace
}  // namespace flashscope
