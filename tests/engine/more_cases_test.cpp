// The rest of the case log: masks that mean something else, a checker that hides NaN, and files.
#include "engine/error.h"
#include "engine/insight/explain.h"
#include "support.h"
#include "tests/engine/files/fixtures.h"

namespace flashscope::testing {
namespace {

constexpr DType kTypes[] = {DType::float32, DType::float64};

KernelOutput output_of(const std::vector<double>& O) {
  KernelOutput output;
  output.type = DType::float64;
  output.O.assign(O.begin(), O.end());
  return output;
}

Recipe blocks_of_2(Guard guard = Guard::clamp) {
  Recipe recipe;
  recipe.Br = recipe.Bc = 2, recipe.guard = guard;
  return recipe;
}

std::vector<std::string> names_of(const std::vector<Explanation>& list) {
  std::vector<std::string> names;
  for (const Explanation& e : list) names.push_back(e.name);
  return names;
}

TEST(Cases, open_03_finite_sentinel_wins) {
  const Case log("open-03-finite-sentinel-wins");
  const Mask mask = keep_mask_from(log.json["inputs"]["mask"]["values"]);
  for (const DType type : kTypes)
    for (const Recipe& recipe : guarded_recipes(2, 2)) {
      const Report report = run(*log.problem(type, mask), recipe);
      expect_all_near(report.O, numbers(log.expected()["O"]), log.tolerance(type), text(recipe));
    }
  const auto problem = log.problem(DType::float64, mask);
  expect_all_near(run(*problem, blocks_of_2()).LSE, numbers(log.expected()["LSE"]), 1e-11, "LSE");
  for (const auto& [defect, key] : {std::pair{"finite-sentinel=-10000", "masked score replaced by -10000"},
                                    {"finite-sentinel=-10000,add", "-10000 added to masked score"}}) {
    Recipe recipe = blocks_of_2();
    set_defect(recipe, defect);
    const std::vector<double> wrong = numbers(log.json["wrong"][key]);
    expect_all_near(run(*problem, recipe).O, wrong, 1e-12, defect);
    const KernelOutput theirs = output_of(wrong);
    const Comparison found = compare(*problem, blocks_of_2(), theirs);
    EXPECT_EQ(found.rows, (std::vector{RowState::wrong, RowState::right}));
    const auto list = explain(problem, blocks_of_2(), theirs, found);
    ASSERT_FALSE(list.empty()) << defect;
    EXPECT_EQ(list[0].name, "finite-sentinel");
    EXPECT_EQ(list[0].recipe.sentinel_added, std::string(defect).ends_with("add"));
  }
}

TEST(Cases, open_04_two_finite_masks_overflow) {
  const Case log("open-04-two-finite-masks-overflow");
  const Json& values = log.json["inputs"]["mask"]["values"];
  const Mask summed = bias_from(values);
  EXPECT_EQ(summarise(summed).minus_inf_cells, static_cast<std::int64_t>(log.expected()["minus_inf_cells"].size()));
  const auto at_minimum = std::count(summed.bias->f32.begin(), summed.bias->f32.end(), -65504.0f);
  EXPECT_EQ(at_minimum, log.expected()["cells_at_float16_minimum"].get<int>());

  // Both masks as booleans: a cell is visible where the sum is 0.
  Json keep = values;
  for (Json& row : keep)
    for (Json& cell : row) cell = cell.is_number() && cell.get<double>() == 0 ? 1 : 0;
  const Mask combined = keep_mask_from(keep);
  EXPECT_EQ(empty_rows(combined, 5, 5, 0), log.expected()["effectively_masked_rows"].get<std::vector<std::int64_t>>());
  const std::vector<double> right =
      numbers(log.expected()["right_O_if_both_masks_are_combined_as_booleans_zero_policy"]);
  const std::vector<double> row_0 = numbers(log.json["wrong"]["row_0_taken_literally"]),
                            row_1 = numbers(log.json["wrong"]["row_1_taken_literally"]);
  for (const Recipe& recipe : guarded_recipes(2, 2)) {
    expect_all_near(run(*log.problem(DType::float64, combined), recipe).O, right, 1e-12, text(recipe));
    // Taken literally nothing is NaN, and rows 0 and 1 attend to the wrong keys.
    const Report literal = run(*log.problem(DType::float64, summed), recipe);
    const std::span<const double> O(literal.O);
    expect_all_near(O.subspan(0, 4), row_0, 1e-10, "row 0 literally");
    expect_all_near(O.subspan(4, 4), row_1, 1e-10, "row 1 literally");
    expect_all_near(O.subspan(8), numbers(log.expected()["O_rows_2_3_4"]), 1e-12, "rows 2 to 4");
    const Comparison found =
        compare(*log.problem(DType::float64, combined), recipe, output_of({literal.O.begin(), literal.O.end()}));
    EXPECT_EQ(found.total().wrong, 2);
    EXPECT_EQ(found.pattern.kind, "row-blocks");
  }
  Recipe one_tile = blocks_of_2();
  one_tile.Br = one_tile.Bc = 5;
  Trace trace(log.problem(DType::float64, summed), one_tile);
  const TraceState state = trace.seek(*trace.schedule().find(0, 0, 0, Stage::exponentials) + 1);
  std::vector<std::int64_t> attended;
  for (std::int64_t c = 0; c < state.cols; ++c)
    if (state.P.at(0, c) > 0) attended.push_back(c);
  EXPECT_EQ(attended, log.json["wrong"]["row_0_attends_to_keys"].get<std::vector<std::int64_t>>());
}

TEST(Cases, open_07_mask_meaning) {
  const Case log("open-07-mask-meaning");
  const Json &A = log.json["inputs"]["mask_A"]["values"], &B = log.json["inputs"]["mask_B"]["values"];
  Json flipped = A;
  for (Json& row : flipped)
    for (Json& cell : row) cell = 1 - cell.get<int>();
  const Json &keep = log.expected()["mask_A_read_as_True_means_keep"],
             &drop = log.expected()["mask_A_read_as_True_means_drop"],
             &bias = log.expected()["mask_B_read_as_additive_bias"];
  EXPECT_TRUE(summarise(bias_from(B)).looks_like_keep);
  EXPECT_EQ(empty_rows(keep_mask_from(A), 4, 4, 0), keep["fully_masked_rows"].get<std::vector<std::int64_t>>());
  for (const DType type : kTypes)
    for (const Recipe& recipe : guarded_recipes(2, 2)) {
      const auto expect_table = [&](const Mask& mask, const Json& O, const Json& LSE) {
        const Report report = run(*log.problem(type, mask), recipe);
        expect_all_near(report.O, numbers(O), log.tolerance(type), text(recipe));
        expect_all_near(report.LSE, numbers(LSE), log.tolerance(type), text(recipe));
      };
      expect_table(keep_mask_from(A), keep["O_zero_policy"], keep["LSE"]);
      expect_table(keep_mask_from(flipped), drop["O"], drop["LSE"]);
      expect_table(bias_from(B), bias["O"], bias["LSE"]);
    }
  // Each table is explained where another was meant.
  const auto explained = [&](const Mask& meant, const Json& O) {
    const auto problem = log.problem(DType::float64, meant);
    const KernelOutput theirs = output_of(numbers(O));
    return names_of(explain(problem, blocks_of_2(), theirs, compare(*problem, blocks_of_2(), theirs)));
  };
  const auto has = [](const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  EXPECT_EQ(explained(keep_mask_from(flipped), keep["O_zero_policy"]).at(0), "mask-polarity");
  EXPECT_EQ(explained(keep_mask_from(A), drop["O"]).at(0), "mask-polarity");
  EXPECT_EQ(explained(keep_mask_from(flipped), bias["O"]).at(0), "mask-added");  // B's 1s are A's cells to keep
  EXPECT_TRUE(has(explained(bias_from(B), drop["O"]), "mask-added"));            // a causal mask beside B does the same
}

TEST(Cases, open_16_comparison_hides_nan) {
  const Case log("open-16-comparison-hides-nan");
  const Json& inputs = log.json["inputs"];
  const std::vector<double> reference = numbers(inputs["reference"]["values"]),
                            candidate = numbers(inputs["candidate"]["values"]);
  const CellCounts counts = compare_cells(candidate, reference, inputs["abs_tolerance"]);
  const auto same = [](const CellCounts& c) { return c.different + c.nan_theirs + c.nan_right + c.inf == 0; };
  EXPECT_FALSE(same(counts));
  EXPECT_EQ(counts.max_difference, log.expected()["max_abs_diff_over_finite_pairs"].get<double>());
  std::map<std::string, int> classes;
  for (const Json& row : log.expected()["cell_classes"])
    for (const Json& cell : row) ++classes[cell];
  EXPECT_EQ(counts.equal, classes["equal"]);
  EXPECT_EQ(counts.nan_theirs, classes["nan only in candidate"]);
  EXPECT_EQ(counts.nan_right, classes["nan only in reference"]);
  EXPECT_EQ(counts.nan_both, classes["both nan"]);
  EXPECT_EQ(nan_text(counts), "1 cell NaN in yours only, 1 cell NaN in the right answer only, 1 cell NaN in both");
  EXPECT_EQ(counts.inf, classes["infinity sign mismatch"]);
  EXPECT_EQ(counts.different, 0);
  // The home-made checker's verdict: a maximum that ignores NaN is 0, "same".
  double ignoring = 0;
  for (std::size_t n = 0; n < reference.size(); ++n) {
    const double difference = candidate[n] == reference[n] ? 0 : std::abs(candidate[n] - reference[n]);
    if (std::isfinite(difference)) ignoring = std::max(ignoring, difference);
  }
  EXPECT_EQ(ignoring, log.json["wrong"]["max over all cells with a NaN-ignoring maximum"].get<double>());

  const Json& second = log.expected()["second_pair"];
  const CellCounts loose =
      compare_cells(numbers(inputs["second_pair"]["candidate"]), numbers(inputs["second_pair"]["reference"]),
                    inputs["second_pair"]["abs_tolerance"]);
  EXPECT_TRUE(same(loose));  // within that tolerance, and no agreement at all:
  expect_near(loose.max_difference, second["max_abs_diff"], 1e-12, "max");
  expect_near(loose.rms, second["rms_error"], 1e-12, "rms");
  expect_near(loose.rms_over_spread(), second["rms_error_over_reference_std"], 1e-12, "rms over spread");
}

TEST(Cases, open_18_npy_variants) {
  const Case log("open-18-npy-variants");
  const fixtures::Folder folder;
  const auto read = [&](const char* name) {
    const auto path =
        folder.put(std::string(name) + ".npy", fixtures::base64(log.json["inputs"]["files_base64"][name]));
    const TensorFile file = TensorFile::open(path);
    const Array array = file.read(file.arrays().front().name);
    std::vector<double> values;
    for (std::int64_t n = 0; n < array.info.elements(); ++n) values.push_back(array.at(n));
    return values;
  };
  const std::vector<double> square = numbers(log.expected()["fortran_square_f4"]);
  EXPECT_EQ(read("fortran_square_f4"), square);
  EXPECT_NE(read("fortran_square_f4"), numbers(log.json["wrong"]["fortran_square_f4 read row by row"]));
  EXPECT_EQ(read("float16_square"), square);
  EXPECT_EQ(read("fortran_cube_f8")[1 * 12 + 2 * 4 + 3], log.expected()["fortran_cube_f8"]["[1][2][3]"].get<double>());
  EXPECT_EQ(read("fortran_cube_f8")[1 * 12 + 0 * 4 + 0], log.expected()["fortran_cube_f8"]["[1][0][0]"].get<double>());
  EXPECT_EQ(read("fortran_cube_f8")[0 * 12 + 1 * 4 + 2], log.expected()["fortran_cube_f8"]["[0][1][2]"].get<double>());
  EXPECT_EQ(read("bool_mask"), numbers(log.expected()["bool_mask"]));
  EXPECT_EQ(read("uint8_mask"), numbers(log.expected()["bool_mask"]));
  const Json& void2 = log.expected()["bfloat16_as_void2"];
  EXPECT_EQ(read("bfloat16_as_void2"), numbers(void2["values_as_bfloat16"]));
  EXPECT_NE(read("bfloat16_as_void2"), numbers(void2["values_if_wrongly_read_as_float16"]));
  try {
    read("float8_descr_f1");
    ADD_FAILURE() << "float8 was read";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("<f1"), std::string::npos) << error.what();
  }
}

TEST(Cases, open_19_safetensors_malformed) {
  const Case log("open-19-safetensors-malformed");
  const fixtures::Folder folder;
  for (const auto& [name, action] : log.expected()["action"].items()) {
    const auto path = folder.put(name + ".safetensors", fixtures::base64(log.json["inputs"]["files_base64"][name]));
    std::string refused;
    std::size_t arrays = 0, skipped = 0;
    try {
      const TensorFile file = TensorFile::open(path);
      arrays = file.arrays().size(), skipped = file.skipped().size();
      for (const ArrayInfo& info : file.arrays()) file.read(info.name);
    } catch (const InputError& error) {
      refused = error.what();
    }
    const std::string word = action;
    if (word.starts_with("accept")) {
      EXPECT_EQ(refused, "") << name;
      EXPECT_EQ(arrays == 0, word.find("holds no tensors") != word.npos) << name;
    } else if (word.starts_with("reject or skip")) {
      EXPECT_TRUE(!refused.empty() || (arrays == 0 && skipped == 1)) << name;
    } else {
      EXPECT_NE(refused, "") << name;
    }
    if (word.find("duplicate name") != word.npos) {
      EXPECT_NE(refused.find("duplicate"), std::string::npos) << refused;
    }
  }
  const Json& values = log.expected()["values"];
  for (const auto& [name, tensors] : values.items()) {
    const TensorFile file = TensorFile::open(folder / (name + ".safetensors"));
    for (const auto& [tensor, expected] : tensors.items()) {
      const Array array = file.read(tensor);
      const std::vector<double> right = numbers(expected);
      ASSERT_EQ(array.info.elements(), static_cast<std::int64_t>(right.size()));
      for (std::size_t n = 0; n < right.size(); ++n) EXPECT_EQ(array.at(n), right[n]) << name << ' ' << tensor;
    }
  }
}

}  // namespace
}  // namespace flashscope::testing
