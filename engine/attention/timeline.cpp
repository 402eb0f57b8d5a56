#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/attention/gpu_figures.h"

namespace flashscope {

std::int64_t Timeline::duration() const {
  std::int64_t last = 0;
  for (const Span& span : spans) last = std::max(last, span.end_ns);
  return last;
}

// Times are microseconds in this format. SMs without any span get their row all the same: idle ones are the point.
std::string chrome_trace(const Timeline& timeline, const std::string& device, const std::string& run) {
  std::string json =
      fmt::format(R"({{"displayTimeUnit":"ns","otherData":{{"run":{},"lost_spans":{},"tick_ns":{}}},"traceEvents":[
{{"ph":"M","pid":0,"name":"process_name","args":{{"name":{}}}}})",
                  nlohmann::json(run).dump(), timeline.lost, timeline.tick_ns, nlohmann::json(device).dump());
  for (int sm = 0; sm < timeline.sms; ++sm)
    json += fmt::format(R"(,
{{"ph":"M","pid":0,"tid":{0},"name":"thread_name","args":{{"name":"SM {0}"}}}})",
                        sm);
  for (const Timeline::Span& span : timeline.spans)
    json += fmt::format(
        R"(,
{{"ph":"X","pid":0,"tid":{},"ts":{:.3f},"dur":{:.3f},"name":"{}","args":{{"head":{},"i":{},"j":{},"block":{}}}}})",
        span.sm, static_cast<double>(span.start_ns) / 1e3, static_cast<double>(span.end_ns - span.start_ns) / 1e3,
        span.j >= 0 ? fmt::format("({}, {})", span.i, span.j) : fmt::format("({}, -)", span.i), span.head, span.i,
        span.j, span.block);
  return json + "\n]}\n";
}

}  // namespace flashscope
