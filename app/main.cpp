// The program: the command line, or the window when no command is given.
#include "app/command_line/program.h"
#ifdef FLASHSCOPE_WINDOW
#include "app/window/run_window.h"
#endif

int main(int argc, char** argv) {
  namespace command_line = flashscope::command_line;
  if (command_line::is_command(argc, argv)) return command_line::run(argc, argv);
  std::function<int(const flashscope::WindowStart&)> window;
#ifdef FLASHSCOPE_WINDOW
  window = [&](const flashscope::WindowStart& start) { return flashscope::run_window(argc, argv, start); };
#endif
  return command_line::open(argc, argv, window);
}
