#include "app/command_line/numerics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/command_line/interrupt.h"
#include "engine/digits.h"
#include "engine/insight/nan_rows.h"

namespace flashscope::command_line {

namespace {

std::int64_t rows_of(const ErrorSource& source) { return static_cast<std::int64_t>(source.row_error.size()); }
bool any_finite(const ErrorSource& source) { return source.not_finite < rows_of(source); }

}  // namespace

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
                    {"max_error", any_finite(source) ? number(source.max) : Json()},
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
    // What is not finite has no error: said first, so that the error of the rest is not taken for that of all.
    std::string where;
    if (source.not_finite > 0) {
      where = fmt::format("{} of {} not finite", grouped(source.not_finite), counted(rows_of(source), "row"));
      if (source.nan.total() > 0) where += " (" + text(source.nan) + ")";
      if (any_finite(source)) where += "; the largest error of the finite rows is ";
    } else {
      where = "the largest error is ";
    }
    if (any_finite(source)) where += fmt::format("{} in row {}", number_text(source.max), source.worst_row);
    table.line({source.name, where});
  }
  fmt::print("{}", table.text());
}

}  // namespace flashscope::command_line
