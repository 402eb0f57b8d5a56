#include "app/command_line/against.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace flashscope::command_line {
namespace {

// right; rounding: right as far as 16 bits can tell; wrong.
const char* verdict(const Comparison& comparison) {
  if (!comparison.right()) return "wrong";
  return size_of(comparison.precision) == 2 && comparison.max_error > 0 ? "rounding" : "right";
}

Json json_of(const RowCounts& counts) {
  return {{"right", counts.right}, {"wrong", counts.wrong}, {"nan", counts.nan}, {"inf", counts.inf}};
}

Json json_of(const Explanation& e) {
  return {{"name", e.name},
          {"detail", e.detail},
          {"sentence", e.sentence},
          {"explains", e.of_lse ? "lse" : "o"},
          {"recipe", command_line::json_of(e.recipe)},
          {"rows", e.rows},
          {"rows_reproduced", e.agree},
          {"right_rows", e.right_rows},
          {"right_rows_kept", e.kept},
          {"max_difference", number(e.max_difference)},
          {"right_differs_by", number(e.right_differs)},
          {"lse_agrees", e.lse_agrees},
          {"tie", e.tie},
          {"also", e.also}};
}

}  // namespace

Against compare_with(const AgainstOptions& with, const ProblemOptions& options, const OpenedProblem& opened,
                     const Recipe& recipe, int threads, const std::stop_token& stop) {
  OutputFile wanted;
  wanted.path = with.file, wanted.lse = with.lse, wanted.type = with.type;
  wanted.layout = options.layout, wanted.batch = options.batch, wanted.head = options.head;
  wanted.memory_limit = options.memory;
  Against against;
  against.theirs = load_output(wanted, opened.problem->shape(), stop);
  ProgressLine comparing("comparing");
  against.comparison = compare(*opened.problem, recipe, against.theirs, threads, stop, comparing.callback());
  if (against.comparison.right()) return against;
  ProgressLine explaining("trying known mistakes");
  ExplainOptions how;
  how.threads = threads;
  against.causes =
      find_causes(opened.problem, recipe, against.theirs, against.comparison, how, stop, explaining.callback());
  return against;
}

Json json_of(const Against& against, std::int64_t first_head) {
  const Comparison& found = against.comparison;
  const RowCounts total = found.total();
  Json object = json_of(total);
  object["rows"] = found.rows.size();
  object["max_error"] = number(found.max_error);
  object["explained_by"] = Json::array();
  for (const Explanation& e : against.causes.named) object["explained_by"].push_back(e.name);
  object["verdict"] = verdict(found);
  object["file"] = against.theirs.name;
  object["precision"] = name(found.precision);
  object["o_type"] = name(against.theirs.type);
  object["values_are"] = found.values_are ? Json(name(*found.values_are)) : Json();
  object["read_as"] = Json::object();
  for (const ReadAs& array : against.theirs.read_as) object["read_as"][array.role] = array.layout;
  object["reference"] = found.reference;
  object["tolerance"] = number(found.tolerance);
  object["plain_error"] = found.plain_error ? number(*found.plain_error) : Json();
  object["worst_head"] = first_head + found.worst_head, object["worst_row"] = found.worst_row;
  object["rms_over_spread"] = number(found.cells.rms_over_spread());
  object["cells"] = {{"equal", found.cells.equal},           {"different", found.cells.different},
                     {"nan_theirs", found.cells.nan_theirs}, {"nan_right", found.cells.nan_right},
                     {"nan_both", found.cells.nan_both},     {"inf", found.cells.inf}};
  object["heads"] = Json::array();
  for (const RowCounts& head : found.heads) object["heads"].push_back(json_of(head));
  object["pattern"] = {{"kind", found.pattern.kind},
                       {"heads", found.pattern.heads},
                       {"columns", found.pattern.columns},
                       {"text", found.pattern.text}};
  object["lse"] = nullptr;
  if (found.lse)
    object["lse"] = {{"right", found.lse->right},
                     {"wrong", found.lse->wrong},
                     {"nan", found.lse->nan},
                     {"plus_inf", found.lse->plus_inf},
                     {"plus_inf_of_empty_rows", found.lse->plus_inf_empty},
                     {"max_error", number(found.lse->max_error)},
                     {"from_m_and_l", found.lse->from_m_and_l},
                     {"read_as", found.lse->from_m_and_l ? "m + ln l" : text(found.lse->read_as)}};
  object["explanations"] = Json::array();
  for (const Explanation& e : against.causes.named) object["explanations"].push_back(json_of(e));
  object["near_miss"] = nullptr;
  if (against.causes.near_miss) {
    object["near_miss"] = json_of(*against.causes.near_miss);
    object["near_miss"]["right_rows_lost"] = against.causes.near_miss->right_rows - against.causes.near_miss->kept;
  }
  return object;
}

namespace {

void print_verdict(const Against& against) {
  const Comparison& found = against.comparison;
  const auto rows = static_cast<std::int64_t>(found.rows.size());
  const std::int64_t not_right = rows - found.total().right;
  const std::string of = fmt::format("{} of {} row{}", grouped(not_right), grouped(rows), rows == 1 ? "" : "s");
  std::string words = "right";
  if (!found.right())
    words = not_right > 0 ? "wrong, " + of : "wrong, LSE alone: O is right";
  else if (std::string_view(verdict(found)) == "rounding")
    words = fmt::format("right; what is left is the rounding of {}", name(found.precision));
  fmt::print("against {}: {}\n", against.theirs.name, words);
  if (found.values_are)
    fmt::print("every value is a {}: judged as such (--against-dtype {}: as it is stored)\n", name(*found.values_are),
               size_of(against.theirs.type) == 8 ? "float32" : name(against.theirs.type));
  if (!found.pattern.text.empty()) fmt::print("where: {}\n", found.pattern.text);
}

void print_causes(const Causes& causes) {
  const std::vector<Explanation>& named = causes.named;
  if (named.empty()) {
    fmt::print("no known mistake, convention or other block size reproduces it\n");
    if (causes.near_miss)
      fmt::print("closest: {}\n  {}\n", near_miss_text(*causes.near_miss), causes.near_miss->sentence);
    return;
  }
  const bool tie = std::any_of(named.begin(), named.end(), [](const Explanation& e) { return e.tie; });
  fmt::print("explained by{}\n", tie ? ", those marked = equally well" : "");
  for (std::size_t n = 0; n < named.size(); ++n) {
    const Explanation& e = named[n];
    const bool tied = e.tie || (n == 0 && tie);
    fmt::print("  {} {}\n    {}\n", tied ? "=" : "-", text(e), e.sentence);
    if (!e.also.empty()) fmt::print("    as well: {}\n", fmt::join(e.also, "; "));
  }
}

}  // namespace

void print(const Against& against, std::int64_t first_head) {
  const Comparison& found = against.comparison;
  const RowCounts total = found.total();
  print_verdict(against);
  if (!found.right()) print_causes(against.causes);
  fmt::print("\ncompared\n");
  Table table;
  table.line({"rows", grouped(total.right),
              fmt::format("right of {}", grouped(static_cast<std::int64_t>(found.rows.size())))});
  if (total.wrong > 0) table.line({"", grouped(total.wrong), "wrong"});
  if (total.nan > 0) table.line({"", grouped(total.nan), "NaN"});
  if (total.inf > 0) table.line({"", grouped(total.inf), "Inf"});
  if (const std::string nan = nan_text(found.cells); !nan.empty()) table.line({"", "", nan});
  table.line({"largest error", number_text(found.max_error),
              fmt::format("{}against {}, in head {}, row {}; tolerance {}",
                          total.nan + total.inf > 0 ? "of the other rows, " : "", found.reference,
                          first_head + found.worst_head, found.worst_row, number_text(found.tolerance))});
  if (found.plain_error)
    table.line({"plain attention", number_text(*found.plain_error),
                fmt::format("its largest error in {}", name(found.precision))});
  table.line({"error / spread", number_text(found.cells.rms_over_spread()),
              "root mean square over the spread of the right O; 1: no agreement"});
  if (found.lse) {
    const LseComparison& lse = *found.lse;
    table.line({"LSE", grouped(lse.right),
                fmt::format("rows right, read as {}; largest error {}",
                            lse.from_m_and_l ? "m + ln l" : text(lse.read_as), number_text(lse.max_error))});
    if (lse.wrong > 0) table.line({"", grouped(lse.wrong), "wrong"});
    if (lse.nan > 0) table.line({"", grouped(lse.nan), "NaN"});
    if (lse.plus_inf > 0) table.line({"", grouped(lse.plus_inf), "+inf: taken for empty, or NaN in the kernel"});
    if (lse.plus_inf_empty > 0) table.line({"", grouped(lse.plus_inf_empty), "+inf for an empty row, a convention"});
  }
  for (const ReadAs& array : against.theirs.read_as)
    table.line(
        {array.role == "lse" ? "LSE"
         : array.role == "o" ? "O"
                             : array.role,
         "", "read as " + array.layout + (array.also.empty() ? "" : "; " + array.also + " fits as well (--layout)")});
  fmt::print("{}", table.text());
  if (found.heads.size() > 1 && !found.right()) {
    for (std::size_t h = 0; h < found.heads.size(); ++h) {
      const RowCounts& head = found.heads[h];
      if (head.wrong + head.nan + head.inf > 0)
        fmt::print("  head {}: {} right, {} wrong, {} NaN, {} Inf\n", first_head + static_cast<std::int64_t>(h),
                   grouped(head.right), grouped(head.wrong), grouped(head.nan), grouped(head.inf));
    }
  }
}

}  // namespace flashscope::command_line
