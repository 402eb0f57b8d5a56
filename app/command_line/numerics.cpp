#include "app/command_line/numerics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/command_line/interrupt.h"
#include "engine/digits.h"
#include "engine/insight/nan_rows.h"

namespace flashscope::command_line {

std::vector<ErrorSource> numerics_cost(const Problem& problem, const Recipe& recipe, const std::stop_token& stop) {
  if (recipe.numerics == Numerics{}) return {};
  ProgressLine line("computing in float64");
  return error_sources(problem, recipe, 0, stop, line.callback());
}

Json json_of(const std::vector<ErrorSource>& sources, std::int64_t head) {
  if (sources.empty()) return nullptr;
  Json list = Json::array();
  for (const ErrorSource& source : sources)
    list.push_back({{"name", source.name},
                    {"max_error", number(source.max)},
                    {"worst_row", source.worst_row},
                    {"rows_not_finite", source.not_finite},
                    {"rows_nan_here_only", source.nan.here},
                    {"rows_nan_float64_only", source.nan.there},
                    {"rows_nan_both", source.nan.both}});
  return {{"head", head}, {"sources", std::move(list)}};
}

void print(const std::vector<ErrorSource>& sources, std::int64_t head) {
  if (sources.empty()) return;
  fmt::print("\nerror against float64 in head {}, each choice alone\n", head);
  Table table;
  for (const ErrorSource& source : sources) {
    std::string where = fmt::format("in row {}", source.worst_row);
    if (source.not_finite > 0) where += fmt::format("; {} not finite", counted(source.not_finite, "row"));
    if (source.nan.total() > 0) where += "; " + text(source.nan);
    table.line({source.name, number_text(source.max), where});
  }
  fmt::print("{}", table.text());
}

}  // namespace flashscope::command_line
