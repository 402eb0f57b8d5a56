// Whether a window could be opened here, told without starting Qt (which ends the program where it cannot).
#pragma once

#include <optional>
#include <string>

namespace flashscope::command_line {

// Why there is no display; nothing if there is one.
std::optional<std::string> why_no_display();

}  // namespace flashscope::command_line
