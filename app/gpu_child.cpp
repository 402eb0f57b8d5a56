#include "app/gpu_child.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/child_process.h"
#include "engine/error.h"
#include "engine/files/session_file.h"

namespace flashscope {
namespace {

using gpu::GpuError;
using Json = nlohmann::json;

constexpr const char* kRequest = "request.fscope";
constexpr const char* kAnswer = "answer.fscope";
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kShares = 1000;  // of the progress: until written, run, compared
constexpr std::int64_t kWritten = 50, kRan = 500;

// Where a person can start over.
constexpr const char* kNothingLost = "nothing else is lost, and the next run starts afresh";

[[noreturn]] void refuse_answer(const std::string& text) {
  throw GpuError(
      fmt::format("the GPU run's process said \"{}\" where JSON is expected; {}", shown(text), kNothingLost));
}

Json request_json(const ChildRun& options) {
  return {{"device", options.device},
          {"kernel", static_cast<int>(options.kernel)},
          {"measure", options.measure},
          {"timeline", options.timeline},
          {"repeats", options.repeats}};
}
gpu::GpuRunOptions options_from(const Json& json) {
  gpu::GpuRunOptions options;
  options.device = json.at("device"), options.kernel = static_cast<gpu::KernelChoice>(json.at("kernel").get<int>());
  options.measure = json.at("measure"), options.timeline = json.at("timeline"), options.repeats = json.at("repeats");
  options.check.kind = CheckRows::Kind::none;  // the parent's
  return options;
}

Report read_answer(const ChildFolder& folder, const Problem& problem, const Recipe& recipe) {
  try {
    const SessionFile answer = read_session(folder / kAnswer, kUnlimited);
    if (answer.reports.size() != 1) throw InputError(kAnswer, fmt::format("{} reports", answer.reports.size()), "one");
    Report report = *answer.reports.front().report;
    if (report.shape != problem.shape() || report.recipe != recipe)
      throw InputError(kAnswer, "the report of another run", "this one's");
    return report;
  } catch (const InputError& error) {
    throw GpuError(fmt::format("the GPU run's answer cannot be read: {}; {}", error.what(), kNothingLost));
  }
}

}  // namespace

gpu::GpuStatus gpu_status() {
#ifdef FLASHSCOPE_GPU
  return gpu::gpu_status();
#else
  gpu::GpuStatus status;
  status.missing.emplace_back(
      "this flashscope was built without CUDA: install the CUDA Toolkit 12.8 or newer and build it again");
  return status;
#endif
}

std::vector<std::string> missing_gpu_libraries() {
#ifdef FLASHSCOPE_GPU
  return gpu::missing_libraries();
#else
  return {};
#endif
}

void check_fits(const DeviceBytes& bytes, const gpu::GpuDevice& device) {
  if (bytes.total() <= device.memory_bytes) return;
  throw InputError("run on the GPU", text(bytes),
                   fmt::format("at most {} bytes, the memory of {}", device.memory_bytes, device.name));
}

bool reads_counters(std::string_view stage) { return stage.starts_with(gpu::kReadsCounters); }

Report run_in_child(const Problem& problem, const Recipe& recipe, const ChildRun& options, const std::stop_token& stop,
                    const Progress& progress, const std::function<void(const std::string&)>& on_stage) {
  const auto stage = [&](const std::string& what) {
    if (on_stage) on_stage(what);
  };
  const auto share = [&](std::int64_t from, std::int64_t to) -> Progress {
    if (!progress) return {};
    return [&progress, from, to](std::int64_t done, std::int64_t total) {
      const double part = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
      progress(from + static_cast<std::int64_t>(part * static_cast<double>(to - from)), kShares);
    };
  };
  const ChildFolder folder;
  stage("writing the problem");
  {
    SessionFile request;
    auto asked = std::make_shared<Problem>(problem);
    asked->given_O.reset(), asked->given_LSE.reset();
    request.problem = std::move(asked), request.recipe = recipe, request.window = request_json(options).dump();
    write_session(folder / kRequest, request, stop, share(0, kWritten));
  }
  Json error;
  bool done = false;
  int status = 0;
  {
    const Progress ran = share(kWritten, kRan);
    stage("starting");
    ChildProcess child(options.program, "gpu-run", folder);
    const std::optional<int> ended = child.wait(stop, {options.limit}, [&](const std::string& line) {
      const Json said = Json::parse(line, nullptr, false);
      try {
        if (said.contains("error")) error = said.at("error");
        if (said.contains("progress")) {
          const std::int64_t part = said["progress"].at(0), all = said["progress"].at(1);
          if (ran) ran(part, all);
        }
        if (said.contains("stage")) stage(shown(said.at("stage").get<std::string>()));
        done = done || said.value("done", false);
      } catch (const Json::exception&) {
        refuse_answer(line);
      }
      if (!said.is_object()) refuse_answer(line);
    });
    if (!ended)
      throw GpuError(
          fmt::format("the GPU run was ended after {} s without a result; {}", options.limit.count(), kNothingLost));
    status = *ended;
  }
  if (error.is_object() && !WIFSIGNALED(status)) rethrow(error);
  if (!done || status != 0)
    throw GpuError(fmt::format("the GPU run's process {}; {}", how_it_ended(status, folder), kNothingLost));
  Report report = read_answer(folder, problem, recipe);
  if (options.check.kind != CheckRows::Kind::none) {
    const int threads = options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
    stage("comparing with float64");
    report.error = error_vs_float64(problem, report.O, {recipe.empty_row, recipe.mask_apply}, options.check,
                                    std::max(threads, 1), stop, share(kRan, kShares));
  }
  return report;
}

int serve_gpu_run(const std::filesystem::path& folder, const GpuRunner& run) {
  end_with_parent();
  try {
    const SessionFile request = read_session(folder / kRequest, kUnlimited);
    if (!request.problem) throw InputError(kRequest, "no problem", "one");
    // 0..1000, of which reading and writing the files are the rest.
    const auto on_stage = [&](const std::string& stage, double done) {
      say({{"progress", {100 + std::llround(800 * done), 1000}}, {"stage", stage}});
    };
    Report report = run(*request.problem, request.recipe, options_from(Json::parse(request.window)), on_stage);
    say({{"progress", {900, 1000}}, {"stage", "handing the report over"}});
    SessionFile answer;
    answer.recipe = request.recipe;
    answer.reports.emplace_back().report = std::make_shared<const Report>(std::move(report));
    write_session(folder / kAnswer, answer);
    say({{"done", true}});
    return 0;
  } catch (const std::exception& error) {
    say({{"error", error_json(error)}});
    return dynamic_cast<const InputError*>(&error) ? 2 : 4;
  }
}

int serve_gpu_run(const std::filesystem::path& folder) {
#ifdef FLASHSCOPE_GPU
  return serve_gpu_run(
      folder, [](const Problem& problem, const Recipe& recipe, const gpu::GpuRunOptions& options,
                 const gpu::OnStage& on_stage) { return gpu::run_on_gpu(problem, recipe, options, {}, on_stage); });
#else
  return serve_gpu_run(folder,
                       [](const Problem&, const Recipe&, const gpu::GpuRunOptions&, const gpu::OnStage&) -> Report {
                         throw gpu::Missing(gpu_status().missing.front());
                       });
#endif
}

}  // namespace flashscope
