#include <cstdio>

#include "engine/files/problem_file.h"
#include "tests/engine/files/fixtures.h"
#include "tests/place.h"

namespace flashscope {
namespace {

using namespace fixtures;

void expect_ramp(const Tensor& tensor, std::int64_t first, const std::string& what) {
  for (std::int64_t n = 0; n < tensor.size(); ++n)
    ASSERT_EQ(tensor.at(n / (tensor.rows * tensor.cols), n / tensor.cols % tensor.rows, n % tensor.cols),
              (first + n) / 8.0)
        << what;
}

// assets/flashscope_dump.py under Python, then its files through load_problem.
TEST(DumpHelper, WhatItWritesIsLoaded) {
  const Folder folder;
  const std::string script = source_path("tests/engine/files/make_dumps.py");
  // The distribution's Python first: it is the one that has the distribution's NumPy.
  const std::string python = std::filesystem::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
  const std::string command = python + " -B '" + script + "' '" + (folder / "").string() + "' 2>&1";
  std::string output;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  ASSERT_EQ(::pclose(pipe), 0) << output;
  ASSERT_NE(output.find("numpy\n"), std::string::npos) << output;

  std::vector<std::string> libraries = {"numpy"};
  if (output.find("torch\n") != std::string::npos) libraries.push_back("torch");
  for (const std::string& library : libraries)
    for (const std::string suffix : {".npz", ".safetensors"}) {
      SCOPED_TRACE(library + suffix);
      ProblemFiles files;
      files.input = folder / (library + "_full" + suffix);
      files.batch = 1;
      const LoadedProblem full = load_problem(files);
      const Problem& problem = *full.problem;
      EXPECT_EQ(problem.shape(), (Shape{4, 2, 3, 5, 8, 4, DType::float32}));
      EXPECT_EQ(problem.scale, 0.5);
      expect_ramp(problem.Q(), 4 * 3 * 8, "q");
      expect_ramp(problem.K(), 2 * 5 * 8, "k");
      expect_ramp(problem.V(), 2 * 5 * 4, "v");
      expect_ramp(*problem.given_O, 4 * 3 * 4, "o");
      expect_ramp(*problem.given_LSE, 4 * 3, "lse");
      ASSERT_TRUE(problem.mask.keep);
      for (int r = 0; r < 3; ++r)
        for (int c = 0; c < 5; ++c) EXPECT_EQ(problem.mask.keep->keep(3, r, c), c <= r + 2);

      files = {};
      files.input = folder / (library + "_bfloat16" + suffix);
      const auto bfloat16 = load_problem(files).problem;
      EXPECT_EQ(bfloat16->shape(), (Shape{2, 2, 3, 5, 8, 8, DType::bfloat16}));  // (1, N, heads, d) in the file
      EXPECT_EQ(bfloat16->Q().at(1, 2, 3), (2 * 16 + 1 * 8 + 3) / 8.0);
      EXPECT_EQ(bfloat16->scale, 1 / std::sqrt(8.0));

      files.input = folder / (library + "_turned" + suffix);
      const auto turned = load_problem(files).problem;
      expect_ramp(turned->Q(), 0, "column-major q");
      EXPECT_EQ(turned->scale, 2);
    }
}

}  // namespace
}  // namespace flashscope
