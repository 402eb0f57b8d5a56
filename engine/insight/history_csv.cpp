#include "engine/insight/history_csv.h"

#include <fmt/format.h>

namespace flashscope {

std::string history_csv(const std::vector<RowHistoryEntry>& history, std::int64_t channel) {
  std::string csv = "j,visited,step,tile_max,m_before,m,l_before,l,alpha,rescaled,o_norm_before,o_norm";
  if (channel >= 0) csv += fmt::format(",o{0}_before,o{0}", channel);
  csv += '\n';
  for (const RowHistoryEntry& e : history) {
    csv += fmt::format("{},{:d},{},{:.17g},{:.17g},{:.17g},{:.17g},{:.17g},{},{:d},{:.17g},{:.17g}", e.j, e.visited,
                       e.visited ? std::to_string(e.step) : "", e.tile_max, e.m_before, e.m, e.l_before, e.l,
                       e.visited ? fmt::format("{:.17g}", e.alpha) : "", e.rescaled, e.o_norm_before, e.o_norm);
    if (channel >= 0) csv += fmt::format(",{:.17g},{:.17g}", e.o_before, e.o);
    csv += '\n';
  }
  return csv;
}

}  // namespace flashscope
