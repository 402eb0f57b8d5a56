// What the engine's tests share: tensors from the case files' JSON, the sets of recipes that must all
// give the same answer, and comparisons that fail on NaN.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/attention/cpu_runner.h"
#include "engine/attention/problem.h"
#include "engine/attention/recipe.h"
#include "tests/place.h"

namespace flashscope::testing {

using Json = nlohmann::json;

inline Json read_json(const std::string& path) {
  std::ifstream file(source_path(path));
  if (!file) throw std::runtime_error("no such test data: " + path);
  return Json::parse(file);
}

// A number, or "nan", "inf", "-inf".
inline double number(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const auto text = json.get<std::string>();
  const double inf = std::numeric_limits<double>::infinity();
  return text == "nan" ? std::nan("") : text == "-inf" ? -inf : text == "inf" ? inf : throw std::runtime_error(text);
}

// All numbers of a nested list, in order.
inline std::vector<double> numbers(const Json& json) {
  if (!json.is_array()) return {number(json)};
  std::vector<double> all;
  for (const Json& item : json) {
    const std::vector<double> inner = numbers(item);
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

// [row][column] or [head][row][column].
inline Tensor tensor_from(const Json& values, DType type) {
  const bool heads = values[0][0].is_array();
  const Json& first = heads ? values[0] : values;
  Tensor tensor = make_tensor(type, heads ? values.size() : 1, first.size(), first[0].size());
  const std::vector<double> flat = numbers(values);
  for (std::int64_t n = 0; n < tensor.size(); ++n)
    set(tensor, n / (tensor.rows * tensor.cols), n / tensor.cols % tensor.rows, n % tensor.cols, flat.at(n));
  return tensor;
}

// [row][column] of 0 and 1; 1 = keep.
inline Mask keep_mask_from(const Json& values) {
  KeepMask keep = make_keep_mask(1, values.size(), values[0].size());
  for (std::size_t r = 0; r < values.size(); ++r)
    for (std::size_t c = 0; c < values[r].size(); ++c)
      if (values[r][c].get<int>() != 0) set_keep(keep, 0, r, c);
  Mask mask;
  mask.keep = std::make_shared<const KeepMask>(std::move(keep));
  return mask;
}

inline Mask bias_from(const Json& values) {
  Bias bias;
  bias.rows = values.size(), bias.cols = values[0].size();
  for (const double value : numbers(values)) bias.f32.push_back(static_cast<float>(value));
  Mask mask;
  mask.bias = std::make_shared<const Bias>(std::move(bias));
  return mask;
}

// One case of the log: its problem in either precision, and what is expected.
struct Case {
  Json json;
  explicit Case(const std::string& name) : json(read_json("tests/data/cases/" + name + ".json")) {}
  const Json& expected() const { return json["expected"]; }
  std::shared_ptr<const Problem> problem(DType type, Mask mask = {}) const {
    const Json& inputs = json["inputs"];
    const Json& scale = inputs["scale"];  // "1/sqrt(6)" where the case is about the default
    return make_problem(json["id"], tensor_from(inputs["Q"]["values"], type), tensor_from(inputs["K"]["values"], type),
                        tensor_from(inputs["V"]["values"], type),
                        scale.is_number() ? std::optional(scale.get<double>()) : std::nullopt, std::move(mask));
  }
  double tolerance(DType type) const {
    return json["tolerance"][type == DType::float64 ? "float64_abs" : "float32_abs"];
  }
};

// Where one side is not finite the other must be the same.
inline void expect_near(double found, double expected, double tolerance, const std::string& what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << what;
  } else if (std::isinf(expected)) {
    EXPECT_EQ(found, expected) << what;
  } else {
    EXPECT_LE(std::abs(found - expected), tolerance) << what << ": " << found << ", expected " << expected;
  }
}
inline void expect_all_near(std::span<const double> found, std::span<const double> expected, double tolerance,
                            const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t n = 0; n < found.size(); ++n)
    expect_near(found[n], expected[n], tolerance, what + " [" + std::to_string(n) + "]");
}

inline std::string text(const Recipe& recipe) {
  std::string all =
      std::string(name(recipe.algorithm)) + " " + std::to_string(recipe.Br) + "x" + std::to_string(recipe.Bc);
  for (const std::string_view part :
       {name(recipe.order), name(recipe.skip), name(recipe.guard), name(recipe.normalised()), name(recipe.numerators)})
    all += " " + std::string(part);
  return all;
}

// Every algorithm, order, skip and way to normalise, at that block size and under that guard.
inline std::vector<Recipe> recipes(std::int64_t Br, std::int64_t Bc, Guard guard) {
  std::vector<Recipe> all;
  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::flash1, Algorithm::flash2})
    for (const Order order : {Order::forward, Order::reverse})
      for (const Skip skip : {Skip::geometry, Skip::all, Skip::none})
        for (const Normalise normalise : {Normalise::end, Normalise::each}) {
          if (algorithm == Algorithm::standard && (normalise == Normalise::each || order == Order::reverse)) continue;
          Recipe recipe;
          recipe.algorithm = algorithm, recipe.Br = Br, recipe.Bc = Bc;
          recipe.order = order, recipe.skip = skip, recipe.guard = guard;
          if (algorithm != Algorithm::standard) recipe.normalise = normalise;
          all.push_back(recipe);
        }
  return all;
}
// Those that must all give the right answer: under either guard.
inline std::vector<Recipe> guarded_recipes(std::int64_t Br, std::int64_t Bc) {
  std::vector<Recipe> all = recipes(Br, Bc, Guard::clamp);
  for (const Recipe& recipe : recipes(Br, Bc, Guard::skip)) all.push_back(recipe);
  return all;
}

// The NaN rows of a problem of one head, as reports list them.
inline std::vector<std::vector<std::int64_t>> one_head(std::vector<std::int64_t> rows) { return {1, std::move(rows)}; }

inline Report run(const Problem& problem, const Recipe& recipe) {
  RunOptions options;
  options.threads = 1;
  options.check.kind = CheckRows::Kind::none;
  return run_on_cpu(problem, recipe, options);
}

}  // namespace flashscope::testing
