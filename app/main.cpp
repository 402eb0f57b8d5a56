// The program: the command line, or the window when no command is given.
#include "app/command_line/program.h"
#ifdef FLASHSCOPE_WINDOW
#include "app/window/run_window.h"
#endif

int main(int argc, char** argv) {
  namespace command_line = flashscope::command_line;
  if (command_line::is_command(argc, argv)) return command_line::run(argc, argv);
  std::function<int(const std::filesystem::path&)> window;
#ifdef FLASHSCOPE_WINDOW
  window = [&](const std::filesystem::path& file) { return flashscope::run_window(argc, argv, {file}); };
#endif
  return command_line::open(argc, argv, window);
}
