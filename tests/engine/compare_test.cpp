// Another kernel's output: counted, located and explained.
#include "engine/insight/compare.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "engine/error.h"
#include "engine/insight/explain.h"
#include "tests/engine/files/fixtures.h"
#include "tests/engine/planted_mistakes.h"

namespace flashscope::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class EveryMistake : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Gallery, EveryMistake, ::testing::ValuesIn(gallery_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Named first, or in a tie with the first: on three problems, each with its own shape, type, order and block sizes.
TEST_P(EveryMistake, IsRecognisedFromItsOutput) {
  for (int variant = 0; variant < 3; ++variant) {
    const Planted planted = plant(GetParam(), variant);
    const Comparison found = compare(*planted.problem, planted.recipe, planted.output, 2);
    ASSERT_FALSE(found.right()) << "variant " << variant << ": cannot be seen";
    const auto list = explain(planted.problem, planted.recipe, planted.output, found);
    ASSERT_FALSE(list.empty()) << "variant " << variant << ", pattern: " << found.pattern.text;
    bool named = false;
    for (const Explanation& e : list)
      if (e.name == GetParam() && (e.tie || &e == &list.front())) {
        named = true;
        EXPECT_EQ(e.agree, e.rows) << text(e);
      }
    EXPECT_TRUE(named) << "variant " << variant << ": " << text(list.front());
  }
}

// A mask by rule that the kernel does not apply.
TEST(Explain, RulesThatAreLeftOutAreNamed) {
  const Shape shape{2, 2, 90, 90, 16, 16, DType::float32};
  std::vector<std::int64_t> ids(90);
  for (std::size_t n = 0; n < ids.size(); ++n) ids[n] = static_cast<std::int64_t>(n / 30);
  MaskRules lengths, documents, prefix, alibi, softcap;
  lengths.lengths = {50, 70};
  documents.documents = std::make_shared<const Documents>(make_documents(ids, 90, 90, false));
  prefix.prefix = 12;
  alibi.alibi = alibi_slopes(2);
  softcap.softcap = 2;
  const std::pair<const char*, MaskRules> cases[] = {{"the lengths are ignored", lengths},
                                                     {"the documents are ignored", documents},
                                                     {"no prefix: causal alone", prefix},
                                                     {"no ALiBi", alibi},
                                                     {"no softcap", softcap}};
  for (const auto& [detail, rules] : cases) {
    Mask mask = causal(Causal::top_left), bare = mask;
    mask.rules = rules;
    const auto problem = random_problem(shape, 21, {}, mask);
    const KernelOutput theirs = output_of(run(*with_mask(problem, bare), Recipe{}), DType::float32);
    const Comparison found = compare(*problem, Recipe{}, theirs);
    ASSERT_FALSE(found.right()) << detail;
    const auto list = explain(problem, Recipe{}, theirs, found);
    ASSERT_FALSE(list.empty()) << detail;
    EXPECT_EQ(list[0].name, "mask-missing") << detail;
    EXPECT_EQ(list[0].detail, detail);
    EXPECT_EQ(list[0].agree, list[0].rows);
  }
}

// Where the mistake was made at other block sizes or in the other order than the person says.
TEST(Explain, OtherBlockSizesAndOrdersAreFound) {
  for (const char* defect : {"no-rescale-o", "tile-max", "unmasked-tail", "inverse-rescale"}) {
    const auto problem = random_problem({1, 1, 200, 200, 16, 16, DType::float32}, 3);
    Recipe given, made;
    given.Br = 64, given.Bc = 64;
    made.Br = 64, made.Bc = 32;
    if (std::string(defect) != "unmasked-tail") made.order = Order::reverse;
    set_defect(made, defect);
    const KernelOutput theirs = output_of(run(*problem, made), DType::float32);
    const auto list = explain(problem, given, theirs, compare(*problem, given, theirs));
    ASSERT_FALSE(list.empty()) << defect;
    EXPECT_EQ(list[0].name, defect);
    EXPECT_EQ(list[0].recipe.Bc, 32) << text(list[0]);
    EXPECT_EQ(list[0].recipe.order, made.order);
    EXPECT_FALSE(list[0].as_given);
    EXPECT_THAT(text(list[0]), HasSubstr("at Br 64, Bc 32 reproduces the output to"));
  }
}

TEST(Explain, RightOutputsOfEveryTypeGetNoName) {
  for (const DType type : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    for (const Causal alignment : {Causal::none, Causal::top_left}) {
      const auto problem = random_problem({2, 1, 150, 150, 32, 16, type}, 9, {}, causal(alignment));
      for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash1, Algorithm::flash2}) {
        Recipe recipe;
        recipe.algorithm = algorithm, recipe.Bc = 32;
        recipe.numerics = tensor_core_numerics(type);
        const KernelOutput theirs = output_of(run(*problem, recipe), type);
        const Comparison found = compare(*problem, Recipe{}, theirs);
        EXPECT_TRUE(found.right()) << name(type) << ", error " << found.max_error << " of " << found.tolerance;
        EXPECT_EQ(found.pattern.kind, "none");
        EXPECT_EQ(found.total().right, 300);
        EXPECT_TRUE(explain(problem, Recipe{}, theirs, found).empty()) << name(type);
      }
    }
  }
}

// Noise is no known mistake.
TEST(Explain, NothingIsNamedForWhatNoMistakeMakes) {
  const auto problem = random_problem({2, 1, 150, 150, 32, 16, DType::float32}, 9, {}, causal(Causal::top_left));
  KernelOutput theirs = output_of(run(*problem, Recipe{}), DType::float32);
  for (std::size_t n = 0; n < theirs.O.size(); ++n) theirs.O[n] += 0.1 * random_normal(4, n);
  const Comparison found = compare(*problem, Recipe{}, theirs);
  EXPECT_EQ(found.total().wrong, 300);
  EXPECT_TRUE(explain(problem, Recipe{}, theirs, found).empty());
}

TEST(Explain, MistakesThatNumbersCannotTellApartAreATie) {
  // Empty rows: a finite stand-in for -inf gives what the policy "mean" gives.
  const auto problem = random_problem({1, 1, 60, 50, 8, 8, DType::float32}, 2);
  const auto masked = with_mask(problem, random_keep(problem->shape(), true));
  Recipe made;
  set_defect(made, "finite-sentinel=-1e30");
  KernelOutput theirs = output_of(run(*masked, made), DType::float32);
  // Their LSE is finite, where the policy's is -inf: it tells them apart.
  const auto named = explain(masked, Recipe{}, theirs, compare(*masked, Recipe{}, theirs));
  ASSERT_FALSE(named.empty());
  EXPECT_EQ(named.front().name, "finite-sentinel");
  for (std::size_t n = 1; n < named.size(); ++n) EXPECT_FALSE(named[n].tie) << named[n].name;
  theirs.LSE.clear();
  const auto list = explain(masked, Recipe{}, theirs, compare(*masked, Recipe{}, theirs));
  ASSERT_GE(list.size(), 2u);
  std::vector<std::string> names;
  for (const Explanation& e : list)
    if (e.tie || &e == &list.front()) names.push_back(e.name);
  EXPECT_THAT(names, Contains("empty-row"));
  EXPECT_THAT(names, Contains("finite-sentinel"));
}

// The mistake itself is not known, or was made together with another: what comes near is said, and not as its name.
TEST(Explain, ANearMissIsNoName) {
  const auto problem = random_problem({2, 2, 130, 130, 16, 16, DType::float32}, 5, {}, causal(Causal::top_left));
  KeepMask keep = make_keep_mask(1, 130, 130);  // the diagonal is hidden, but for the rows that see it alone
  for (std::int64_t r = 0; r < 130; ++r)
    for (std::int64_t c = 0; c < std::max<std::int64_t>(r, 1); ++c) set_keep(keep, 0, r, c);
  Mask mask;
  mask.keep = std::make_shared<const KeepMask>(std::move(keep));
  const KernelOutput theirs = output_of(run(*with_mask(problem, mask), Recipe{}), DType::float32);
  const Comparison found = compare(*problem, Recipe{}, theirs);
  ASSERT_EQ(found.total().right, 2);
  const Causes causes = find_causes(problem, Recipe{}, theirs, found);
  EXPECT_TRUE(causes.named.empty()) << causes.named.front().name;
  ASSERT_TRUE(causes.near_miss);
  EXPECT_EQ(causes.near_miss->name, "causal-diagonal");
  EXPECT_EQ(near_miss_text(*causes.near_miss),
            "causal-diagonal (c < r: the diagonal is hidden) reproduces 258 of 258 wrong rows, but would make 2 right "
            "rows wrong");
  // A right output has none, nor has one that a mistake explains, nor noise.
  const KernelOutput right = output_of(run(*problem, Recipe{}), DType::float32);
  EXPECT_FALSE(find_causes(problem, Recipe{}, right, compare(*problem, Recipe{}, right)).near_miss);
  const Planted planted = plant("no-rescale-o", 0);
  const Comparison wrong = compare(*planted.problem, planted.recipe, planted.output);
  EXPECT_FALSE(find_causes(planted.problem, planted.recipe, planted.output, wrong).near_miss);
  KernelOutput noise = right;
  for (std::size_t n = 0; n < noise.O.size(); ++n) noise.O[n] += 0.1 * random_normal(4, n);
  EXPECT_FALSE(find_causes(problem, Recipe{}, noise, compare(*problem, Recipe{}, noise)).near_miss);
}

// Narrow types are tried where no mistake of the gallery explains the output, and named by the option that does it.
TEST(Explain, NumericsAreTriedWhereNothingElseExplains) {
  const auto random = random_problem({2, 2, 90, 90, 32, 16, DType::float16}, 8, {}, causal(Causal::top_left));
  const auto enlarged = [](const Tensor& from) {
    Tensor to = from;
    for (float& x : to.f32) x = static_cast<float>(round_to(DType::float16, 120 * x));
    return to;
  };
  const auto large =
      make_problem("large", enlarged(random->Q()), enlarged(random->K()), Tensor(random->V()), {}, random->mask);
  Recipe made;
  made.numerics.scores = DType::float16;
  const KernelOutput theirs = output_of(run(*large, made), DType::float16);
  const Comparison found = compare(*large, Recipe{}, theirs);
  ASSERT_GT(found.total().nan, 100);
  const auto list = explain(large, Recipe{}, theirs, found);
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list[0].name, "scores-float16");
  EXPECT_EQ(list[0].detail, "--score-type float16");
  EXPECT_EQ(list[0].agree, list[0].rows);
  EXPECT_THAT(list[0].sentence, HasSubstr("Scores held in float16 overflow"));
  EXPECT_EQ(list[0].recipe.numerics, made.numerics);

  // Without an overflow: a float32 problem whose P, or whose sums, a kernel held in 16 bits.
  const auto problem = random_problem({1, 1, 200, 200, 32, 16, DType::float32}, 8);
  for (const auto& [name, member] : {std::pair{"p-bfloat16", &Numerics::P},
                                     {"accumulators-bfloat16", &Numerics::accumulators},
                                     {"scores-bfloat16", &Numerics::scores}}) {
    Recipe narrow;
    narrow.numerics.*member = DType::bfloat16;
    const KernelOutput output = output_of(run(*problem, narrow), DType::float32);
    const auto named = explain(problem, Recipe{}, output, compare(*problem, Recipe{}, output));
    ASSERT_FALSE(named.empty()) << name;
    EXPECT_EQ(named[0].name, name);
    EXPECT_EQ(named[0].agree, named[0].rows);
    EXPECT_THAT(named[0].sentence, ::testing::Not(HasSubstr("overflow")));
  }
}

TEST(Explain, TheLastBlockOfEachRowBlockIsFound) {
  const auto problem = random_problem({1, 1, 200, 200, 16, 16, DType::float32}, 3, {}, causal(Causal::top_left));
  Recipe recipe;
  recipe.Br = 64, recipe.Bc = 16;
  KeepMask keep = make_keep_mask(1, 200, 200);
  for (std::int64_t r = 0; r < 200; ++r)
    for (std::int64_t c = 0; c < (std::min<std::int64_t>(200, (r / 64 + 1) * 64) - 1) / 16 * 16; ++c)
      if (c <= r) set_keep(keep, 0, r, c);
  Mask mask;
  mask.keep = std::make_shared<const KeepMask>(std::move(keep));
  const KernelOutput theirs = output_of(run(*with_mask(problem, mask), recipe), DType::float32);
  const auto list = explain(problem, recipe, theirs, compare(*problem, recipe, theirs));
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list[0].name, "block-left-out");
  EXPECT_EQ(list[0].detail, "the last column block of each row block");
  EXPECT_EQ(list[0].agree, list[0].rows);
}

TEST(Explain, IsCancelledAndTellsHowFarItIs) {
  const Planted planted = plant("no-rescale", 0);
  const Comparison found = compare(*planted.problem, planted.recipe, planted.output);
  std::stop_source source;
  std::int64_t last = 0;
  explain(planted.problem, planted.recipe, planted.output, found, {}, source.get_token(),
          [&](std::int64_t done, std::int64_t total) {
            EXPECT_LE(done, total);
            last = std::max(last, done);
          });
  EXPECT_GT(last, 10);
  source.request_stop();
  EXPECT_THROW(explain(planted.problem, planted.recipe, planted.output, found, {}, source.get_token()), Cancelled);
  EXPECT_THROW(compare(*planted.problem, planted.recipe, planted.output, 1, source.get_token()), Cancelled);
}

TEST(Compare, NanInfRightAndWrongAreCountedApart) {
  const auto problem = random_problem({2, 2, 40, 40, 8, 4, DType::float32}, 6);
  KernelOutput theirs = output_of(run(*problem, Recipe{}), DType::float32);
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  theirs.O[(0 * 40 + 3) * 4 + 1] = nan;   // head 0, row 3
  theirs.O[(0 * 40 + 5) * 4 + 1] = inf;   // row 5
  theirs.O[(1 * 40 + 7) * 4 + 2] += 0.5;  // head 1, row 7
  theirs.O[(1 * 40 + 9) * 4 + 2] += 0.25;
  theirs.LSE[12] = inf, theirs.LSE[13] = nan, theirs.LSE[14] += 1;
  const Comparison found = compare(*problem, Recipe{}, theirs);
  EXPECT_EQ(found.total().right, 76);
  EXPECT_EQ(found.heads[0].nan, 1);
  EXPECT_EQ(found.heads[0].inf, 1);
  EXPECT_EQ(found.heads[1].wrong, 2);
  EXPECT_EQ(found.heads[1].nan + found.heads[1].inf + found.heads[0].wrong, 0);
  EXPECT_EQ(found.rows[3], RowState::nan);
  EXPECT_EQ(found.rows[47], RowState::wrong);
  EXPECT_LE(std::abs(found.max_error - 0.5), 1e-6);
  EXPECT_EQ(found.worst_head, 1);
  EXPECT_EQ(found.worst_row, 7);
  EXPECT_LE(std::abs(found.row_error[49] - 0.25), 1e-6);
  EXPECT_EQ(found.lse->plus_inf, 1);
  EXPECT_EQ(found.lse->nan, 1);
  EXPECT_EQ(found.lse->wrong, 1);
  EXPECT_EQ(found.lse->right, 77);
  EXPECT_FALSE(found.right());
  ASSERT_TRUE(found.plain_error);
  EXPECT_GT(*found.plain_error, 0);
  EXPECT_GT(found.tolerance, 2 * *found.plain_error);
}

// FlashAttention gives empty rows an LSE of +inf.
TEST(Compare, PlusInfinityOfAnEmptyRowIsAConvention) {
  const auto problem = random_problem({1, 1, 40, 40, 8, 4, DType::float32}, 6);
  const auto masked = with_mask(problem, random_keep(problem->shape(), true));
  KernelOutput theirs = output_of(run(*masked, Recipe{}), DType::float32);
  for (double& lse : theirs.LSE) lse = std::isinf(lse) ? -lse : lse;
  const Comparison found = compare(*masked, Recipe{}, theirs);
  EXPECT_EQ(found.lse->plus_inf_empty, 6);  // rows 3, 10, 17, ...
  EXPECT_EQ(found.lse->plus_inf, 0);
  EXPECT_TRUE(found.right());
}

TEST(Compare, AFiniteLseOfAnEmptyRowIsWrong) {
  const auto problem = random_problem({1, 1, 40, 40, 8, 4, DType::float32}, 6);
  const auto masked = with_mask(problem, random_keep(problem->shape(), true));
  KernelOutput theirs = output_of(run(*masked, Recipe{}), DType::float32);
  for (double& lse : theirs.LSE) lse = std::isinf(lse) ? 123 : lse;
  const Comparison found = compare(*masked, Recipe{}, theirs);
  EXPECT_EQ(found.lse->wrong, 6);
  EXPECT_EQ(found.lse->right, 34);
  EXPECT_FALSE(found.right());
}

// In whatever column of a row it stands.
TEST(Compare, ANaNStaysTheErrorOfItsRow) {
  const auto problem = random_problem({1, 1, 40, 40, 8, 4, DType::float32}, 6);
  KernelOutput theirs = output_of(run(*problem, Recipe{}), DType::float32);
  for (const std::int64_t column : {0, 2, 3}) theirs.O[(10 + column) * 4 + column] = std::nan("");
  const Comparison found = compare(*problem, Recipe{}, theirs);
  for (const std::int64_t row : {10, 12, 13}) {
    EXPECT_TRUE(std::isnan(found.row_error[row])) << row;
    EXPECT_EQ(found.rows[row], RowState::nan) << row;
  }
  EXPECT_EQ(found.total().nan, 3);
}

TEST(Compare, LseFromMAndL) {
  const auto problem = random_problem({1, 1, 40, 40, 8, 4, DType::float32}, 6);
  KernelOutput theirs = output_of(run(*problem, Recipe{}), DType::float32);
  for (const double lse : theirs.LSE) theirs.m.push_back(lse - 2), theirs.l.push_back(std::exp(2.0));
  theirs.LSE.clear();
  const Comparison found = compare(*problem, Recipe{}, theirs);
  EXPECT_TRUE(found.right());
  EXPECT_TRUE(found.lse->from_m_and_l);
}

// An output stored in fewer bits than the problem is judged by what those bits can hold.
TEST(Compare, TheCoarserTypeDecides) {
  const auto problem = random_problem({1, 1, 90, 90, 16, 8, DType::float32}, 6);
  const KernelOutput theirs = output_of(run(*problem, Recipe{}), DType::float16);
  const Comparison found = compare(*problem, Recipe{}, theirs);
  EXPECT_EQ(found.precision, DType::float16);
  EXPECT_GT(found.max_error, 1e-5);
  EXPECT_TRUE(found.right());
}

// NumPy has no bfloat16: t.float().numpy() stores one in float32. What is rounded so is judged so; one value that is
// not shows an output of float32, and so does nothing that holds too few values to tell.
TEST(Compare, AWidenedOutputIsJudgedAsWhatItsValuesAre) {
  for (const DType type : {DType::bfloat16, DType::float16})
    for (const DType of : {type, DType::float32}) {
      const auto problem = random_problem({2, 2, 90, 90, 16, 8, of}, 6, {}, causal(Causal::top_left));
      KernelOutput theirs = output_of(run(*problem, Recipe{}), type);
      theirs.type = DType::float32;
      const Comparison found = compare(*problem, Recipe{}, theirs);
      EXPECT_EQ(found.values_are, type) << name(of);
      EXPECT_EQ(found.precision, type);
      EXPECT_TRUE(found.right()) << name(of) << ", error " << found.max_error << " of " << found.tolerance;
      theirs.type_given = true;
      const Comparison given = compare(*problem, Recipe{}, theirs);
      EXPECT_FALSE(given.values_are);
      EXPECT_EQ(given.precision, of == type ? type : DType::float32);
      EXPECT_EQ(given.right(), of == type);
    }
  const auto problem = random_problem({2, 2, 90, 90, 16, 8, DType::float32}, 6);
  KernelOutput theirs = output_of(run(*problem, Recipe{}), DType::float32);
  for (int e = 0; e < 8; ++e) theirs.O[70 * 8 + e] += 1e-4;  // within a bfloat16's tolerance, not within a float32's
  const Comparison found = compare(*problem, Recipe{}, theirs);
  EXPECT_FALSE(found.values_are);
  EXPECT_EQ(found.total().wrong, 1);
  std::vector<double> few;
  for (int n = 0; n < 10000; ++n) few.push_back(n % 16 - 8);
  EXPECT_FALSE(narrow_type(few));
  EXPECT_FALSE(narrow_type(std::vector<double>(10000, 0.0)));
  for (int n = 0; n < 200; ++n) few.push_back(n);
  EXPECT_EQ(narrow_type(few), DType::bfloat16);
  few.push_back(1 + 1.0 / 1024);
  EXPECT_EQ(narrow_type(few), DType::float16);
  few.push_back(1e-9), few.push_back(std::nan(""));
  EXPECT_FALSE(narrow_type(few));
}

TEST(Compare, PatternsHaveNames) {
  Recipe recipe;
  recipe.Br = 16, recipe.Bc = 24;
  const Shape shape{4, 4, 100, 100, 8, 8, DType::float32};
  const auto named = [&](const std::function<bool(std::int64_t h, std::int64_t r)>& bad) {
    std::vector<std::uint8_t> rows;
    for (std::int64_t h = 0; h < 4; ++h)
      for (std::int64_t r = 0; r < 100; ++r) rows.push_back(bad(h, r));
    const Pattern pattern = name_pattern(rows, shape, recipe);
    return pattern.kind + "; " + pattern.heads + "; " + pattern.text;
  };
  EXPECT_EQ(named([](auto, auto) { return false; }), "none; none; ");
  EXPECT_EQ(named([](auto, auto) { return true; }), "every-row; every-head; every row, in every head");
  EXPECT_EQ(named([](auto h, auto) { return h == 2; }), "every-row; one-head; every row, in head 2 alone");
  EXPECT_EQ(named([](auto h, auto) { return h % 2 == 1; }),
            "every-row; every-other-head; every row, in every other head from 1 on");
  EXPECT_EQ(named([](auto, auto r) { return r >= 37; }), "rows-after; every-head; every row from 37 on, in every head");
  EXPECT_EQ(named([](auto, auto r) { return r >= 48; }),
            "rows-after; every-head; every row from 48 on, where column block 2 begins, in every head");
  EXPECT_EQ(named([](auto, auto r) { return r >= 96; }),
            "row-blocks; every-head; the last row block, every row from 96 on, where the last column block begins, in "
            "every head");
  EXPECT_EQ(named([](auto, auto r) { return r < 5; }), "rows-before; every-head; the rows before 5, in every head");
  EXPECT_EQ(named([](auto, auto r) { return r / 16 == 2; }),
            "row-blocks; every-head; row block 2 whole, in every head");
  EXPECT_EQ(named([](auto, auto r) { return r / 16 % 2 == 1; }),
            "row-blocks; every-head; every other row block from 1 on, in every head");
  EXPECT_EQ(named([](auto, auto r) { return r / 16 == 0 || r / 16 == 4; }),
            "row-blocks; every-head; whole row blocks: 0, 4, in every head");
  EXPECT_EQ(named([](auto, auto r) { return r % 16 >= 13; }),
            "rows-of-each-block; every-head; rows 13 to 15 of 6 row blocks of 16, in every head");
  EXPECT_EQ(named([](auto, auto r) { return r % 3 == 1; }),
            "every-nth-row; every-head; every 3th row from 1 on, in every head");
  EXPECT_EQ(named([](auto h, auto r) { return h == 1 && r == 40; }),
            "one-row; one-head; row 40 alone, in head 1 alone");

  const Shape longer{1, 1, 5000, 5000, 8, 8, DType::float32};
  std::vector<std::uint8_t> rows(5000);
  rows[3] = rows[1000] = rows[4711] = 1;
  EXPECT_EQ(name_pattern(rows, longer, recipe).text, "3 of 5,000 rows, from 3 to 4,711, without a simple pattern");
}

TEST(Compare, PatternsInTheColumnsOfO) {
  const auto problem = random_problem({1, 1, 16, 40, 8, 16, DType::float32}, 6);
  const KernelOutput right = output_of(run(*problem, Recipe{}), DType::float32);
  KernelOutput theirs = right;
  for (int r = 0; r < 16; ++r)
    for (int e = 12; e < 16; ++e) theirs.O[r * 16 + e] = 7;
  EXPECT_EQ(compare(*problem, Recipe{}, theirs).pattern.columns, "last-columns");
  EXPECT_THAT(compare(*problem, Recipe{}, theirs).pattern.text, HasSubstr("in columns 12 to 15 of O"));
  theirs = right;
  for (int r = 0; r < 16; ++r)
    for (int e = r; e < 16; ++e) theirs.O[r * 16 + e] = 7;
  EXPECT_EQ(compare(*problem, Recipe{}, theirs).pattern.columns, "triangle");
}

// Every row from one on is no triangle, though all of its cells lie below a diagonal.
TEST(Compare, WholeRowsAreNoTriangle) {
  const auto problem = random_problem({1, 1, 160, 160, 8, 16, DType::float32}, 6);
  KernelOutput theirs = output_of(run(*problem, Recipe{}), DType::float32);
  std::fill(theirs.O.begin() + 40 * 16, theirs.O.end(), 7.f);
  const Pattern pattern = compare(*problem, Recipe{}, theirs).pattern;
  EXPECT_EQ(pattern.columns, "");
  EXPECT_EQ(pattern.text, "every row from 40 on");
}

// ---- files

class OutputFiles : public ::testing::Test {
 protected:
  std::filesystem::path npy(const std::string& name, std::vector<std::int64_t> shape,
                            const std::vector<double>& values) {
    const auto path = folder_ / name;
    write_npy(path, {"", ElementType::float32, std::move(shape), values});
    return path;
  }
  KernelOutput load(const std::filesystem::path& path, const Shape& shape, std::optional<Layout> layout = {}) {
    OutputFile file;
    file.path = path, file.layout = layout;
    return load_output(file, shape);
  }
  std::string refused(const std::filesystem::path& path, const Shape& shape, std::optional<Layout> layout = {}) {
    try {
      load(path, shape, layout);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  fixtures::Folder folder_;
};

TEST_F(OutputFiles, EveryLayoutGivesTheSameNumbers) {
  const Shape shape{2, 2, 3, 5, 4, 4, DType::float32};
  std::vector<double> hnd, nhd;
  for (int n = 0; n < 24; ++n) hnd.push_back(n);
  for (int r = 0; r < 3; ++r)
    for (int h = 0; h < 2; ++h)
      for (int e = 0; e < 4; ++e) nhd.push_back((h * 3 + r) * 4 + e);
  const auto expect_hnd = [&](const KernelOutput& output) {
    EXPECT_TRUE(std::equal(hnd.begin(), hnd.end(), output.O.begin(), output.O.end()));
  };
  expect_hnd(load(npy("a.npy", {2, 3, 4}, hnd), shape));
  expect_hnd(load(npy("b.npy", {1, 2, 3, 4}, hnd), shape));
  expect_hnd(load(npy("c.npy", {3, 2, 4}, nhd), shape));  // only that fits
  expect_hnd(load(npy("d.npy", {3, 2, 4}, nhd), shape, Layout::nhd));
  expect_hnd(load(npy("e.npy", {3, 8}, nhd), shape));  // heads side by side
  expect_hnd(load(npy("f.npy", {1, 3, 8}, nhd), shape));
  // One head of a file that has two.
  Shape one = shape;
  one.heads = one.kv_heads = 1;
  OutputFile second;
  second.path = folder_ / "a.npy";
  second.head = 1;
  const KernelOutput head = load_output(second, one);
  EXPECT_TRUE(std::equal(head.O.begin(), head.O.end(), hnd.begin() + 12, hnd.end()));
  // One batch of several.
  std::vector<double> two = hnd;
  for (double& x : two) x += 100;
  two.insert(two.end(), hnd.begin(), hnd.end());
  OutputFile batch;
  batch.path = npy("g.npy", {2, 2, 3, 4}, two);
  batch.batch = 1;
  expect_hnd(load_output(batch, shape));
}

TEST_F(OutputFiles, TheLayoutThatWasReadIsSaid) {
  const Shape shape{2, 2, 3, 5, 4, 4, DType::float32};
  const std::vector<double> O(24, 1.5), LSE(6, 1.0);
  const auto layouts = [&](std::vector<std::int64_t> of_o, std::vector<std::int64_t> of_lse, const Shape& of) {
    const std::array arrays{OutArray{"o", ElementType::float32, std::move(of_o), O},
                            OutArray{"lse", ElementType::float32, std::move(of_lse), LSE}};
    write_npz(folder_ / "layout.npz", arrays);
    std::string text;
    for (const ReadAs& one : load(folder_ / "layout.npz", of).read_as)
      text += one.role + " " + one.layout + (one.also.empty() ? "" : " or " + one.also) + "; ";
    return text;
  };
  EXPECT_EQ(layouts({2, 3, 4}, {2, 3}, shape), "o (heads, Nq, dv); lse (heads, Nq); ");
  EXPECT_EQ(layouts({3, 2, 4}, {3, 2}, shape), "o (Nq, heads, dv); lse (Nq, heads); ");
  EXPECT_EQ(layouts({1, 3, 8}, {1, 2, 3}, shape), "o (batch, Nq, heads dv); lse (batch, heads, Nq); ");
  const Shape one{1, 1, 6, 5, 4, 4, DType::float32}, square{2, 2, 2, 5, 6, 6, DType::float32};
  EXPECT_EQ(layouts({6, 4}, {6}, one), "o (Nq, dv); lse (Nq); ");
  const std::array arrays{OutArray{"o", ElementType::float32, {2, 2, 6}, O}};
  write_npz(folder_ / "square.npz", arrays);
  const KernelOutput both = load(folder_ / "square.npz", square);
  EXPECT_EQ(both.read_as[0].layout, "(heads, Nq, dv)");
  EXPECT_EQ(both.read_as[0].also, "(Nq, heads, dv)");
}

TEST_F(OutputFiles, RawBitsOfABfloat16AreReadWhereThatIsSaid) {
  const Shape shape{1, 1, 2, 5, 2, 2, DType::bfloat16};
  std::ofstream(folder_ / "bits.npy", std::ios::binary)
      << fixtures::npy_of("<u2", "(2, 2)", fixtures::as_bytes(std::vector<std::uint16_t>{0x3f80, 0xc020, 0x7fc0, 0}));
  EXPECT_THAT(refused(folder_ / "bits.npy", shape), HasSubstr("--against-dtype bfloat16"));
  OutputFile file;
  file.path = folder_ / "bits.npy", file.type = DType::bfloat16;
  const KernelOutput output = load_output(file, shape);
  EXPECT_EQ(output.type, DType::bfloat16);
  EXPECT_EQ(output.O[0], 1);
  EXPECT_EQ(output.O[1], -2.5);
  EXPECT_TRUE(std::isnan(output.O[2]));
  EXPECT_EQ(output.O[3], 0);
}

TEST_F(OutputFiles, NamesOfAnArchive) {
  const Shape shape{2, 2, 3, 5, 4, 4, DType::float32};
  const std::vector<double> O(24, 1.5), LSE = {1, 2, 3, 4, 5, 6}, m(6, 0.5), l(6, 2.0);
  const std::array arrays{
      OutArray{"o", ElementType::float32, {2, 3, 4}, O}, OutArray{"lse", ElementType::float32, {2, 3}, LSE},
      OutArray{"m", ElementType::float32, {2, 3, 1}, m}, OutArray{"l", ElementType::float64, {1, 2, 3}, l}};
  write_npz(folder_ / "all.npz", arrays);
  const KernelOutput output = load(folder_ / "all.npz", shape);
  EXPECT_EQ(output.type, DType::float32);
  expect_all_near(output.LSE, LSE, 0, "lse");
  expect_all_near(output.m, m, 0, "m");
  expect_all_near(output.l, l, 0, "l");
  write_npz(folder_ / "none.npz", std::span(arrays).subspan(1));
  EXPECT_THAT(refused(folder_ / "none.npz", shape), HasSubstr("one named o"));
}

TEST_F(OutputFiles, ShapesThatDoNotFitAreRefusedWithBoth) {
  const Shape shape{2, 2, 3, 5, 4, 4, DType::float32};
  EXPECT_THAT(refused(npy("h.npy", {2, 4, 3}, std::vector<double>(24)), shape),
              HasSubstr("found o of shape (2, 4, 3), expected (2, 3, 4): heads, Nq, dv of the problem"));
  EXPECT_THAT(refused(npy("i.npy", {3, 4}, std::vector<double>(12)), shape), HasSubstr("(2, 3, 4)"));
  EXPECT_THAT(refused(npy("j.npy", {3, 2, 4}, std::vector<double>(24)), shape, Layout::hnd), HasSubstr("(2, 3, 4)"));
  EXPECT_THAT(refused(folder_ / "missing.npy", shape), HasSubstr("missing.npy"));
}

}  // namespace
}  // namespace flashscope::testing
