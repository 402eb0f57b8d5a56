// The window's entry: makes the application, opens the document and runs until the window is closed.
// Only in builds with FLASHSCOPE_WINDOW; the rest of the program knows nothing else of the window.
#pragma once

#include "app/window_start.h"

namespace flashscope {

// Returns the program's exit code. argc and argv are Qt's to edit, and must outlive the call.
int run_window(int& argc, char** argv, const WindowStart& start);

}  // namespace flashscope
