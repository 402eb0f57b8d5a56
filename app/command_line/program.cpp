#include "app/command_line/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <new>
#include <span>
#include <string_view>

#include "app/command_line/commands.h"
#include "app/command_line/picture.h"
#include "app/gpu_child.h"
#include "app/measure.h"
#include "engine/error.h"
#include "kernels/host/compiler.h"

namespace flashscope::command_line {
namespace {

struct Known {
  const char* name;
  const char* help;
  void (*add)(Command&);
};
constexpr std::array kCommands{
    Known{"count", "what moves between HBM and the chip: ledger and closed forms, no arithmetic", add_count},
    Known{"run", "the whole kernel on the CPU or a GPU: O, LSE, errors, time, memory, traffic", add_run},
    Known{"step", "the state of one head after K steps, or at the next event", add_step},
    Known{"sweep", "the ledger at every point of a product of options: table, CSV, JSON, chart", add_sweep},
    Known{"diagnose", "NaN rows, the first NaN with its stage and cause, empty rows", add_diagnose},
    Known{"gallery", "known mistakes and conventions, each with the smallest input that shows it", add_gallery},
    Known{"history", "one row across all tiles: m, l, alpha, O before and after each; table, CSV, JSON", add_history},
    Known{"render", "the stage in one state as a PNG, without a display", add_render},
    Known{"row", "the online softmax of one row of scores, chunk by chunk", add_row},
    Known{"devices", "the processors of this machine and what each can run", add_devices},
};
// FOLDER: the child's side of a run, of a sweep on a GPU; not for people.
constexpr const char *kGpuRun = "gpu-run", *kGpuSweep = "gpu-sweep";

constexpr const char* kAbout =
    "flashscope: step, run and count a tiled attention kernel on your own tensors.\n"
    "Without a command the window opens on FILE (.npz, .safetensors, .fscope), on the problem and kernel of the\n"
    "options that `flashscope run` takes, or on the built-in demo; without a display it is a picture instead.";
constexpr const char* kAboutWindow = "Opens the window on FILE, with the options of PROBLEM and KERNEL below.";
constexpr const char* kExits =
    "Every command takes --json and prints one JSON object on standard output.\n"
    "Exit codes: 0 done, 2 bad usage or input, 3 NaN or a mismatch was found, 4 the device failed, 130 cancelled.\n"
    "`flashscope COMMAND --help` lists a command's options.";

int run_action(const std::function<int()>& action, const std::string& who) {
  const auto complain = [&](const char* what) { fmt::print(stderr, "{}: {}\n", who, what); };
  try {
    return action();
  } catch (const Cancelled& cancelled) {
    complain(cancelled.what());
    return kCancelled;
  } catch (const DeviceError& error) {
    complain(error.what());
    return kDevice;
  } catch (const gpu::Missing& missing) {
    complain(missing.what());
    return kDevice;
  } catch (const gpu::GpuError& error) {
    complain(error.what());
    return kDevice;
  } catch (const gpu::CompileError& error) {
    complain(error.what());
    return kDevice;
  } catch (const std::bad_alloc&) {
    complain("not enough memory; --memory sets what may be used, smaller inputs need less");
  } catch (const std::exception& error) {
    complain(error.what());
  }
  return kBadInput;
}

int parse_and_act(CLI::App& program, int argc, char** argv, const std::function<int()>& chosen) {
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return program.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return program.exit(version);
  } catch (const CLI::ExtrasError& error) {
    for (const std::string_view word : std::span(argv, static_cast<std::size_t>(argc)).subspan(1))
      if (!word.starts_with('-') && std::string_view(error.what()).find(word) != std::string_view::npos &&
          std::filesystem::is_regular_file(word))
        throw InputError("the command line", fmt::format("{}, a file, by itself", word),
                         fmt::format("--input {}", word));
    throw;
  }
  return chosen();
}

}  // namespace

bool is_command(int argc, char** argv) {
  if (argc < 2) return false;
  const std::string_view word = argv[1];
  const auto named = [&](const Known& known) { return word == known.name; };
  return word == "-h" || word == "--help" || word == "--version" || word == kGpuRun || word == kGpuSweep ||
         std::any_of(kCommands.begin(), kCommands.end(), named);
}

int run(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == kGpuRun) return serve_gpu_run(argv[2]);
  if (argc == 3 && std::string_view(argv[1]) == kGpuSweep) return serve_gpu_sweep(argv[2]);
  CLI::App program(kAbout, "flashscope");
  program.set_version_flag("--version", "flashscope " FLASHSCOPE_VERSION);
  program.footer(kExits);
  program.get_formatter()->column_width(40);
  program.get_formatter()->label("SUBCOMMAND", "COMMAND");
  program.require_subcommand(1);

  std::function<int()> chosen;
  std::vector<std::unique_ptr<Command>> commands;
  for (const Known& known : kCommands) {
    CLI::App* app = program.add_subcommand(known.name, known.help)->group("Commands");
    commands.push_back(std::make_unique<Command>(*app, chosen));
    known.add(*commands.back());
  }

  std::string who = "flashscope";
  if (argc > 1 && argv[1][0] != '-') who += fmt::format(" {}", argv[1]);
  return run_action([&] { return parse_and_act(program, argc, argv, chosen); }, who);
}

int open(int argc, char** argv, const std::function<int(const WindowStart&)>& window) {
  CLI::App program(kAboutWindow, "flashscope");
  program.get_formatter()->column_width(40);
  std::function<int()> chosen;
  Command command(program, chosen);
  add_window(command, window);
  return run_action([&] { return parse_and_act(program, argc, argv, chosen); }, "flashscope");
}

}  // namespace flashscope::command_line
