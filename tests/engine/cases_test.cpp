// The case log: faults that people met in public threads, each with its right answer.
#include <algorithm>

#include "engine/attention/ledger.h"
#include "engine/attention/trace.h"
#include "engine/error.h"
#include "engine/insight/diagnosis.h"
#include "support.h"

namespace flashscope::testing {
namespace {

constexpr DType kTypes[] = {DType::float32, DType::float64};

// O (and LSE, where given) of every guarded recipe, in both precisions.
void expect_right(const Case& log, const Mask& mask, std::int64_t Br, std::int64_t Bc, const Json& O,
                  const Json& LSE = nullptr, std::optional<EmptyRow> empty_row = {},
                  MaskApply apply = MaskApply::select) {
  for (const DType type : kTypes) {
    const auto problem = log.problem(type, mask);
    for (Recipe recipe : guarded_recipes(Br, Bc)) {
      recipe.mask_apply = apply;
      if (empty_row) recipe.empty_row = *empty_row;
      const Report report = run(*problem, recipe);
      const std::string what = std::string(name(type)) + " " + text(recipe);
      expect_all_near(report.O, numbers(O), log.tolerance(type), what + " O");
      if (!LSE.is_null()) expect_all_near(report.LSE, numbers(LSE), log.tolerance(type), what + " LSE");
    }
  }
}

Recipe flash2(std::int64_t Br, std::int64_t Bc, Guard guard) {
  Recipe recipe;
  recipe.Br = Br, recipe.Bc = Bc, recipe.guard = guard;
  return recipe;
}

std::vector<std::int64_t> integers(const Json& json) { return json.get<std::vector<std::int64_t>>(); }

std::vector<std::int64_t> visible_per_row(const Mask& mask, std::int64_t Nq, std::int64_t Nk) {
  std::vector<std::int64_t> counts;
  for (std::int64_t r = 0; r < Nq; ++r) counts.push_back(visible_keys(mask, Nq, Nk, 0, r));
  return counts;
}

Mask causal(Causal alignment) {
  Mask mask;
  mask.causal = alignment;
  return mask;
}

TEST(Cases, open_01_fully_masked_rows) {
  const Case log("open-01-fully-masked-rows");
  const Mask mask = keep_mask_from(log.json["inputs"]["mask"]["values"]);
  EXPECT_EQ(empty_rows(mask, 6, 8, 0), integers(log.expected()["fully_masked_rows"]));
  expect_right(log, mask, 2, 4, log.expected()["O_zero_policy"], log.expected()["LSE_zero_policy"], EmptyRow::zero);

  Json nan_rows = log.expected()["O_zero_policy"], mean_rows = nan_rows;
  for (const int r : {2, 5}) {
    nan_rows[r] = {"nan", "nan", "nan", "nan"};
    mean_rows[r] = log.expected()["finite_minimum_fill_policy"]["rows_2_and_5"];
  }
  expect_right(log, mask, 2, 4, nan_rows, nullptr, EmptyRow::nan);
  expect_right(log, mask, 2, 4, mean_rows, nullptr, EmptyRow::mean);

  // The textbook loop: NaN in those rows and nowhere else, first in P of tile (1, 0).
  Recipe naive = flash2(2, 4, Guard::none);
  naive.skip = Skip::none;
  const auto problem = log.problem(DType::float64, mask);
  const Report report = run(*problem, naive);
  EXPECT_EQ(report.nan_rows, one_head(integers(log.expected()["naive_policy"]["nan_rows"])));
  EXPECT_EQ(std::count_if(report.O.begin(), report.O.end(), [](double o) { return std::isnan(o); }),
            log.expected()["naive_policy"]["nan_cells"].get<int>());
  expect_all_near(report.O, numbers(nan_rows), log.tolerance(DType::float64), "naive");
  const auto first = diagnose(problem, naive, 1).first_nan;
  ASSERT_TRUE(first);
  const Json& expected = log.expected()["first_nan_under_naive"];
  EXPECT_EQ(first->i, expected["q_tile"].get<int>());
  EXPECT_EQ(first->j, expected["k_tile"].get<int>());
  EXPECT_EQ(first->row, expected["row"].get<int>());
  EXPECT_EQ(first->stage, Stage::exponentials);
  EXPECT_EQ(first->cause, Cause::inf_minus_inf);

  // A finite stand-in for -inf gives the mean of V without any policy.
  Recipe finite = naive;
  set_defect(finite, "finite-sentinel=-1e30");
  expect_all_near(run(*problem, finite).O, numbers(mean_rows), log.tolerance(DType::float64), "finite fill");
}

TEST(Cases, open_02_first_tile_masked) {
  const Case log("open-02-first-tile-masked");
  const Mask mask = keep_mask_from(log.json["inputs"]["mask"]["values"]);
  for (const std::int64_t Bc : {1, 2, 3, 4, 5, 8})
    expect_right(log, mask, 2, Bc, log.expected()["O"], log.expected()["LSE"]);
  EXPECT_TRUE(empty_rows(mask, 4, 8, 0).empty());

  for (const DType type : kTypes) {
    const auto problem = log.problem(type, mask);
    for (const Json& row : log.expected()["unguarded_tiled_loop"]) {
      for (const Algorithm algorithm : {Algorithm::flash1, Algorithm::flash2}) {
        Recipe recipe = flash2(2, row["block_k"], Guard::none);
        recipe.algorithm = algorithm;
        recipe.order = parse<Order>(row["k_order"].get<std::string>());
        const bool expected = row["unguarded_gives_nan"];
        EXPECT_EQ(run(*problem, recipe).nan_row_count, expected ? 4 : 0) << text(recipe);
        const auto first = diagnose(problem, recipe, 1).first_nan;
        ASSERT_EQ(first.has_value(), expected) << text(recipe);
        if (!first || recipe.Bc != 4) continue;
        EXPECT_EQ(first->i, log.expected()["unguarded_first_nan"]["q_tile"].get<int>());
        EXPECT_EQ(first->j, log.expected()["unguarded_first_nan"]["k_tile"].get<int>());
        EXPECT_EQ(first->stage, Stage::exponentials);
        EXPECT_EQ(first->cause, Cause::inf_minus_inf);
      }
    }
  }

  // m, l, O after each tile, and no rescale when the first finite maximum comes.
  Trace trace(log.problem(DType::float64, mask), flash2(2, 4, Guard::clamp));
  TraceState state = trace.seek(*trace.schedule().find(0, 0, 0, Stage::accumulate) + 1);
  for (const double m : state.m) EXPECT_EQ(m, -std::numeric_limits<double>::infinity());
  for (const double l : state.l) EXPECT_EQ(l, 0);
  for (const double o : state.O.values) EXPECT_EQ(o, 0);
  state = trace.seek(*trace.schedule().find(0, 0, 1, Stage::accumulate) + 1);
  expect_all_near(state.m, numbers(log.expected()["after_k_tile_1_rows_0_1"]["m"]), 1e-12, "m");
  expect_all_near(state.l, numbers(log.expected()["after_k_tile_1_rows_0_1"]["l"]), 1e-12, "l");
  EXPECT_FALSE(trace.find(EventKind::rescale, 0, true));
}

TEST(Cases, open_05_nan_in_masked_key) {
  const Case log("open-05-nan-in-masked-key");
  const Mask mask = keep_mask_from(log.json["inputs"]["mask"]["values"]);
  expect_right(log, mask, 2, 2, log.expected()["O_select_semantics"], log.expected()["LSE_select_semantics"]);
  expect_right(log, mask, 2, 2, Json(std::vector<std::string>(6, "nan")), nullptr, {}, MaskApply::add);

  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash1, Algorithm::flash2}) {
    for (const Guard guard : {Guard::clamp, Guard::none}) {
      const auto problem = log.problem(DType::float32, mask);
      Recipe recipe = flash2(2, 2, guard);
      recipe.algorithm = algorithm;
      EXPECT_FALSE(diagnose(problem, recipe, 1).first_nan) << text(recipe);
      recipe.mask_apply = MaskApply::add;
      const Diagnosis diagnosis = diagnose(problem, recipe, 1);
      EXPECT_EQ(diagnosis.nan_rows, (std::vector<std::vector<std::int64_t>>{{0, 1, 2}})) << text(recipe);
      ASSERT_TRUE(diagnosis.first_nan) << text(recipe);
      EXPECT_EQ(diagnosis.first_nan->stage, Stage::scores);
      EXPECT_EQ(diagnosis.first_nan->cause, Cause::k_nan);
      EXPECT_EQ(diagnosis.first_nan->key, 2);
      EXPECT_EQ(diagnosis.first_nan->row, 0);
      EXPECT_EQ(diagnosis.first_nan->j, algorithm == Algorithm::standard ? -1 : 1);
    }
  }
}

TEST(Cases, open_06_zero_times_minus_inf) {
  const Case log("open-06-zero-times-minus-inf");
  Json values = log.json["inputs"]["mask"]["values"];
  const MaskSummary summary = summarise(bias_from(values));
  EXPECT_EQ(summary.nan_cells, log.expected()["mask_nan_cells"].get<int>());
  EXPECT_EQ(summary.minus_inf_cells, log.expected()["mask_minus_inf_cells"].get<int>());
  EXPECT_TRUE(summary.looks_like_zero_times_inf);
  expect_right(log, bias_from(values), 2, 2, Json(std::vector<std::string>(8, "nan")));
  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash1, Algorithm::flash2}) {
    Recipe recipe = flash2(2, 2, Guard::clamp);
    recipe.algorithm = algorithm;
    const auto first = diagnose(log.problem(DType::float32, bias_from(values)), recipe, 1).first_nan;
    ASSERT_TRUE(first);
    EXPECT_EQ(first->stage, Stage::mask);
    EXPECT_EQ(first->cause, Cause::mask_nan);
    EXPECT_EQ(first->row, 0);
    EXPECT_EQ(first->key, 0);
  }

  for (Json& row : values)
    for (Json& cell : row)
      if (cell == "nan") cell = 0;
  EXPECT_FALSE(summarise(bias_from(values)).looks_like_zero_times_inf);
  expect_right(log, bias_from(values), 2, 2, log.expected()["O_after_where_keep_0_minus_inf"],
               log.expected()["LSE_after_fix"]);
}

TEST(Cases, open_08_decode_causal_alignment) {
  const Case log("open-08-decode-causal-alignment");
  for (const Causal alignment : {Causal::top_left, Causal::bottom_right}) {
    const Json& expected = log.expected()[alignment == Causal::top_left ? "top_left" : "bottom_right"];
    expect_right(log, causal(alignment), 1, 2, expected["O"], expected["LSE"]);
    EXPECT_EQ(visible_per_row(causal(alignment), 1, 8), std::vector{expected["visible_keys"].get<std::int64_t>()});
    const auto problem = log.problem(DType::float32, causal(alignment));
    const Schedule schedule(problem->shape(), problem->mask, flash2(1, 2, Guard::clamp));
    std::vector<std::int64_t> tiles;
    for (std::int64_t n = 0; n < schedule.visits(0, 0); ++n) tiles.push_back(schedule.visit_j(0, 0, n));
    EXPECT_EQ(tiles, integers(expected["k_tiles_needed"]));
  }
}

TEST(Cases, open_09_more_queries_than_keys) {
  const Case log("open-09-more-queries-than-keys");
  const Json& last = log.expected()["bottom_right"];
  const Json& first = log.expected()["top_left"];
  expect_right(log, causal(Causal::bottom_right), 2, 2, last["O_zero_policy"], last["LSE"]);
  expect_right(log, causal(Causal::top_left), 2, 2, first["O"], first["LSE"]);
  EXPECT_EQ(empty_rows(causal(Causal::bottom_right), 6, 3, 0), integers(last["fully_masked_rows"]));
  EXPECT_EQ(empty_rows(causal(Causal::top_left), 6, 3, 0), integers(first["fully_masked_rows"]));

  const Schedule schedule(Shape{1, 1, 6, 3, 4, 2, DType::float32}, causal(Causal::bottom_right),
                          flash2(2, 2, Guard::clamp));
  for (const Json& tile : last["tiles_with_work"]) EXPECT_TRUE(schedule.visited(0, tile[0], tile[1])) << tile;
  for (const Json& tile : last["tiles_without_work"]) EXPECT_FALSE(schedule.visited(0, tile[0], tile[1])) << tile;
  // Row block 0 has no work and still writes its O and LSE.
  EXPECT_EQ(schedule.visits(0, 0), 0);
  EXPECT_TRUE(schedule.find(0, 0, -1, Stage::store));
  EXPECT_EQ(counted(schedule).elements[Operand::O].written, 6 * 2);
  EXPECT_EQ(counted(schedule).elements[Operand::LSE].written, 6);
}

TEST(Cases, open_10_window_off_by_one) {
  const Case log("open-10-window-off-by-one");
  std::vector<std::vector<double>> outputs;
  for (const auto& [left, key] :
       {std::pair{2, "window_counts_the_query_itself"}, std::pair{3, "window_counts_left_neighbours_only"}}) {
    Mask mask = causal(Causal::top_left);
    mask.window = Window{left, 0};
    const Json& expected = log.expected()[key];
    expect_right(log, mask, 2, 2, expected["O"], expected["LSE"]);
    EXPECT_EQ(visible_per_row(mask, 6, 6), integers(expected["visible_per_row"]));
    const Report report = run(*log.problem(DType::float64, mask), flash2(2, 2, Guard::clamp));
    outputs.emplace_back(report.O.begin(), report.O.end());
  }
  const auto differs = std::mismatch(outputs[0].begin(), outputs[0].end(), outputs[1].begin(),
                                     [](double a, double b) { return std::abs(a - b) <= 1e-12; });
  EXPECT_EQ((differs.first - outputs[0].begin()) / 2, log.expected()["first_row_that_differs"].get<int>());
}

TEST(Cases, open_11_ragged_tail) {
  const Case log("open-11-ragged-tail");
  for (const Json& blocks : log.json["inputs"]["block_combinations"]) {
    const std::int64_t Br = blocks[0], Bc = blocks[1];
    expect_right(log, {}, Br, Bc, log.expected()["O"], log.expected()["LSE"]);
    const auto problem = log.problem(DType::float64);
    const Schedule schedule(problem->shape(), problem->mask, flash2(Br, Bc, Guard::clamp));
    const std::string pair = std::to_string(Br) + "x" + std::to_string(Bc);
    EXPECT_EQ((std::vector{schedule.Tr(), schedule.Tc()}), integers(log.expected()["tile_grid"][pair])) << pair;
    const Json& tails = log.expected()["last_tile_rows_cols"];
    if (tails.contains(pair)) {
      EXPECT_EQ((std::vector{schedule.rows(schedule.Tr() - 1), schedule.cols(schedule.Tc() - 1)}),
                integers(tails[pair]));
    }
  }
  // Padded keys that score 0 take nearly all the weight.
  for (const std::int64_t Bc : {4, 32}) {
    Recipe recipe = flash2(4, Bc, Guard::clamp);
    recipe.defect = Defect::unmasked_tail;
    const Json& wrong = log.json["wrong"]["zero-padded keys scored 0 and counted"]["block_k=" + std::to_string(Bc)];
    expect_all_near(run(*log.problem(DType::float64), recipe).O, numbers(wrong), 1e-12, "unmasked tail");
  }
}

TEST(Cases, open_12_odd_head_dims) {
  const Case log("open-12-odd-head-dims");
  EXPECT_LE(std::abs(log.problem(DType::float64)->scale - log.expected()["default_scale"].get<double>()), 1e-15);
  EXPECT_EQ(log.problem(DType::float64)->shape().dv, 3);
  expect_right(log, {}, 2, 2, log.expected()["O"], log.expected()["LSE"]);
  // The wrong scales give the wrong tables: the default is neither.
  for (const auto& [width, key] :
       {std::pair{8, "scale 1/sqrt(8) (padded width)"}, std::pair{3, "scale 1/sqrt(3) (value width)"}}) {
    const auto problem = with_scale(log.problem(DType::float64), 1 / std::sqrt(width));
    expect_all_near(run(*problem, flash2(2, 2, Guard::clamp)).O, numbers(log.json["wrong"][key]), 1e-12, key);
  }
  // A kernel that knows no width of 6 and uses 4.
  const auto four = [&](const Tensor& whole) {
    Tensor part = make_tensor(DType::float64, 1, whole.rows, 4);
    for (std::int64_t r = 0; r < whole.rows; ++r)
      for (std::int64_t e = 0; e < 4; ++e) set(part, 0, r, e, whole.at(0, r, e));
    return part;
  };
  const auto whole = log.problem(DType::float64);
  const auto cut = make_problem("four of six", four(whole->Q()), four(whole->K()), whole->V(), whole->scale);
  const char* key = "only the first 4 of 6 dimensions used";
  expect_all_near(run(*cut, flash2(2, 2, Guard::clamp)).O, numbers(log.json["wrong"][key]), 1e-12, key);
}

TEST(Cases, open_13_rescale_direction) {
  const Case log("open-13-rescale-direction");
  expect_right(log, {}, 2, 2, log.expected()["O"], log.expected()["LSE"]);
  const auto problem = log.problem(DType::float64);
  Trace trace(problem, flash2(2, 2, Guard::none));
  for (const Json& expected : log.expected()["trace"]) {
    const std::int64_t j = expected["k_tile"];
    const TraceState state = trace.seek(*trace.schedule().find(0, 0, j, Stage::accumulate) + 1);
    const std::string what = "tile " + std::to_string(j);
    expect_all_near(state.m, numbers(expected["m"]), 1e-12, what + " m");
    expect_all_near(state.l, numbers(expected["l"]), 1e-12, what + " l");
    expect_all_near(state.O.values, numbers(expected["O_unnormalised"]), 1e-12, what + " O");
    if (j > 0) expect_all_near(state.alpha, numbers(expected["factor_on_old_values"]), 1e-12, what + " alpha");
    std::vector<std::int64_t> rescaled;
    for (const Event& event : trace.tile_events(0, 0, j))
      if (event.kind == EventKind::rescale) rescaled.push_back(event.row);
    EXPECT_EQ(rescaled, integers(expected["rescaled_rows"])) << what;
  }
  const auto event = trace.find(EventKind::rescale, 0, true);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->j, 1);
  EXPECT_EQ(event->row, 0);
  expect_near(event->alpha, log.expected()["row_0_factor_at_k_tile_1"], 1e-12, "alpha");
  EXPECT_FALSE(trace.find(EventKind::rescale, event->step, true));

  Recipe inverse = flash2(2, 2, Guard::none);
  inverse.defect = Defect::inverse_rescale;
  const Report wrong = run(*problem, inverse);
  expect_all_near(std::span(wrong.O).first(2), numbers(log.json["wrong"]["row_0_with_inverse_factor_on_O"]), 1e-12,
                  "inverse");
}

TEST(Cases, open_14_lse_base) {
  const Case log("open-14-lse-base");
  expect_right(log, {}, 3, 3, log.expected()["O"], log.expected()["LSE_natural_whole"]);
  // After the first tile of 3 keys, m + ln l is the LSE of these keys alone.
  Trace trace(log.problem(DType::float64), flash2(3, 3, Guard::clamp));
  const TraceState state = trace.seek(*trace.schedule().find(0, 0, 0, Stage::accumulate) + 1);
  std::vector<double> LSE, O;
  for (std::size_t r = 0; r < state.m.size(); ++r) {
    LSE.push_back(state.m[r] + std::log(state.l[r]));
    for (std::int64_t x = 0; x < state.O.cols; ++x) O.push_back(state.O.at(r, x) / state.l[r]);
  }
  expect_all_near(LSE, numbers(log.expected()["LSE_natural_keys_0_2"]), 1e-12, "LSE of keys 0..2");
  expect_all_near(O, numbers(log.expected()["O_keys_0_2"]), 1e-12, "O of keys 0..2");
  EXPECT_NE(conventions(flash2(3, 3, Guard::clamp), {}).find("LSE natural"), std::string::npos);

  // In base 2: what such a kernel hands out, and what merging its two halves by exp makes of O.
  Recipe base2 = flash2(3, 3, Guard::clamp);
  set_defect(base2, "lse-base2");
  const auto problem = log.problem(DType::float64);
  expect_all_near(run(*problem, base2).LSE, numbers(log.expected()["LSE_base2_whole"]), 1e-12, "base 2");
  std::vector<double> merged(6);
  for (int r = 0; r < 3; ++r) {
    const double a = log.expected()["LSE_natural_keys_0_2"][r].get<double>() / std::log(2.0);
    const double b = log.expected()["LSE_natural_keys_3_5"][r].get<double>() / std::log(2.0);
    for (int e = 0; e < 2; ++e)
      merged[2 * r + e] = (std::exp(a) * log.expected()["O_keys_0_2"][r][e].get<double>() +
                           std::exp(b) * log.expected()["O_keys_3_5"][r][e].get<double>()) /
                          (std::exp(a) + std::exp(b));
  }
  expect_all_near(merged, numbers(log.json["wrong"]["O_if_base2_values_are_merged_with_exp"]), 1e-12, "merged");
}

TEST(Cases, open_15_float16_score_overflow) {
  const Case log("open-15-float16-score-overflow");
  Tensor K = make_tensor(DType::float16, 1, 3, 64);
  for (int r = 0; r < 3; ++r)
    for (int e = 0; e < 64; ++e) set(K, 0, r, e, log.json["inputs"]["K"]["formula"]["row_values"][r]);
  const auto problem =
      make_problem("open-15", tensor_from(log.json["inputs"]["Q"]["values"], DType::float16), std::move(K),
                   tensor_from(log.json["inputs"]["V"]["values"], DType::float16), log.json["inputs"]["scale"]);
  // float16 files are computed in a wider type: exactly 4, and m as the case says.
  const Recipe wide = flash2(1, 2, Guard::clamp);
  expect_all_near(run(*problem, wide).O, numbers(log.expected()["O"]), 0, "O");
  expect_all_near(run(*problem, wide).LSE, numbers(log.expected()["LSE"]), 0, "LSE");
  Trace trace(problem, wide);
  for (const int j : {0, 1}) {
    const TraceState state = trace.seek(*trace.schedule().find(0, 0, j, Stage::max) + 1);
    EXPECT_EQ(state.m[0], log.expected()["m_after_tiles"][j].get<double>());
  }
  for (const int j : {0, 1}) {
    const TraceState state = trace.seek(*trace.schedule().find(0, 0, j, Stage::scores) + 1);
    for (std::int64_t c = 0; c < state.cols; ++c) {
      EXPECT_EQ(state.S.at(0, c), log.expected()["scaled_scores"][state.col0 + c].get<double>());
      EXPECT_EQ(state.S.at(0, c) / problem->scale, log.expected()["raw_scores"][state.col0 + c].get<double>());
    }
  }
  // Scores in float16: the raw product of keys 0 and 2 overflows, the scale comes too late, O is NaN.
  Recipe narrow = wide;
  narrow.numerics.scores = DType::float16;
  std::vector<double> raw;
  Trace simulated(problem, narrow);
  for (const int j : {0, 1}) {
    const TraceState state = simulated.seek(*simulated.schedule().find(0, 0, j, Stage::scores) + 1);
    raw.insert(raw.end(), state.S.values.begin(), state.S.values.end());
  }
  const std::vector<double> wrong = numbers(log.json["wrong"]["raw scores rounded to float16 first"]);
  for (int c = 0; c < 3; ++c) EXPECT_EQ(raw[c], wrong[c] / 8) << "key " << c;  // scaled by 1/8
  EXPECT_TRUE(std::isnan(run(*problem, narrow).O[0]));
  const auto first = diagnose(problem, narrow, 1).first_nan;
  ASSERT_TRUE(first);
  EXPECT_EQ(first->cause, Cause::fp16_overflow);
  EXPECT_EQ(first->key, 0);
  // Scaling Q before the product avoids it.
  narrow.numerics.scale = ScaleWhen::before;
  expect_all_near(run(*problem, narrow).O, numbers(log.expected()["O"]), 0, "Q scaled first");
}

TEST(Cases, open_17_gqa_head_map) {
  const Case log("open-17-gqa-head-map");
  const auto problem = log.problem(DType::float32);
  for (std::int64_t h = 0; h < 4; ++h)
    EXPECT_EQ(problem->shape().kv_head(h), log.expected()["kv_head_of_q_head"][h].get<int>());
  expect_right(log, {}, 2, 2, log.expected()["O"]);
  // Heads tiled 0, 1, 0, 1 instead: heads 1 and 2 read the wrong keys.
  Recipe tiled = flash2(2, 2, Guard::clamp);
  set_defect(tiled, "gqa-interleaved");
  const Report wrong = run(*log.problem(DType::float64), tiled);
  for (std::int64_t h = 0; h < 4; ++h)
    EXPECT_EQ(kv_head(problem->shape(), tiled, h), log.json["wrong"]["kv_head_of_q_head"][h].get<int>());
  expect_all_near(std::span(wrong.O).subspan(6, 12), numbers(log.json["wrong"]["O_heads_1_and_2"]), 1e-12, "tiled");
  Json inputs = log.json["inputs"];
  inputs["Q"]["values"].erase(3);
  EXPECT_THROW(make_problem("three heads on two", tensor_from(inputs["Q"]["values"], DType::float32),
                            tensor_from(inputs["K"]["values"], DType::float32),
                            tensor_from(inputs["V"]["values"], DType::float32)),
               InputError);
}

TEST(Cases, open_20_block_size_traffic) {
  const Case log("open-20-block-size-traffic");
  const Shape shape{1, 1, 1024, 1024, 64, 64, DType::float16};
  const auto moved = [&shape](Algorithm algorithm, std::int64_t Br, std::int64_t Bc) {
    Recipe recipe;
    recipe.algorithm = algorithm, recipe.Br = Br, recipe.Bc = Bc;
    const Schedule schedule(shape, {}, recipe);
    const Moved elements = counted(schedule).elements.total();
    EXPECT_EQ(formula(schedule).elements, elements) << text(recipe);
    return elements;
  };
  const auto expect_moved = [](const Moved& found, const Json& expected) {
    EXPECT_EQ(found.read, expected["reads"].get<std::int64_t>());
    EXPECT_EQ(found.written, expected["writes"].get<std::int64_t>());
    EXPECT_EQ(found.total(), expected["total"].get<std::int64_t>());
  };
  expect_moved(moved(Algorithm::standard, 128, 128), log.expected()["unfused"]);
  expect_moved(moved(Algorithm::flash1, 64, 128), log.expected()["k_outer_block_k_128"]);
  expect_moved(moved(Algorithm::flash2, 128, 64), log.expected()["q_outer_block_q_128"]);
  for (const Json& row : log.expected()["sweep"]) {
    for (const std::int64_t other : {16, 100, 256}) {  // the other block size does not matter
      EXPECT_EQ(moved(Algorithm::flash1, other, row["block"]).total(), row["k_outer_total"].get<std::int64_t>());
      EXPECT_EQ(moved(Algorithm::flash2, row["block"], other).total(), row["q_outer_total"].get<std::int64_t>());
    }
  }
  for (const Json& row : log.expected()["block_formula_of_the_first_paper"]["values"]) {
    const BlockSizes sizes = block_sizes(row["M_elements"], row["d"], row["d"]);
    EXPECT_EQ(sizes.Br, row["Br"].get<std::int64_t>());
    EXPECT_EQ(sizes.Bc, row["Bc"].get<std::int64_t>());
  }
  // "fp16 128x128 d128 2 stages"; widths over 256 are refused, so the one with d 1024 is.
  for (const Json& row : log.expected()["on_chip_footprint"]["values"]) {
    char type[8];
    int Br = 0, Bc = 0, d = 0, stages = 0;
    ASSERT_EQ(std::sscanf(row["config"].get<std::string>().c_str(), "%7s %dx%d d%d %d", type, &Br, &Bc, &d, &stages),
              5);
    Shape chip = shape;
    chip.type = std::string(type) == "fp16" ? DType::float16 : DType::float32;
    chip.d = chip.dv = d;
    if (d > 256) {
      EXPECT_THROW(check(chip), InputError);
      continue;
    }
    Recipe recipe;
    recipe.Br = Br, recipe.Bc = Bc;
    EXPECT_EQ(on_chip(chip, recipe, stages).qkv, row["bytes_Q_K_V"].get<std::int64_t>()) << row["config"];
  }
}

}  // namespace
}  // namespace flashscope::testing
