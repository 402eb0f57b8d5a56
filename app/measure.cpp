#include "app/measure.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "app/child_process.h"
#include "app/gpu_child.h"
#include "engine/error.h"
#include "engine/files/cache.h"
#include "engine/files/session_file.h"
#include "engine/files/session_json.h"
#include "engine/insight/measurement.h"
#ifdef FLASHSCOPE_GPU
#include "kernels/host/compiler.h"
#include "kernels/host/point_runner.h"
#endif

namespace flashscope {
namespace {

using gpu::GpuError;
using Json = nlohmann::json;

constexpr const char* kRequest = "points.json";
constexpr std::size_t kMostAnswer = std::size_t{1} << 16;  // bytes a point

Json json_of(const MeasureOptions& options) {
  return {{"device", options.device},
          {"kernel", static_cast<int>(options.kernel)},
          {"seed", options.seed},
          {"repeats", options.repeats},
          {"counters", options.counters}};
}
MeasureOptions options_from(const Json& json) {
  MeasureOptions options;
  options.device = json.at("device"), options.kernel = static_cast<gpu::KernelChoice>(json.at("kernel").get<int>());
  options.seed = json.at("seed"), options.repeats = json.at("repeats"), options.counters = json.at("counters");
  return options;
}

// ---- the points on disk

// What the device lets a kernel take, which decides how it is launched; an A100's where there is no such device.
gpu::DeviceLimits limits_of(int device) {
  for (const gpu::GpuDevice& found : gpu_status().devices)
    if (found.index == device) return found.limits;
  return {};
}

// Everything that a figure depends on. The method's number goes up when points are measured in another way.
std::string key_of(const MeasuredPoint& point, const MeasuredOn& on, const MeasureOptions& options,
                   [[maybe_unused]] const gpu::DeviceLimits& limits) {
  constexpr int kMethod = 1;
  std::string launch;
#ifdef FLASHSCOPE_GPU
  launch = gpu::launch_text(point, options.kernel, limits);
#endif
  MeasuredPoint plain = point;
  plain.recipe.sram.reset();  // where Br and Bc come from does not matter
  plain.kernel.clear(), plain.date.clear();
  Json asked = json_of(options);
  asked.erase("device");  // by its name
  return Json{{"method", kMethod}, {"program", FLASHSCOPE_VERSION},
              {"launch", launch},  {"on", {on.device, on.architecture, on.driver, on.compiler, on.sources}},
              {"options", asked},  {"point", files::point_to_json(plain)}}
      .dump();
}
std::filesystem::path file_of(const std::string& key, const MeasureOptions& options) {
  return options.cache / (cache_name(std::array{key}) + ".json");
}

std::optional<MeasuredPoint> read_point(const std::string& key, const MeasureOptions& options) {
  if (options.cache.empty()) return {};
  const std::filesystem::path path = file_of(key, options);
  const std::optional<std::string> text = read_cached(path);
  if (!text) return {};
  const auto json = nlohmann::ordered_json::parse(*text, nullptr, false);
  try {
    if (!json.is_object() || json.value("key", "") != key || !json.contains("point")) return {};
    MeasuredPoint point = files::point_from_json(json["point"], path.string());
    return point.gpu ? std::optional(std::move(point)) : std::nullopt;
  } catch (const std::exception&) {  // a damaged one counts as absent
    return {};
  }
}

// Only what is whole: without counters, the next time may have the permission.
void keep_point(const std::string& key, const MeasureOptions& options, const MeasuredPoint& point) {
  if (options.cache.empty() || !point.gpu || (options.counters && !point.gpu->measured)) return;
  const nlohmann::ordered_json json{{"key", key}, {"point", files::point_to_json(point)}};
  write_cached(file_of(key, options), json.dump());
}

// ---- one process, until it has answered, died or fallen silent

struct Told {
  std::vector<std::size_t> left;     // numbers that have no answer
  std::optional<std::size_t> begun;  // on the GPU when it ended
  std::size_t answers = 0;
  std::string end;  // how, if not as it should
};

class Listener {
 public:
  Listener(std::span<const MeasuredPoint> asked, Told& told, const OnPoint& on) : asked_(asked), told_(told), on_(on) {}

  void operator()(const std::string& line) {
    const auto said = nlohmann::ordered_json::parse(line, nullptr, false);
    if (said.is_object() && said.contains("error")) rethrow(said["error"]);
    try {
      if (!said.is_object()) throw InputError("a line", shown(line), "a JSON object");
      if (said.contains("begin")) told_.begun = number(said["begin"]);
      if (said.contains("point")) answer(number(said["point"]), said.at("result"));
    } catch (const nlohmann::json::exception&) {
      refuse(line);
    } catch (const InputError&) {
      refuse(line);
    }
  }

 private:
  [[noreturn]] static void refuse(const std::string& line) {
    throw GpuError(fmt::format("the measuring process said \"{}\" where an answer is expected", shown(line)));
  }
  std::size_t number(const nlohmann::ordered_json& json) const {
    const auto n = json.get<std::size_t>();
    if (std::find(told_.left.begin(), told_.left.end(), n) == told_.left.end())
      throw InputError("point", std::to_string(n), "one that was asked for");
    return n;
  }
  void answer(std::size_t n, const nlohmann::ordered_json& result) {
    MeasuredPoint point = files::point_from_json(result, "result");
    const MeasuredPoint& asked = asked_[n];
    if (point.shape != asked.shape || point.mask != asked.mask || point.recipe != asked.recipe || !point.done())
      throw InputError("result", "another point's", "this one's");
    std::erase(told_.left, n);
    told_.begun.reset();
    ++told_.answers;
    on_(n, point, false);
  }
  std::span<const MeasuredPoint> asked_;
  Told& told_;
  const OnPoint& on_;
};

Told ask_child(std::span<const MeasuredPoint> asked, std::vector<std::size_t> numbers, const MeasureOptions& options,
               const std::stop_token& stop, const OnPoint& on) {
  const ChildFolder folder;
  {
    nlohmann::ordered_json request{{"options", json_of(options)}};
    for (const std::size_t n : numbers)
      request["points"].push_back({{"number", n}, {"point", files::point_to_json(asked[n])}});
    std::ofstream file(folder / kRequest, std::ios::binary);
    file << request.dump();
    if (!file.flush()) throw InputError((folder / kRequest).string(), "a write that failed", "a place with room");
  }
  Told told;
  told.left = std::move(numbers);
  Listener listener(asked, told, on);
  ChildProcess child(options.program, "gpu-sweep", folder);
  const std::optional<int> status =
      child.wait(stop, {options.silence, true, (told.left.size() + 1) * kMostAnswer}, std::ref(listener));
  if (!status)
    told.end = fmt::format("gave no answer for {} s", options.silence.count());
  else if (*status != 0 || !told.left.empty())
    told.end = how_it_ended(*status, folder);
  return told;
}

}  // namespace

MeasuredOn measured_on(int device) { return measured_on(gpu_status(), device); }

MeasuredOn measured_on(const gpu::GpuStatus& status, int device) {
  if (!status.can_run()) throw gpu::Missing(status.missing.empty() ? "no GPU" : status.missing.front());
  const auto found = std::find_if(status.devices.begin(), status.devices.end(),
                                  [&](const gpu::GpuDevice& one) { return one.index == device; });
  if (found == status.devices.end())
    throw InputError("--gpu", std::to_string(device), "a GPU that `flashscope devices` lists as usable");
  MeasuredOn on;
  on.device = found->name, on.architecture = found->architecture, on.l2_bytes = found->limits.l2_bytes;
  on.driver = fmt::format("{}.{}", found->driver_version / 1000, found->driver_version % 1000 / 10);
#ifdef FLASHSCOPE_GPU
  on.compiler = gpu::toolchain(), on.sources = gpu::source_hash();
#endif
  return on;
}

std::filesystem::path measured_cache() {
  const std::filesystem::path folder = cache_folder();
  return folder.empty() ? folder : folder / "measured";
}

std::string why_not_measurable(const MeasuredPoint& point) {
  if (!point.mask.structural_only() || !point.mask.rules.none())
    return "a mask from a file or by rule: sweeps measure causal and window masks, `flashscope run` measures one run "
           "with it";
  return {};
}

void measure_points(std::span<const MeasuredPoint> asked, const MeasuredOn& on, const MeasureOptions& options,
                    const std::stop_token& stop, const OnPoint& told) {
  std::vector<std::string> keys(asked.size());
  std::vector<std::size_t> left;
  const gpu::DeviceLimits limits = limits_of(options.device);
  const auto fail = [&](std::size_t n, std::string why) {
    MeasuredPoint point = asked[n];
    point.failed = std::move(why), point.date = date_now();
    told(n, point, false);
  };
  for (std::size_t n = 0; n < asked.size(); ++n) {
    if (stop.stop_requested()) throw Cancelled();
    if (asked[n].done()) continue;
    if (std::string why = why_not_measurable(asked[n]); !why.empty()) {
      fail(n, std::move(why));
      continue;
    }
    keys[n] = key_of(asked[n], on, options, limits);
    if (std::optional<MeasuredPoint> known = read_point(keys[n], options)) {
      known->recipe = asked[n].recipe;
      told(n, *known, true);
    } else {
      left.push_back(n);
    }
  }
  const OnPoint keep_and_tell = [&](std::size_t n, const MeasuredPoint& point, bool cached) {
    keep_point(keys[n], options, point);
    told(n, point, cached);
  };
  while (!left.empty()) {
    const Told child = ask_child(asked, left, options, stop, keep_and_tell);
    left = child.left;
    if (left.empty()) return;
    const std::string what = "the measuring process " + child.end;
    if (child.begun) {
      std::erase(left, *child.begun);
      fail(*child.begun, what + " on this point");
    } else if (child.answers == 0) {
      throw GpuError(what + " before it measured anything");
    }
  }
}

// ---- a sweep

MeasuredSweep begin_sweep(const MeasuredOn& on, const MeasureOptions& options, std::vector<MeasuredPoint> points) {
  return {on, date_now(), FLASHSCOPE_VERSION, static_cast<std::int64_t>(options.seed), std::move(points)};
}

MeasuredSweep begin_plane(const MeasuredOn& on, const MeasureOptions& options, const MeasuredPoint& like) {
  return begin_sweep(on, options, points_with(like, coarse_blocks(like.shape)));
}

void measure_sweep(MeasuredSweep& sweep, bool plane, const MeasureOptions& options, const std::stop_token& stop,
                   const std::function<void(bool cached)>& told) {
  while (true) {
    const std::vector<MeasuredPoint> asked = sweep.points;
    measure_points(asked, sweep.on, options, stop, [&](std::size_t n, const MeasuredPoint& point, bool cached) {
      sweep.points[n] = point;
      told(cached);
    });
    if (!plane || sweep.points.empty()) return;
    const MeasuredPoint& first = sweep.points.front();
    const std::vector<MeasuredPoint> more = points_with(first, finer_blocks(sweep.points, first.shape));
    if (more.empty()) return;
    sweep.points.insert(sweep.points.end(), more.begin(), more.end());
  }
}

// ---- the child's side

namespace {

struct Ready {
  std::size_t number = 0;
  MeasuredPoint point;  // as asked, or failed
  std::function<MeasuredPoint()> measure;
};

// Points whose kernels are compiled, in the order in which that ended.
class ReadyPoints {
 public:
  ReadyPoints(std::vector<Ready> asked, const PreparePoint& prepare) : asked_(std::move(asked)), prepare_(prepare) {
    // One core stays free for the launches.
    const std::size_t most = std::max(2u, std::thread::hardware_concurrency()) - 1;
    for (std::size_t n = 0; n < std::min(most, asked_.size()); ++n) threads_.emplace_back([this] { work(); });
  }
  Ready next() {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [this] { return !ready_.empty(); });
    Ready one = std::move(ready_.front());
    ready_.pop_front();
    return one;
  }

 private:
  void work() {
    for (std::size_t n = next_++; n < asked_.size(); n = next_++) {
      Ready one = asked_[n];
      try {
        one.measure = prepare_(one.point);
      } catch (const std::exception& error) {
        one.point.failed = error.what();
      }
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(one));
      came_.notify_one();
    }
  }
  const std::vector<Ready> asked_;
  const PreparePoint& prepare_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Ready> ready_;
  std::vector<std::jthread> threads_;
};

}  // namespace

int serve_gpu_sweep(const std::filesystem::path& folder, const OpenPoints& open) {
  end_with_parent();
  try {
    std::ifstream file(folder / kRequest, std::ios::binary);
    const auto request = nlohmann::ordered_json::parse(file);
    std::vector<Ready> asked;
    for (const auto& one : request.at("points"))
      asked.push_back({one.at("number"), files::point_from_json(one.at("point"), kRequest), {}});
    const std::size_t count = asked.size();
    const PreparePoint prepare = open(options_from(request.at("options")));
    ReadyPoints points(std::move(asked), prepare);
    for (std::size_t n = 0; n < count; ++n) {
      Ready one = points.next();
      bool lost = false;
      if (one.measure) {
        say({{"begin", one.number}});
        try {
          one.point = one.measure();
        } catch (const InputError& error) {
          one.point.failed = error.what();
        } catch (const gpu::Missing& error) {  // a library that this point needs, and others do not
          one.point.failed = error.what();
        } catch (const std::exception& error) {
          one.point.failed = error.what(), lost = true;
        }
      }
      one.point.date = date_now();
      say({{"point", one.number}, {"result", files::point_to_json(one.point)}});
      if (lost) _exit(4);  // the device may be lost with this process; threads that compile are not waited for
    }
    return 0;
  } catch (const std::exception& error) {
    say({{"error", error_json(error)}});
    return 4;
  }
}

int serve_gpu_sweep(const std::filesystem::path& folder) {
#ifdef FLASHSCOPE_GPU
  return serve_gpu_sweep(folder, [](const MeasureOptions& options) -> PreparePoint {
    auto runner = std::make_shared<gpu::PointRunner>(
        gpu::PointOptions{options.device, options.kernel, options.seed, options.repeats, options.counters});
    return [runner](const MeasuredPoint& asked) -> std::function<MeasuredPoint()> {
      auto prepared = std::make_shared<gpu::PointRunner::Prepared>(runner->prepare(asked));
      return [runner, asked, prepared] { return runner->measure(asked, std::move(*prepared)); };
    };
  });
#else
  return serve_gpu_sweep(
      folder, [](const MeasureOptions&) -> PreparePoint { throw gpu::Missing(gpu_status().missing.front()); });
#endif
}

}  // namespace flashscope
