// What the mask report says of masks whose mistake is known, and of random ones against plain loops.
#include "engine/insight/mask_report.h"

#include <algorithm>
#include <random>

#include "support.h"

namespace flashscope::testing {
namespace {

MaskReport report_of(const std::shared_ptr<const Problem>& problem, const Recipe& recipe = {}) {
  return mask_report(*problem, Schedule(problem->shape(), problem->mask, recipe));
}
bool has_hint(const MaskReport& report, const std::string& word, const std::string& option = "") {
  return std::any_of(report.hints.begin(), report.hints.end(), [&](const MaskHint& hint) {
    return hint.text.find(word) != std::string::npos && (option.empty() || hint.option == option);
  });
}
bool has_line(const std::vector<MaskLine>& lines, const std::string& word) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const MaskLine& line) { return line.text.find(word) != std::string::npos; });
}

std::shared_ptr<const Problem> square(std::int64_t N, Mask mask) {
  return random_problem(Shape{1, 1, N, N, 4, 4, DType::float32}, 3, {}, std::move(mask));
}
Mask keep_where(std::int64_t rows, std::int64_t cols, const std::function<bool(std::int64_t, std::int64_t)>& keeps) {
  KeepMask keep = make_keep_mask(1, rows, cols);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      if (keeps(r, c)) set_keep(keep, 0, r, c);
  Mask mask;
  mask.keep = std::make_shared<const KeepMask>(std::move(keep));
  return mask;
}
Mask bias_where(std::int64_t N, const std::function<double(std::int64_t, std::int64_t)>& value) {
  Bias bias;
  bias.rows = bias.cols = N;
  for (std::int64_t n = 0; n < N * N; ++n) bias.f32.push_back(static_cast<float>(value(n / N, n % N)));
  Mask mask;
  mask.bias = std::make_shared<const Bias>(std::move(bias));
  return mask;
}

TEST(MaskReport, case_01_empty_rows) {
  const Case log("open-01-fully-masked-rows");
  const auto problem = log.problem(DType::float32, keep_mask_from(log.json["inputs"]["mask"]["values"]));
  const MaskReport report = report_of(problem);
  ASSERT_EQ(report.heads.size(), 1u);
  EXPECT_EQ(report.heads[0].empty_rows, (std::vector<std::int64_t>{2, 5}));
  EXPECT_EQ(report.heads[0].min, 0);
  EXPECT_TRUE(has_line(mask_lines(*problem, report, {}), "2 empty rows: 2, 5"));
}

// Masked scores become -10000, or have it added: row 0's real scores lie below that.
TEST(MaskReport, case_03_maximum_on_a_masked_cell) {
  const Case log("open-03-finite-sentinel-wins");
  const auto problem = log.problem(DType::float32, keep_mask_from(log.json["inputs"]["mask"]["values"]));
  Recipe recipe;
  recipe.Br = 1, recipe.Bc = 2;
  for (const char* defect : {"finite-sentinel=-10000", "finite-sentinel=-10000,add"}) {
    set_defect(recipe, defect);
    const Schedule schedule(problem->shape(), problem->mask, recipe);
    const MaskReport report = mask_report(*problem, schedule);
    ASSERT_TRUE(masked_scores_matter(report, recipe));
    const ScoreReport scores = score_report(*problem, schedule, report, 2);
    EXPECT_EQ(scores.maximum_on_masked_rows, 1) << defect;
    ASSERT_EQ(scores.maximum_on_masked.size(), 1u);
    EXPECT_EQ(scores.maximum_on_masked[0].row, 0);
    EXPECT_GE(scores.maximum_on_masked[0].key, 2);
    EXPECT_EQ(scores.maximum_on_masked[0].largest_real, -15000);
    EXPECT_EQ(scores.real_below_masked_rows, 1);
    EXPECT_EQ(scores.lowest_real, -15150);
  }
  EXPECT_FALSE(masked_scores_matter(report_of(problem), Recipe{}));
}

TEST(MaskReport, case_04_two_finite_masks) {
  const Case log("open-04-two-finite-masks-overflow");
  const auto problem = log.problem(DType::float32, bias_from(log.json["inputs"]["mask"]["values"]));
  const MaskReport report = report_of(problem);
  EXPECT_EQ(report.minus_inf_cells, 1);
  ASSERT_TRUE(report.stand_in);
  EXPECT_EQ(report.stand_in->value, -65504);
  EXPECT_EQ(report.stand_in->cells, log.expected()["cells_at_float16_minimum"].get<std::int64_t>());
  EXPECT_EQ(report.stand_in->effectively_empty, (std::vector<MaskRow>{{0, 0}, {0, 1}}));
  EXPECT_EQ(report.stand_in->mixed, (std::vector<MaskRow>{{0, 0}}));
  const auto lines = mask_lines(*problem, report, {});
  EXPECT_TRUE(has_line(lines, "2 rows without any cell above the stand-in"));
  EXPECT_TRUE(has_line(lines, "both -inf and stand-ins"));
  // Rows 0 and 1 really attend to masked keys, the others do not.
  const Schedule schedule(problem->shape(), problem->mask, Recipe{});
  EXPECT_EQ(score_report(*problem, schedule, report).maximum_on_masked_rows, 2);
}

TEST(MaskReport, case_06_zero_times_minus_inf) {
  const Case log("open-06-zero-times-minus-inf");
  const auto problem = log.problem(DType::float32, bias_from(log.json["inputs"]["mask"]["values"]));
  const MaskReport report = report_of(problem);
  EXPECT_EQ(report.nan_cells, 10);
  EXPECT_EQ(report.minus_inf_cells, 6);
  EXPECT_EQ(report.first_nan.front(), (MaskCell{0, 0, 0}));
  EXPECT_TRUE(has_hint(report, "(1 - keep) * -inf"));
}

TEST(MaskReport, case_07_polarity) {
  const Case log("open-07-mask-meaning");
  const Json& masks = log.json["inputs"];
  const auto drop = square(4, keep_where(4, 4, [](auto r, auto c) { return c > r; }));
  EXPECT_TRUE(has_hint(report_of(drop), "true means drop", "--mask-means drop"));
  EXPECT_EQ(report_of(drop).heads[0].empty_rows, (std::vector<std::int64_t>{3}));
  const auto ones = square(4, bias_where(4, [](auto r, auto c) { return c <= r ? 1 : 0; }));
  EXPECT_TRUE(has_hint(report_of(ones), "holds only 0 and 1"));
  EXPECT_FALSE(masks.is_null());
  // The right ones say nothing.
  for (const Mask& mask : {keep_where(4, 4, [](auto r, auto c) { return c <= r; }),
                           bias_where(4, [](auto r, auto c) { return c <= r ? 0 : -INFINITY; })})
    EXPECT_TRUE(report_of(square(4, mask)).hints.empty());
}

TEST(MaskReport, axis_and_sign) {
  EXPECT_TRUE(has_hint(report_of(square(6, keep_where(6, 1, [](auto r, auto) { return r < 4; }))), "along the keys"));
  EXPECT_TRUE(has_hint(report_of(square(6, keep_where(6, 6, [](auto r, auto) { return r < 4; }))), "wrong axis"));
  EXPECT_TRUE(has_hint(report_of(square(6, keep_where(1, 6, [](auto, auto c) { return c >= 4; }))), "padding",
                       "--mask-means drop"));
  EXPECT_TRUE(report_of(square(6, keep_where(1, 6, [](auto, auto c) { return c < 4; }))).hints.empty());
  EXPECT_TRUE(has_hint(report_of(square(6, bias_where(6, [](auto r, auto c) { return c > r ? 1e4 : 0; }))), "sign"));
  EXPECT_TRUE(has_hint(report_of(square(6, keep_where(6, 6, [](auto r, auto c) { return c >= r; }))), "transposed"));
}

// One stored row stands for all.
TEST(MaskReport, a_broadcast_stand_in_is_of_every_row) {
  Bias bias;
  bias.rows = 1, bias.cols = 16;
  bias.f32.assign(16, -1e9f);
  Mask mask;
  mask.bias = std::make_shared<const Bias>(std::move(bias));
  const auto problem = random_problem(Shape{2, 2, 16, 16, 4, 4, DType::float32}, 3, {}, mask);
  const MaskReport report = report_of(problem);
  ASSERT_TRUE(report.stand_in);
  EXPECT_TRUE(report.stand_in->every_row && report.stand_in->every_head);
  EXPECT_TRUE(has_line(mask_lines(*problem, report, {}), "32 rows without any cell above the stand-in"));
  EXPECT_TRUE(has_line(mask_lines(*problem, report, {}), "every row of every head"));
}

// A bias that falls with distance is no stand-in.
TEST(MaskReport, distance_bias_is_no_stand_in) {
  const auto slope = bias_where(
      64, [](auto r, auto c) { return -100.0 * static_cast<double>(std::abs(r - c)) - (r == 0 && c == 63); });
  EXPECT_FALSE(report_of(square(64, slope)).stand_in);
  const auto stand_in = bias_where(8, [](auto r, auto c) { return c > r ? -1e9 : 0; });
  EXPECT_TRUE(report_of(square(8, stand_in)).stand_in);
}

TEST(MaskReport, random_masks_against_plain_loops) {
  std::mt19937 random(5);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int n = 0; n < 60; ++n) {
    const Shape shape{2, 1, 1 + below(30), 1 + below(30), 3, 2, DType::float32};
    Mask mask;
    if (below(2)) mask.causal = below(2) ? Causal::top_left : Causal::bottom_right;
    if (below(3) == 0) mask.window = Window{below(8), below(8)};
    if (below(2)) {
      KeepMask keep = make_keep_mask(1 + below(2), shape.Nq, shape.Nk);
      for (std::int64_t h = 0; h < keep.heads; ++h)
        for (std::int64_t r = 0; r < shape.Nq; ++r)
          for (std::int64_t c = 0; c < shape.Nk; ++c)
            if (below(3)) set_keep(keep, h, r, c);
      mask.keep = std::make_shared<const KeepMask>(std::move(keep));
    }
    const auto problem = random_problem(shape, random(), {}, mask);
    Recipe recipe;
    recipe.Br = 1 + below(8), recipe.Bc = 1 + below(8), recipe.skip = static_cast<Skip>(below(3));
    const Schedule schedule(shape, mask, recipe);
    const MaskReport report = mask_report(*problem, schedule);
    const Band limits = band(mask, shape.Nq, shape.Nk);
    for (std::size_t h = 0; h < report.heads.size(); ++h) {
      std::vector<std::int64_t> counts;
      for (std::int64_t r = 0; r < shape.Nq; ++r) {
        std::int64_t count = 0;
        for (std::int64_t c = 0; c < shape.Nk; ++c) count += visible(mask, limits, static_cast<std::int64_t>(h), r, c);
        counts.push_back(count);
      }
      EXPECT_EQ(report.heads[h].per_row, counts);
      EXPECT_EQ(report.heads[h].one_key_rows.size(),
                static_cast<std::size_t>(std::count(counts.begin(), counts.end(), 1)));
      std::sort(counts.begin(), counts.end());
      EXPECT_EQ(report.heads[h].min, counts.front());
      EXPECT_EQ(report.heads[h].max, counts.back());
      EXPECT_EQ(report.heads[h].median, (counts[(counts.size() - 1) / 2] + counts[counts.size() / 2]) / 2.0);
    }
    MaskReport::Tiles tiles;
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t i = 0; i < schedule.Tr(); ++i)
        for (std::int64_t j = 0; j < schedule.Tc(); ++j) {
          std::int64_t seen = 0, cells = 0;
          for (std::int64_t r = i * recipe.Br; r < std::min(shape.Nq, (i + 1) * recipe.Br); ++r)
            for (std::int64_t c = j * recipe.Bc; c < std::min(shape.Nk, (j + 1) * recipe.Bc); ++c)
              seen += visible(mask, limits, h, r, c), ++cells;
          ++(seen == cells ? tiles.full : seen == 0 ? tiles.empty : tiles.partial);
        }
    tiles.visited = schedule.tiles();
    ASSERT_TRUE(report.tiles);
    EXPECT_EQ(report.tiles->full, tiles.full);
    EXPECT_EQ(report.tiles->partial, tiles.partial);
    EXPECT_EQ(report.tiles->empty, tiles.empty);
    EXPECT_EQ(report.tiles->visited, tiles.visited);
  }
}

TEST(MaskReport, conventions_offer_the_other_one) {
  Mask mask = keep_where(4, 8, [](auto, auto c) { return c > 1; });
  mask.causal = Causal::top_left, mask.window = Window{3, 0};
  const auto problem = random_problem(Shape{1, 1, 4, 8, 3, 3, DType::float32}, 3, {}, mask);
  const auto list = conventions_in_force(*problem, Recipe{});
  const auto find = [&](const std::string& name) {
    const auto at = std::find_if(list.begin(), list.end(), [&](const Convention& c) { return c.name == name; });
    return at == list.end() ? Convention{} : *at;
  };
  EXPECT_EQ(find("causal alignment").mask->causal, Causal::bottom_right);
  EXPECT_TRUE(find("causal alignment").matters);
  EXPECT_EQ(find("window bounds").mask->window->left, 2);
  EXPECT_EQ(find("empty rows").recipe->empty_row, EmptyRow::nan);
  EXPECT_TRUE(find("empty rows").matters);  // rows 0 and 1 see nothing
  EXPECT_EQ(find("keep or drop").option, "--mask-means drop");
  const KeepMask other = flipped(*mask.keep);
  for (std::int64_t r = 0; r < 4; ++r)
    for (std::int64_t c = 0; c < 8; ++c) EXPECT_NE(other.keep(0, r, c), mask.keep->keep(0, r, c));
}

}  // namespace
}  // namespace flashscope::testing
