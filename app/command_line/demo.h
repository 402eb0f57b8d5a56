// What the program does where it cannot open its window: the picture it would show, and a report in text.
#pragma once

#include <filesystem>
#include <string>

namespace flashscope::command_line {

// Says `reason` in one line. Without a file: the built-in demo as flashscope-demo.png in the working directory
// and the five lines of its first three minutes. With one: that file as flashscope-NAME.png. Returns the exit code.
int show_without_window(const std::string& reason, const std::filesystem::path& file);

}  // namespace flashscope::command_line
