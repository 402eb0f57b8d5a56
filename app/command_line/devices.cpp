// flashscope devices: the processors of this machine, and what is missing for those that cannot be used.
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/command_line/commands.h"
#include "app/command_line/output.h"
#include "engine/attention/online_softmax.h"

namespace flashscope::command_line {
namespace {

constexpr const char* kNoGpu = "the GPU half is not built in this version";

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t at = line.find_first_not_of(" \t", line.find(':') + 1);
    if (at != line.npos) return line.substr(at);
  }
  return "unknown";
}

int devices(bool json) {
  const std::string processor = processor_name();
  const auto threads = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  const std::int64_t page = sysconf(_SC_PAGESIZE), memory = page * sysconf(_SC_PHYS_PAGES);
  const std::vector<std::string_view> isas = available_isas();
  if (json) {
    print_json({{"cpu",
                 {{"name", processor},
                  {"threads", threads},
                  {"memory_bytes", memory},
                  {"isa", current_isa()},
                  {"isas", isas}}},
                {"gpus", Json::array()},
                {"gpu_reason", kNoGpu}});
    return kDone;
  }
  Table table;
  table.line({"CPU", processor});
  table.line({"", fmt::format("{} threads, {} of memory", threads, bytes_text(memory))});
  table.line({"", fmt::format("instruction set {}; --isa chooses among {}", current_isa(), fmt::join(isas, ", "))});
  table.line({"GPU", kNoGpu});
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
