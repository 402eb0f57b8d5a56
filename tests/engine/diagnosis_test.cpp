// Every cause of a NaN, put into a small problem, is found where it was put.
#include "engine/insight/diagnosis.h"

#include <functional>

#include "engine/insight/provenance.h"
#include "support.h"

namespace flashscope::testing {
namespace {

const double kNan = std::nan("");
const double kInf = std::numeric_limits<double>::infinity();

struct Inputs {
  Tensor Q, K, V;
  Mask mask;
};

// Nq = Nk = 12, d = dv = 3; blocks 4 x 3. Values away from 0, so that no score vanishes by chance.
std::shared_ptr<const Problem> problem_with(const std::function<void(Inputs&)>& change, DType type = DType::float32) {
  const auto base = random_problem(Shape{1, 1, 12, 12, 3, 3, type}, 5);
  Inputs inputs{base->Q(), base->K(), base->V(), {}};
  change(inputs);
  return make_problem("changed", inputs.Q, inputs.K, inputs.V, {}, inputs.mask);
}

Recipe recipe_of(Algorithm algorithm, Guard guard = Guard::clamp) {
  Recipe recipe;
  recipe.algorithm = algorithm, recipe.guard = guard;
  recipe.Br = 4, recipe.Bc = 3;
  return recipe;
}

constexpr Algorithm kAlgorithms[] = {Algorithm::standard, Algorithm::flash1, Algorithm::flash2};

struct Expected {
  std::int64_t row = 0, key = -1;
  Stage stage = Stage::scores;
  Cause cause = Cause::q_nan;
};

void expect_first(const std::shared_ptr<const Problem>& problem, const Recipe& recipe, const Expected& expected) {
  const Diagnosis diagnosis = diagnose(problem, recipe, 1);
  ASSERT_TRUE(diagnosis.first_nan) << text(recipe);
  const FirstNan& first = *diagnosis.first_nan;
  EXPECT_EQ(first.row, expected.row) << text(recipe);
  EXPECT_EQ(first.key, expected.key) << text(recipe);
  EXPECT_EQ(name(first.stage), name(expected.stage)) << text(recipe);
  EXPECT_EQ(name(first.cause), name(expected.cause)) << text(recipe);
  EXPECT_EQ(first.i, expected.row / recipe.Br) << text(recipe);
  if (recipe.algorithm != Algorithm::standard && first.key >= 0) {
    EXPECT_EQ(first.j, first.key / recipe.Bc);
  }

  // The place and the step are the same place.
  const Schedule schedule(problem->shape(), problem->mask, recipe);
  const Step step = schedule.step(first.step - 1);
  EXPECT_EQ(step.stage, first.stage);
  EXPECT_EQ(step.i, first.i);
  EXPECT_EQ(step.j, first.j);

  // The column named is NaN in the end.
  const Question question{CellKind::O, first.head, first.row, first.column, {}};
  EXPECT_TRUE(std::isnan(why(*problem, schedule, question).links.front().value)) << text(recipe);

  // The row alone gives the same answer.
  const auto alone = first_nan_of_rows(*problem, schedule, 0, std::span(&first.row, 1));
  ASSERT_TRUE(alone) << text(recipe);
  EXPECT_EQ(alone->step, first.step);
  EXPECT_EQ(alone->cause, first.cause);
}

TEST(Diagnosis, clean_problem_has_none) {
  const auto problem = problem_with([](Inputs&) {});
  for (const Algorithm algorithm : kAlgorithms) {
    const Diagnosis diagnosis = diagnose(problem, recipe_of(algorithm), 1);
    EXPECT_FALSE(diagnosis.first_nan);
    EXPECT_TRUE(diagnosis.nan_rows[0].empty());
    const std::int64_t rows[] = {0, 3};
    const Schedule schedule(problem->shape(), problem->mask, recipe_of(algorithm));
    EXPECT_FALSE(first_nan_of_rows(*problem, schedule, 0, rows));
  }
}

TEST(Diagnosis, q_nan) {
  const auto problem = problem_with([](Inputs& in) { set(in.Q, 0, 6, 1, kNan); });
  for (const Algorithm algorithm : kAlgorithms) {
    expect_first(problem, recipe_of(algorithm), {6, 0, Stage::scores, Cause::q_nan});
    EXPECT_EQ(diagnose(problem, recipe_of(algorithm), 1).nan_rows[0], std::vector<std::int64_t>{6});
  }
}

TEST(Diagnosis, k_nan_reaches_only_rows_that_see_it) {
  const auto problem = problem_with([](Inputs& in) {
    set(in.K, 0, 7, 2, kNan);
    in.mask.causal = Causal::top_left;
  });
  for (const Algorithm algorithm : kAlgorithms) {
    expect_first(problem, recipe_of(algorithm), {7, 7, Stage::scores, Cause::k_nan});
    EXPECT_EQ(diagnose(problem, recipe_of(algorithm), 1).nan_rows[0], (std::vector<std::int64_t>{7, 8, 9, 10, 11}));
  }
}

// The key is masked for every row: with select it does no harm, with add it reaches all that meet it.
TEST(Diagnosis, k_nan_under_the_mask) {
  const auto problem = problem_with([](Inputs& in) {
    set(in.K, 0, 11, 0, kNan);
    KeepMask keep = make_keep_mask(1, 1, 12);
    for (int c = 0; c < 11; ++c) set_keep(keep, 0, 0, c);
    in.mask.keep = std::make_shared<const KeepMask>(std::move(keep));
  });
  for (const Algorithm algorithm : kAlgorithms) {
    Recipe recipe = recipe_of(algorithm);
    EXPECT_FALSE(diagnose(problem, recipe, 1).first_nan) << text(recipe);
    recipe.mask_apply = MaskApply::add;
    expect_first(problem, recipe, {0, 11, Stage::scores, Cause::k_nan});
  }
}

// Born in the sum, where no key holds a NaN: only in the column in which V holds both.
TEST(Diagnosis, inf_minus_inf_in_one_column_of_V) {
  const auto problem = problem_with([](Inputs& in) { set(in.V, 0, 1, 1, kInf), set(in.V, 0, 2, 1, -kInf); });
  for (const Algorithm algorithm : kAlgorithms) {
    const Diagnosis diagnosis = diagnose(problem, recipe_of(algorithm), 1);
    ASSERT_TRUE(diagnosis.first_nan);
    EXPECT_EQ(diagnosis.first_nan->column, 1) << name(algorithm);
  }
}

TEST(Diagnosis, v_nan_and_zero_times_nan) {
  const auto seen = problem_with([](Inputs& in) { set(in.V, 0, 4, 1, kNan); });
  const auto unseen = problem_with([](Inputs& in) {
    set(in.V, 0, 11, 1, kNan);
    in.mask.causal = Causal::top_left;
  });
  for (const Algorithm algorithm : kAlgorithms) {
    expect_first(seen, recipe_of(algorithm), {0, 4, Stage::accumulate, Cause::v_nan});
    // Row 8 shares a visited tile with key 11: weight 0 times NaN. Standard multiplies every key by every row.
    const std::int64_t row = algorithm == Algorithm::standard ? 0 : 8;
    expect_first(unseen, recipe_of(algorithm), {row, 11, Stage::accumulate, Cause::zero_times_nan});
  }
}

TEST(Diagnosis, mask_nan) {
  const auto problem = problem_with([](Inputs& in) {
    Bias bias;
    bias.rows = bias.cols = 12;
    bias.f32.resize(144);
    bias.f32[5 * 12 + 8] = static_cast<float>(kNan);
    in.mask.bias = std::make_shared<const Bias>(std::move(bias));
  });
  for (const Algorithm algorithm : kAlgorithms) {
    expect_first(problem, recipe_of(algorithm), {5, 8, Stage::mask, Cause::mask_nan});
    EXPECT_EQ(diagnose(problem, recipe_of(algorithm), 1).mask.nan_cells, 1);
  }
}

TEST(Diagnosis, infinite_key) {
  // Row 2 scores +inf against key 5, the other rows -inf: only +inf - (+inf) is a NaN.
  const auto problem = problem_with([](Inputs& in) {
    for (int r = 0; r < 12; ++r) set(in.Q, 0, r, 0, r == 2 ? 1 : -1);
    set(in.K, 0, 5, 0, kInf);
  });
  for (const Algorithm algorithm : kAlgorithms) {
    const Stage stage = algorithm == Algorithm::standard ? Stage::softmax : Stage::exponentials;
    for (const Guard guard : {Guard::clamp, Guard::skip, Guard::none}) {
      expect_first(problem, recipe_of(algorithm, guard), {2, 5, stage, Cause::inf_minus_inf});
      EXPECT_EQ(diagnose(problem, recipe_of(algorithm, guard), 1).nan_rows[0], std::vector<std::int64_t>{2});
    }
  }
  // Infinities of both signs cancel already in the product.
  const auto both = problem_with([](Inputs& in) {
    for (int r = 0; r < 12; ++r) set(in.Q, 0, r, 0, 1), set(in.Q, 0, r, 1, -1);
    set(in.K, 0, 5, 0, kInf), set(in.K, 0, 5, 1, kInf);
  });
  for (const Algorithm algorithm : kAlgorithms)
    expect_first(both, recipe_of(algorithm), {0, 5, Stage::scores, Cause::inf_minus_inf});
}

TEST(Diagnosis, infinite_value) {
  const auto problem = problem_with([](Inputs& in) { set(in.V, 0, 3, 0, kInf), set(in.V, 0, 4, 0, -kInf); });
  for (const Algorithm algorithm : kAlgorithms)
    expect_first(problem, recipe_of(algorithm), {0, -1, Stage::accumulate, Cause::inf_minus_inf});
}

TEST(Diagnosis, empty_row) {
  const auto problem = problem_with([](Inputs& in) {
    KeepMask keep = make_keep_mask(1, 12, 1);
    for (int r = 0; r < 12; ++r)
      if (r != 9) set_keep(keep, 0, r, 0);
    in.mask.keep = std::make_shared<const KeepMask>(std::move(keep));
  });
  for (const Algorithm algorithm : kAlgorithms) {
    const bool standard = algorithm == Algorithm::standard;
    Recipe recipe = recipe_of(algorithm);
    EXPECT_EQ(diagnose(problem, recipe, 1).empty_rows[0], std::vector<std::int64_t>{9});
    EXPECT_FALSE(diagnose(problem, recipe, 1).first_nan);
    recipe.empty_row = EmptyRow::nan;
    expect_first(problem, recipe, {9, -1, standard ? Stage::accumulate : Stage::finish, Cause::empty_row});
    recipe.guard = Guard::none;
    expect_first(problem, recipe, {9, 0, standard ? Stage::softmax : Stage::exponentials, Cause::inf_minus_inf});
  }
}

// No tile is visited for the first two row blocks: nothing but 0 / 0 at the end can go wrong there.
TEST(Diagnosis, div_zero) {
  Mask mask;
  mask.causal = Causal::bottom_right;
  const auto problem = random_problem(Shape{1, 1, 12, 4, 3, 3, DType::float32}, 5, {}, mask);
  for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2}) {
    Recipe recipe = recipe_of(algorithm, Guard::none);
    recipe.normalise = Normalise::end;
    expect_first(problem, recipe, {0, -1, Stage::finish, Cause::div_zero});
  }
}

// A whole head is clean; the NaN is found in the next one, and counted per head.
TEST(Diagnosis, heads) {
  const auto base = random_problem(Shape{4, 2, 12, 12, 3, 3, DType::float64}, 6);
  Tensor K = base->K();
  set(K, 1, 10, 0, kNan);
  const auto problem = make_problem("second kv head", base->Q(), K, base->V());
  for (const Algorithm algorithm : kAlgorithms) {
    const Diagnosis diagnosis = diagnose(problem, recipe_of(algorithm), 2);
    EXPECT_TRUE(diagnosis.nan_rows[0].empty() && diagnosis.nan_rows[1].empty());
    EXPECT_EQ(diagnosis.nan_rows[2].size(), 12u);
    ASSERT_TRUE(diagnosis.first_nan);
    EXPECT_EQ(diagnosis.first_nan->head, 2);
    EXPECT_EQ(diagnosis.first_nan->key, 10);
    EXPECT_EQ(diagnosis.first_nan->cause, Cause::k_nan);
  }
}

}  // namespace
}  // namespace flashscope::testing
