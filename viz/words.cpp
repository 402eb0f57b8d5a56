#include "viz/words.h"

#include <fmt/format.h>

#include <cmath>

namespace flashscope::viz {

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{:.4g}", value == 0 ? 0.0 : value);
}

std::string exact(DType type, double value) {
  if (!std::isfinite(value)) return number(value);
  const int digits = type == DType::float64 ? 17 : type == DType::float32 ? 9 : type == DType::float16 ? 5 : 4;
  return fmt::format("{:.{}g}", value, digits);
}

std::string bytes(std::int64_t count) {
  static constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (count < 1024) return fmt::format("{} B", count);
  double value = static_cast<double>(count) / 1024;
  int n = 0;
  for (; value >= 1024 && n < 4; ++n) value /= 1024;
  return value < 99.95 && value != std::floor(value) ? fmt::format("{:.1f} {}", value, units[n])
                                                     : fmt::format("{:.0f} {}", value, units[n]);
}

std::string count(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string label(TraceStage stage) {
  std::string text{name(stage)};
  for (char& c : text)
    if (c == '_') c = ' ';
  if (text == "load kv") return "load K, V";
  for (const char* verb : {"load ", "store "})
    if (text.starts_with(verb) && text.size() == std::string_view(verb).size() + 1)
      text.back() = static_cast<char>(std::toupper(text.back()));
  return text;
}

std::string label(ChipBuffer buffer) {
  static constexpr const char* names[] = {"Q", "K", "V", "S", "P", "m", "alpha", "l", "O", "LSE", "|O|"};
  return names[static_cast<int>(buffer)];
}

std::string label(Algorithm algorithm) { return std::string{name(algorithm)}; }

std::string loop_order(const Recipe& recipe) {
  std::string text = recipe.algorithm == Algorithm::flash2   ? "Q outside"
                     : recipe.algorithm == Algorithm::flash1 ? "K, V outside"
                                                             : "three passes, S and P in HBM";
  if (recipe.algorithm != Algorithm::standard && recipe.order == Order::reverse) text += ", reverse";
  return text;
}

std::string tile_name(const Schedule& schedule, const Transfer& transfer) {
  const bool keys = transfer.operand == Operand::K || transfer.operand == Operand::V;
  const Recipe& recipe = schedule.recipe();
  const std::int64_t size = keys ? recipe.Bc : recipe.Br;
  const std::int64_t all = keys ? schedule.shape().Nk : schedule.shape().Nq;
  std::string text{name(transfer.operand)};
  if (transfer.rows < all || all <= size) text += std::to_string(transfer.row0 / size);
  return text;
}

std::string masked_scores(const Recipe& recipe) {
  if (recipe.defect == Defect::finite_sentinel)
    return recipe.sentinel_added ? fmt::format("{} added", number(recipe.sentinel)) : number(recipe.sentinel);
  return recipe.mask_apply == MaskApply::add ? "-inf added" : "-inf";
}

double written(const StageData& data, ChipBuffer buffer, double value) {
  return buffer == ChipBuffer::LSE ? handed_out(data.lse, value) : value;
}

DType type_of(const Problem& problem, ChipBuffer buffer) {
  const bool input = buffer == ChipBuffer::Q || buffer == ChipBuffer::K || buffer == ChipBuffer::V;
  if (input) return problem.q->type;
  return problem.in_double() ? DType::float64 : DType::float32;
}

}  // namespace flashscope::viz
