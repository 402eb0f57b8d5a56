// What a run of the whole kernel reports, on a processor or a GPU: as one JSON object, and as lines for people. Every
// number says where it comes from: formula, counted, measured, or a sheet.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "app/command_line/output.h"
#include "engine/attention/cpu_runner.h"
#include "engine/attention/problem.h"
#include "engine/insight/hardware.h"

namespace flashscope::command_line {

// Where the report was made, if not now and here: of a session.
struct Made {
  std::string date, version, conventions;
};
struct ReportView {
  const Report* report = nullptr;
  const Problem* problem = nullptr;      // null: not known, as in a session of reports only
  std::int64_t first_head = 0;           // of the problem in its file
  const HardwareSheet* sheet = nullptr;  // asked for; else the device's own
  std::optional<Made> made;
};

Json report_json(const ReportView& view);
void print_report(const ReportView& view);

// Thread blocks that a GPU's kernel launches, beside the SMs that can take them; plain arithmetic.
struct Blocks {
  std::int64_t launched = 0;
  std::string of;  // "one a head", "one a head and row block"
};
Blocks blocks_of(const Shape& shape, const Recipe& recipe);
// `sheet` may be null. JSON: {"launched", "of", "sms", "idle_sms", "source"}.
Json blocks_json(const Shape& shape, const Recipe& recipe, const HardwareSheet* sheet);
std::string blocks_text(const Shape& shape, const Recipe& recipe, const HardwareSheet* sheet);

}  // namespace flashscope::command_line
