// What the program does where it cannot open its window: the picture it would show, and a report in text.
#pragma once

#include <string>

#include "app/command_line/options.h"

namespace flashscope::command_line {

enum class Shown { demo, file, problem };

// Says `reason` in one line, then writes flashscope-NAME.png in the working directory and a report. Returns the exit
// code.
//   demo     the built-in one, and the five lines of its first three minutes
//   file     the input of `problem` as it is; of a session every run in it
//   problem  `problem` under `kernel`; the demo where it has no source
int show_without_window(const std::string& reason, Shown what, const ProblemOptions& problem,
                        const KernelOptions& kernel);

}  // namespace flashscope::command_line
