// The command line as a whole, for main: which arguments are its own, and what happens with the others.
#pragma once

#include <filesystem>
#include <functional>

namespace flashscope::command_line {

// Whether the arguments name a command or an option, and not a file to open (or nothing).
bool is_command(int argc, char** argv);
// Parses and runs; returns the exit code. Results on standard output, everything else on standard error.
int run(int argc, char** argv);
// flashscope [FILE]: calls `window` where there is a display. Where there is none, or `window` is empty (a build
// without it), shows a picture and a report instead.
int open(int argc, char** argv, const std::function<int(const std::filesystem::path& file)>& window);

}  // namespace flashscope::command_line
