// `diagnose --against` and `gallery`, through the real binary.
#include "engine/files/session_file.h"
#include "engine/files/tensor_file.h"
#include "engine/insight/gallery.h"
#include "tests/app/command_line.h"
#include "tests/engine/planted_mistakes.h"

namespace flashscope {
namespace {

class Against : public CommandLine {};

constexpr const char* kProblem = " --random 7 --n 300 --d 32 --heads 2 --causal";

TEST_F(Against, ThePlantedMistakeIsNamed) {
  for (const char* defect : {"no-rescale-o", "tile-max", "unscaled", "local-causal", "no-final-divide"}) {
    const std::string run_it = std::string("run") + kProblem + " --br 64 --bc 32 --out theirs.npz --defect " + defect;
    EXPECT_NE(run(run_it).code, 2);
    const json object = run_json(std::string("diagnose") + kProblem + " --br 64 --bc 32 --against theirs.npz", 3);
    const json& against = object["against"];
    ASSERT_FALSE(against["explained_by"].empty()) << defect;
    EXPECT_EQ(against["explained_by"][0], defect);
    EXPECT_EQ(against["right"].get<int>() + against["wrong"].get<int>(), 600) << defect;
    EXPECT_GT(against["wrong"], 0);
    EXPECT_EQ(against["nan"], 0);
    EXPECT_GT(against["max_error"], against["tolerance"]);
    EXPECT_EQ(against["explanations"][0]["rows_reproduced"], against["wrong"]);
    EXPECT_LE(against["explanations"][0]["max_difference"], against["tolerance"]);
    EXPECT_EQ(object["nan_rows"], (json{json::array(), json::array()}));  // of the right run
  }
}

// Every entry of the gallery on three problems, with their masks, types, orders and block sizes.
class NamedByTheProgram : public CommandLine, public ::testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(Gallery, NamedByTheProgram, ::testing::ValuesIn(flashscope::testing::gallery_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(NamedByTheProgram, OnThreeProblems) {
  for (int variant = 0; variant < 3; ++variant) {
    const flashscope::testing::Planted planted = flashscope::testing::plant(GetParam(), variant);
    SessionFile session;
    session.problem = planted.problem, session.recipe = planted.recipe;
    write_session(folder_ / "mine.fscope", session);
    const Shape shape = planted.problem->shape();
    const ElementType type = planted.output.type == DType::float64 ? ElementType::float64 : ElementType::float32;
    std::vector<OutArray> arrays{{"o", type, {shape.heads, shape.Nq, shape.dv}, planted.output.O}};
    if (!planted.output.LSE.empty())
      arrays.push_back({"lse", ElementType::float64, {shape.heads, shape.Nq}, planted.output.LSE});
    write_npz(folder_ / "theirs.npz", arrays);
    const json against = run_json("diagnose --input mine.fscope --against theirs.npz", 3)["against"];
    ASSERT_FALSE(against["explanations"].empty()) << "variant " << variant;
    std::vector<std::string> named;  // first, or in a tie with the first
    for (const json& one : against["explanations"])
      if (one["tie"].get<bool>() || named.empty()) named.push_back(one["name"]);
    EXPECT_THAT(named, ::testing::Contains(GetParam())) << "variant " << variant;
    EXPECT_EQ(against["explained_by"][0], against["explanations"][0]["name"]);
  }
}

TEST_F(Against, LseIsReadInTheConventionThatIsGiven) {
  run(std::string("run") + kProblem + " --defect lse-base2 --out theirs.npz");
  const std::string command = std::string("diagnose") + kProblem + " --against theirs.npz";
  EXPECT_EQ(run_json(command, 3)["against"]["explained_by"], json({"lse-base2"}));
  const json object = run_json(command + " --lse base2", 0);
  EXPECT_EQ(object["against"]["verdict"], "right");
  EXPECT_EQ(object["against"]["lse"]["read_as"], "base 2");
  EXPECT_THAT(object["conventions"].get<std::string>(), HasSubstr("LSE base 2"));
  expect_refused(command + " --lse base3", "natural, or some of base2, negative, +inf");
}

TEST_F(Against, ARightOutputExitsZeroWithoutAName) {
  EXPECT_EQ(run(std::string("run") + kProblem + " --algorithm flash1 --out right.npz").code, 0);
  const json against = run_json(std::string("diagnose") + kProblem + " --against right.npz", 0)["against"];
  EXPECT_EQ(against["verdict"], "right");
  EXPECT_EQ(against["right"], 600);
  EXPECT_EQ(against["explained_by"], json::array());
  EXPECT_LE(against["max_error"], against["tolerance"]);
  EXPECT_EQ(against["lse"]["right"], 600);
  EXPECT_EQ(run_json(std::string("diagnose") + kProblem, 0)["against"], nullptr);
}

TEST_F(Against, TextSaysItAsAPersonWantsIt) {
  run(std::string("run") + kProblem + " --bc 32 --out theirs.npz --defect no-rescale-o");
  const Result result = run(std::string("diagnose") + kProblem + " --against theirs.npz");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.out, HasSubstr("against theirs.npz: wrong"));
  EXPECT_THAT(result.out, HasSubstr("`no-rescale-o` (Bc 32) at Br 64, Bc 32 reproduces the output to"));
  EXPECT_THAT(result.out, HasSubstr("; the right answer differs by"));
  EXPECT_THAT(result.out, HasSubstr("plain attention"));
}

// What a person looks for stands first; LSE is spoken of where there is one.
TEST_F(Against, VerdictPlaceAndCauseComeFirst) {
  run(std::string("run") + kProblem + " --bc 32 --out theirs.npz --defect no-rescale-o");
  const std::string with_lse = run(std::string("diagnose") + kProblem + " --against theirs.npz").out;
  EXPECT_TRUE(with_lse.starts_with("against theirs.npz: wrong, ")) << with_lse;
  std::size_t last = 0;
  for (const char* words :
       {"of 600 rows\nwhere: ", "explained by\n  - `no-rescale-o`", "\ncompared\n", "largest error",
        "read as (heads, Nq, dv)\n", "read as (heads, Nq)\n", "0 of 600 rows of O are NaN", "LSE base"}) {
    const std::size_t at = with_lse.find(words, last);
    ASSERT_NE(at, std::string::npos) << words << " in\n" << with_lse;
    last = at;
  }
  const TensorFile file = TensorFile::open(folder_ / "theirs.npz");
  const Array o = file.read("o");
  std::vector<double> values;
  for (std::int64_t n = 0; n < o.info.elements(); ++n) values.push_back(o.at(n));
  write_npy(folder_ / "o.npy", {"", ElementType::float32, {2, 300, 32}, values});
  const std::string alone = run(std::string("diagnose") + kProblem + " --against o.npy").out;
  EXPECT_THAT(alone, ::testing::Not(HasSubstr("LSE base")));
  EXPECT_THAT(alone, HasSubstr("causal alignment"));
  EXPECT_THAT(run(std::string("diagnose") + kProblem + " --against o.npy --lse natural").out, HasSubstr("LSE base"));
  EXPECT_THAT(run(std::string("diagnose") + kProblem + " --why 'LSE[0,3]'").out, HasSubstr("LSE base"));
}

TEST_F(Against, AWidenedBfloat16IsJudgedAsOneUnlessToldOtherwise) {
  const Shape shape{2, 2, 300, 300, 32, 32, DType::float32};
  const auto problem = random_problem(shape, 7, {}, flashscope::testing::causal(Causal::top_left));
  const Report right = flashscope::testing::run(*problem, Recipe{});
  const auto write = [&](DType type) {
    const KernelOutput output = flashscope::testing::output_of(right, type);
    std::vector<double> turned;  // (Nq, heads, dv)
    for (int r = 0; r < 300; ++r)
      for (int h = 0; h < 2; ++h)
        for (int e = 0; e < 32; ++e) turned.push_back(output.O[(h * 300 + r) * 32 + e]);
    write_npy(folder_ / "o.npy", {"", ElementType::float32, {300, 2, 32}, turned});
  };
  write(DType::bfloat16);
  const std::string command = std::string("diagnose") + kProblem + " --against o.npy";
  const json against = run_json(command, 0)["against"];
  EXPECT_EQ(against["verdict"], "rounding");
  EXPECT_EQ(against["values_are"], "bfloat16");
  EXPECT_EQ(against["precision"], "bfloat16");
  EXPECT_EQ(against["o_type"], "float32");
  EXPECT_EQ(against["read_as"], (json{{"o", "(Nq, heads, dv)"}}));
  const std::string words = run(command).out;
  EXPECT_THAT(words, HasSubstr("every value is a bfloat16: judged as such (--against-dtype float32: as it is stored)"));
  EXPECT_THAT(words, HasSubstr("read as (Nq, heads, dv)"));
  const json as_stored = run_json(command + " --against-dtype float32", 3)["against"];
  EXPECT_EQ(as_stored["verdict"], "wrong");
  EXPECT_TRUE(as_stored["values_are"].is_null());
  expect_refused(command + " --against-dtype float64", "float64");
  write(DType::float32);
  EXPECT_TRUE(run_json(command, 0)["against"]["values_are"].is_null());
  EXPECT_EQ(run_json(command + " --against-dtype bfloat16", 0)["against"]["precision"], "bfloat16");
}

// Scores beyond what float16 holds: said of the inputs, found in an output, and their rows apart from the error.
TEST_F(Against, AnOverflowOfTheScoresIsNamed) {
  const Shape shape{2, 2, 90, 90, 32, 16, DType::float16};
  const auto random = random_problem(shape, 8);
  const auto enlarged = [](const Tensor& from) {
    Tensor to = from;
    for (float& x : to.f32) x = static_cast<float>(round_to(DType::float16, 120 * x));
    return to;
  };
  SessionFile session;
  session.problem = make_problem("large", enlarged(random->Q()), enlarged(random->K()), Tensor(random->V()), {},
                                 flashscope::testing::causal(Causal::top_left));
  write_session(folder_ / "mine.fscope", session);
  Recipe narrow;
  narrow.numerics.scores = DType::float16;
  const KernelOutput theirs =
      flashscope::testing::output_of(flashscope::testing::run(*session.problem, narrow), DType::float16);
  write_npy(folder_ / "o.npy", {"", ElementType::float32, {2, 90, 16}, theirs.O});

  const json object = run_json("diagnose --input mine.fscope --against o.npy", 3);
  EXPECT_EQ(object["against"]["explained_by"][0], "scores-float16");
  EXPECT_EQ(object["against"]["explanations"][0]["rows_reproduced"], object["against"]["explanations"][0]["rows"]);
  double largest = 0;
  std::int64_t rows = 0;
  for (int h = 0; h < 2; ++h)
    for (int r = 0; r < 90; ++r) {
      double of_row = 0;
      for (int c = 0; c <= r; ++c) {
        double product = 0;
        for (int e = 0; e < 32; ++e) product += session.problem->Q().at(h, r, e) * session.problem->K().at(h, c, e);
        of_row = std::max(of_row, std::abs(product));
      }
      largest = std::max(largest, of_row), rows += of_row >= 65520;
    }
  ASSERT_GT(rows, 100);
  EXPECT_EQ(object["products"]["rows_beyond_float16"], rows);
  EXPECT_LE(std::abs(object["products"]["largest"].get<double>() - largest), 1e-6 * largest);
  const std::string words = run("diagnose --input mine.fscope").out;
  EXPECT_THAT(words, HasSubstr("! the largest |q.k| before the scale is "));
  EXPECT_THAT(words, HasSubstr("would overflow if the product is held in float16"));
  EXPECT_THAT(
      run("diagnose --input mine.fscope --score-type float16").out,
      ::testing::AllOf(HasSubstr("of 90 rows not finite ("), HasSubstr("); the largest error of the finite rows is ")));
  const std::string small = " --random 3 --n 40 --d 8 --dtype float16";
  EXPECT_TRUE(run_json("diagnose" + small)["products"].is_null());
  EXPECT_THAT(run("diagnose" + small).out, ::testing::Not(HasSubstr("overflow")));
  EXPECT_THAT(run("diagnose" + small + " --score-type bfloat16").out, HasSubstr("the largest error is "));
}

TEST_F(Against, WhatComesNearIsSaidAndNotAsItsName) {
  const auto problem = random_problem({2, 2, 300, 300, 32, 32, DType::float32}, 7);
  KeepMask keep = make_keep_mask(1, 300, 300);  // the diagonal is hidden but in the first row
  for (std::int64_t r = 0; r < 300; ++r)
    for (std::int64_t c = 0; c < std::max<std::int64_t>(r, 1); ++c) set_keep(keep, 0, r, c);
  Mask mask;
  mask.keep = std::make_shared<const KeepMask>(std::move(keep));
  const Report made = flashscope::testing::run(*with_mask(problem, mask), Recipe{});
  const KernelOutput theirs = flashscope::testing::output_of(made, DType::float32);
  write_npy(folder_ / "o.npy", {"", ElementType::float32, {2, 300, 32}, theirs.O});
  const std::string command = std::string("diagnose") + kProblem + " --against o.npy";
  const json against = run_json(command, 3)["against"];
  EXPECT_EQ(against["explained_by"], json::array());
  EXPECT_EQ(against["near_miss"]["name"], "causal-diagonal");
  EXPECT_EQ(against["near_miss"]["rows_reproduced"], 598);
  EXPECT_EQ(against["near_miss"]["right_rows_lost"], 2);
  EXPECT_THAT(run(command).out, HasSubstr("closest: causal-diagonal (c < r: the diagonal is hidden) reproduces 598 of "
                                          "598 wrong rows, but would make 2 right rows wrong\n"));
  EXPECT_TRUE(run_json(std::string("diagnose") + kProblem + " --against o.npy --against-dtype float32",
                       3)["against"]["near_miss"]
                  .is_object());
}

TEST_F(Against, OneHeadOfAFileWithAllHeads) {
  run(std::string("run") + kProblem + " --out theirs.npz --defect double-scale");
  const json against = run_json(std::string("diagnose") + kProblem + " --head 1 --against theirs.npz", 3)["against"];
  EXPECT_EQ(against["rows"], 300);
  EXPECT_EQ(against["explained_by"][0], "double-scale");
  EXPECT_EQ(against["worst_head"], 1);
}

TEST_F(Against, WhatDoesNotFitIsRefused) {
  run("run --random 7 --n 20 --d 8 --out small.npz");
  const Result result = run(std::string("diagnose") + kProblem + " --against small.npz");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("found o of shape (1, 20, 8), expected (2, 300, 32)"));
  EXPECT_EQ(run(std::string("diagnose") + kProblem + " --against none.npz").code, 2);
  EXPECT_THAT(run(std::string("run") + kProblem + " --against small.npz").err, HasSubstr("flashscope diagnose"));
}

TEST_F(Against, TheGalleryIsListedAndShown) {
  const json list = run_json("gallery", 0)["gallery"];
  ASSERT_EQ(list.size(), gallery().size());
  for (const json& entry : list) EXPECT_FALSE(entry["sentence"].get<std::string>().empty());
  const json entry = run_json("gallery no-rescale-o", 0);
  EXPECT_LE(std::abs(entry["example"]["right_o"][0].get<double>() - 50.0 / 3), 1e-5);
  EXPECT_EQ(entry["first_difference"]["stage"], "rescale");
  EXPECT_EQ(entry["example"]["recipe"]["defect"], "no-rescale-o");
  EXPECT_THAT(run("gallery tile-max").out, HasSubstr("numerators tile"));
  const Result unknown = run("gallery no-such");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("tile-max"));
}

TEST_F(Against, NumericsAreOptionsOfTheKernel) {
  const json plain = run_json("run --random 3 --n 200 --d 64 --dtype bfloat16", 0);
  const json narrow = run_json("run --random 3 --n 200 --d 64 --dtype bfloat16 --numerics tensor-core", 0);
  EXPECT_EQ(plain["recipe"]["numerics"]["p"], "float32");
  EXPECT_EQ(narrow["recipe"]["numerics"], (json{{"scores", "float32"},
                                                {"p", "bfloat16"},
                                                {"accumulators", "float32"},
                                                {"scale", "after"},
                                                {"exponential", "exp2"},
                                                {"rescale_threshold", 8.0}}));
  EXPECT_GT(narrow["error_vs_float64"]["max"], 100 * plain["error_vs_float64"]["max"].get<double>());
  const json scores = run_json("run --random 3 --n 200 --d 64 --score-type bfloat16 --scale-when before", 3);
  EXPECT_EQ(scores["recipe"]["numerics"]["scores"], "bfloat16");
  EXPECT_EQ(scores["recipe"]["numerics"]["scale"], "before");
  EXPECT_THAT(scores["conventions"].get<std::string>(), HasSubstr("scores bfloat16"));
  const json cost =
      run_json("diagnose --random 3 --n 200 --d 64 --score-type bfloat16 --p-type float16", 0)["numerics"];
  ASSERT_EQ(cost["sources"].size(), 4u);  // together, arithmetic, scores, P
  EXPECT_GT(cost["sources"][2]["max_error"], cost["sources"][3]["max_error"]);
  EXPECT_EQ(run_json("diagnose --random 3 --n 20 --d 8", 0)["numerics"], nullptr);
  EXPECT_EQ(run("run --random 3 --n 200 --d 64 --rescale-threshold 100").code, 2);
  EXPECT_EQ(run("run --random 3 --n 200 --d 64 --p-type float64").code, 2);
}

}  // namespace
}  // namespace flashscope
