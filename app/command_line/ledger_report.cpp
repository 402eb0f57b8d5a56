#include "app/command_line/ledger_report.h"

#include <nlohmann/json.hpp>

namespace flashscope::command_line {
namespace {

Json footprint_json(const Footprint& footprint) {
  Json object = Json::object();
  for (int n = 0; n < kOperands; ++n) {
    if (footprint.bytes[n] > 0) object[std::string(name(static_cast<Operand>(n)))] = footprint.bytes[n];
  }
  object["total"] = footprint.total();
  object["extra"] = footprint.extra();
  return object;
}

}  // namespace

Json ledger_report(const Schedule& schedule, const ElementsAndBytes& traffic, const Formula& form) {
  const Shape& shape = schedule.shape();
  const Recipe& recipe = schedule.recipe();
  const Minimum least = minimum(shape);
  const Saving split = saving(schedule);
  const std::int64_t mask = traffic.elements[Operand::mask].total() + traffic.elements[Operand::bias].total();
  Json object;
  object["shape"] = json_of(shape);
  object["recipe"] = json_of(recipe);
  object["conventions"] = conventions(recipe, schedule.mask());
  object["tiles_visited"] = schedule.tiles();
  object["steps"] = schedule.steps();
  object["matmul_flops"] = matmul_flops(schedule);
  object["sram_bytes"] = json_of(on_chip(shape, recipe));
  object["elements"] = json_of(traffic.elements);
  object["bytes"] = json_of(traffic.bytes);
  object["formula"] = form.elements ? json_of(*form.elements) : Json();
  object["formula_text"] = form.text;
  if (!form.elements) object["reason"] = form.reason;
  object["minimum"] = json_of(least.elements);
  object["minimum"]["bytes"] = json_of(least.bytes);
  object["init"] = json_of(init_elements(shape, recipe));
  object["saving"] = {{"standard", split.standard},
                      {"unmasked", split.unmasked},
                      {"run", split.run},
                      {"by_tiling", split.by_tiling()},
                      {"by_skipping", split.by_skipping() + mask},
                      {"mask_reads", mask}};
  object["footprint_bytes"] = footprint_json(footprint(shape, recipe.algorithm));
  return object;
}

}  // namespace flashscope::command_line
