// What a recipe holds on the chip and in HBM, and the bounds that need no walk.
#include "engine/attention/ledger.h"

namespace flashscope {
namespace {

// Bytes of an element of what is accumulated: m, l, alpha, LSE, the running O, and S, P on the chip.
std::int64_t accumulator_bytes(DType type) { return type == DType::float64 ? 8 : 4; }

}  // namespace

std::string_view name(Operand operand) {
  constexpr std::array<std::string_view, kOperands> names{"Q",   "K", "V", "O",    "m",   "l",
                                                          "LSE", "S", "P", "mask", "bias"};
  return names[static_cast<std::size_t>(operand)];
}

Moved Traffic::total() const {
  Moved sum;
  for (const Moved& moved : by_operand) sum += moved;
  return sum;
}

Traffic& Traffic::operator+=(const Traffic& other) {
  for (std::size_t n = 0; n < by_operand.size(); ++n) by_operand[n] += other.by_operand[n];
  return *this;
}

Moved init_elements(const Shape& shape, const Recipe& recipe) {
  if (recipe.algorithm != Algorithm::flash1) return {};
  return {0, shape.heads * shape.Nq * (shape.dv + 2)};
}

Minimum minimum(const Shape& shape) {
  Minimum result;
  result.elements.read = shape.heads * shape.Nq * shape.d + shape.kv_heads * shape.Nk * (shape.d + shape.dv);
  result.elements.written = shape.heads * shape.Nq * shape.dv;
  const std::int64_t bytes = size_of(shape.type);
  result.bytes = {result.elements.read * bytes, result.elements.written * bytes};
  return result;
}

OnChip on_chip(const Shape& shape, const Recipe& recipe, int pipeline_stages) {
  OnChip chip;
  if (recipe.algorithm == Algorithm::standard) return chip;  // an idealised tally without an SRAM bound
  const auto [Br, Bc, d, dv] = std::array{recipe.Br, recipe.Bc, shape.d, shape.dv};
  const std::int64_t element = size_of(shape.type), accumulator = accumulator_bytes(shape.type);
  // The first paper keeps everything in SRAM. The second's kernels give each warp whole rows, so that scores
  // and state never leave the registers.
  const bool registers = recipe.algorithm == Algorithm::flash2;
  chip.buffers = {{"Q", element * Br * d, false},
                  {"K", element * Bc * d * pipeline_stages, false},
                  {"V", element * Bc * dv * pipeline_stages, false},
                  {"S/P", accumulator * Br * Bc, registers},
                  {"m", accumulator * Br, registers},
                  {"l", accumulator * Br, registers},
                  {"alpha", accumulator * Br, registers},
                  {"O", accumulator * Br * dv, registers}};
  chip.qkv = element * (Br * d + pipeline_stages * Bc * (d + dv));
  chip.state = accumulator * Br * (3 + dv);
  chip.scores = registers ? 0 : accumulator * Br * Bc;
  return chip;
}

std::int64_t Footprint::total() const {
  std::int64_t sum = 0;
  for (const std::int64_t n : bytes) sum += n;
  return sum;
}

std::int64_t Footprint::extra() const {
  const auto of = [&](Operand operand) { return bytes[static_cast<std::size_t>(operand)]; };
  return total() - of(Operand::Q) - of(Operand::K) - of(Operand::V) - of(Operand::O);
}

Footprint footprint(const Shape& shape, Algorithm algorithm) {
  const std::int64_t element = size_of(shape.type), accumulator = accumulator_bytes(shape.type);
  const std::int64_t rows = shape.heads * shape.Nq, keys = shape.kv_heads * shape.Nk;
  Footprint result;
  const auto of = [&](Operand operand) -> std::int64_t& { return result.bytes[static_cast<std::size_t>(operand)]; };
  of(Operand::Q) = element * rows * shape.d;
  of(Operand::K) = element * keys * shape.d;
  of(Operand::V) = element * keys * shape.dv;
  of(Operand::O) = element * rows * shape.dv;
  switch (algorithm) {
    case Algorithm::standard:
      of(Operand::S) = of(Operand::P) = element * rows * shape.Nk;
      break;
    case Algorithm::flash1:
      of(Operand::O) = accumulator * rows * shape.dv;  // the running O
      of(Operand::m) = of(Operand::l) = accumulator * rows;
      break;
    case Algorithm::flash2:
      of(Operand::LSE) = accumulator * rows;
      break;
  }
  return result;
}

}  // namespace flashscope
