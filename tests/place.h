// Where the tests find the source tree and the program. Compiled into one small object, so that builds in several
// folders share every other one through a compiler cache.
#pragma once

#include <string>

namespace flashscope {

std::string source_path(const std::string& path);  // of a file of the tree: "tests/data/ring.npz"
std::string program_path();                        // of the flashscope that was built beside the tests

}  // namespace flashscope
