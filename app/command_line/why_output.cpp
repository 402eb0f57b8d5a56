#include "app/command_line/why_output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace flashscope::command_line {
namespace {

bool of_keys(CellKind kind) { return kind == CellKind::K || kind == CellKind::V; }

Json optional_index(std::int64_t index) { return index < 0 ? Json() : Json(index); }

Json cells_json(const std::vector<MaskCell>& cells, std::int64_t first_head) {
  Json list = Json::array();
  for (const MaskCell& cell : cells) list.push_back({first_head + cell.head, cell.row, cell.key});
  return list;
}
Json rows_json(const std::vector<MaskRow>& rows, std::int64_t first_head) {
  Json list = Json::array();
  for (const MaskRow& row : rows) list.push_back({first_head + row.head, row.row});
  return list;
}

// [first row, last row, keys of the first, keys of the last]: rows in which the count changes by the same each time.
Json runs_json(const std::vector<std::int64_t>& per_row) {
  Json list = Json::array();
  for (std::size_t n = 0, end = 0; n < per_row.size(); n = end) {
    for (end = n + 1; end < per_row.size(); ++end)
      if (end > n + 1 && per_row[end] - per_row[end - 1] != per_row[n + 1] - per_row[n]) break;
    list.push_back({n, end - 1, per_row[n], per_row[end - 1]});
  }
  return list;
}

}  // namespace

Json json_of(const Provenance& provenance, std::int64_t first_head) {
  Json object;
  object["chain"] = one_line(provenance);
  object["value"] = number(provenance.links.front().value);
  object["cause"] = provenance.cause ? Json(name(*provenance.cause)) : Json();
  object["stage"] = provenance.stage ? Json(name(*provenance.stage)) : Json();
  object["origin"] = name(provenance.origin);
  object["conclusion"] = provenance.cause ? Json(conclusion(provenance)) : Json();
  Json& links = object["links"] = Json::array();
  for (const Link& link : provenance.links) {
    Json one = {{"of", name(link.of)}, {"place", link.place}};
    one[of_keys(link.of) ? "kv_head" : "head"] = of_keys(link.of) ? link.head : first_head + link.head;
    one["row"] = optional_index(link.row), one["col"] = optional_index(link.col);
    one["i"] = optional_index(link.i), one["j"] = optional_index(link.j);
    one["step"] = link.step;
    if (link.of != CellKind::tile && link.of != CellKind::keys) one["value"] = number(link.value);
    if (!link.formula.empty()) one["formula"] = link.formula;
    if (!link.text.empty()) one["text"] = link.text;
    if (!link.twins.empty()) one["twins"] = link.twins;
    links.push_back(std::move(one));
  }
  return object;
}

void print_why(const Provenance& provenance, std::int64_t heads, std::int64_t first_head) {
  const Link& cell = provenance.links.front();
  const std::string of = heads == 1 ? fmt::format(" of head {}", first_head + cell.head) : "";
  fmt::print("why {}{} is {}:\n", place_text(cell, heads), of, number_text(cell.value));
  Table table;
  for (const Link& link : provenance.links) {
    std::string words = link.formula;
    if (!link.text.empty()) words += (words.empty() ? "" : "; ") + link.text;
    for (const std::string& twin : link.twins) words += (words.empty() ? "also " : "; also ") + twin;
    std::string where = fmt::format("step {}", link.step);
    if (link.j >= 0) where += fmt::format(", tile ({}, {})", link.i, link.j);
    const bool statement = link.of == CellKind::tile || link.of == CellKind::keys;
    table.line({(&link == &cell ? "" : "<- ") + place_text(link, heads), statement ? "" : number_text(link.value),
                fmt::format("{:<24}", where) + words});
  }
  fmt::print("{}", table.text());
  if (provenance.cause) fmt::print("  {}: {}\n", name(*provenance.cause), conclusion(provenance));
}

Json json_of(const MaskFindings& mask, std::int64_t first_head) {
  const MaskReport& report = mask.report;
  Json object = {{"bias_cells", report.bias_cells},
                 {"nan_cells", report.nan_cells},
                 {"plus_inf_cells", report.plus_inf_cells},
                 {"minus_inf_cells", report.minus_inf_cells},
                 {"first_nan_cells", cells_json(report.first_nan, first_head)},
                 {"first_plus_inf_cells", cells_json(report.first_plus_inf, first_head)}};
  object["stand_in"] = nullptr;
  if (report.stand_in)
    object["stand_in"] = {{"value", number(report.stand_in->value)},
                          {"cells", report.stand_in->cells},
                          {"effectively_empty_rows", rows_json(report.stand_in->effectively_empty, first_head)},
                          {"mixed_rows", rows_json(report.stand_in->mixed, first_head)},
                          {"every_row", report.stand_in->every_row},
                          {"every_head", report.stand_in->every_head}};
  Json& hints = object["hints"] = Json::array();
  for (const MaskHint& hint : report.hints)
    hints.push_back({{"text", hint.text}, {"option", hint.option.empty() ? Json() : Json(hint.option)}});
  Json& visible = object["visible_keys"] = Json::array();
  for (std::size_t h = 0; h < report.heads.size(); ++h) {
    const VisibleKeys& keys = report.heads[h];
    visible.push_back({{"head", report.heads.size() == 1 ? Json() : Json(first_head + static_cast<std::int64_t>(h))},
                       {"min", keys.min},
                       {"median", keys.median},
                       {"max", keys.max},
                       {"empty_row_ranges", ranges_json({keys.empty_rows})},
                       {"one_key_row_ranges", ranges_json({keys.one_key_rows})},
                       {"runs", runs_json(keys.per_row)}});
  }
  object["tiles"] = nullptr;
  if (const auto& tiles = report.tiles)
    object["tiles"] = {{"full", tiles->full},
                       {"partial", tiles->partial},
                       {"empty", tiles->empty},
                       {"visited", tiles->visited},
                       {"total", tiles->total()}};
  object["maximum_on_masked"] = nullptr;
  if (mask.scores) {
    Json rows = Json::array();
    for (const ScoreReport::Row& row : mask.scores->maximum_on_masked)
      rows.push_back({{"head", first_head + row.head},
                      {"row", row.row},
                      {"key", row.key},
                      {"score", number(row.score)},
                      {"largest_real", number(row.largest_real)}});
    object["maximum_on_masked"] = {{"rows", mask.scores->maximum_on_masked_rows},
                                   {"first", rows},
                                   {"rows_with_a_real_score_below_a_masked_one", mask.scores->real_below_masked_rows}};
  }
  return object;
}

Json json_of(const std::vector<Convention>& conventions) {
  Json list = Json::array();
  for (const Convention& one : conventions)
    list.push_back({{"name", one.name},
                    {"now", one.now},
                    {"other", one.other},
                    {"option", one.option.empty() ? Json() : Json(one.option)},
                    {"matters", one.matters}});
  return list;
}

void print_mask(const Problem& problem, const MaskFindings& mask, std::int64_t first_head) {
  fmt::print("mask report, computed\n");
  for (const MaskLine& line : mask_lines(problem, mask.report, mask.scores, first_head))
    fmt::print("  {}{}\n", line.kind == MaskLine::Kind::fault ? "! " : "", line.text);
}

void print_conventions(const std::vector<Convention>& conventions) {
  fmt::print("conventions in force, and the other one\n");
  Table table;
  for (const Convention& one : conventions)
    table.line({one.name, one.now,
                one.other + (one.option.empty() ? "" : fmt::format(" ({})", one.option)) +
                    (one.matters ? "" : "; makes no difference here")});
  fmt::print("{}", table.text());
}

}  // namespace flashscope::command_line
