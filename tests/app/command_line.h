// The real binary, driven as people drive it: JSON on standard output, messages on standard error, exit codes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/place.h"
#include "tests/temporary_folder.h"

namespace flashscope {

using nlohmann::json;
using testing::HasSubstr;

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline json golden() { return json::parse(contents(source_path("tests/data/seed_figures.json"))); }

class CommandLine : public testing::Test {
 protected:
  struct Result {
    int code = -1;
    std::string out, err;
    json parsed() const { return json::parse(out); }
  };

  // Through the shell, in a folder of its own and without a display.
  Result run(const std::string& arguments, const std::string& before = "") {
    const std::string command = "cd '" + folder_.string() +
                                "' && env -u DISPLAY -u WAYLAND_DISPLAY -u QT_QPA_PLATFORM " + before + " '" +
                                program_path() + "' " + arguments + " >out 2>err";
    Result result;
    const int status = std::system(command.c_str());
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.out = contents(folder_ / "out");
    result.err = contents(folder_ / "err");
    return result;
  }
  // One JSON object on standard output and nothing else.
  json run_json(const std::string& arguments, int code = 0) {
    const Result result = run(arguments + " --json");
    EXPECT_EQ(result.code, code) << arguments << "\n" << result.err;
    const json object = json::parse(result.out, nullptr, false);
    EXPECT_TRUE(object.is_object()) << arguments << "\n" << result.out << result.err;
    return object;
  }
  void expect_refused(const std::string& arguments, const std::string& message) {
    SCOPED_TRACE(arguments);
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }

  TemporaryFolder folder_;
};

}  // namespace flashscope
