// The commands, one file each. A function adds its command's options and what it does to the program.
#pragma once

#include <functional>

#include "app/command_line/arguments.h"
#include "app/window_start.h"

namespace flashscope::command_line {

// Exit codes. Cancelled by Ctrl+C is 128 + SIGINT, as shells have it.
enum Exit : int { kDone = 0, kBadInput = 2, kFound = 3, kDevice = 4, kCancelled = 130 };

void add_count(Command& command);
void add_devices(Command& command);
void add_diagnose(Command& command);
void add_gallery(Command& command);
void add_history(Command& command);
void add_render(Command& command);
void add_row(Command& command);
void add_run(Command& command);
void add_step(Command& command);
void add_sweep(Command& command);
// No command at all: `window` opens it; empty: there is none.
void add_window(Command& command, const std::function<int(const WindowStart&)>& window);

}  // namespace flashscope::command_line
