// Why a cell is what it is, on the cases that people met, and the chain in full.
#include <fmt/format.h>

#include <cstdio>
#include <random>

#include "engine/attention/trace.h"
#include "engine/error.h"
#include "engine/insight/diagnosis.h"
#include "engine/insight/provenance.h"
#include "support.h"

namespace flashscope::testing {
namespace {

const float kNan = std::nanf("");

Provenance why_O(const std::shared_ptr<const Problem>& problem, const Recipe& recipe, std::int64_t row) {
  return why(*problem, Schedule(problem->shape(), problem->mask, recipe), {CellKind::O, 0, row, 0, {}});
}

// The unguarded reverse causal loop of the definitions: row 71 meets tile (1, 1) first.
TEST(Provenance, reverse_causal_chain) {
  Mask mask;
  mask.causal = Causal::top_left;
  const auto problem = random_problem(Shape{1, 1, 300, 300, 16, 16, DType::float32}, 1, {}, mask);
  Recipe recipe;
  recipe.Br = 64, recipe.Bc = 100, recipe.order = Order::reverse, recipe.guard = Guard::none;
  const Provenance found = why_O(problem, recipe, 71);
  EXPECT_EQ(
      one_line(found),
      "O[71, 0] <- l[71] <- P[71, :] <- S - m = (-inf) - (-inf) <- tile (1, 1) has no visible key for this row <- "
      "causal top-left: k 100..199 > q 71");
  EXPECT_EQ(found.cause, Cause::inf_minus_inf);
  EXPECT_EQ(found.stage, Stage::exponentials);
  EXPECT_EQ(found.links[2].twins, std::vector<std::string>{"alpha[71] = exp(m_old - m) = exp((-inf) - (-inf)) = NaN"});
  EXPECT_EQ(found.links[1].formula, "l alpha + sum P = 0 x NaN + NaN = NaN");
}

TEST(Provenance, case_01_an_empty_row_under_each_policy) {
  const Case log("open-01-fully-masked-rows");
  const auto problem = log.problem(DType::float32, keep_mask_from(log.json["inputs"]["mask"]["values"]));
  Recipe recipe;
  recipe.Br = 2, recipe.Bc = 4;
  Provenance found = why_O(problem, recipe, 2);
  EXPECT_EQ(one_line(found), "O[2, 0] <- row 2 sees no key at all <- keep mask: k 0..7 are 0 for q 2");
  EXPECT_FALSE(found.cause);
  recipe.empty_row = EmptyRow::nan;
  found = why_O(problem, recipe, 2);
  EXPECT_EQ(found.cause, Cause::empty_row);
  recipe.guard = Guard::none;
  found = why_O(problem, recipe, 2);
  EXPECT_EQ(found.cause, Cause::inf_minus_inf);
  EXPECT_EQ(found.origin, Origin::empty_row);
  EXPECT_EQ(found.links.back().text, "row 2 sees no key in any tile");
}

// The NaN is the tiling's: gone with Bc = 5, and the chain says why it was there.
TEST(Provenance, case_02_block_size) {
  const Case log("open-02-first-tile-masked");
  const auto problem = log.problem(DType::float32, keep_mask_from(log.json["inputs"]["mask"]["values"]));
  Recipe recipe;
  recipe.Br = 2, recipe.Bc = 4, recipe.guard = Guard::none;
  Provenance found = why_O(problem, recipe, 0);
  EXPECT_EQ(one_line(found),
            "O[0, 0] <- l[0] <- P[0, :] <- S - m = (-inf) - (-inf) <- tile (0, 0) has no visible key for this row <- "
            "keep mask: k 0..3 are 0 for q 0");
  EXPECT_EQ(found.origin, Origin::masked_tile);
  EXPECT_EQ(conclusion(found),
            "the difference of two equal infinities, behind it a tile of which the row sees no key, unguarded: what "
            "--guard clamp and skip are for");
  recipe.Bc = 5;
  found = why_O(problem, recipe, 0);
  EXPECT_FALSE(found.cause);
  EXPECT_EQ(conclusion(found), "");
  EXPECT_EQ(found.origin, Origin::values);
}

// In the middle of the first tile its maximum is known, and nothing is in l and O yet: not for want of a visible key.
TEST(Provenance, nothing_is_folded_in_before_accumulate) {
  const Case log("open-02-first-tile-masked");
  const auto problem = log.problem(DType::float32, keep_mask_from(log.json["inputs"]["mask"]["values"]));
  Recipe recipe;
  recipe.Br = 2, recipe.Bc = 5;
  const Schedule schedule(problem->shape(), problem->mask, recipe);
  const std::int64_t K = *schedule.find(0, 0, 0, Stage::exponentials) + 1;
  for (const CellKind of : {CellKind::O, CellKind::l}) {
    const Provenance found = why(*problem, schedule, {of, 0, 0, of == CellKind::O ? 0 : -1, K});
    EXPECT_EQ(found.origin, Origin::nothing_yet) << one_line(found);
    EXPECT_EQ(found.links.size(), 1u) << one_line(found);
  }
  EXPECT_EQ(why(*problem, schedule, {CellKind::m, 0, 0, -1, K}).links.back().of, CellKind::S);
  // With Bc = 4 the tile has no visible key, and that is why m is -inf.
  recipe.Bc = 4;
  const Schedule masked(problem->shape(), problem->mask, recipe);
  EXPECT_EQ(why(*problem, masked, {CellKind::m, 0, 0, -1, *masked.find(0, 0, 0, Stage::max) + 1}).origin,
            Origin::masked_tile);
}

TEST(Provenance, case_05_nan_in_a_masked_key) {
  const Case log("open-05-nan-in-masked-key");
  const auto problem = log.problem(DType::float32, keep_mask_from(log.json["inputs"]["mask"]["values"]));
  Recipe recipe;
  recipe.Br = 2, recipe.Bc = 2, recipe.mask_apply = MaskApply::add;
  for (std::int64_t row = 0; row < 3; ++row) {
    const Provenance found = why_O(problem, recipe, row);
    EXPECT_EQ(found.cause, Cause::k_nan);
    EXPECT_EQ(found.links.back().of, CellKind::K);
    EXPECT_EQ(found.links.back().row, 2);
    EXPECT_EQ(found.links.back().j, 1);
  }
  recipe.mask_apply = MaskApply::select;
  EXPECT_FALSE(why_O(problem, recipe, 0).cause);
}

TEST(Provenance, case_06_nan_in_the_mask) {
  const Case log("open-06-zero-times-minus-inf");
  const auto problem = log.problem(DType::float32, bias_from(log.json["inputs"]["mask"]["values"]));
  Recipe recipe;
  recipe.Br = recipe.Bc = 2;
  const Provenance found = why_O(problem, recipe, 3);
  EXPECT_EQ(found.cause, Cause::mask_nan);
  EXPECT_EQ(found.links.back().place, "bias[3, 0]");
}

// No NaN in float32; the score's link says what float16 would make of it.
TEST(Provenance, case_15_float16_note) {
  const Tensor Q = tensor_from(Json(std::vector<std::vector<double>>(1, std::vector<double>(64, 32))), DType::float16);
  Tensor K = make_tensor(DType::float16, 1, 3, 64), V = make_tensor(DType::float16, 1, 3, 1);
  for (int e = 0; e < 64; ++e) set(K, 0, 0, e, 32), set(K, 0, 1, e, 31), set(K, 0, 2, e, 33);
  set(V, 0, 0, 0, 1), set(V, 0, 1, 0, 2), set(V, 0, 2, 0, 4);
  const auto problem = make_problem("case 15", Q, K, V, 0.125);
  Recipe recipe;
  recipe.Br = 1, recipe.Bc = 2;
  const Schedule schedule(problem->shape(), problem->mask, recipe);
  const auto note = [&](std::int64_t key) {
    return why(*problem, schedule, {CellKind::S, 0, 0, key, {}}).links.front().text;
  };
  EXPECT_NE(note(0).find("65536"), std::string::npos);
  EXPECT_NE(note(2).find("67584"), std::string::npos);
  EXPECT_EQ(note(1), "");
}

// P as its tile made it, times what the tiles after it rescaled by, over l, is the weight that O was said to give it.
TEST(Provenance, the_rescales_after_a_key_are_told) {
  const auto problem = random_problem(Shape{1, 1, 300, 300, 16, 16, DType::float64}, 1);
  Recipe recipe;
  recipe.Br = 64, recipe.Bc = 32;
  const Schedule schedule(problem->shape(), problem->mask, recipe);
  int told = 0;
  for (std::int64_t row = 0; row < 300; ++row) {
    const Provenance answer = why(*problem, schedule, {CellKind::O, 0, row, 3, {}});
    ASSERT_GE(answer.links.size(), 2u);
    const Link& P = answer.links[1];
    ASSERT_EQ(P.of, CellKind::P);
    if (P.text.empty()) continue;
    ++told;
    double by = 0, l = 0, weight = 0, m = 0, m_end = 0;
    ASSERT_EQ(std::sscanf(P.text.c_str(), "rescaled by exp(%lf - %lf) = %lf since, over l = %lf: %lf", &m, &m_end, &by,
                          &l, &weight),
              5)
        << P.text;
    EXPECT_LE(std::abs(std::exp(m - m_end) - by), 1e-4 * by);
    EXPECT_LE(std::abs(P.value * by / l - weight), 1e-4 * weight);
    EXPECT_NE(answer.links[0].text.find(P.text.substr(P.text.rfind(' ') + 1)), std::string::npos);
  }
  EXPECT_GT(told, 50);
}

TEST(Provenance, questions_are_read_and_refused) {
  for (const char* word :
       {"O[0,71,3]", "l[0,71]", "S[1,2,120]", "P[0,0,0]", "alpha[0,71,1]", "m[0,5]@1234", "LSE[2,3]"})
    EXPECT_EQ(text(parse_question(word)), word);
  for (const char* word :
       {"", "O", "O[]", "O[0,1]", "l[0,1,2]", "X[0,1,2]", "O[0,a,1]", "O[0,1,2]x", "O[0,1,2]@", "O[0,1,2"})
    EXPECT_THROW(parse_question(word), InputError) << word;
  const auto problem = random_problem(Shape{1, 1, 4, 4, 2, 2, DType::float32}, 1);
  const Schedule schedule(problem->shape(), {}, Recipe{});
  for (const char* word : {"O[1,0,0]", "O[0,4,0]", "O[0,0,2]", "S[0,0,4]", "alpha[0,0,1]", "l[0,-1]", "l[0,0]@-1",
                           "l[0,0]@999", "S[0,0,1]@1", "P[0,0,1]@2", "alpha[0,0,0]@2"})
    EXPECT_THROW(why(*problem, schedule, parse_question(word)), InputError) << word;
  const std::int64_t scored = schedule.find(0, 0, 0, Stage::scores).value() + 1;
  EXPECT_THROW(why(*problem, schedule, {CellKind::S, 0, 0, 1, scored - 1}), InputError);
  EXPECT_NO_THROW(why(*problem, schedule, {CellKind::S, 0, 0, 1, scored}));
}

// Query of 32s against keys of 32, 31, 33 at d = 64: raw scores of 65536, 63488, 67584.
std::shared_ptr<const Problem> case_15() {
  const Case log("open-15-float16-score-overflow");
  Tensor K = make_tensor(DType::float16, 1, 3, 64);
  const std::vector<double> rows = numbers(log.json["inputs"]["K"]["formula"]["row_values"]);
  for (std::int64_t r = 0; r < 3; ++r)
    for (std::int64_t e = 0; e < 64; ++e) set(K, 0, r, e, rows[static_cast<std::size_t>(r)]);
  return make_problem("open-15", tensor_from(log.json["inputs"]["Q"]["values"], DType::float16), std::move(K),
                      tensor_from(log.json["inputs"]["V"]["values"], DType::float16),
                      log.json["inputs"]["scale"].get<double>());
}

// With scores in float16 and the scale behind the product, the overflow is the source; scaled before, there is none.
TEST(Provenance, case_15_float16_overflow) {
  const auto problem = case_15();
  Recipe recipe;
  recipe.Br = 1, recipe.Bc = 2;
  recipe.numerics.scores = DType::float16, recipe.numerics.scale = ScaleWhen::after;
  const Provenance found = why_O(problem, recipe, 0);
  EXPECT_EQ(found.cause, Cause::fp16_overflow) << one_line(found);
  EXPECT_EQ(found.stage, Stage::exponentials);
  EXPECT_EQ(found.origin, Origin::score_overflow);
  const Link& source = found.links.back();
  EXPECT_EQ(source.of, CellKind::S) << one_line(found);
  EXPECT_EQ(source.col, 0);
  EXPECT_EQ(source.j, 0);
  EXPECT_EQ(source.value, std::numeric_limits<double>::infinity());
  EXPECT_NE(source.text.find("q k = 65536: beyond the type of the scores, float16"), std::string::npos) << source.text;
  const Schedule schedule(problem->shape(), problem->mask, recipe);
  EXPECT_EQ(why(*problem, schedule, {CellKind::S, 0, 0, 2, {}}).origin, Origin::score_overflow);
  EXPECT_EQ(why(*problem, schedule, {CellKind::S, 0, 0, 1, {}}).origin, Origin::values);
  EXPECT_EQ(name(diagnose(problem, recipe).first_nan->cause), "fp16_overflow");
  recipe.numerics.scale = ScaleWhen::before;
  EXPECT_FALSE(why_O(problem, recipe, 0).cause);
}

// One pair of a row and a key whose product is beyond 65504, anywhere, under any loop.
TEST(Provenance, planted_float16_overflows) {
  std::mt19937 random(15);
  const auto below = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  int planted = 0;
  for (int n = 0; n < 300; ++n) {
    const Shape shape{2, 1 + below(2), 3 + below(16), 3 + below(16), 2 + below(4), 1 + below(3), DType::float16};
    const auto base = random_problem(shape, random());
    Tensor Q = base->Q(), K = base->K();
    const std::int64_t head = below(2), row = below(shape.Nq), key = below(shape.Nk);
    for (std::int64_t e = 0; e < shape.d; ++e) set(Q, head, row, e, 0), set(K, shape.kv_head(head), key, e, 0);
    set(Q, head, row, 0, 400), set(K, shape.kv_head(head), key, 0, 400);  // 160,000
    Mask mask;
    if (below(3) == 0) mask.causal = below(2) ? Causal::top_left : Causal::bottom_right;
    const auto problem = make_problem("planted", std::move(Q), std::move(K), Tensor(base->V()), {}, mask);
    Recipe recipe;
    recipe.algorithm = static_cast<Algorithm>(below(3));
    recipe.Br = 1 + below(7), recipe.Bc = 1 + below(7);
    recipe.order = static_cast<Order>(below(2)), recipe.skip = static_cast<Skip>(below(3));
    recipe.guard = static_cast<Guard>(below(2));
    recipe.numerics.scores = DType::float16, recipe.numerics.scale = ScaleWhen::after;
    const bool standard = recipe.algorithm == Algorithm::standard;
    const Schedule schedule(shape, mask, recipe);
    const Provenance found = why(*problem, schedule, {CellKind::O, head, row, below(shape.dv), {}});
    const std::string what = fmt::format("{}, row {}, key {}: {}", text(recipe), row, key, one_line(found));
    if (!visible(mask, band(mask, shape.Nq, shape.Nk), head, row, key)) {
      EXPECT_FALSE(found.cause) << what;
      continue;
    }
    ++planted;
    ASSERT_TRUE(found.cause && found.stage) << what;
    EXPECT_EQ(name(*found.cause), "fp16_overflow") << what;
    EXPECT_EQ(name(*found.stage), name(standard ? Stage::softmax : Stage::exponentials)) << what;
    EXPECT_EQ(found.origin, Origin::score_overflow) << what;
    EXPECT_EQ(found.links.back().of, CellKind::S) << what;
    EXPECT_EQ(found.links.back().row, row) << what;
    EXPECT_EQ(found.links.back().col, key) << what;
    EXPECT_EQ(found.links.back().j, standard ? -1 : key / recipe.Bc) << what;
  }
  EXPECT_GT(planted, 200);
}

// Under gqa-interleaved head 1 of four reads key/value head 1, not 0: the faults are looked for there.
TEST(Provenance, an_interleaved_head_is_traced_to_the_head_it_reads) {
  const auto base = random_problem(Shape{4, 2, 6, 6, 3, 2, DType::float32}, 4);
  Recipe recipe;
  recipe.Br = 2, recipe.Bc = 2, recipe.defect = Defect::gqa_interleaved;
  for (const bool in_V : {false, true}) {
    Tensor K = base->K(), V = base->V();
    set(in_V ? V : K, 1, 3, 1, kNan);
    const auto problem = make_problem("planted", Tensor(base->Q()), std::move(K), std::move(V));
    const Schedule schedule(problem->shape(), {}, recipe);
    const Provenance found = why(*problem, schedule, {CellKind::O, 1, 4, 1, {}});
    EXPECT_EQ(found.cause, in_V ? Cause::v_nan : Cause::k_nan) << one_line(found);
    EXPECT_EQ(found.links.back().of, in_V ? CellKind::V : CellKind::K) << one_line(found);
    EXPECT_EQ(found.links.back().head, 1);
    EXPECT_EQ(found.links.back().row, 3);
    EXPECT_FALSE(why(*problem, schedule, {CellKind::O, 2, 4, 1, {}}).cause);  // reads 0
    const auto first = diagnose(problem, recipe).first_nan;
    ASSERT_TRUE(first);
    EXPECT_EQ(first->head, 1);
    EXPECT_EQ(first->cause, in_V ? Cause::v_nan : Cause::k_nan);
  }
}

}  // namespace
}  // namespace flashscope::testing
