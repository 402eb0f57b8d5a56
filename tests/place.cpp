#include "tests/place.h"

namespace flashscope {

std::string source_path(const std::string& path) { return FLASHSCOPE_SOURCE_DIR "/" + path; }
std::string program_path() { return FLASHSCOPE_PROGRAM; }

}  // namespace flashscope
