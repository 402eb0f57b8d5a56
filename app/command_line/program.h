// The command line as a whole, for main: which arguments are its own, and what happens with the others.
#pragma once

#include <functional>

#include "app/window_start.h"

namespace flashscope::command_line {

// Whether the arguments name a command, or ask for help: not a file or a problem to open, or nothing.
bool is_command(int argc, char** argv);
// Parses and runs; returns the exit code. Results on standard output, everything else on standard error.
int run(int argc, char** argv);
// flashscope [FILE] [PROBLEM] [KERNEL]: calls `window` where there is a display. Where there is none, or `window` is
// empty (a build without it), shows a picture and a report instead.
int open(int argc, char** argv, const std::function<int(const WindowStart&)>& window);

}  // namespace flashscope::command_line
