// flashscope count: ledger and closed forms of a shape; no arithmetic on tensors.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "app/command_line/commands.h"
#include "app/command_line/ledger_report.h"
#include "app/command_line/options.h"
#include "app/command_line/output.h"
#include "app/command_line/run_report.h"
#include "engine/attention/ledger.h"

namespace flashscope::command_line {
namespace {

struct Options {
  ShapeOptions shape;
  MaskOptions mask;
  KernelOptions kernel;
  std::int64_t memory = std::int64_t{8} << 30;
  const HardwareSheet* sheet = nullptr;
  bool json = false;
};

std::string chip_text(const Shape& shape, const Recipe& recipe) {
  const OnChip chip = on_chip(shape, recipe);
  if (chip.buffers.empty()) return "  idealised: each operand once, no SRAM budget\n";
  Table table;
  for (const bool registers : {false, true}) {
    std::string names;
    std::int64_t bytes = 0;
    for (const OnChip::BufferInfo& buffer : chip.buffers) {
      if (buffer.registers != registers) continue;
      names += fmt::format("{}{}", names.empty() ? "" : ", ", buffer.name);
      bytes += buffer.bytes;
    }
    if (bytes > 0) table.line({registers ? "registers" : "shared memory", bytes_text(bytes), names});
  }
  std::string text = table.text();
  if (recipe.sram) {
    const std::int64_t tiles =
        recipe.Br * (shape.d + shape.dv) + recipe.Bc * (shape.d + shape.dv) + recipe.Br * recipe.Bc;
    text += fmt::format("  the tiles Q, K, V, O and S take {} of M = {} elements: {:.0f} %\n", grouped(tiles),
                        grouped(*recipe.sram), 100.0 * static_cast<double>(tiles) / static_cast<double>(*recipe.sram));
  }
  return text;
}

void print(const Schedule& schedule, const ElementsAndBytes& traffic, const Formula& form) {
  const Shape& shape = schedule.shape();
  const Recipe& recipe = schedule.recipe();
  const bool standard = recipe.algorithm == Algorithm::standard;
  fmt::print("{}\n{}\n\n", recipe_text(shape, recipe), conventions(recipe, schedule.mask()));

  Table work;
  const std::int64_t all = shape.heads * schedule.Tr() * (standard ? 1 : schedule.Tc());
  work.line({standard ? "row blocks" : "tiles visited",
             fmt::format("{} of {}", grouped(schedule.tiles()), grouped(all)), "counted"});
  work.line({"matmul FLOPs", grouped(matmul_flops(schedule)), "counted: 2 br bc (d + dv) for each tile visited"});
  fmt::print("{}\nHBM traffic, elements (source units) and bytes (kernel units)\n", work.text());

  Table moved;
  moved.line({"", "read", "written", "total", "bytes", ""});
  const auto line = [&](std::string_view what, const Moved& elements, std::string bytes, std::string from) {
    moved.line({std::string(what), grouped(elements.read), grouped(elements.written), grouped(elements.total()),
                std::move(bytes), std::move(from)});
  };
  for (int n = 0; n < kOperands; ++n) {
    const auto operand = static_cast<Operand>(n);
    if (traffic.elements[operand].total() == 0) continue;
    line(name(operand), traffic.elements[operand], grouped(traffic.bytes[operand].total()), "counted");
  }
  const Minimum least = minimum(shape);
  line("this run", traffic.elements.total(), grouped(traffic.bytes.total().total()), "counted");
  if (form.elements) line("this run", *form.elements, "", "formula");
  line("I/O minimum", least.elements, grouped(least.bytes.total()), "formula: Q, K, V, O once");
  if (recipe.algorithm == Algorithm::flash1)
    line("init", init_elements(shape, recipe), "", "formula: O, l, m; not in the total");
  if (!standard) line("standard", standard_elements(shape), "", "formula: S and P in HBM");
  fmt::print("{}  formula: {}\n", moved.text(), form.elements ? form.text : "none: " + form.reason);
  if (!standard) {
    const Saving split = saving(schedule);
    const std::int64_t mask = traffic.elements[Operand::mask].total() + traffic.elements[Operand::bias].total();
    fmt::print("  against standard: {} elements less by tiling, {} by tiles not visited{}\n",
               grouped(split.by_tiling()), grouped(split.by_skipping() + mask),
               mask > 0 ? fmt::format("; {} more of the file's mask", grouped(mask)) : "");
  }
  const Footprint held = footprint(shape, recipe.algorithm);
  fmt::print("\nOn chip, one thread block\n{}\nHBM footprint {}, of which {} beyond Q, K, V, O (formula)\n",
             chip_text(shape, recipe), bytes_text(held.total()), bytes_text(held.extra()));
}

int count(const Options& options) {
  const Shape shape = shape_of(options.shape);
  const Recipe recipe = recipe_of(options.kernel, shape);
  const Schedule schedule(shape, mask_of(options.mask, shape, options.memory), recipe, options.memory);
  const ElementsAndBytes traffic = counted(schedule);
  const Formula form = formula(schedule);
  if (options.json) {
    Json object = ledger_report(schedule, traffic, form);
    object["thread_blocks"] = blocks_json(shape, recipe, options.sheet);
    print_json(object);
  } else {
    print(schedule, traffic, form);
    fmt::print("{} {}\n", grouped(blocks_of(shape, recipe).launched), blocks_text(shape, recipe, options.sheet));
  }
  if (form.elements && *form.elements != traffic.elements.total()) {
    fmt::print(stderr, "flashscope count: counted and formula differ; this is a fault of the program\n");
    return kFound;
  }
  return kDone;
}

}  // namespace

void add_count(Command& command) {
  const auto options = std::make_shared<Options>();
  command.flag("--json", options->json, "one JSON object on standard output");
  add_memory(command, options->memory);
  add_shape(command, options->shape);
  add_mask(command, options->mask, options->kernel.recipe);
  add_kernel(command, options->kernel);
  command.group("DEVICE");
  command.option("--device-sheet", "NAME", "the GPU whose SMs stand beside the blocks: A100 80GB, H200, RTX 4090 ...",
                 [options](const std::string& word) { options->sheet = &sheet_named(word); });
  command.footer("Example: flashscope count --algorithm flash1 --n 4096 --d 64 --sram 50000");
  command.action([options] { return count(*options); });
}

}  // namespace flashscope::command_line
