// The gallery: each smallest input shows its mistake, and the first step that differs is where the mistake is made.
#include "engine/insight/gallery.h"

#include <map>

#include "engine/error.h"
#include "engine/files/tensor_file.h"
#include "support.h"

namespace flashscope::testing {
namespace {

TEST(Gallery, HasEveryDefect) {
  for (const std::string_view defect : choices<Defect>())
    EXPECT_EQ(find_in_gallery(defect) == nullptr, defect == "none") << defect;
  for (const GalleryEntry& entry : gallery()) {
    EXPECT_FALSE(entry.sentence.empty() || entry.seen_when.empty() || entry.hidden_by.empty()) << entry.name;
    EXPECT_EQ(std::count(entry.sentence.begin(), entry.sentence.end(), '\n'), 0);
  }
  EXPECT_EQ(find_in_gallery("no-such"), nullptr);
  EXPECT_THROW(smallest_example("no-such"), InputError);
}

TEST(Gallery, EverySmallestInputShowsItsMistake) {
  for (const GalleryEntry& entry : gallery()) {
    const GalleryPair pair = smallest_example(entry.name);
    SCOPED_TRACE(entry.name);
    EXPECT_EQ(why_defect_cannot_show(pair.recipe, *pair.problem), "");
    const Report wrong = run(*pair.problem, pair.recipe), right = run(*pair.right_problem, pair.right);
    const auto differ = [](const auto& a, const auto& b) {
      bool differs = false;
      for (std::size_t n = 0; n < a.size(); ++n)
        differs = differs || std::isnan(a[n]) != std::isnan(b[n]) || std::abs(a[n] - b[n]) > 1e-3;
      return differs;
    };
    const bool lse_only = entry.name == "lse-base2",
               none = entry.name == "lse-negative" || entry.name == "output-layout" || entry.name == "heads-exchanged";
    EXPECT_EQ(differ(wrong.O, right.O), !lse_only && !none);
    EXPECT_TRUE(none || differ(wrong.O, right.O) || differ(wrong.LSE, right.LSE));
    // The right run of a mistake is the answer.
    if (entry.kind != GalleryEntry::Kind::convention) {
      Recipe reference;
      expect_all_near(right.O, run(*pair.right_problem, reference).O, 1e-5, "right run");
    }
    EXPECT_EQ(first_difference(pair).has_value(), !none);
    // Deterministic.
    EXPECT_EQ(smallest_example(entry.name).problem->Q().f32, pair.problem->Q().f32);
  }
}

TEST(Gallery, TheFirstDifferenceIsWhereTheMistakeIsMade) {
  const std::map<std::string, Stage> expected = {
      {"no-rescale", Stage::rescale},       {"no-rescale-l", Stage::rescale},   {"no-rescale-o", Stage::rescale},
      {"inverse-rescale", Stage::rescale},  {"tile-max", Stage::accumulate},    {"local-causal", Stage::mask},
      {"unscaled", Stage::scores},          {"double-scale", Stage::scores},    {"no-final-divide", Stage::finish},
      {"finite-sentinel", Stage::mask},     {"mask-twice", Stage::mask},        {"lse-base2", Stage::finish},
      {"gqa-interleaved", Stage::load_k},   {"k-untransposed", Stage::scores},  {"bf16-row-sum", Stage::accumulate},
      {"unmasked-tail", Stage::accumulate}, {"unguarded", Stage::exponentials}, {"window-bounds", Stage::mask},
      {"mask-polarity", Stage::mask},       {"empty-row", Stage::finish},       {"scale-of-dv", Stage::scores},
      {"bias-scaled", Stage::mask},         {"length-bounds", Stage::mask},     {"alibi-slope", Stage::mask},
      {"softcap-order", Stage::scores},     {"block-left-out", Stage::mask},    {"kv-heads-exchanged", Stage::load_k}};
  for (const auto& [name, stage] : expected) {
    const auto first = first_difference(smallest_example(name));
    ASSERT_TRUE(first) << name;
    EXPECT_EQ(flashscope::name(first->stage), flashscope::name(stage)) << name << ": " << text(*first);
  }
  EXPECT_EQ(text(*first_difference(smallest_example("no-rescale-o"))),
            "step 15, rescale of tile (0, 1): O of row 0 is 10, not 5");
}

// Golden: a published recurrence on the documents' own numbers, and the printed form that corrects it.
TEST(Gallery, ThePublishedRecurrenceIsWrongByTheKnownAmount) {
  const Json golden = read_json("tests/data/seed_figures.json")["tile_max_instead_of_running_max"];
  const TensorFile file = TensorFile::open(source_path("tests/data/tile_max.npz"));
  const auto tensor = [&](const char* name) {
    Array array = file.read(name);
    Tensor tensor = make_tensor(DType::float64, 1, golden["N"], golden["d"]);
    for (std::int64_t n = 0; n < tensor.size(); ++n) tensor.f64[n] = array.at(n);
    return tensor;
  };
  const auto problem = make_problem("tile max", tensor("q"), tensor("k"), tensor("v"));
  GalleryPair pair = smallest_example("tile-max");
  pair.recipe.Br = pair.recipe.Bc = pair.right.Br = pair.right.Bc = golden["B"];
  const Report wrong = run(*problem, pair.recipe), corrected = run(*problem, pair.right),
               right = run(*problem, Recipe{});
  expect_all_near(corrected.O, right.O, 1e-12, "numerators tile");
  double largest = 0;
  int rows = 0;
  for (int r = 0; r < 512; ++r) {
    double error = 0;
    for (int e = 0; e < 64; ++e) error = std::max(error, std::abs(wrong.O[r * 64 + e] - right.O[r * 64 + e]));
    largest = std::max(largest, error), rows += error > 1e-6;
  }
  EXPECT_LE(std::abs(largest - golden["max_error"].get<double>()), 1e-12);
  EXPECT_EQ(rows, golden["rows_off_by_more_than_1e-6"].get<int>());
}

}  // namespace
}  // namespace flashscope::testing
