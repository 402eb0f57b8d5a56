// flashscope run: the whole kernel, on the CPU or on a GPU. O and LSE, their error, time and memory as measured,
// traffic from every source.
#include <fmt/format.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/command_line/commands.h"
#include "app/command_line/interrupt.h"
#include "app/command_line/options.h"
#include "app/command_line/run_report.h"
#include "app/gpu_child.h"
#include "engine/attention/cpu_runner.h"
#include "engine/files/session_file.h"
#include "engine/files/tensor_file.h"

namespace flashscope::command_line {
namespace {

enum class Device { automatic, cpu, cuda };

struct Options {
  ProblemOptions problem;
  KernelOptions kernel;
  RunOptions run;
  Device device = Device::automatic;
  ChildRun child;
  bool measure = false, no_measure = false;
  std::filesystem::path out, save, timeline;
  const HardwareSheet* sheet = nullptr;  // for the blocks, where no GPU runs
  bool json = false;
};

// What only a GPU does; empty where nothing asks for one.
std::string needs_gpu(const Options& options) {
  if (options.measure) return "--measure";
  if (!options.timeline.empty()) return "--timeline";
  if (options.kernel.kernel != gpu::KernelChoice::automatic) return "--kernel simple|mma";
  return {};
}

const gpu::GpuDevice& find_device(const gpu::GpuStatus& status, int index) {
  for (const gpu::GpuDevice& device : status.devices)
    if (device.index == index) return device;
  throw InputError("--gpu", std::to_string(index), "a GPU that `flashscope devices` lists as usable");
}

// Why this cannot run on a GPU, as an exception; nothing is allocated there.
void check_gpu(const gpu::GpuStatus& status, const Problem& problem, const Recipe& recipe, const Options& options) {
  const std::string missing = status.missing.empty() ? "no GPU" : status.missing.front(), wanted = needs_gpu(options);
  if (!status.can_run())
    throw gpu::Missing(wanted.empty() ? missing : fmt::format("{} needs a GPU: {}", wanted, missing));
  const gpu::GpuDevice& device = find_device(status, options.child.device);
  check_fits(device_bytes(problem.shape(), problem.mask, recipe), device);
#ifdef FLASHSCOPE_GPU
  gpu::plan_launch(problem, recipe, options.kernel.kernel, false, device.limits);
#endif
}

bool on_gpu(const Options& options, const Problem& problem, const Recipe& recipe) {
  const std::string wanted = needs_gpu(options);
  if (options.device == Device::cpu) {
    if (!wanted.empty()) throw UsageError(wanted + ": only on a GPU, not with --device cpu");
    return false;
  }
  const gpu::GpuStatus status = gpu_status();
  if (options.device == Device::cuda || !wanted.empty()) {
    check_gpu(status, problem, recipe, options);
    return true;
  }
  try {
    check_gpu(status, problem, recipe, options);
    return true;
  } catch (const std::runtime_error& why) {  // Missing, or InputError: no kernel for this recipe, does not fit
    fmt::print(stderr, "flashscope run: on the CPU: {}\n", why.what());
    return false;
  }
}

void write(const Report& report, const std::filesystem::path& path) {
  const Shape& shape = report.shape;
  const ElementType type = shape.type == DType::float64 ? ElementType::float64 : ElementType::float32;
  const std::array arrays{OutArray{"o", type, {shape.heads, shape.Nq, shape.dv}, report.O},
                          OutArray{"lse", type, {shape.heads, shape.Nq}, report.LSE}};
  write_npz(path, arrays);
}

// Refused before the run: over the session that it is part of, one head would be saved in place of them all.
void check_save(const Options& options, const Problem& problem) {
  const std::filesystem::path& input = options.problem.input;
  std::error_code error;
  if (options.save.empty() || !std::filesystem::equivalent(options.save, input, error) || !is_session(input)) return;
  const TensorFile file = TensorFile::open(input);
  const ArrayInfo* q = file.find("q");
  if (q && q->shape.front() != problem.shape().heads)
    throw InputError("--save " + options.save.string(),
                     fmt::format("the session itself, of {} heads", q->shape.front()),
                     "another file, as --head would leave it one");
}

// Into a session of its own; what the problem's own session held stays.
void save(const Options& options, const OpenedProblem& opened, const Recipe& recipe,
          const std::shared_ptr<const Report>& report, const std::stop_token& stop) {
  SessionFile session;
  if (!options.problem.input.empty() && is_session(options.problem.input)) {
    session = read_session(options.problem.input, options.problem.memory, stop);
    if (session.problem->shape() != opened.problem->shape()) session.head = session.K = 0;  // one head of it
  }
  session.problem = opened.problem, session.recipe = recipe;
  session.reports.push_back(make_saved(report, opened.problem, FLASHSCOPE_VERSION));
  write_session(options.save, session, stop);
}

void write_timeline(const Report& report, const std::filesystem::path& path) {
  if (!report.gpu || !report.gpu->timeline) throw InputError(path.string(), "a run without a timeline", "one with it");
  std::ofstream file(path, std::ios::binary);
  file << chrome_trace(*report.gpu->timeline, report.device, recipe_text(report.shape, report.recipe));
  if (!file.flush()) throw InputError(path.string(), "a write that failed", "a place that can be written");
}

int run(Options& options) {
  const Interrupt interrupt;
  const OpenedProblem opened = open_problem(options.problem, {}, interrupt.token());
  check_save(options, *opened.problem);
  print_notes("flashscope run", opened, !options.json);
  const Problem& problem = *opened.problem;
  start_from(options.kernel, opened.recipe);
  const Recipe recipe = recipe_of(options.kernel, problem.shape());
  if (options.measure && options.no_measure) throw UsageError("--measure and --no-measure exclude each other");
  const bool gpu = on_gpu(options, problem, recipe);
  std::shared_ptr<const Report> report;
  {
    ProgressLine line(gpu ? "running on the GPU" : "running");
    if (gpu) {
      options.child.kernel = options.kernel.kernel;
      options.child.check = options.run.check, options.child.threads = options.run.threads;
      options.child.measure = !options.no_measure, options.child.timeline = !options.timeline.empty();
      report = std::make_shared<const Report>(
          run_in_child(problem, recipe, options.child, interrupt.token(), line.callback(), line.on_stage()));
    } else {
      options.run.memory_limit = options.problem.memory;
      report =
          std::make_shared<const Report>(run_on_cpu(problem, recipe, options.run, interrupt.token(), line.callback()));
    }
  }
  if (!options.out.empty()) write(*report, options.out);
  if (!options.timeline.empty()) write_timeline(*report, options.timeline);
  if (!options.save.empty()) save(options, opened, recipe, report, interrupt.token());
  const ReportView view{
      .report = report.get(), .problem = &problem, .first_head = opened.first_head, .sheet = options.sheet, .made = {}};
  if (options.json) {
    print_json(report_json(view));
  } else {
    print_report(view);
    if (!options.out.empty()) fmt::print("  O and LSE written to {}\n", options.out.string());
    if (!options.timeline.empty()) fmt::print("  timeline written to {}\n", options.timeline.string());
    if (!options.save.empty()) fmt::print("  session written to {}\n", options.save.string());
  }
  return report->nan_row_count > 0 || (report->error && !report->error->within()) ? kFound : kDone;
}

}  // namespace

void add_run(Command& command) {
  const auto options = std::make_shared<Options>();
  command.flag("--json", options->json, "one JSON object on standard output");
  command.group("RUN");
  command.choice("--device", {"auto", "cpu", "cuda"}, "where it runs (default: auto, a GPU where there is one)",
                 [options](const std::string& word) {
                   options->device = word == "cpu" ? Device::cpu : word == "cuda" ? Device::cuda : Device::automatic;
                 });
  command.integer("--gpu", "N", "which GPU, as `flashscope devices` numbers them (default: 0)", 0, 1024,
                  [options](std::int64_t n) { options->child.device = static_cast<int>(n); });
  command.flag("--measure", options->measure, "read the GPU's counters: needs a GPU, and is the default on one");
  command.flag("--no-measure", options->no_measure, "leave the GPU's counters alone");
  command.integer("--repeats", "N", "timed launches on a GPU, fewer where one takes long (default: 20)", 1, 100000,
                  [options](std::int64_t n) { options->child.repeats = static_cast<int>(n); });
  command.path("--timeline", "write when each SM worked on which tile, as a Chrome trace (JSON); needs a GPU",
               options->timeline);
  command.option("--device-sheet", "NAME", "the GPU whose SMs stand beside the blocks: A100 80GB, H200, RTX 4090 ...",
                 [options](const std::string& word) { options->sheet = &sheet_named(word); });
  command.integer("--threads", "N", "threads (default: all cores)", 1, 4096,
                  [options](std::int64_t n) { options->run.threads = static_cast<int>(n); });
  command.option("--check", "all|N|none",
                 "rows compared with float64: all, N a head, none (default: all up to 4e10 FLOP, else 256)",
                 [options](const std::string& word) {
                   CheckRows& check = options->run.check;
                   if (word == "all") {
                     check.kind = CheckRows::Kind::all;
                   } else if (word == "none") {
                     check.kind = CheckRows::Kind::none;
                   } else {
                     check = {CheckRows::Kind::some, parse_integer("--check", word, 1, std::int64_t{1} << 40)};
                   }
                 });
  command.path("--out", "write o (heads, N, dv) and lse (heads, N) to this .npz", options->out);
  command.path("--save", "write problem, recipe and report to this session (.fscope), which the window opens",
               options->save);
  command.refused("--against",
                  "`flashscope diagnose ... --against FILE` compares and explains another kernel's output");
  options->kernel.gpu_kernels = true;
  add_problem(command, options->problem, options->kernel.recipe);
  add_kernel(command, options->kernel);
  command.footer("Example: flashscope run --random 1 --n 4096 --d 64 --causal");
  command.action([options] { return run(*options); });
}

}  // namespace flashscope::command_line
