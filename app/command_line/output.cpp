#include "app/command_line/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

namespace flashscope::command_line {

namespace {

// Indented by two; a list of single values, and such an object in a list, stand on one line: a row is a line.
void append(std::string& text, const Json& value, std::size_t indent, bool in_list) {
  const auto word = [](const Json& one) { return one.dump(-1, ' ', false, Json::error_handler_t::replace); };
  const auto holds_more = [](const Json& one) { return one.is_structured() && !one.empty(); };
  if (!holds_more(value)) {
    text += word(value);
    return;
  }
  const bool object = value.is_object();
  const bool one_line = (in_list || !object) && std::none_of(value.begin(), value.end(), holds_more);
  const auto new_line = [&](std::size_t spaces) { text += one_line ? "" : "\n" + std::string(spaces, ' '); };
  text += object ? '{' : '[';
  bool first = true;
  for (const auto& [key, part] : value.items()) {
    if (!std::exchange(first, false)) text += one_line ? ", " : ",";
    new_line(indent + 2);
    if (object) text += word(key) + ": ";
    append(text, part, indent + 2, !object);
  }
  new_line(indent);
  text += object ? '}' : ']';
}

}  // namespace

Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json json_of(const Moved& moved) {
  return {{"read", moved.read}, {"written", moved.written}, {"total", moved.total()}};
}

Json json_of(const Traffic& traffic) {
  Json object = json_of(traffic.total());
  Json& by_tensor = object["by_tensor"] = Json::object();
  for (int n = 0; n < kOperands; ++n) {
    const auto operand = static_cast<Operand>(n);
    by_tensor[std::string(name(operand))] = {{"read", traffic[operand].read}, {"written", traffic[operand].written}};
  }
  return object;
}

Json json_of(const Shape& shape) {
  return {{"heads", shape.heads}, {"kv_heads", shape.kv_heads}, {"n", shape.Nq}, {"nk", shape.Nk}, {"d", shape.d},
          {"dv", shape.dv},       {"dtype", name(shape.type)}};
}

Json json_of(const Recipe& recipe) {
  Json object = {{"algorithm", name(recipe.algorithm)},
                 {"br", recipe.Br},
                 {"bc", recipe.Bc},
                 {"sram", recipe.sram ? Json(*recipe.sram) : Json()},
                 {"order", name(recipe.order)},
                 {"skip", name(recipe.skip)},
                 {"guard", name(recipe.guard)},
                 {"empty_row", name(recipe.empty_row)},
                 {"normalise", name(recipe.normalised())},
                 {"numerators", name(recipe.numerators)},
                 {"mask_apply", name(recipe.mask_apply)}};
  const Numerics& numerics = recipe.numerics;
  object["numerics"] = {{"scores", name(numerics.scores)},
                        {"p", name(numerics.P)},
                        {"accumulators", name(numerics.accumulators)},
                        {"scale", name(numerics.scale)},
                        {"exponential", name(numerics.exponential)},
                        {"rescale_threshold", numerics.rescale_threshold}};
  const std::string defect = defect_text(recipe);
  object["defect"] = defect.empty() ? Json() : Json(defect);
  return object;
}

Json json_of(const OnChip& chip) {
  return {{"qkv", chip.qkv}, {"state", chip.state}, {"scores", chip.scores}, {"total", chip.total()}};
}

void print_json(const Json& object) {
  std::string text;
  append(text, object, 0, false);
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string bytes_text(std::int64_t n) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(n);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", n) : fmt::format("{:.2f} {}", value, units[unit]);
}

Json rows_json(const std::vector<std::vector<std::int64_t>>& rows) {
  return rows.size() == 1 ? Json(rows[0]) : Json(rows);
}

Json ranges_json(const std::vector<std::vector<std::int64_t>>& rows) {
  const auto ranges = [](const std::vector<std::int64_t>& of) {
    Json list = Json::array();
    for (std::size_t n = 0, end = 0; n < of.size(); n = end) {
      for (end = n + 1; end < of.size() && of[end] == of[end - 1] + 1;) ++end;
      list.push_back({of[n], of[end - 1]});
    }
    return list;
  };
  if (rows.size() == 1) return ranges(rows[0]);
  Json list = Json::array();
  for (const auto& of : rows) list.push_back(ranges(of));
  return list;
}

std::string rows_text(const std::vector<std::int64_t>& rows) {
  if (rows.empty()) return "none";
  std::string text;
  for (std::size_t n = 0; n < rows.size();) {
    std::size_t end = n + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += end == n + 1 ? std::to_string(rows[n]) : fmt::format("{}-{}", rows[n], rows[end - 1]);
    n = end;
  }
  return text;
}

std::string recipe_text(const Shape& shape, const Recipe& recipe) {
  std::string text(name(recipe.algorithm));
  if (recipe.algorithm == Algorithm::standard) {
    text += fmt::format(", row blocks of {}", grouped(recipe.Br));
  } else {
    text += fmt::format(", Br {}, Bc {}", grouped(recipe.Br), grouped(recipe.Bc));
    if (recipe.sram) text += fmt::format(" (from M = {} elements)", grouped(*recipe.sram));
    text += fmt::format(", {}, normalise {}", name(recipe.order), name(recipe.normalised()));
  }
  text += "; " + counted(shape.heads, "head");
  if (shape.kv_heads != shape.heads) text += fmt::format(" ({} of keys)", shape.kv_heads);
  text += fmt::format(" of {} x {}, d {}", grouped(shape.Nq), grouped(shape.Nk), shape.d);
  if (shape.dv != shape.d) text += fmt::format(", dv {}", shape.dv);
  return text + fmt::format(", {}", name(shape.type));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (const auto& cells : lines_) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t n = 0; n < cells.size(); ++n) widths[n] = std::max(widths[n], cells[n].size());
  }
  std::string text;
  for (const auto& cells : lines_) {
    std::string line = " ";
    for (std::size_t n = 0; n < cells.size(); ++n) {
      const bool left = n == 0 || n + 1 == widths.size();
      line += left ? fmt::format(" {:<{}}", cells[n], widths[n]) : fmt::format(" {:>{}}", cells[n], widths[n] + 1);
      if (n + 2 == widths.size()) line += ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace flashscope::command_line
