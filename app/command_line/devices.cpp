// flashscope devices: the processors of this machine, and what is missing for those that cannot be used.
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/command_line/commands.h"
#include "app/command_line/output.h"
#include "app/gpu_child.h"
#include "engine/attention/online_softmax.h"
#include "engine/insight/hardware.h"

namespace flashscope::command_line {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t at = line.find_first_not_of(" \t", line.find(':') + 1);
    if (at != line.npos) return line.substr(at);
  }
  return "unknown";
}

std::string driver_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Json json_of(const gpu::GpuDevice& device) {
  const HardwareSheet* sheet = find_sheet(device.name);
  return {{"index", device.index},
          {"name", device.name},
          {"compute_capability", fmt::format("{}.{}", device.major, device.minor)},
          {"architecture", device.architecture},
          {"driver_cuda", driver_text(device.driver_version)},
          {"memory_bytes", device.memory_bytes},
          {"sms", device.limits.sms},
          {"l2_bytes", device.limits.l2_bytes},
          {"shared_bytes_per_block", device.limits.shared_bytes_per_block},
          {"shared_bytes_per_sm", device.limits.shared_bytes_per_sm},
          {"sheet", sheet ? Json(sheet->name) : Json()}};
}

int devices(bool json) {
  const std::string processor = processor_name();
  const auto threads = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  const std::int64_t page = sysconf(_SC_PAGESIZE), memory = page * sysconf(_SC_PHYS_PAGES);
  const std::vector<std::string_view> isas = available_isas();
  const gpu::GpuStatus status = gpu_status();
  const std::vector<std::string> limited = missing_gpu_libraries();
  if (json) {
    Json object = {
        {"cpu",
         {{"name", processor}, {"threads", threads}, {"memory_bytes", memory}, {"isa", current_isa()}, {"isas", isas}}},
        {"gpus", Json::array()},
        {"gpu_usable", status.can_run()},
        {"missing", status.missing},
        {"unusable", Json::array()},
        {"limited", limited}};
    for (const gpu::UnusableGpu& gpu : status.unusable) object["unusable"].push_back(gpu.why);
    for (const gpu::GpuDevice& device : status.devices) object["gpus"].push_back(json_of(device));
    print_json(object);
    return kDone;
  }
  Table table;
  table.line({"CPU", processor});
  table.line({"", fmt::format("{} threads, {} of memory", threads, bytes_text(memory))});
  table.line({"", fmt::format("instruction set {}; --isa chooses among {}", current_isa(), fmt::join(isas, ", "))});
  for (const gpu::GpuDevice& device : status.devices) {
    table.line({fmt::format("GPU {}", device.index), device.name});
    table.line({"", fmt::format("compute capability {}.{}, {} SMs, {} of memory, {} of L2; driver for CUDA {}",
                                device.major, device.minor, device.limits.sms, bytes_text(device.memory_bytes),
                                bytes_text(device.limits.l2_bytes), driver_text(device.driver_version))});
  }
  for (const std::string& line : status.missing) table.line({"no GPU", line});
  for (const gpu::UnusableGpu& gpu : status.unusable)
    if (status.can_run()) table.line({"not used", gpu.why});
  for (const std::string& line : limited) table.line({"limited", line});
  fmt::print("{}", table.text());
  return kDone;
}

}  // namespace

void add_devices(Command& command) {
  const auto json = std::make_shared<bool>(false);
  command.flag("--json", *json, "one JSON object on standard output");
  command.action([json] { return devices(*json); });
}

}  // namespace flashscope::command_line
