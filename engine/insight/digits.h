// Counts as a text of the engine says them: 17,383,424.
#pragma once

#include <cstdint>
#include <string>

namespace flashscope {

std::string grouped(std::int64_t n);

}  // namespace flashscope
