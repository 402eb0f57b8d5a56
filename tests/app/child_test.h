// Tests that start children of the program: what the children leave lies in a folder of the test's own, and it must be
// nothing.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/temporary_folder.h"

namespace flashscope {

class ChildTest : public ::testing::Test {
 protected:
  void SetUp() override { setenv("TMPDIR", folder_.string().c_str(), 1); }
  void TearDown() override {
    unsetenv("TMPDIR");
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with("flashscope-gpu-")) << entry.path();
  }
  // A child that is a shell script.
  std::filesystem::path script(const std::string& body) const {
    const auto path = folder_.put("child", "#!/bin/sh\n" + body + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  TemporaryFolder folder_;
};

}  // namespace flashscope
